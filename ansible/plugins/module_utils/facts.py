"""What the planner asks a node, and what it hears back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import Broker, Cluster, Endpoint, NatMap

LOOPBACK_LISTENERS = IPv4Network("127.64.0.0/12")
"""Where nginx on a node listens: loopback (RFC 1122, 3.2.1.3), one address a broker."""


@dataclass(frozen=True)
class Backend:
    """Whether a program of the node can do its part, by test; ``reason`` says why not."""

    usable: bool
    reason: str = ""


@dataclass(frozen=True)
class Route:
    """The way from the node to an address: the source the kernel chooses, or why there is none."""

    source: str | None
    device: str | None = None
    via: str | None = None
    error: str = ""


@dataclass(frozen=True)
class Account:
    """A user of the node in numbers."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Nginx(Backend):
    """The node's nginx: its path, the stream module to load (None: built in), and the user it runs as."""

    path: str | None = None
    module: str | None = None
    user: str | None = None


@dataclass(frozen=True)
class Held:
    """What another owner holds on a node: each pair with its target, prefixes, names of /etc/hosts, whom it takes from."""

    pairs: Mapping[tuple[IPv4Address, int], tuple[str, int]]
    prefixes: tuple[tuple[IPv4Network, tuple[int, ...], str], ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    backends: tuple[str, ...] = ()
    take_over: tuple[str, ...] = ()

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Held:
        """From what ``inspect`` answers of one owner."""
        return cls(
            pairs={(IPv4Address(one[0]), one[1]): (one[2], one[3]) for one in answer["pairs"]},
            prefixes=tuple((IPv4Network(net), tuple(ports), to) for net, ports, to in answer["prefixes"]),
            names=answer["names"],
            backends=tuple(answer["backends"]),
            take_over=tuple(answer["take_over"]),
        )

    def target(self, address: IPv4Address, port: int) -> tuple[str, int] | None:
        """Where a destination is led, or None where it is left alone; a prefix stands for its whole other side."""
        exact = self.pairs.get((address, port))
        if exact:
            return exact
        return next(((to, port) for network, ports, to in self.prefixes if port in ports and address in network), None)


@dataclass(frozen=True)
class Discovered:
    """Whose processes the containers of the node's own YARN are; ``found`` says why, ``refusal`` why it is not known."""

    users: tuple[str, ...] = ()
    uid_ranges: tuple[tuple[int, int], ...] = ()
    found: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    refusal: Mapping[str, str] | None = None

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Discovered:
        """From what ``inspect`` answers."""
        return cls(
            users=tuple(map(str, answer["users"])),
            uid_ranges=tuple((int(low), int(high)) for low, high in answer["uid_ranges"]),
            found=tuple(map(str, answer["found"])),
            notices=tuple(map(str, answer["notices"])),
            refusal=answer["refusal"],
        )


@dataclass(frozen=True)
class NodeFacts:
    """One node, as the plan sees it."""

    name: str
    is_node: bool
    is_gateway: bool
    kernel: tuple[int, int]
    users: Mapping[str, Account | None]
    groups: Mapping[str, int | None]
    nftables: Backend
    iptables: Backend
    nginx: Nginx
    routes: Mapping[str, Route]
    resolves: Mapping[str, list[str]]
    addresses: frozenset[str]
    others: Mapping[str, Held]
    tracked_by: tuple[str, ...] = ()
    notrack: Backend = Backend(False, "not asked")
    discovered: Discovered = Discovered()

    @classmethod
    def read(cls, answer: Mapping[str, Any], name: str, is_node: bool, is_gateway: bool) -> NodeFacts:
        """From the JSON that the node program's ``inspect`` prints."""
        return cls(
            name=name,
            is_node=is_node,
            is_gateway=is_gateway,
            kernel=(answer["kernel"][0], answer["kernel"][1]),
            users={user: account and Account(**account) for user, account in answer["users"].items()},
            groups=answer["groups"],
            nftables=Backend(**answer["nftables"]),
            iptables=Backend(**answer["iptables"]),
            nginx=Nginx(**answer["nginx"]),
            routes={address: Route(**way["route"]) for way in answer["routes"] for address in way["addresses"].split()},
            resolves=answer["resolves"],
            addresses=frozenset(answer["addresses"]),
            others={owner: Held.read(held) for owner, held in answer["others"].items()},
            tracked_by=tuple(answer["conntrack"]["in_use"]),
            notrack=Backend(**answer["conntrack"]["exempt"]),
            discovered=Discovered.read(answer["discovered"]) if answer.get("discovered") else Discovered(),
        )


def questions(natmap: NatMap) -> dict[str, Any]:
    """What ``inspect`` must look up on a node for this map: whom it concerns, names, and ways to addresses."""
    scopes = [cluster.scope for cluster in natmap.clusters]
    names = stand_ins(natmap)
    addresses: set[IPv4Address] = set(names.values())
    for cluster, broker in natmap.brokers():
        addresses.add(broker.reachable.address)
        addresses.update(cluster.gateway.addresses if cluster.gateway else ())
        addresses.update([broker.advertised.address] if broker.advertised.address else ())
    for cluster in natmap.clusters:
        for network in cluster.networks:
            addresses.update((a_host(network.advertised), a_host(network.reachable)))
    return {
        "users": sorted({user for scope in scopes for user in scope.users}),
        "groups": sorted({group for scope in scopes for group in scope.groups}),
        "uid_ranges": sorted({uids for scope in scopes for uids in scope.uid_ranges}),
        "discover": sorted({scope.discover for scope in scopes if scope.discover}),
        "names": sorted(names),
        "addresses": [str(address) for address in sorted(addresses)],
    }


def a_host(network: IPv4Network) -> IPv4Address:
    """The address that stands for a prefix where the node's way to it is asked."""
    return network.network_address if network.prefixlen > 30 else network.network_address + 1


def stand_ins(natmap: NatMap) -> dict[str, IPv4Address]:
    """An address for each advertised name. A name keeps its address while the map around it changes."""
    names = {broker.advertised.host for _, broker in natmap.brokers() if broker.advertised.address is None}
    return spread(names, natmap.stand_ins)


def loopback_listeners(natmap: NatMap) -> dict[str, IPv4Address]:
    """A loopback address for each advertised host; owners differ, so that their ports do not meet."""
    keys = {f"{natmap.owner}/{broker.advertised.host}" for _, broker in natmap.brokers()}
    return {key.partition("/")[2]: address for key, address in spread(keys, LOOPBACK_LISTENERS).items()}


def spread(keys: set[str], pool: IPv4Network) -> dict[str, IPv4Address]:
    """Each key's own address of the pool: by hash, the next free one where two meet."""
    taken: dict[IPv4Address, str] = {}
    size = pool.num_addresses - 2
    for key in sorted(keys):
        index = int.from_bytes(sha256(key.encode()).digest()[:8], "big") % size
        while (address := pool.network_address + 1 + index) in taken:
            index = (index + 1) % size
        taken[address] = key
    return {key: address for address, key in taken.items()}


def gateway_of(cluster: Cluster, broker: Broker, node: str) -> Endpoint | None:
    """The gateway's endpoint that this node dials for a broker; nodes are spread over the gateways by name."""
    if cluster.gateway is None:
        return None
    port = cluster.gateway.port_of(broker)
    choice = int.from_bytes(sha256(node.encode()).digest()[:4], "big") % len(cluster.gateway.addresses)
    return Endpoint(cluster.gateway.addresses[choice], port or 0)
