"""The node's other firewall rules as plain data: nftables by its JSON (libnftables-json(5)), iptables by iptables-save(8).

A chain is a list of rules; a rule is its matches, what it does, and its text. What is ours is left out.
"""

import ipaddress
import json
import re
import shlex

from kafka_natmap_system import read_text, run

OUR_TABLES = ("kafka_natmap_", "kafka_notrack_")
OUR_CHAIN = "KNM-"
REWRITES = ("DNAT", "REDIRECT", "NETMAP")
_VERDICTS = ("jump", "goto", "accept", "drop", "return")


class Rule:
    """`matches` are (field, negated, test); a test is None where its meaning is not known here."""

    def __init__(self, matches, action, target=None, text=""):
        self.matches = matches
        self.action = action
        self.target = target
        self.text = text


class Table:
    """One foreign table: where its NAT output chains begin, its chains, and what makes the kernel track connections."""

    def __init__(self, name):
        self.name = name
        self.hooks = []
        self.chains = {}
        self.tracks = None
        self.incomplete = False


def foreign_tables():
    """Every table that is not ours. One that iptables keeps inside nftables is read by iptables-save."""
    tables = _nft_tables()
    native = [table for table in tables if not table.incomplete]
    return native + _iptables_tables()


# ------------------------------------------------------------------ nftables


def _nft_tables():
    items = list(_nft_items())
    tables, sets = {}, {}
    for item in items:
        for kind in ("set", "map"):
            if kind in item:
                one = item[kind]
                sets[(one["family"], one["table"], one["name"])] = one.get("elem", [])
    for item in items:
        if "chain" in item:
            chain = item["chain"]
            table = _table(tables, chain)
            table.chains.setdefault(chain["name"], [])
            if chain.get("type") == "nat":
                table.tracks = table.tracks or "chain %s of type nat" % chain["name"]
                if chain.get("hook") == "output":
                    table.hooks.append((_priority(chain.get("prio")), chain["name"]))
        elif "rule" in item:
            rule = item["rule"]
            table = _table(tables, rule)
            table.chains.setdefault(rule["chain"], []).extend(_nft_rule(rule, table, sets))
    return [table for _, table in sorted(tables.items())]


def _nft_items():
    """The content of each table that is not ours; ours may be large."""
    for item in _nft_json("tables"):
        table = item.get("table")
        if table and table["family"] in ("ip", "inet") and not table["name"].startswith(OUR_TABLES):
            for found in _nft_json("table", table["family"], table["name"]):
                yield found


def _nft_json(*what):
    code, out, _ = run(["nft", "-j", "list"] + list(what))
    return json.loads(out)["nftables"] if code == 0 and out.strip() else []


def _table(tables, item):
    name = "%s %s" % (item["family"], item["table"])
    return tables.setdefault(name, Table(name))


def _priority(value):
    return value if isinstance(value, int) else -100


def _nft_rule(rule, table, sets):
    """A rule of nft's JSON as one rule, or as one for each entry of its verdict map."""

    def elements(data):
        if isinstance(data, str) and data.startswith("@"):
            return sets.get((rule["family"], rule["table"], data[1:]))
        if isinstance(data, dict) and "set" in data:
            return data["set"]
        return [data]

    text = "nft table %s, chain %s" % (table.name, rule["chain"])
    text += ' "%s"' % rule["comment"] if rule.get("comment") else " (handle %s)" % rule["handle"]
    matches, branches = [], []
    for expression in rule.get("expr", ()):
        kind, value = next(iter(expression.items()))
        if kind == "xt":
            table.incomplete = True
        if kind in ("ct", "notrack", "flow", "synproxy", "ct helper", "ct timeout") or _names_ct(value):
            table.tracks = table.tracks or "chain %s asks conntrack" % rule["chain"]
        if kind == "match":
            matches.append(
                (_fields(value["left"]), value["op"] == "!=", _values(elements(value["right"]), value["op"]))
            )
        elif kind == "vmap":
            for key, verdict in elements(value["data"]) or ():
                branches.append((matches + [(_fields(value["key"]), False, _values([key], "=="))], verdict))
        elif kind in ("dnat", "redirect"):
            mapped = (value or {}).get("addr") if isinstance(value, dict) else None
            if isinstance(mapped, dict) and "map" in mapped:
                found = elements(mapped["map"]["data"])
                keys = None if found is None else [pair[0] for pair in found]
                matches.append((_fields(mapped["map"]["key"]), False, _values(keys, "==")))
            branches.append((matches, {"rewrite": None}))
        elif kind in _VERDICTS:
            branches.append((matches, expression))
    return [_as_rule(found, verdict, text) for found, verdict in branches]


def _as_rule(matches, verdict, text):
    action, value = next(iter(verdict.items()))
    return Rule(matches, action, value.get("target") if isinstance(value, dict) else None, text)


def _names_ct(value):
    return '"ct"' in json.dumps(value)


def _fields(left):
    """The fields that a match looks at, by our names; None for one that is not known here."""
    if "concat" in left:
        return tuple(_fields(part)[0] for part in left["concat"])
    payload, meta = left.get("payload", {}), left.get("meta", {})
    if payload.get("field") == "daddr":
        return ("daddr" if payload.get("protocol") == "ip" else "never",)
    if payload.get("field") == "dport" and payload.get("protocol") in ("tcp", "th"):
        return ("dport",)
    if payload.get("field") == "dport":
        return ("never",)
    if payload.get("field") == "protocol" or meta.get("key") == "l4proto":
        return ("proto",)
    if meta.get("key") in ("skuid", "skgid"):
        return ({"skuid": "uid", "skgid": "gid"}[meta["key"]],)
    if meta.get("key") == "nfproto":
        return ("family",)
    if left.get("fib", {}).get("result") == "type" and "daddr" in left["fib"].get("flags", ()):
        return ("addrtype",)
    return (None,)


def _values(elements, operator):
    """The values of a match, one list of tests for each; None where they cannot be known."""
    if elements is None or operator not in ("==", "!=", "in"):
        return None
    found = []
    for element in elements:
        if isinstance(element, dict) and "elem" in element:
            element = element["elem"]["val"]
        parts = element["concat"] if isinstance(element, dict) and "concat" in element else [element]
        found.append(tuple(_bounds(part) for part in parts))
    return found


def _bounds(value):
    """A value as its lowest and highest number, or as a word."""
    if isinstance(value, dict) and "prefix" in value:
        network = ipaddress.ip_network("%s/%d" % (value["prefix"]["addr"], value["prefix"]["len"]), strict=False)
        return (int(network.network_address), int(network.broadcast_address))
    if isinstance(value, dict) and "range" in value:
        low, high = (_bounds(part) for part in value["range"])
        return (low[0], high[1]) if isinstance(low, tuple) and isinstance(high, tuple) else None
    if isinstance(value, int):
        return (value, value)
    if isinstance(value, str):
        try:
            number = int(ipaddress.IPv4Address(value))
            return (number, number)
        except ValueError:
            return value
    return None


# ------------------------------------------------------------------ iptables


def _iptables_tables():
    """What iptables-save and, beside it, iptables-legacy-save list; one that would load a module is not asked."""
    found = []
    legacy = (read_text("/proc/net/ip_tables_names") or "").split()
    asked = []
    if "nf_tables" in run(["iptables", "-V"])[1]:
        # Asked for a table that is not there, iptables-nft-save prints nothing and makes nothing.
        asked = [("iptables", ["iptables-save"])] + ([("iptables-legacy", ["iptables-legacy-save"])] if legacy else [])
    elif legacy:
        asked = [("iptables", ["iptables-save"])]
    for program, command in asked:
        code, out, _ = run(command)
        if code == 0:
            found += list(_iptables_save(program, out))
    return found


def _iptables_save(program, text):
    table = None
    for line in text.splitlines():
        if line.startswith("*"):
            table = Table("%s -t %s" % (program, line[1:].strip()))
            if line[1:].strip() == "nat":
                table.hooks.append((-100, "OUTPUT"))
        elif line == "COMMIT" and table:
            if table.tracks or any(table.chains.values()):
                yield table
            table = None
        elif line.startswith("-A ") and table:
            words = shlex.split(line)
            chain = words[1]
            if chain.startswith(OUR_CHAIN) or any(word.startswith(OUR_CHAIN) for word in words):
                continue
            if table.name.endswith(" nat") or _ASKS_CONNTRACK.search(line):
                table.tracks = table.tracks or "chain %s asks conntrack" % chain
            table.chains.setdefault(chain, []).append(_iptables_rule(words, "%s: %s" % (table.name, line)))


_IPTABLES_FIELDS = {
    "-d": "daddr",
    "--dport": "dport",
    "--dports": "dport",
    "--uid-owner": "uid",
    "--gid-owner": "gid",
    "-p": "proto",
    "--dst-type": "addrtype",
}
_ASKS_CONNTRACK = re.compile(r"-m (conntrack|state|connmark|connlimit|helper|cluster)\b|-j (CT|CONNMARK|CONNSECMARK)\b")
_HARMLESS = ("-m", "--comment", "--to-destination", "--to-ports", "--to", "--persistent", "--random")


def _iptables_rule(words, text):
    matches, action, target, negated = [], "continue", None, False
    place = 2
    while place < len(words):
        word = words[place]
        value = words[place + 1] if place + 1 < len(words) else ""
        place += 1
        if word == "!":
            negated = True
            continue
        if word in ("-j", "-g"):
            action, target = _iptables_action(word, value)
        elif word in _IPTABLES_FIELDS:
            matches.append(((_IPTABLES_FIELDS[word],), negated, [(_iptables_bounds(one),) for one in value.split(",")]))
        elif word.startswith("-") and word not in _HARMLESS:
            matches.append(((None,), negated, None))
        negated = False
    return Rule(matches, action, target, text)


def _iptables_action(word, value):
    if value in REWRITES:
        return "rewrite", None
    if value in ("ACCEPT", "DROP", "RETURN"):
        return value.lower(), None
    if value.isupper() and value in ("LOG", "MARK", "CT", "CONNMARK", "TRACE", "NFLOG", "MASQUERADE", "SNAT", "REJECT"):
        return "continue", None
    return "goto" if word == "-g" else "jump", value


def _iptables_bounds(value):
    if re.match(r"\d+([:-]\d+)?$", value):
        low, _, high = value.replace(":", "-").partition("-")
        return (int(low), int(high or low))
    try:
        network = ipaddress.ip_network(value, strict=False)
        return (int(network.network_address), int(network.broadcast_address))
    except ValueError:
        return value.lower()
