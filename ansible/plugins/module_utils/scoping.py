"""A scope's names as one node's numbers: one unknown name would fail a whole nft transaction."""

from __future__ import annotations

from ansible_collections.kafka.natmap.plugins.module_utils.facts import NodeFacts
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import Cluster, Problem
from ansible_collections.kafka.natmap.plugins.module_utils.plan import Selector


def selectors(cluster: Cluster, node: NodeFacts) -> tuple[tuple[Selector, ...], list[Problem]]:
    """Whose connections a cluster's rules take on this node, in an order of their own, and what is wrong with that."""
    scope, path = cluster.scope, f"nat_map.clusters.{cluster.name}.scope"
    users = {name: account.uid if (account := node.users.get(name)) else None for name in scope.users}
    groups = {name: node.groups.get(name) for name in scope.groups}
    found: set[Selector] = set()
    problems = []
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
    if scope.uid_range:
        low, high = scope.uid_range
        found.add(Selector("uid", low, high, f"uids {low} to {high}"))
    return tuple(sorted(found)), problems
