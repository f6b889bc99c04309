"""The rules that a map as a whole must keep: nothing twice, no loops, no overlap, nothing of its own captured."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import TypeVar

from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import (
    Advertised,
    NatMap,
    Network,
    Problem,
)

K = TypeVar("K", bound=Hashable)


def problems(natmap: NatMap) -> list[Problem]:
    """Every rule that the map breaks."""
    return [
        *_twice(natmap),
        *_networks(natmap),
        *_captured(natmap),
        *_stand_ins(natmap),
        *_gateways(natmap),
        *_mechanisms(natmap),
    ]


def _prefixes(natmap: NatMap) -> list[Network]:
    return [network for cluster in natmap.clusters for network in cluster.networks]


def _repeats(items: Iterable[tuple[str, K]]) -> Iterator[tuple[str, str, K]]:
    """Each key seen before: its path, the path of the first, the key."""
    first: dict[K, str] = {}
    for path, key in items:
        if key in first:
            yield path, first[key], key
        else:
            first[key] = path


def _twice(natmap: NatMap) -> Iterator[Problem]:
    brokers = list(natmap.brokers())
    for path, other, pair in _repeats((f"{b.where}.advertised", b.advertised) for _, b in brokers):
        yield Problem(path, f"{pair} is advertised twice, first in {other}", "keep one of the two")
    for path, other, end in _repeats((f"{b.where}.reachable", b.reachable) for _, b in brokers):
        yield Problem(
            path, f"{end} is the way to two brokers, first in {other}", "give each broker an address or port of its own"
        )
    for path, other, key in _repeats((f"{b.where}.id", (c.name, b.id)) for c, b in brokers if b.id is not None):
        yield Problem(
            path, f"broker {key[1]} stands twice in the cluster, first in {other}", "give each broker its own id"
        )


class _Prefixes:
    """Prefixes by address. Two prefixes overlap only where one holds the other, so a look-up costs 33 steps."""

    def __init__(self, items: Iterable[tuple[str, IPv4Network, tuple[int, ...]]]) -> None:
        self._items: dict[tuple[int, int], list[tuple[str, IPv4Network, frozenset[int]]]] = {}
        for path, prefix, ports in items:
            key = int(prefix.network_address), prefix.prefixlen
            self._items.setdefault(key, []).append((path, prefix, frozenset(ports)))
        self._keys = sorted(self._items)

    def overlapping(self, prefix: IPv4Network) -> Iterator[tuple[str, IPv4Network, frozenset[int]]]:
        """Every prefix that shares an address with this one: those that hold it, it, those within."""
        start, end = int(prefix.network_address), int(prefix.broadcast_address)
        for length in range(prefix.prefixlen):
            yield from self._items.get((start >> (32 - length) << (32 - length), length), ())
        for key in self._keys[
            bisect_left(self._keys, (start, prefix.prefixlen)) : bisect_left(self._keys, (end + 1, 0))
        ]:
            yield from self._items[key]

    def meeting(self, prefix: IPv4Network, ports: Iterable[int]) -> tuple[str, IPv4Network] | None:
        """The first of them that shares an address and a port with this prefix: its path, and itself."""
        wanted = frozenset(ports)
        for path, other, theirs in self.overlapping(prefix):
            if wanted & theirs:
                return path, other
        return None


def _networks(natmap: NatMap) -> Iterator[Problem]:
    prefixes = _prefixes(natmap)
    order = {net.where: index for index, net in enumerate(prefixes)}
    for net in prefixes:
        if net.advertised.prefixlen != net.reachable.prefixlen:
            reason = f"{net.advertised} and {net.reachable} are not of one length"
            yield Problem(net.where, reason, "1:1 prefixes need the same length")
    for side, what in (
        ("advertised", "would be rewritten in two ways"),
        ("reachable", "would be the way to two brokers"),
    ):
        index = _Prefixes((net.where, getattr(net, side), net.ports) for net in prefixes)
        for net in prefixes:
            mine: IPv4Network = getattr(net, side)
            for other, prefix, ports in index.overlapping(mine):
                unequal = side == "advertised" and prefix.prefixlen != mine.prefixlen
                if order[other] < order[net.where] and (unequal or ports.intersection(net.ports)):
                    yield Problem(
                        f"{net.where}.{side}", f"{mine} overlaps {other}: addresses {what}", "make the two disjoint"
                    )
                    break


def _captured(natmap: NatMap) -> Iterator[Problem]:
    exact = {broker.advertised: broker.where for _, broker in natmap.brokers()}
    prefixes = _prefixes(natmap)
    advertised = _Prefixes(
        (net.where, net.advertised, net.ports) for net in prefixes if net.advertised != net.reachable
    )
    reachable = _Prefixes((net.where, net.reachable, net.ports) for net in prefixes if net.advertised != net.reachable)
    for _, broker in natmap.brokers():
        if broker.unchanged:
            continue
        path = broker.where
        end = broker.reachable
        loop = exact.get(Advertised(str(end.address), end.port))
        if loop:
            yield Problem(
                f"{path}.reachable", f"{end} is itself advertised by {loop}: a loop", "give the address the site dials"
            )
        captor = None if loop else advertised.meeting(IPv4Network(end.address), [end.port])
        if captor:
            reason = f"{end} lies within the advertised {captor[1]}: it would be rewritten itself"
            yield Problem(f"{path}.reachable", reason, "narrow the prefix or its ports")
        host = broker.advertised.address
        captive = reachable.meeting(IPv4Network(host), [broker.advertised.port]) if host else None
        if captive:
            reason = f"{broker.advertised} lies within the reachable side of {captive[0]} ({captive[1]}): a loop"
            yield Problem(f"{path}.advertised", reason, "narrow the prefix, or take the broker out")
    for net in prefixes:
        captor = advertised.meeting(net.reachable, net.ports) if net.advertised != net.reachable else None
        if captor:
            reason = f"{net.reachable} lies within what {captor[0]} rewrites ({captor[1]})"
            yield Problem(
                f"{net.where}.reachable", reason, "narrow the prefixes, so that no reachable address is rewritten"
            )


def _stand_ins(natmap: NatMap) -> Iterator[Problem]:
    pool, mend = natmap.stand_ins, "give stand_ins a prefix that no host uses"
    names = {broker.advertised.host for _, broker in natmap.brokers() if broker.advertised.address is None}
    if len(names) > max(pool.num_addresses - 2, 0) // 2:
        yield Problem(
            "nat_map.stand_ins", f"{pool} is too small for {len(names)} names", "give a prefix twice as large"
        )
    for _, broker in natmap.brokers():
        for side, address in (("advertised", broker.advertised.address), ("reachable", broker.reachable.address)):
            if address is not None and address in pool:
                yield Problem(f"{broker.where}.{side}", f"{address} lies within stand_ins ({pool})", mend)
    for net in _prefixes(natmap):
        if pool.overlaps(net.advertised) or pool.overlaps(net.reachable):
            yield Problem(net.where, f"overlaps stand_ins ({pool})", mend)


def _gateways(natmap: NatMap) -> Iterator[Problem]:
    listeners: list[tuple[str, tuple[IPv4Address, int]]] = []
    for cluster in natmap.clusters:
        path = f"nat_map.clusters.{cluster.name}"
        if cluster.gateway is not None and cluster.networks:
            yield Problem(
                f"{path}.networks", "cannot go through a gateway: nginx has one listener a broker", "list the brokers"
            )
        if cluster.gateway is not None and cluster.mechanism == "hosts":
            yield Problem(
                f"{path}.mechanism",
                "hosts cannot lead to a gateway's ports",
                "use auto, nginx_stream, nftables or iptables",
            )
        for broker in cluster.brokers:
            port = cluster.gateway.port_of(broker) if cluster.gateway else None
            if cluster.gateway is None:
                if broker.gateway_port is not None:
                    yield Problem(
                        f"{broker.where}.gateway_port", "stands in a cluster without a gateway", f"add {path}.gateway"
                    )
            elif port is None:
                yield Problem(
                    broker.where,
                    "has no port on the gateway",
                    "give it gateway_port, or an id and the gateway first_port",
                )
            elif port > 65535:
                yield Problem(broker.where, f"first_port + id is {port}, which is no port", "give it gateway_port")
            else:
                listeners += [(broker.where, (address, port)) for address in cluster.gateway.addresses]
    for where, other, (address, port) in _repeats(listeners):
        yield Problem(
            where, f"{address}:{port} of the gateway is taken by {other}", "give one of them another gateway_port"
        )
    advertised = {broker.advertised: broker.where for _, broker in natmap.brokers() if not broker.unchanged}
    for where, (address, port) in listeners:
        captor = advertised.get(Advertised(str(address), port))
        if captor:
            reason = f"{address}:{port} of the gateway is itself advertised by {captor}: a loop"
            yield Problem(where, reason, "give the gateway another port")


def _mechanisms(natmap: NatMap) -> Iterator[Problem]:
    for cluster in natmap.clusters:
        if cluster.mechanism in ("hosts", "nginx_stream") and cluster.networks:
            yield Problem(
                f"nat_map.clusters.{cluster.name}.networks",
                f"{cluster.mechanism} cannot carry a prefix",
                "use auto, nftables or iptables",
            )
    moved = [(cluster, broker) for cluster, broker in natmap.brokers() if not broker.unchanged]
    ways: dict[str, IPv4Address] = {}
    for cluster, broker in moved:
        host, mend = broker.advertised.host, "use auto, nftables or iptables"
        if cluster.mechanism != "hosts":
            continue
        if broker.advertised.address is not None:
            yield Problem(broker.where, "hosts cannot carry an address, only a name", mend)
        elif broker.advertised.port != broker.reachable.port:
            yield Problem(broker.where, "hosts cannot change the port", f"{mend}, or nginx_stream")
        elif ways.setdefault(host, broker.reachable.address) != broker.reachable.address:
            yield Problem(broker.where, f"hosts cannot lead {host} to two addresses", mend)
    for cluster, broker in moved:
        host = broker.advertised.host
        if cluster.mechanism != "hosts" and host in ways:
            reason = f"mechanism hosts of another cluster leads {host} to {ways[host]} for every port"
            yield Problem(broker.where, reason, f"use {cluster.mechanism} for both clusters")
