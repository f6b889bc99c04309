"""Which of a plan's pairs somebody else's rule takes already: before anything is changed, and named.

Our rule and theirs for the same destination exclude each other: a connection is translated once, by whoever comes
first. A match that is not understood here counts as one that may hold.
"""

import ipaddress

YES, MAYBE, NO = 2, 1, 0
_MOST = 20
_DEEPEST = 16


class Mapped:
    """The destinations of a plan, and whose connections are rewritten."""

    def __init__(self, pairs, prefixes, who, own):
        self.pairs = {}
        for pair in pairs:
            self.pairs.setdefault(int(ipaddress.IPv4Address(pair[0])), []).append(pair[1])
        networks = [(ipaddress.ip_network(network), ports) for network, ports, _ in prefixes]
        self.prefixes = [(int(n.network_address), int(n.broadcast_address), ports) for n, ports in networks]
        self.who = who
        self.own = {int(ipaddress.IPv4Address(address)) for address in own}

    def candidates(self):
        """(lowest address, highest address, port) of everything mapped."""
        single = [(address, address, port) for address, ports in self.pairs.items() for port in ports]
        return single + [(low, high, port) for low, high, ports in self.prefixes for port in ports]


def takers(tables, bundle, own):
    """What takes a mapped destination: a list of {"pair", "rule"}, at most twenty.

    :param tables: kafka_natmap_ruleset.foreign_tables()
    :param own: the node's own addresses
    """
    mapped = Mapped(bundle["pairs"], bundle.get("prefixes", ()), bundle.get("who", ()), own)
    found = {}
    for table in tables:
        for _, hook in sorted(table.hooks):
            _walk(table, hook, mapped.candidates(), mapped, found, 0)
    return [{"pair": _shown(pair), "rule": rule} for pair, rule in sorted(found.items())][:_MOST]


def _walk(table, chain, candidates, mapped, found, depth):
    """Follow one chain with what may come to it; the candidates that come out at its end."""
    by_address = _by_address(candidates)
    for rule in table.chains.get(chain, ()) if depth < _DEEPEST else ():
        if not candidates:
            break
        held = [(one, _holds(rule, one, mapped)) for one in _near(rule, candidates, by_address)]
        may = [one for one, how in held if how != NO]
        if not may:
            continue
        must = {one for one, how in held if how == YES}
        if rule.action == "rewrite":
            for one in may:
                found.setdefault(one, rule.text)
        elif rule.action in ("jump", "goto"):
            left = set(_walk(table, rule.target, may, mapped, found, depth + 1))
            must = {one for one in must if rule.action == "goto" or one not in left}
        elif rule.action not in ("return", "accept", "drop"):
            continue
        if must:
            candidates = [one for one in candidates if one not in must]
            by_address = _by_address(candidates)
    return candidates


def _by_address(candidates):
    found = {None: []}
    for one in candidates:
        found.setdefault(one[0] if one[0] == one[1] else None, []).append(one)
    return found


def _near(rule, candidates, by_address):
    """The candidates that a rule for single addresses can concern: tables of others may hold thousands of such rules."""
    for fields, negated, values in rule.matches:
        if fields == ("daddr",) and not negated and values and all(v[0] and v[0][0] == v[0][1] for v in values):
            return by_address[None] + [one for value in values for one in by_address.get(value[0][0], ())]
    return candidates


def _holds(rule, candidate, mapped):
    how = YES
    for fields, negated, values in rule.matches:
        one = _match(fields, values, candidate, mapped)
        how = min(how, (NO, MAYBE, YES)[2 - one] if negated else one)
        if how == NO:
            break
    return how


def _match(fields, values, candidate, mapped):
    if values is None:
        return NO if "never" in fields else MAYBE
    best = NO
    for value in values:
        if len(value) != len(fields):
            return MAYBE
        best = max(best, min(_field(field, bounds, candidate, mapped) for field, bounds in zip(fields, value)))
        if best == YES:
            break
    return best


def _field(field, bounds, candidate, mapped):
    low, high, port = candidate
    if field == "never":
        return NO
    if field is None or bounds is None:
        return MAYBE
    if field == "proto":
        return YES if bounds in ("tcp", "all", (6, 6), (0, 0)) else NO
    if field == "family":
        return YES if bounds == "ipv4" else NO
    if field == "addrtype":
        mine = any(low <= address <= high for address in mapped.own)
        return (MAYBE if mine else NO) if bounds == "local" else MAYBE
    if not isinstance(bounds, tuple):
        return MAYBE
    if field == "daddr":
        return _overlap(bounds, low, high)
    if field == "dport":
        return _overlap(bounds, port, port)
    said = [_overlap(bounds, first, last) for kind, first, last in mapped.who if kind == field]
    others = any(kind != field for kind, _, _ in mapped.who)
    if not said:
        return MAYBE
    best = min(said) if min(said) == max(said) else MAYBE
    return MAYBE if others and best == NO else best


def _overlap(bounds, low, high):
    if bounds[0] <= low and high <= bounds[1]:
        return YES
    return NO if bounds[1] < low or high < bounds[0] else MAYBE


def _shown(candidate):
    low, high, port = candidate
    first = ipaddress.IPv4Address(low)
    return "%s:%d" % (first, port) if low == high else "%s-%s:%d" % (first, ipaddress.IPv4Address(high), port)
