"""The NAT map: which address a broker advertises, and at which one the site reaches it.

:func:`parse` turns the plain data of ``nat_map.yml`` into a :class:`NatMap`, or raises
:class:`MapError` with every problem at once. Pure: no IO, no Ansible, no clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

MECHANISMS = ("nftables", "iptables", "nginx_stream", "hosts")
"""How one pair can be put on a node; ``auto`` lets the planner choose."""

DEFAULT_STAND_INS = IPv4Network("240.0.0.0/12")
"""Addresses that stand in for names no resolver knows: class E, which no network routes (RFC 1112, 4)."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a map: where it stands, why it is wrong, and how to mend it."""

    path: str
    reason: str
    mend: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}. Mend: {self.mend}."


class MapError(ValueError):
    """A map that cannot be used; ``problems`` holds all of them in the order of the map."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, order=True)
class Advertised:
    """The ``host:port`` that a broker gives in metadata (``advertised.listeners``, KIP-103)."""

    host: str
    port: int

    @property
    def address(self) -> IPv4Address | None:
        """The host as an address, or None where it is a name."""
        try:
            return IPv4Address(self.host)
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, order=True)
class Endpoint:
    """An address and a TCP port that can be dialled."""

    address: IPv4Address
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True)
class Broker:
    """One pair of the map. ``id`` is the broker's ``node.id`` where the map tells it; ``where`` is its path."""

    advertised: Advertised
    reachable: Endpoint
    id: int | None = None
    gateway_port: int | None = None
    where: str = field(default="", compare=False)

    @property
    def unchanged(self) -> bool:
        """Whether the broker is reachable where it says it is."""
        return self.advertised.port == self.reachable.port and self.advertised.address == self.reachable.address


@dataclass(frozen=True)
class Network:
    """A 1:1 prefix: host bits are kept, ports too. Covers brokers that are not born yet."""

    advertised: IPv4Network
    reachable: IPv4Network
    ports: tuple[int, ...]
    where: str = field(default="", compare=False)

    def covers(self, endpoint: Endpoint) -> bool:
        """Whether a connection to this endpoint would be rewritten."""
        return endpoint.port in self.ports and endpoint.address in self.advertised


@dataclass(frozen=True)
class Gateway:
    """Hosts of the site whose nginx carries the cluster's connections, one port a broker."""

    addresses: tuple[IPv4Address, ...]
    first_port: int | None = None

    def port_of(self, broker: Broker) -> int | None:
        """The gateway's port for this broker: its own, else ``first_port`` plus its id."""
        if broker.gateway_port is not None:
            return broker.gateway_port
        if self.first_port is None or broker.id is None:
            return None
        return self.first_port + broker.id


@dataclass(frozen=True)
class Scope:
    """Whose connections are rewritten. Names are resolved to numbers on each node.

    ``discover: yarn`` adds whom the node's own YARN runs containers as.
    """

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    uid_ranges: tuple[tuple[int, int], ...] = ()
    allow_root: bool = False
    discover: str | None = None


@dataclass(frozen=True)
class Security:
    """How probes speak to a cluster. ``secrets`` never reaches a plan, a log or a node's files."""

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Cluster:
    """One Kafka cluster of headquarters. An empty ``bootstrap`` stands for every way that the map knows."""

    name: str
    brokers: tuple[Broker, ...]
    networks: tuple[Network, ...]
    bootstrap: tuple[Advertised, ...]
    scope: Scope
    mechanism: str
    gateway: Gateway | None = None
    cluster_id: str | None = None
    security: Security = Security()


@dataclass(frozen=True)
class NatMap:
    """A whole, valid map."""

    owner: str
    clusters: tuple[Cluster, ...]
    stand_ins: IPv4Network = DEFAULT_STAND_INS
    add_routes: bool = False
    take_over: tuple[str, ...] = ()

    def brokers(self) -> Iterator[tuple[Cluster, Broker]]:
        """Every pair with its cluster, in the order of the map."""
        for cluster in self.clusters:
            for broker in cluster.brokers:
                yield cluster, broker
