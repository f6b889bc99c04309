"""What the node itself says about a way: hosts lines, routes, our rules, those of others, leftovers in conntrack."""

import ipaddress
import os
import re

import kafka_natmap_conntrack as conntrack
from kafka_doctor_nginx import listeners
from kafka_natmap_flows import targets_of
from kafka_natmap_foreign import takers
from kafka_natmap_inspect import own_addresses
from kafka_natmap_ruleset import foreign_tables
from kafka_natmap_system import HOSTS, LIB, first_lines, owners, read_json, read_text, run, which

OUR_BLOCK = re.compile(r"# (BEGIN|END) kafka-natmap (\S+)")
# A larger table is not read through: that would take the kernel seconds.
MOST_TRACKED = 200000
_TCP_SOCKETS = "/proc/net/tcp"


def hosts_sources(text=None):
    """What each name of /etc/hosts means, by its first line: {name: (line number, address, owner of our block or None)}."""
    found, block = {}, None
    for number, line in enumerate((read_text(HOSTS) if text is None else text or "").splitlines(), 1):
        mark = OUR_BLOCK.match(line)
        if mark:
            block = mark.group(2).rstrip(":") if mark.group(1) == "BEGIN" else None
        words = line.partition("#")[0].split()
        for name in words[1:]:
            if ":" not in words[0]:
                found.setdefault(name.lower(), []).append((number, words[0], block))
    return found


def routes(addresses):
    """The kernel's way to each address, by one process: {address: {"said", "broken", "device", "mtu"}}."""
    commands = "".join("route get %s\n" % address for address in addresses)
    _, out, err = run(["ip", "-4", "-o", "-force", "-batch", "-"], commands, timeout=5)
    if err.startswith("ip is not installed"):
        return {}
    found = {}
    for line in out.splitlines():
        words = line.replace("\\", " ").split()
        kind = words.pop(0) if words and words[0] in ("local", "broadcast", "multicast", "blackhole") else ""
        pairs = dict(zip(words[1:], words[2:]))
        if not words:
            continue
        device = pairs.get("dev")
        way = "by %s%s from %s" % (device, " via " + pairs["via"] if "via" in pairs else "", pairs.get("src"))
        mtu = pairs.get("mtu") or (read_text("/sys/class/net/%s/mtu" % device) or "").strip()
        broken = kind in ("broadcast", "multicast", "blackhole")
        said = "it is a %s address here" % kind if broken else "%s, mtu %s" % (way, mtu or "unknown")
        found[words[0]] = {"said": said, "broken": broken, "device": device, "mtu": mtu}
    failed = first_lines(err, 1).replace("RTNETLINK answers: ", "")
    lost = {"said": "ip route get: " + (failed or "no answer"), "broken": True, "device": None, "mtu": ""}
    return {address: found.get(address, lost) for address in addresses}


def generations(owner=None):
    """What is kept for an owner, or for all, on this node: {owner: generation}. Empty where it may not be read."""
    try:
        names = [owner] if owner else owners()
        kept = {name: read_json(os.path.join(LIB, name, "generation.json")) for name in names}
    except OSError:
        return {}
    return {name: generation for name, generation in kept.items() if generation}


class Rules:
    """Our own rules on this node: what they hold, and whether they are loaded."""

    def __init__(self, kept):
        self.kept = kept
        self.targets = [targets_of(generation) for generation in kept.values()]
        self._loaded = None
        self._listeners = None

    def target(self, address):
        """Where ("IP", port) is sent by the confirmed rules, or None."""
        found = (target(address) for target in self.targets)
        return next((where for where in found if where), None)

    def behind(self, target):
        """Where "IP:port" leads: what our own nginx on this node passes to, else itself."""
        if self._listeners is None:
            texts = [generation.get("texts", {}).get("nginx") for generation in self.kept.values()]
            self._listeners = {at: to for text in texts if text for at, to in listeners(text).items()}
        return self._listeners.get(target, target)

    def covers(self, identity):
        """Whether the confirmed rules hold for this user; True where they tell no scope."""
        kinds = (
            {"uid": identity["uid"], "gid": identity["gid"]} if identity else {"uid": os.geteuid(), "gid": os.getegid()}
        )
        scopes = [scope for generation in self.kept.values() for scope in generation.get("who", ())]
        return not scopes or any(low <= kinds.get(kind, -1) <= high for kind, low, high in scopes)

    def scopes(self):
        """Whom the confirmed rules hold for, in words."""
        scopes = {tuple(scope) for generation in self.kept.values() for scope in generation.get("who", ())}
        return ", ".join(
            "%s %s" % (kind, low if low == high else "%s-%s" % (low, high)) for kind, low, high in sorted(scopes)
        )

    def loaded(self, address):
        """Whether the kernel holds a rule of ours for ("IP", port)."""
        if self._loaded is None:
            self._loaded = self._read()
        return any(_in_nft(text, *address) or _in_iptables(text, *address) for text in self._loaded)

    def _read(self):
        texts = []
        for generation in self.kept.values():
            names = generation.get("names", {})
            if names.get("nft_table") and which("nft"):
                code, out, _ = run([which("nft"), "list", "table", "ip", names["nft_table"]], timeout=10)
                texts += [out] if code == 0 else []
            if names.get("ipt_chain") and which("iptables-save"):
                code, out, _ = run([which("iptables-save"), "-t", "nat"], timeout=10)
                lines = [line for line in out.splitlines() if names["ipt_chain"] in line]
                texts += ["\n".join(lines)] if code == 0 and lines else []
        return texts

    def foreign(self, address, identity):
        """The rule of somebody else that takes ("IP", port), as text, or None."""
        who = [["uid", identity["uid"], identity["uid"]], ["gid", identity["gid"], identity["gid"]]] if identity else []
        bundle = {"pairs": [[address[0], address[1], address[0], address[1]]], "who": who}
        try:
            taken = takers(foreign_tables(), bundle, own_addresses())
        except OSError:
            return None
        return taken[0]["rule"] if taken else None


def _in_nft(text, host, port):
    """A pair is rewritten where its element is in the set, in the map, and a rule asks both."""
    pair = "%s . %d" % (host, port)
    if pair + " counter" in text and pair + " : " in text and "dnat ip to" in text:
        return True
    return _in_prefix(re.findall(r"ip daddr (\S+/\d+) tcp dport (\{[^}]*\}|\d+)", text), host, port)


def _in_iptables(text, host, port):
    if not re.search(r"^-A OUTPUT .*-j \S+$", text, re.MULTILINE):
        return False
    if re.search(r"-d %s/32 -p tcp -m tcp --dport %d .*-j DNAT" % (re.escape(host), port), text):
        return True
    return _in_prefix(re.findall(r"-d (\S+/\d+) -p tcp -m tcp --dport (\d+) .*-j NETMAP", text), host, port)


def _in_prefix(found, host, port):
    address = ipaddress.ip_address(host)
    return any(address in ipaddress.ip_network(net) and str(port) in re.findall(r"\d+", ports) for net, ports in found)


def leftovers(rules, who):
    """Tracked connections of the job to mapped pairs that are not rewritten: (entry, "live" or "dead").

    Those of other users are as they should be.

    :param who: uids whose connections are to be rewritten
    """
    if not rules.kept:
        return []
    count = read_text("/proc/sys/net/netfilter/nf_conntrack_count")
    if count and count.strip().isdigit() and int(count) > MOST_TRACKED:
        return []
    try:
        entries = [
            e for e in conntrack.ct_dump() if not e.rewritten and rules.target(e.dialled) not in (None, e.dialled)
        ]
    except OSError:
        return []
    sockets = tcp_sockets() if entries else {}
    found = []
    for entry in entries:
        uid = sockets.get((entry.orig[1],) + entry.dialled)
        if uid in who:
            found.append((entry, "live"))
        elif uid is None and entry.state in ("SYN_SENT", "SYN_SENT2", "ESTABLISHED"):
            found.append((entry, "dead"))
    return found


def tcp_sockets():
    """The uid behind each TCP connection of this namespace: {(own port, address, port): uid} (proc(5))."""
    found = {}
    for line in (read_text(_TCP_SOCKETS) or "").splitlines()[1:]:
        words = line.split()
        address, port = words[2].split(":")
        host = str(ipaddress.IPv4Address(int(address, 16).to_bytes(4, "little")))
        found[int(words[1].split(":")[1], 16), host, int(port, 16)] = int(words[7])
    return found
