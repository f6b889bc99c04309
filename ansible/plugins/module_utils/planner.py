"""From a NAT map and what a node said of itself to the node's plan: the smallest mechanism that is enough, with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

from ansible_collections.kafka.natmap.plugins.module_utils import conflicts, scoping, tracking
from ansible_collections.kafka.natmap.plugins.module_utils.facts import (
    NodeFacts,
    Route,
    a_host,
    gateway_of,
    loopback_listeners,
    stand_ins,
)
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import (
    Broker,
    Cluster,
    Endpoint,
    NatMap,
    Network,
    Problem,
)
from ansible_collections.kafka.natmap.plugins.module_utils.plan import (
    Entry,
    HostLine,
    HostRoute,
    Listener,
    Pair,
    Plan,
    PlanError,
    Prefix,
    Rules,
    Selector,
    chain_name,
    identifier,
)
from ansible_collections.kafka.natmap.plugins.module_utils.reading import unusable

_NFT_WITH_IPTABLES = (4, 18)
"""Before this kernel nftables' and iptables' NAT exclude each other (netfilter, commit 4d44175aa5bb)."""

_LONGEST_LABEL = 80
"""Of a broker in a comment: nft takes 128 bytes, xt_comment 256."""


def plan_node(natmap: NatMap, node: NodeFacts) -> Plan:
    """What this node will hold.

    :raises PlanError: with every reason why the map cannot be put on this node
    """
    planner = _Planner(natmap, node)
    for cluster in natmap.clusters:
        if node.is_node:
            planner.rewrite(cluster)
        if node.is_gateway and cluster.gateway is not None:
            planner.serve(cluster)
    planner.problems.update(dict.fromkeys(conflicts.problems(natmap, node, planner.rules, planner.hosts.values())))
    planner.notices.update(conflicts.notices(natmap, node, planner.rules))
    if planner.problems:
        raise PlanError(node.name, list(planner.problems))
    return planner.plan()


def sample(natmap: NatMap) -> Plan:
    """One rule of each kind that the map could need, to be judged by the node's own nft or iptables."""
    who = (Selector("uid", 65534, 65534, "sample"), Selector("gid", 65534, 65534, "sample"))
    pair = Pair("192.0.2.1", 9092, "203.0.113.1", 9093, "sample", masquerade=True)
    prefix = Prefix("198.51.100.0/24", "203.0.113.0/24", (9092, 9093), masquerade=True)
    prefixes = (prefix,) if any(cluster.networks for cluster in natmap.clusters) else ()
    rules = tuple(
        Rules("sample", "sample", b, who, "KNM-sample-sample", (pair,), prefixes) for b in ("nftables", "iptables")
    )
    return Plan("", "sample", "sample", "KNM-sample", rules, (), (), (), None, (), ())


@dataclass
class _Planner:
    natmap: NatMap
    node: NodeFacts
    problems: dict[Problem, None] = field(default_factory=dict)
    notices: set[str] = field(default_factory=set)
    rules: list[Rules] = field(default_factory=list)
    hosts: dict[str, HostLine] = field(default_factory=dict)
    listeners: list[Listener] = field(default_factory=list)
    routes: dict[str, HostRoute] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stand_ins = stand_ins(self.natmap)
        self._loopback = loopback_listeners(self.natmap)
        self._reachable = {broker.reachable: broker for _, broker in self.natmap.brokers()}

    def plan(self) -> Plan:
        """The finished plan, in an order that does not depend on the map's."""
        exempt, effect = tracking.effect(self.rules, self.node)
        return Plan(
            node=self.node.name,
            owner=self.natmap.owner,
            ident=identifier(self.natmap.owner),
            chain=chain_name(self.natmap.owner),
            rules=tuple(sorted(self.rules, key=lambda rules: rules.name)),
            hosts=tuple(sorted(self.hosts.values(), key=lambda line: line.name)),
            listeners=tuple(sorted(self.listeners, key=lambda one: (one.address, one.port))),
            routes=tuple(self.routes[address] for address in sorted(self.routes)),
            nginx=self.node.nginx if self.listeners else None,
            entries=tuple(
                sorted(
                    self.entries, key=lambda entry: (entry.cluster, len(entry.broker), entry.broker, entry.advertised)
                )
            ),
            notices=tuple(sorted(self.notices)),
            exempt=exempt,
            conntrack=effect,
            take_over=self.natmap.take_over,
        )

    def rewrite(self, cluster: Cluster) -> None:
        """Plan one cluster on a node that dials it."""
        backend = self._backend(cluster)
        pairs = [pair for broker in cluster.brokers for pair in self._pairs(cluster, broker, backend)]
        prefixes = [self._prefix(cluster, network, backend) for network in cluster.networks]
        if (pairs or prefixes) and backend:
            self.rules.append(
                Rules(
                    name=cluster.name,
                    ident=identifier(cluster.name),
                    backend=backend,
                    chain=chain_name(self.natmap.owner, cluster.name),
                    selectors=self._selectors(cluster),
                    pairs=tuple(sorted(pairs, key=lambda pair: (IPv4Address(pair.address), pair.port))),
                    prefixes=tuple(sorted(prefixes, key=lambda prefix: (IPv4Network(prefix.network), prefix.ports))),
                )
            )

    def serve(self, cluster: Cluster) -> None:
        """Plan one cluster on a gateway that carries it for others."""
        assert cluster.gateway is not None
        mine = [address for address in cluster.gateway.addresses if str(address) in self.node.addresses]
        path = f"nat_map.clusters.{cluster.name}.gateway.addresses"
        if not mine:
            self._problem(
                path, f"this gateway has none of {', '.join(map(str, cluster.gateway.addresses))}", "add its address"
            )
        if not self._nginx_usable(path):
            return
        for broker in cluster.brokers:
            port = cluster.gateway.port_of(broker) or 0
            for address in mine:
                self._listen(cluster, broker, Endpoint(address, port))
                way = f"nginx listens at {address}:{port}, one port a broker, for the nodes of the site"
                self._entry(cluster, broker, "nginx_stream", way)

    def _pairs(self, cluster: Cluster, broker: Broker, backend: str | None) -> Iterator[Pair]:
        """The rewrites of one broker; lines and listeners that go with them are kept on the way."""
        if broker.unchanged:
            yield from self._unchanged(cluster, broker, backend)
            return
        if cluster.mechanism == "hosts":
            self._hosts_only(cluster, broker)
            return
        target, way = self._target(cluster, broker)
        host = broker.advertised.address
        name = broker.advertised.host
        known = [] if host else self._known(broker)
        if backend is None:
            self._without_dnat(cluster, broker, target, bool(known))
            return
        if host:
            keys, why = [host], f"{way}an address can only be rewritten by DNAT"
        elif known:
            keys, why = known, f"{way}the name is known here as {', '.join(map(str, known))}; no hosts line needed"
        else:
            keys, why = [self._stand_ins[name]], f"{way}nothing here knows the name: a hosts line gives it a stand-in"
            self._line(keys[0], cluster, broker)
        parts = ["hosts"] if not host and not known else []
        self._entry(cluster, broker, "+".join([*parts, backend, *(["nginx_stream"] if way else [])]), why)
        for key in keys:
            if Endpoint(key, broker.advertised.port) != target:
                self._way_to(
                    key, broker.reachable.address if target.address.is_loopback else target.address, broker.where
                )
                yield Pair(
                    str(key),
                    broker.advertised.port,
                    str(target.address),
                    target.port,
                    _label(cluster, broker),
                    self._masquerade(key, target.address),
                )

    def _unchanged(self, cluster: Cluster, broker: Broker, backend: str | None) -> Iterator[Pair]:
        """A broker that stays where it is; a prefix around it would take it, were it not for a rule of its own."""
        end = broker.reachable
        if backend and self._covered(broker):
            self._entry(cluster, broker, backend, "reachable where it is advertised: kept out of the prefix around it")
            yield Pair(str(end.address), end.port, str(end.address), end.port, _label(cluster, broker))
        else:
            self._entry(cluster, broker, "none", "reachable where it is advertised: nothing to do")

    def _covered(self, broker: Broker) -> bool:
        return any(net.covers(broker.reachable) for cluster in self.natmap.clusters for net in cluster.networks)

    def _known(self, broker: Broker) -> list[IPv4Address]:
        """What a broker's name means on this node already."""
        name, port = broker.advertised.host, broker.advertised.port
        known = sorted({IPv4Address(address) for address in self.node.resolves.get(name, [])})
        for address in known:
            reason = unusable(IPv4Network(address))
            if reason:
                mend = "take the name out of this node's /etc/hosts, or correct it in DNS"
                self._problem(broker.where, f"{name} is known here as {address}, which {reason}", mend)
            elif self._reachable.get(Endpoint(address, port), broker) != broker:
                reason = f"{name} is known here as {address}, and {address}:{port} is the way to another broker"
                self._problem(
                    broker.where, reason, "correct the name on this node, or the reachable address in the map"
                )
        return known

    def _target(self, cluster: Cluster, broker: Broker) -> tuple[Endpoint, str]:
        """Where the node dials, and the reason's beginning where that is not the reachable address itself."""
        gateway = gateway_of(cluster, broker, self.node.name)
        if gateway:
            return gateway, f"through the gateway {gateway}; "
        if cluster.mechanism != "nginx_stream":
            return broker.reachable, ""
        listener = Endpoint(self._loopback[broker.advertised.host], broker.advertised.port)
        if self._nginx_usable(f"nat_map.clusters.{cluster.name}.mechanism"):
            self._listen(cluster, broker, listener)
        return listener, f"nginx on this node listens at {listener}; "

    def _hosts_only(self, cluster: Cluster, broker: Broker) -> None:
        name, way = broker.advertised.host, str(broker.reachable.address)
        if any(known != way for known in self.node.resolves.get(name, [])):
            known = ", ".join(self.node.resolves[name])
            self._problem(
                broker.where, f"{name} is known here as {known} already", "use auto: it rewrites only the scope's users"
            )
        self._line(broker.reachable.address, cluster, broker)
        self._entry(
            cluster, broker, "hosts", "asked for; hosts has no scope: the line holds for every user of this node"
        )
        self._notice(f"{cluster.name}: mechanism hosts is not scoped, every user of {self.node.name} sees its lines")

    def _without_dnat(self, cluster: Cluster, broker: Broker, target: Endpoint, known: bool) -> None:
        """A node that has neither nft nor iptables can only be helped where a name leads to a listener of its own."""
        local = cluster.mechanism == "nginx_stream" and cluster.gateway is None
        if not local or broker.advertised.address:
            return
        if known:
            reason = f"{broker.advertised.host} is known here already, and this node can rewrite nothing"
            self._problem(broker.where, reason, "install nftables or iptables on the node")
            return
        self._line(target.address, cluster, broker)
        self._entry(
            cluster, broker, "hosts+nginx_stream", "no DNAT on this node: the name leads to nginx, for every user"
        )
        self._notice(
            f"{cluster.name}: without nft and iptables nothing is scoped, every user of {self.node.name} is led to nginx"
        )

    def _prefix(self, cluster: Cluster, network: Network, backend: str | None) -> Prefix:
        here, there = a_host(network.advertised), a_host(network.reachable)
        self._way_to(here, there, network.where)
        ports = ", ".join(map(str, network.ports))
        self.entries.append(
            Entry(
                cluster.name,
                "any",
                f"{network.advertised} port {ports}",
                str(network.reachable),
                backend or "none",
                "a 1:1 prefix: host bits and ports stay; exact pairs go first",
            )
        )
        return Prefix(str(network.advertised), str(network.reachable), network.ports, self._masquerade(here, there))

    def _backend(self, cluster: Cluster) -> str | None:
        """The node's DNAT for this cluster, or None with a problem kept where it needs one and has none."""
        path = f"nat_map.clusters.{cluster.name}.mechanism"
        usable = {"nftables": self.node.nftables, "iptables": self.node.iptables}
        idle = all(broker.unchanged and not self._covered(broker) for broker in cluster.brokers)
        if cluster.mechanism == "hosts" or (idle and not cluster.networks):
            return None
        if cluster.mechanism in usable:
            if not usable[cluster.mechanism].usable:
                mend = f"install {cluster.mechanism} on the node, or use mechanism: auto"
                self._problem(
                    path, f"{cluster.mechanism} cannot be used here: {usable[cluster.mechanism].reason}", mend
                )
            return cluster.mechanism
        if usable["nftables"].usable and self.node.kernel >= _NFT_WITH_IPTABLES:
            return "nftables"
        if usable["iptables"].usable:
            return "iptables"
        names_only = all(broker.advertised.address is None for broker in cluster.brokers) and not cluster.networks
        if not (cluster.mechanism == "nginx_stream" and names_only and cluster.gateway is None):
            nft = usable["nftables"].reason or "NAT beside that of iptables needs Linux 4.18"
            reason = f"this node can rewrite nothing: nft: {nft}; iptables: {usable['iptables'].reason}"
            self._problem(path, reason, "install nftables or iptables on the node")
        return None

    def _selectors(self, cluster: Cluster) -> tuple[Selector, ...]:
        selectors, problems = scoping.selectors(cluster, self.node)
        self.problems.update(dict.fromkeys(problems))
        self.notices.update(scoping.notices(cluster, self.node))
        return selectors

    def _way_to(self, advertised: IPv4Address, target: IPv4Address, where: str) -> None:
        """DNAT is asked only after a route was found for the advertised address."""
        here = self._route(advertised)
        if not here.error:
            return
        there = self._route(target)
        if self.natmap.add_routes and there.device:
            self.routes[str(advertised)] = HostRoute(str(advertised), there.device, there.via)
            self._notice(f"a route to {advertised} by {there.device} is added; routes are not scoped")
        else:
            mend = "give the node a default route, or set nat_map.add_routes: true"
            self._problem(where, f"no route to {advertised} ({here.error}), so DNAT is never asked", mend)

    def _masquerade(self, advertised: IPv4Address, target: IPv4Address) -> bool:
        here, there = self._route(advertised), self._route(target)
        return bool(here.source and there.source and here.source != there.source and not target.is_loopback)

    def _route(self, address: IPv4Address) -> Route:
        return self.node.routes.get(str(address), Route(None))

    def _nginx_usable(self, path: str) -> bool:
        if not self.node.nginx.usable:
            self._problem(
                path, f"nginx cannot be used here: {self.node.nginx.reason}", "install nginx with its stream module"
            )
        return self.node.nginx.usable

    def _line(self, address: IPv4Address, cluster: Cluster, broker: Broker) -> None:
        name = broker.advertised.host
        line = HostLine(str(address), name, _label(cluster, broker))
        self.hosts[name] = min(line, self.hosts.get(name, line), key=lambda one: one.broker)

    def _listen(self, cluster: Cluster, broker: Broker, at: Endpoint) -> None:
        to = broker.reachable
        self.listeners.append(Listener(str(at.address), at.port, str(to.address), to.port, _label(cluster, broker)))

    def _entry(self, cluster: Cluster, broker: Broker, mechanism: str, reason: str) -> None:
        name = "any" if broker.id is None else str(broker.id)
        self.entries.append(Entry(cluster.name, name, str(broker.advertised), str(broker.reachable), mechanism, reason))

    def _problem(self, path: str, reason: str, mend: str) -> None:
        self.problems[Problem(path, reason, mend)] = None

    def _notice(self, text: str) -> None:
        self.notices.add(text)


def _label(cluster: Cluster, broker: Broker) -> str:
    who = str(broker.advertised) if broker.id is None else f"broker {broker.id}"
    return f"{cluster.name} {who if len(who) <= _LONGEST_LABEL else who[:_LONGEST_LABEL] + '...'}"
