"""What a plan must not do on a node: rewrite one destination in two ways, or one that another owner rewrites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from ansible_collections.kafka.natmap.plugins.module_utils.facts import Held, NodeFacts
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import NatMap, Problem
from ansible_collections.kafka.natmap.plugins.module_utils.plan import HostLine, Pair, Rules

_SHOWN = 5


@dataclass(frozen=True)
class Overlap:
    """What two owners both rewrite, as far as one cluster of ours goes."""

    rules: Rules
    owner: str
    held: Held
    what: tuple[str, ...]

    def __str__(self) -> str:
        more = len(self.what) - _SHOWN
        return ", ".join(self.what[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def overlaps(plan: Iterable[Rules], node: NodeFacts) -> Iterator[Overlap]:
    """Each owner of the node and each cluster of the plan that have a destination in common."""
    for rules in plan:
        for owner, held in sorted(node.others.items()):
            what = tuple(_common(rules, held))
            if what:
                yield Overlap(rules, owner, held, what)


def _common(rules: Rules, held: Held) -> Iterator[str]:
    """The destinations that both rewrite: exact ones first, then prefixes."""
    for pair in rules.pairs:
        if held.target(IPv4Address(pair.address), pair.port) is not None:
            yield f"{pair.address}:{pair.port}"
    for prefix in rules.prefixes:
        network = IPv4Network(prefix.network)
        for address, port in held.pairs:
            if port in prefix.ports and address in network:
                yield f"{address}:{port}"
        for theirs, ports, _ in held.prefixes:
            shared = sorted(set(ports).intersection(prefix.ports))
            if shared and theirs.overlaps(network):
                smaller = max(theirs, network, key=lambda one: one.prefixlen)
                yield f"{smaller} port {', '.join(map(str, shared))}"


def problems(natmap: NatMap, node: NodeFacts, plan: Sequence[Rules], hosts: Iterable[HostLine]) -> Iterator[Problem]:
    """Every conflict of these rules and lines of /etc/hosts."""
    yield from _two_ways(plan)
    for overlap in overlaps(plan, node):
        yield from _held(natmap, overlap)
    for line in hosts:
        for owner, held in sorted(node.others.items()):
            theirs = held.names.get(line.name)
            if theirs not in (None, line.address):
                reason = f"{line.name} would be {line.address} here, and owner {owner} has it as {theirs}"
                mend = f"give both maps the same stand_ins and mechanism, or take the name out of {owner}'s map"
                yield Problem("nat_map", reason, mend)


def _two_ways(plan: Sequence[Rules]) -> Iterator[Problem]:
    """Names may mean an address that the map has already."""
    first: dict[tuple[str, int], Pair] = {}
    for rules in plan:
        for pair in rules.pairs:
            other = first.setdefault((pair.address, pair.port), pair)
            if other is not pair:
                reason = f"{pair.address}:{pair.port} stands for {other.broker} and for {pair.broker} on this node"
                mend = "correct what the names mean on this node, or take one of the two out of the map"
                yield Problem(f"nat_map.clusters.{rules.name}", reason, mend)


def _held(natmap: NatMap, overlap: Overlap) -> Iterator[Problem]:
    """What another owner rewrites stays with that owner, unless one of the two maps is told to take over."""
    owner, held = overlap.owner, overlap.held
    path = f"nat_map.clusters.{overlap.rules.name}"
    taken, left = owner in natmap.take_over, natmap.owner in held.take_over
    if not taken and not left:
        mend = f"let one of the two own it: remove it from {owner}'s map or this one, or set take_over: [{owner}]"
        yield Problem(path, f"{overlap} is rewritten here by owner {owner}", mend)
    elif (taken and held.take_over) or (left and natmap.take_over):
        lower, upper = (owner, natmap.owner) if taken else (natmap.owner, owner)
        reason = f"{upper} takes over from {lower}, which itself takes over from another owner"
        yield Problem("nat_map.take_over", reason, "only one map of those that overlap can take over")
    elif taken and overlap.rules.backend == "iptables" and "nftables" in held.backends:
        reason = f"{overlap} is rewritten here by owner {owner} with nftables, which comes before iptables"
        yield Problem(path, reason, "use mechanism: nftables to take it over")


def notices(natmap: NatMap, node: NodeFacts, plan: Iterable[Rules]) -> Iterator[str]:
    """What this map takes over from other owners here, and what it leaves to them."""
    for overlap in overlaps(plan, node):
        name, owner = overlap.rules.name, overlap.owner
        if owner in natmap.take_over:
            yield (
                f"{name}: {overlap} is taken over from owner {owner}, for the users of both: our rules stand before"
                f" theirs, which stay; when ours are removed, theirs hold again"
            )
        elif natmap.owner in overlap.held.take_over:
            yield f"{name}: {overlap} is left to owner {owner}, whose map takes it over; ours hold when theirs are removed"


def led_elsewhere(natmap: NatMap, node: NodeFacts, address: IPv4Address, port: int, target: tuple[str, int]) -> bool:
    """Whether an owner that takes over from this one leads a destination elsewhere."""
    takers = [held for held in node.others.values() if natmap.owner in held.take_over]
    return any(held.target(address, port) not in (None, target) for held in takers)
