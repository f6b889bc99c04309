"""The two layers that rewrite destinations: nftables and iptables. Each owns what it loads, and nothing else."""

import json
import re

from kafka_natmap_owners import jump_order
from kafka_natmap_system import must, read_text, run


class Nftables:
    """A private table, changed in place by one transaction (nft(8), libnftables-json(5))."""

    def __init__(self, names):
        self.table = names["nft_table"]
        self.objects = {tuple(item) for item in names.get("nft_objects", ())}

    def listing(self):
        """The table as nft prints it, or None."""
        code, out, _ = run(["nft", "list", "table", "ip", self.table])
        return out if code == 0 else None

    def _items(self):
        code, out, _ = run(["nft", "-j", "list", "table", "ip", self.table])
        if code:
            return None
        return [item for item in json.loads(out)["nftables"] if "metainfo" not in item]

    def snapshot(self):
        """The table without counters and handles, in an order that does not change; None where there is none."""
        items = self._items()
        if items is None:
            return None
        return "\n".join(sorted(json.dumps(stable(item), sort_keys=True) for item in items))

    def check(self, text):
        """Whether nft and the kernel take this text."""
        must(
            ["nft", "-c", "-f", "-"], self._transaction(text), "see the line that nft names, and the node's nft version"
        )

    def load(self, text, _state):
        """One transaction: the new content, and the end of what is no longer named."""
        must(["nft", "-f", "-"], self._transaction(text))

    def clear(self, _state):
        """Take the table away."""
        if self.listing() is not None:
            must(["nft", "delete", "table", "ip", self.table])

    def _transaction(self, text):
        kinds = ("map", "set", "chain")
        stale = []
        for item in self._items() or ():
            for kind in kinds:
                if kind in item and (kind, item[kind]["name"]) not in self.objects:
                    stale.append((kind, item[kind]["name"]))
        stale.sort(key=lambda pair: (pair[0] != "chain", pair))
        flush = ["flush chain ip %s %s" % (self.table, name) for kind, name in stale if kind == "chain"]
        delete = ["delete %s ip %s %s" % (kind, self.table, name) for kind, name in stale]
        return "\n".join([text] + flush + delete) + "\n"


def stable(value):
    """An item of nft's JSON without handles and counts; the elements of a set in one order."""
    if isinstance(value, list):
        return [stable(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, item in value.items():
        if key == "counter" and isinstance(item, dict):
            kept[key] = None
        elif key == "elem" and isinstance(item, list):
            kept[key] = sorted((stable(one) for one in item), key=lambda one: json.dumps(one, sort_keys=True))
        elif key != "handle":
            kept[key] = stable(item)
    return kept


class Notrack(Nftables):
    """A second table of our own: it keeps all but the mapped connections out of conntrack."""

    def __init__(self, names):
        super().__init__({"nft_table": names.get("notrack_table", "kafka_notrack_" + names["owner"].replace("-", "_"))})
        self.objects = {("set", "dialled"), ("set", "answering")}
        self.objects |= {("chain", name) for name in ("keep_output", "keep_prerouting", "output", "prerouting")}


class Iptables:
    """Own chains with one jump from OUTPUT, replaced by one iptables-restore --noflush (iptables-restore(8))."""

    def __init__(self, names):
        self.chain = names["ipt_chain"]
        self.source_chain = self.chain + "-SRC"
        self.owner = names.get("owner")
        self.take_over = names.get("take_over", ())
        self.chains = set(names.get("ipt_chains", ()))

    def _saved(self):
        if not has_nat_table():
            return []
        return must(["iptables-save", "-t", "nat"]).splitlines()

    def _is_ours(self, line):
        return re.search(r"(?:^:|\s)%s(?:-\S+)?(?:\s|$)" % re.escape(self.chain), line) is not None

    def listing(self):
        """Our chains and jumps as iptables-save prints them, or None."""
        lines = [line for line in self._saved() if self._is_ours(line)]
        return "\n".join(lines) + "\n" if lines else None

    def snapshot(self):
        """The same without counters."""
        text = self.listing()
        return None if text is None else re.sub(r" \[\d+:\d+\]", "", text)

    def _jumps(self, whole):
        """What brings our jumps to their places: after those of owners that take over from us, before all others."""
        jump, source = "OUTPUT -p tcp -j " + self.chain, "POSTROUTING -p tcp -j " + self.source_chain
        before, after = jump_order(self.owner, self.take_over) if self.owner else ((), ())
        targets = [line.rpartition(" -j ")[2] for line in whole if line.startswith("-A OUTPUT ")]
        others = [target for target in targets if target != self.chain]
        place = max([others.index(target) + 1 for target in before if target in others] or [0])
        found = [] if "-A " + source in whole else ["-I " + source.replace(" ", " 1 ", 1)]
        if self.chain in targets:
            mine = targets.index(self.chain)
            if mine >= place and not any(target in targets[:mine] for target in after):
                return found
            found.append("-D " + jump)
        return found + ["-I " + jump.replace(" ", " %d " % (place + 1), 1)]

    def _transaction(self, text):
        whole = self._saved()
        saved = [line for line in whole if self._is_ours(line)]
        jumps = self._jumps(whole)
        old = {line[1:].split()[0] for line in saved if line.startswith(":")}
        stale = sorted(old - self.chains)
        head, commit, _ = text.rpartition("COMMIT")
        declared = ["-F %s" % name for name in stale]
        return "\n".join([head.rstrip("\n")] + jumps + declared + ["-X %s" % name for name in stale] + [commit]) + "\n"

    def check(self, text):
        """Whether iptables-restore takes this text."""
        must(
            ["iptables-restore", "--test", "--noflush", "-w", "5"],
            self._transaction(text),
            "see the line that it names",
        )

    def remember(self, state):
        """Keep whether the nat table was there before us, for the removal."""
        state.setdefault("nat_table_before", has_nat_table())

    def load(self, text, state):
        """One transaction."""
        self.remember(state)
        must(["iptables-restore", "--noflush", "-w", "5"], self._transaction(text))

    def clear(self, state):
        """Take jumps and chains away, and the nat table if we caused it and nobody else uses it."""
        saved = self._saved()
        ours = [line for line in saved if self._is_ours(line)]
        if ours:
            jumps = [line.replace("-A ", "-D ", 1) for line in ours if re.match(r"-A (OUTPUT|POSTROUTING) ", line)]
            chains = [line[1:].split()[0] for line in ours if line.startswith(":")]
            lines = (
                ["*nat"]
                + jumps
                + ["-F %s" % name for name in chains]
                + ["-X %s" % name for name in chains]
                + ["COMMIT"]
            )
            must(["iptables-restore", "--noflush", "-w", "5"], "\n".join(lines) + "\n")
        rules = [line for line in self._saved() if line.startswith("-A")]
        user_chains = [line for line in self._saved() if line.startswith(":") and " - [" in line]
        if not state.get("nat_table_before", True) and not rules and not user_chains:
            run(["nft", "delete", "table", "ip", "nat"])


def has_nat_table():
    """Whether iptables' nat table exists; asking iptables itself would create it."""
    if "nat" in (read_text("/proc/net/ip_tables_names") or "").split():
        return True
    if "nf_tables" not in run(["iptables", "-V"])[1]:
        return False
    code, out, _ = run(["nft", "list", "tables", "ip"])
    return "table ip nat" in out if code == 0 else True
