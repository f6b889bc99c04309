"""Healthy nodes of every kind, of which the doctor must find nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from faults.doctor_hq import LISTENERS, MECHANISMS
from faults.doctor_node import OWNER, Patient, Report, cluster, nat_map, pairs, second
from faults.node import Map
from lab.topology import Lab

OTHER = "neighbour"
Answer = tuple[Report, float]
Variant = tuple[str, Callable[[], Answer]]


@dataclass
class Ward:
    """The lab's hosts while they are healthy: nm1 holds every listener, the others change."""

    lab: Lab
    whole: Patient
    changing: Patient = field(init=False)
    gateway: Patient = field(init=False)

    def __post_init__(self) -> None:
        self.changing, self.gateway = Patient(self.lab, "nm2"), Patient(self.lab, "gateway")
        self.gateway.groups = ("nat_gateways",)
        for one in (self.changing, self.gateway):
            one.prepare()

    def variants(self) -> Iterator[Variant]:
        """What the variant is, and how it is examined; a variant is set up when it is taken."""
        yield from self._held()
        yield from self._taken()
        yield from self._owners()
        yield from self._gateway()

    def clear(self) -> None:
        """Take everything off again."""
        for one in (self.changing, self.gateway):
            for owner in (OWNER, OTHER):
                one.remove(owner)
        self.changing.shell("update-alternatives --auto iptables")

    def _ask(
        self, node: Patient, made: Map | None, options: Mapping[str, Any] | None = None, **more: Any
    ) -> Callable[[], Answer]:
        return lambda: node.examine(node.question(made, options, **more))

    def _held(self) -> Iterator[Variant]:
        """Of one map that the node holds."""
        lab, node = self.lab, self.whole
        plain = nat_map({"plain": cluster(lab)})
        yield "nftables, three brokers", self._ask(node, plain)
        yield "brokers by name", self._ask(node, nat_map({"named": cluster(lab, "named")}))
        yield "a name whose port changes", self._ask(node, nat_map({"dr": second(lab)}))
        yield "two clusters", self._ask(node, nat_map({"plain": cluster(lab), "dr": second(lab)}))
        given = [f"{lab.nat_ip('hq-2')}:9092"]
        yield "bootstrap addresses in the map", self._ask(node, nat_map({"plain": cluster(lab, bootstrap=given)}))
        options = {"groups": ["nightly", "hourly"], "topics": ["heartbeat"]}
        yield "groups and topics asked for", self._ask(node, plain, options)
        yield "asked as a user by name", self._ask(node, plain, user="yarn")
        yield "TLS by address", self._ask(node, nat_map({"tls": cluster(lab, "tls")}))
        yield "TLS by name", self._ask(node, nat_map({"tlsnamed": cluster(lab, "tlsnamed")}))
        for name in ("login", "secure"):
            for mechanism in MECHANISMS:
                made = nat_map({name: cluster(lab, name, mechanism)})
                yield f"{LISTENERS[name].protocol}, {mechanism}", self._ask(node, made)
        yield "no map, from HQ's own room", self._in_the_room

    def _in_the_room(self) -> Answer:
        room = Patient(self.lab, "router")
        room.prepare()
        return room.by_hand("--bootstrap", f"{self.lab.ip('hq-1')}:9092,{self.lab.ip('hq-2')}:9092")

    def _taken(self) -> Iterator[Variant]:
        """Each by a map of its own, one after the other."""
        lab, node = self.lab, self.changing
        prefix = {
            "networks": [
                {"advertised": f"{lab.prefix('hq')}.16/28", "reachable": f"{lab.prefix('nat')}.16/28", "ports": [9092]}
            ],
            "bootstrap": [f"{lab.nat_ip('hq-1')}:9092"],
        }
        plain = {"plain": cluster(lab)}
        yield from self._take("a prefix", node, nat_map({"plain": prefix}))
        yield from self._take("the scope is a group", node, nat_map(plain, scope={"groups": ["etl"]}))
        yield from self._take("the scope is a range of uids", node, nat_map(plain, scope={"uid_range": [20000, 20999]}))
        yield from self._take("hosts lines alone", node, nat_map({"named": cluster(lab, "named")}, mechanism="hosts"))
        yield from self._take("nginx on the node", node, nat_map(plain, mechanism="nginx_stream"))
        for kind in ("nft", "legacy"):
            node.remove(OWNER)
            node.shell(f"update-alternatives --set iptables /usr/sbin/iptables-{kind}")
            yield from self._take(f"iptables-{kind}", node, nat_map(plain, mechanism="iptables"))
        node.remove(OWNER)

    def _take(self, name: str, node: Patient, made: Map, options: Mapping[str, Any] | None = None) -> Iterator[Variant]:
        node.take(made)
        yield name, self._ask(node, made, options)

    def _owners(self) -> Iterator[Variant]:
        """Two teams, each with a map of its own."""
        node = self.changing
        mine, theirs = (
            nat_map({"plain": cluster(self.lab)}),
            nat_map({"dr": second(self.lab)}, owner=OTHER, scope={"users": ["etl"]}),
        )
        for made in (mine, theirs):
            node.take(made)
        yield "two owners, asked of the first", self._ask(node, mine)
        yield "two owners, asked of the second", self._ask(node, theirs)
        for owner in (OWNER, OTHER):
            node.remove(owner)

    def _gateway(self) -> Iterator[Variant]:
        """Brokers behind the nginx of a gateway."""
        through = {"addresses": [self.lab.ip("gateway")], "first_port": 19100}
        made = nat_map({"plain": {"brokers": pairs(self.lab), "gateway": through}})
        for node in (self.gateway, self.changing):
            node.take(made)
        yield "a node behind a gateway", self._ask(self.changing, made)
        yield "the gateway itself", self._ask(self.gateway, made)
