"""A scope's names as one node's numbers: one unknown name would fail a whole nft transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ansible_collections.kafka.natmap.plugins.module_utils.facts import NodeFacts
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import Cluster, Problem, Scope
from ansible_collections.kafka.natmap.plugins.module_utils.plan import Selector
from ansible_collections.kafka.natmap.plugins.module_utils.reading import ACCOUNT

_LAST_UID = 2**32 - 2


def resolved(scope: Scope, node: NodeFacts) -> Scope:
    """The scope with what this node's YARN adds to it."""
    if not scope.discover:
        return scope
    found = node.discovered
    users = tuple(dict.fromkeys((*scope.users, *found.users)))
    return replace(scope, users=users, uid_ranges=tuple(dict.fromkeys((*scope.uid_ranges, *found.uid_ranges))))


def notices(cluster: Cluster, node: NodeFacts) -> Iterator[str]:
    """What was found on the node of the cluster's scope, and why."""
    if cluster.scope.discover:
        yield from (f"{cluster.name}: {text}" for text in (*node.discovered.found, *node.discovered.notices))


def selectors(cluster: Cluster, node: NodeFacts) -> tuple[tuple[Selector, ...], list[Problem]]:
    """Whose connections a cluster's rules take on this node, in an order of their own, and what is wrong with that."""
    path = f"nat_map.clusters.{cluster.name}.scope"
    problems = list(_not_found(cluster.scope, node, path))
    if problems:
        return (), problems
    scope = resolved(cluster.scope, node)
    users = {name: account.uid if (account := node.users.get(name)) else None for name in scope.users}
    groups = {name: node.groups.get(name) for name in scope.groups}
    found: set[Selector] = set()
    for kind, what, numbers in (("uid", "user", users), ("gid", "group", groups)):
        for name, number in numbers.items():
            if number is None:
                mend = f"create the {what}, or take it out of the scope"
                problems.append(Problem(path, f"{what} {name} does not exist here", mend))
            elif number == 0 and not scope.allow_root:
                mend = f"take the {what} out, or add allow_root: true"
                problems.append(Problem(path, f"{what} {name} is root here", mend))
            else:
                found.add(Selector(kind, number, number, f"{what} {name}"))
    found |= {Selector("uid", low, high, f"uids {low} to {high}") for low, high in scope.uid_ranges}
    return tuple(sorted(found)), problems


def _not_found(scope: Scope, node: NodeFacts, path: str) -> Iterator[Problem]:
    """Why the node's YARN does not tell whom it runs containers as, or what it told cannot be used."""
    if not scope.discover:
        return
    found = node.discovered
    if found.refusal:
        yield Problem(f"{path}.discover", found.refusal["cause"], found.refusal["mend"].rstrip("."))
    elif not found.users and not found.uid_ranges:
        yield Problem(f"{path}.discover", "nothing was found here", "name users, groups or a uid_range")
    for name in found.users:
        if not ACCOUNT.fullmatch(name):
            mend = "name users, groups or a uid_range"
            yield Problem(f"{path}.discover", f"{name!r} is not the name of a user", mend)
    for low, high in found.uid_ranges:
        if not 0 < low <= high <= _LAST_UID:
            yield Problem(f"{path}.discover", f"{low} to {high} is no range of uids", "name users in the scope")
