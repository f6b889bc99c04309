"""Nodes that YARN knows and the inventory does not: containers run there, and nobody rewrites for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address
from typing import Any

_GONE = ("DECOMMISSIONED", "SHUTDOWN", "LOST")
"""States in which a node runs no containers; one that comes back is named then."""


def unmanaged(yarn_nodes: Iterable[Mapping[str, Any]], inventory: Mapping[str, Iterable[str]]) -> list[str]:
    """The hosts that YARN sends containers to and that no host of the inventory stands for, in their order.

    A host of the inventory stands for one host of YARN: one that shares a name or an address with it, else one
    whose first label is the same where one of the two names has no domain.

    :param yarn_nodes: what the node program's verb `yarn` found: host, state and, where known, addresses
    :param inventory: each managed host by name, with every other name and address that it is known by
    """
    seen = {str(node["host"]): node for node in yarn_nodes if node.get("state") not in _GONE}
    left = {name: _words((name, *others)) for name, others in inventory.items()}
    missing = []
    for host, node in seen.items():
        match = _first(_words((host, *(node.get("addresses") or ()))), left)
        if match is None:
            missing.append(host)
        else:
            del left[match]
    return sorted(host for host in missing if not _take_by_label(host, left))


def _first(words: set[str], left: Mapping[str, set[str]]) -> str | None:
    return next((name for name, theirs in left.items() if words & theirs), None)


def _take_by_label(host: str, left: dict[str, set[str]]) -> bool:
    """Whether a host of the inventory has the same first label; it stands for no other one then."""
    mine = _clean(host)
    for name, words in left.items():
        if any(_same_label(mine, word) for word in words):
            del left[name]
            return True
    return False


def _same_label(one: str, other: str) -> bool:
    if _is_address(one) or _is_address(other):
        return False
    return ("." in one) != ("." in other) and one.partition(".")[0] == other.partition(".")[0]


def _words(words: Sequence[str]) -> set[str]:
    """Names in one form, and addresses that are not every host's own."""
    cleaned = {_clean(word) for word in words if word}
    return {word for word in cleaned if not (_is_address(word) and IPv4Address(word).is_loopback)} - {"localhost"}


def _clean(word: str) -> str:
    return str(word).strip().lower().rstrip(".")


def _is_address(word: str) -> bool:
    try:
        IPv4Address(word)
    except ValueError:
        return False
    return True
