"""What a plan must not do on a node: rewrite one destination in two ways, or one that another owner rewrites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import Problem
from ansible_collections.kafka.natmap.plugins.module_utils.plan import Pair, Rules


def problems(plan: Iterable[Rules], others: Mapping[str, Sequence[Sequence[Any]]]) -> Iterator[Problem]:
    """Every conflict of these rules.

    :param others: by owner, what else is rewritten on this node: address, port and more
    """
    rules = list(plan)
    yield from _two_ways(rules)
    yield from _others(rules, {(pair[0], pair[1]): owner for owner, pairs in others.items() for pair in pairs})


def _two_ways(plan: list[Rules]) -> Iterator[Problem]:
    """Names may mean an address that the map has already."""
    first: dict[tuple[str, int], Pair] = {}
    for rules in plan:
        for pair in rules.pairs:
            other = first.setdefault((pair.address, pair.port), pair)
            if other is not pair:
                reason = f"{pair.address}:{pair.port} stands for {other.broker} and for {pair.broker} on this node"
                mend = "correct what the names mean on this node, or take one of the two out of the map"
                yield Problem(f"nat_map.clusters.{rules.name}", reason, mend)


def _others(plan: list[Rules], held: Mapping[tuple[str, int], str]) -> Iterator[Problem]:
    """What another owner rewrites stays with that owner."""
    for rules in plan:
        taken = [(pair.address, pair.port) for pair in rules.pairs if (pair.address, pair.port) in held]
        for prefix in rules.prefixes:
            network = IPv4Network(prefix.network)
            taken += [key for key in held if key[1] in prefix.ports and IPv4Address(key[0]) in network]
        for address, port in taken:
            owner = held[address, port]
            mend = f"let one of the two own it: remove it from {owner}'s map or this one"
            yield Problem(
                f"nat_map.clusters.{rules.name}", f"{address}:{port} is rewritten here by owner {owner}", mend
            )
