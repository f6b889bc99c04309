"""Several owners on one node: what each of them holds, and who goes first where two hold the same."""

import ipaddress
import os

from kafka_natmap_system import LIB, Refusal, owners, read_json

_SHOWN = 3


def held(owner):
    """What every other owner holds: pairs, prefixes, names of /etc/hosts, mechanisms, and from whom it takes over.

    A switch that died and waits for its undo counts with what it has loaded.
    """
    found = {}
    for name in owners():
        if name == owner:
            continue
        kept = read_json(os.path.join(LIB, name, "generation.json"))
        pending = (read_json(os.path.join(LIB, name, "pending.json")) or {}).get("bundle")
        bundles = [one for one in (kept, pending) if one]
        if bundles:
            found[name] = {
                "pairs": _joined(bundles, "pairs"),
                "prefixes": _joined(bundles, "prefixes"),
                "names": dict(line for one in bundles for line in one.get("hosts", ())),
                "backends": sorted(
                    {kind for one in bundles for kind in ("nftables", "iptables") if kind in one["texts"]}
                ),
                "take_over": sorted({one for bundle in bundles for one in bundle.get("take_over", ())}),
            }
    return found


def _joined(bundles, key):
    first = bundles[0].get(key, [])
    return first + [one for bundle in bundles[1:] for one in bundle.get(key, ()) if one not in first]


def refuse_held(bundle):
    """Refuse what another owner holds by now: two plans may have been made before either was loaded.

    :raises Refusal: with the owner and the first destinations
    """
    for owner, theirs in sorted(held(bundle["owner"]).items()):
        if owner in bundle.get("take_over", ()) or bundle["owner"] in theirs["take_over"]:
            continue
        common = common_destinations(bundle, theirs)
        if common:
            raise Refusal(
                "%s is rewritten here by owner %s" % (", ".join(common[:_SHOWN]), owner),
                "let one of the two own it, or set take_over: [%s] in the map" % owner,
            )


def common_destinations(one, other):
    """What two owners both rewrite, as texts."""
    exact = {(pair[0], pair[1]) for pair in one.get("pairs", ())} & {(pair[0], pair[1]) for pair in other["pairs"]}
    found = ["%s:%d" % key for key in sorted(exact)]
    for mine, theirs in ((one, other), (other, one)):
        for network, ports, _ in mine.get("prefixes", ()):
            block = ipaddress.ip_network(network)
            for address, port, _, _ in theirs.get("pairs", ()):
                if port in ports and ipaddress.ip_address(address) in block:
                    found.append("%s:%d" % (address, port))
    for network, ports, _ in one.get("prefixes", ()):
        for theirs, their_ports, _ in other["prefixes"]:
            if set(ports) & set(their_ports) and ipaddress.ip_network(network).overlaps(ipaddress.ip_network(theirs)):
                found.append(network)
    return found


def jump_order(owner, take_over):
    """The iptables chains whose jumps must stand before this owner's, and those that must stand after it."""
    before, after = set(), set()
    for name in owners():
        for file in ("generation.json", "pending.json"):
            kept = read_json(os.path.join(LIB, name, file)) or {}
            kept = kept.get("bundle", kept)
            chain = kept.get("names", {}).get("ipt_chain")
            if not chain or name == owner:
                continue
            if name in take_over:
                after.add(chain)
            elif owner in kept.get("take_over", ()):
                before.add(chain)
    return before, after
