"""What this node holds for an owner: since when, how much it carries, what differs, and whether a restart keeps it."""

import json
import os
import re
import shlex

from kafka_natmap_drift import differences, enabled
from kafka_natmap_inspect import hosts_lines, known_as
from kafka_natmap_system import LIB, PROGRAM, RUN, UNITS, digest_of_texts, read_json, read_text, run, which

# Units that start YARN's NodeManager, themselves or as an agent, and what they must wait for.
_STARTERS = re.compile(r"nodemanager|cloudera-scm-agent|ambari-agent|mapr-warden", re.IGNORECASE)
_NETWORK = {"network.target", "network-online.target"}
_PROGRAMS = {
    "nftables": "nft",
    "notrack": "nft",
    "iptables": "iptables-restore",
    "routes": "ip",
}


def status(owner):
    """The whole answer; `packets` of a counter are connections begun, since NAT sees the first packet of each."""
    home = os.path.join(LIB, owner)
    generation = read_json(os.path.join(home, "generation.json"))
    pending = read_json(os.path.join(home, "pending.json"))
    answer = {"owner": owner, "state": _state(owner, home, generation, pending), "confirmed": False}
    answer.update(digest=None, since=None, who=None, counters=[], drift=[], notices=[])
    answer["known_as"] = known_as()
    answer["watch"], noticed = watch_of(owner, generation)
    if generation is None:
        answer["reboot_safe"] = {"safe": False, "why": ["no plan of %s is confirmed here" % owner]}
        return answer
    authors = {one["what"]: one.get("by") for one in noticed}
    answer.update(
        confirmed=pending is None,
        digest=generation["digest"],
        since=generation["since"],
        who=generation.get("by"),
        counters=counters(generation),
        drift=[dict(one, by=authors.get(one["what"])) for one in differences(generation)],
        notices=notices(generation),
        reboot_safe=reboot_safe(generation, pending),
    )
    return answer


def _state(owner, home, generation, pending):
    if pending is not None:
        timer = "kafka-natmap-undo-%s.timer" % owner
        units = [unit for unit in (pending.get("unit"), timer) if unit]
        alive = any(run(["systemctl", "is-active", "--quiet", unit])[0] == 0 for unit in units)
        return "armed" if alive else "half done"
    if generation is not None:
        return "confirmed"
    return "damaged" if os.path.exists(os.path.join(home, "generation.json")) else "absent"


def notices(generation):
    """What a reader should know, though it is no drift."""
    lifted = generation.get("lifted")
    if not lifted:
        return []
    return ["the exemption of others from connection tracking was withdrawn, since they track by now: " + lifted]


# ------------------------------------------------------------ counters


def counters(generation):
    """[{"cluster", "broker", "address", "packets", "bytes"}] of what is rewritten, since the rules were loaded."""
    counted = {}
    if generation["texts"].get("nftables"):
        counted.update(_nft_counters(generation["names"]["nft_table"]))
    if generation["texts"].get("iptables"):
        counted.update(_iptables_counters(generation["names"]["ipt_chain"]))
    named = hosts_lines(generation["texts"].get("hosts") or "")
    found = []
    for entry in generation["plan"]["entries"]:
        host, _, port = entry["advertised"].rpartition(":")
        addresses = [host] + named.get(host.lower(), [])
        seen = [counted.pop("%s:%s" % (address, port), None) for address in addresses]
        for address, count in zip(addresses, seen):
            if count:
                found.append(_counter(entry["cluster"], entry["broker"], "%s:%s" % (address, port), count))
    for label, count in sorted(counted.items()):
        cluster, _, network = label.rpartition(" ")
        if cluster:
            found.append(_counter(cluster, None, network, count))
    return found


def _counter(cluster, broker, address, count):
    return {"cluster": cluster, "broker": broker, "address": address, "packets": count[0], "bytes": count[1]}


def _nft_counters(table):
    """Elements of our sets by "address:port", rules for prefixes by their comment, each with (packets, bytes)."""
    code, out, _ = run(["nft", "-j", "list", "table", "ip", table])
    found = {}
    for item in json.loads(out)["nftables"] if code == 0 else ():
        for element in item.get("set", {}).get("elem", ()):
            one = element.get("elem", {}) if isinstance(element, dict) else {}
            if "counter" in one and "concat" in one.get("val", {}):
                _add(found, ":".join(map(str, one["val"]["concat"])), one["counter"])
        rule = item.get("rule", {})
        for expression in rule.get("expr", ()) if rule.get("chain", "").startswith("prefixes_") else ():
            if "counter" in expression:
                _add(found, rule.get("comment", ""), expression["counter"])
    return found


def _iptables_counters(chain):
    """The same from iptables-save -c (iptables-save(8))."""
    found = {}
    _, out, _ = run(["iptables-save", "-c", "-t", "nat"])
    for line in out.splitlines():
        counts = re.match(r"\[(\d+):(\d+)\] -A %s-\S+ " % re.escape(chain), line)
        words = shlex.split(line) if counts and re.search(r"-j (DNAT|NETMAP)\b", line) else []
        values = dict(zip(words, words[1:]))
        if not words:
            continue
        single = "%s:%s" % (values["-d"].partition("/")[0], values["--dport"])
        label = values["--comment"] if values["-j"] == "NETMAP" else single
        _add(found, label, {"packets": int(counts.group(1)), "bytes": int(counts.group(2))})
    return found


def _add(found, label, counter):
    packets, size = found.get(label, (0, 0))
    found[label] = (packets + counter["packets"], size + counter["bytes"])


# ------------------------------------------------------------ restart, watch


def reboot_safe(generation, pending=None):
    """{"safe", "why"}: whether the plan is back after a restart, before a NodeManager starts."""
    main = "kafka-natmap-%s.service" % generation["owner"]
    why = [] if pending is None else ["a switch is not confirmed yet: a restart undoes it"]
    content = {key: generation[key] for key in ("owner", "texts", "units")}
    if digest_of_texts(content) != generation["digest"]:
        why.append("the generation in %s does not have its own digest" % LIB)
    for unit, text in sorted(generation["units"].items()):
        if read_text(os.path.join(UNITS, unit)) != text:
            why.append("%s is not as it was installed" % unit)
        elif not enabled(unit):
            why.append("%s is not enabled" % unit)
    if main not in generation["units"]:
        why.append("%s is not part of the plan" % main)
    for path in (PROGRAM, generation["names"]["python"]):
        if not os.path.exists(path):
            why.append("%s is missing" % path)
    needed = {_PROGRAMS[name] for name in generation["texts"] if name in _PROGRAMS}
    why += ["%s is not installed" % name for name in sorted(needed) if not which(name)]
    why += ["%s may start before the rules: it is not ordered after network.target" % one for one in _hasty(main)]
    return {"safe": not why, "why": why}


def _hasty(main):
    """Enabled units that start a NodeManager without waiting for the network or for us."""
    _, out, _ = run(["systemctl", "list-unit-files", "--no-legend", "--no-pager", "--type=service", "--state=enabled"])
    starters = [line.split()[0] for line in out.splitlines() if line.strip() and _STARTERS.search(line.split()[0])]
    hasty = []
    for unit in starters:
        _, after, _ = run(["systemctl", "show", "--property=After", "--value", unit])
        if not (_NETWORK | {main}) & set(after.split()):
            hasty.append(unit)
    return hasty


def watch_of(owner, generation):
    """What the watcher says of itself: ({"state", "policy", "repairs", "last"}, the drift that stands)."""
    unit = "kafka-natmap-watch-%s.service" % owner
    said = read_json(os.path.join(RUN, "watch-%s.json" % owner)) or {}
    policy = (generation or {}).get("drift")
    if unit not in (generation or {}).get("units", {}):
        state = "not installed"
    elif run(["systemctl", "is-active", "--quiet", unit])[0] != 0:
        state = "not running"
    else:
        state = said.get("state", "starting")
    told = {"state": state, "policy": policy, "repairs": said.get("repairs", 0), "last": said.get("last")}
    return told, said.get("drift", [])
