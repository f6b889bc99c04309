"""A plan: what one node will hold, and why. Data only; templates print it, the switch loads what they printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass
from hashlib import sha256
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils.facts import Nginx
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import Problem


@dataclass(frozen=True, order=True)
class Selector:
    """Whose connections a rule takes: ``kind`` is uid or gid, ``low`` and ``high`` its inclusive bounds."""

    kind: str
    low: int
    high: int
    label: str


@dataclass(frozen=True)
class Pair:
    """One rewrite of a destination: ``address:port`` becomes ``to_address:to_port``."""

    address: str
    port: int
    to_address: str
    to_port: int
    broker: str
    masquerade: bool = False


@dataclass(frozen=True)
class Prefix:
    """One rewrite of a whole prefix; host bits and ports stay."""

    network: str
    to_network: str
    ports: tuple[int, ...]
    masquerade: bool = False


@dataclass(frozen=True)
class Rules:
    """The DNAT of one cluster: ``name`` is the cluster's, ``ident`` the same as an identifier."""

    name: str
    ident: str
    backend: str
    selectors: tuple[Selector, ...]
    chain: str
    pairs: tuple[Pair, ...]
    prefixes: tuple[Prefix, ...]


@dataclass(frozen=True)
class HostLine:
    """One line of /etc/hosts."""

    address: str
    name: str
    broker: str


@dataclass(frozen=True)
class Listener:
    """One nginx stream server: one broker, never a balanced upstream."""

    address: str
    port: int
    to_address: str
    to_port: int
    broker: str


@dataclass(frozen=True)
class HostRoute:
    """A /32 route to an advertised address that the node had no way to (``add_routes``)."""

    address: str
    device: str
    via: str | None


@dataclass(frozen=True)
class Entry:
    """One line of the preview: a pair of the map, how it is put on this node, and why so."""

    cluster: str
    broker: str
    advertised: str
    reachable: str
    mechanism: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """All that one node will hold for one owner."""

    node: str
    owner: str
    ident: str
    chain: str
    rules: tuple[Rules, ...]
    hosts: tuple[HostLine, ...]
    listeners: tuple[Listener, ...]
    routes: tuple[HostRoute, ...]
    nginx: Nginx | None
    entries: tuple[Entry, ...]
    notices: tuple[str, ...]
    exempt: bool = False
    conntrack: str = ""
    take_over: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the node will hold nothing."""
        return not (self.rules or self.hosts or self.listeners or self.routes)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the templates: lists, mappings, texts and numbers."""
        rules = [_plain(rules) for rules in self.rules]
        for one in rules:
            for who in one["selectors"]:
                who["numbers"] = str(who["low"]) if who["low"] == who["high"] else f"{who['low']}-{who['high']}"
            one["masqueraded"] = [pair for pair in one["pairs"] if pair["masquerade"]]
            one["masqueraded_prefixes"] = [prefix for prefix in one["prefixes"] if prefix["masquerade"]]
        return {
            **{key: _plain(value) for key, value in vars(self).items()},
            "rules": rules,
            "empty": self.empty,
            "dialled": _ends((pair.address, pair.port) for rules in self.rules for pair in rules.pairs),
            "answering": _ends((pair.to_address, pair.to_port) for rules in self.rules for pair in rules.pairs),
            "nftables": [one for one in rules if one["backend"] == "nftables"],
            "iptables": [one for one in rules if one["backend"] == "iptables"],
        }


def _ends(pairs: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"address": address, "port": port} for address, port in sorted(set(pairs))]


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in vars(value).items()} if is_dataclass(value) else value


def identifier(name: str) -> str:
    """A name of the map as an identifier of nftables."""
    return name.replace("-", "_")


def chain_name(owner: str, cluster: str = "") -> str:
    """An iptables chain, at most 28 characters with a suffix (XT_EXTENSION_MAXNAMELEN of xtables).

    The owner's part holds no hyphen, so that no owner's chains begin as another's do.
    """
    mine = _hashed(owner) if "-" in owner or len(owner) > 10 else owner
    return "-".join(["KNM", mine, *([cluster if len(cluster) <= 10 else _hashed(cluster)] if cluster else [])])


def _hashed(name: str) -> str:
    return f"{name.replace('-', '')[:4]}{sha256(name.encode()).hexdigest()[:6]}"


class PlanError(ValueError):
    """A map that cannot be put on this node; ``problems`` holds every reason."""

    def __init__(self, node: str, problems: list[Problem]) -> None:
        super().__init__("\n".join(f"{node}: {problem}" for problem in problems))
        self.problems = problems
