"""The rules that a map must keep as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from unit.maps import ADVERTISED, REACHABLE, broker, cluster_map, network, problems_of

HQ = "nat_map.clusters.hq"
SCOPE = {"users": ["yarn"]}
GATEWAY = {"addresses": ["198.51.100.9"], "first_port": 19000}


def clusters(**bodies: dict[str, Any]) -> dict[str, Any]:
    return {"scope": SCOPE, "clusters": bodies}


REFUSED: list[tuple[str, Any, str, str, str]] = [
    (
        "an advertised pair twice",
        cluster_map(broker(), broker(reachable="203.0.113.22:9092")),
        f"{HQ}.brokers[1].advertised",
        f"is advertised twice, first in {HQ}.brokers[0].advertised",
        "keep one",
    ),
    (
        "an advertised pair twice, in two clusters",
        clusters(hq={"brokers": [broker()]}, dr={"brokers": [broker(reachable="203.0.113.22:9092")]}),
        "nat_map.clusters.dr.brokers[0].advertised",
        "is advertised twice",
        "keep one",
    ),
    (
        "names differ in case alone",
        cluster_map(broker("Kafka:9092"), broker("kAFKA:9092", "203.0.113.22:9092")),
        f"{HQ}.brokers[1].advertised",
        "is advertised twice",
        "keep one",
    ),
    (
        "a reachable twice",
        cluster_map(broker(), broker("192.0.2.22:9092")),
        f"{HQ}.brokers[1].reachable",
        "is the way to two brokers",
        "an address or port of its own",
    ),
    (
        "an id twice",
        cluster_map(broker(id=1), broker("192.0.2.22:9092", "203.0.113.22:9092", id=1)),
        f"{HQ}.brokers[1].id",
        "broker 1 stands twice",
        "its own id",
    ),
    (
        "prefixes of two lengths",
        cluster_map(networks=[network("192.0.2.0/24", "203.0.113.0/25")]),
        f"{HQ}.networks[0]",
        "are not of one length",
        "the same length",
    ),
    (
        "overlapping prefixes of unequal length",
        cluster_map(networks=[network("10.0.0.0/16", "20.0.0.0/16"), network("10.0.1.0/24", "30.0.0.0/24", [1])]),
        f"{HQ}.networks[1].advertised",
        "would be rewritten in two ways",
        "disjoint",
    ),
    (
        "the wider prefix after the narrower",
        cluster_map(networks=[network("10.0.1.0/24", "30.0.0.0/24"), network("10.0.0.0/16", "20.0.0.0/16")]),
        f"{HQ}.networks[1].advertised",
        "would be rewritten in two ways",
        "disjoint",
    ),
    (
        "the same prefix and port twice",
        cluster_map(networks=[network("10.0.0.0/24", "20.0.0.0/24"), network("10.0.0.0/24", "30.0.0.0/24")]),
        f"{HQ}.networks[1].advertised",
        "would be rewritten in two ways",
        "disjoint",
    ),
    (
        "two prefixes to one",
        cluster_map(networks=[network("10.0.0.0/24", "30.0.0.0/24"), network("20.0.0.0/24", "30.0.0.0/24")]),
        f"{HQ}.networks[1].reachable",
        "would be the way to two brokers",
        "disjoint",
    ),
    (
        "a loop of two",
        cluster_map(broker(ADVERTISED, REACHABLE), broker(REACHABLE, "203.0.113.99:9092")),
        f"{HQ}.brokers[0].reachable",
        f"is itself advertised by {HQ}.brokers[1]: a loop",
        "the address the site dials",
    ),
    (
        "a loop across clusters",
        clusters(
            hq={"brokers": [broker(ADVERTISED, REACHABLE)]}, dr={"brokers": [broker(REACHABLE, "203.0.113.99:9092")]}
        ),
        f"{HQ}.brokers[0].reachable",
        "a loop",
        "the address the site dials",
    ),
    (
        "a swap",
        cluster_map(broker(ADVERTISED, REACHABLE), broker(REACHABLE, ADVERTISED)),
        f"{HQ}.brokers[1].reachable",
        "a loop",
        "the address the site dials",
    ),
    (
        "a prefix that takes a reachable",
        cluster_map(broker(), networks=[network("203.0.113.0/24", "10.0.0.0/24")]),
        f"{HQ}.brokers[0].reachable",
        "lies within the advertised 203.0.113.0/24: it would be rewritten itself",
        "narrow the prefix",
    ),
    (
        "an advertised that is a prefix's way",
        cluster_map(broker(), networks=[network("10.0.0.0/24", "192.0.2.0/24")]),
        f"{HQ}.brokers[0].advertised",
        "lies within the reachable side",
        "narrow the prefix",
    ),
    (
        "a prefix that takes another's way",
        cluster_map(networks=[network("10.0.0.0/24", "20.0.0.0/24"), network("20.0.0.0/24", "30.0.0.0/24")]),
        f"{HQ}.networks[0].reachable",
        "lies within what nat_map.clusters.hq.networks[1] rewrites",
        "narrow the prefixes",
    ),
    (
        "a prefix that takes its own way",
        cluster_map(networks=[network("20.0.0.0/24", "20.0.0.0/25")]),
        f"{HQ}.networks[0].reachable",
        "lies within what nat_map.clusters.hq.networks[0] rewrites",
        "narrow the prefixes",
    ),
    (
        "stand-ins too few",
        cluster_map(broker("kafka-1:9092"), stand_ins="198.51.100.0/31"),
        "nat_map.stand_ins",
        "is too small for 1 names",
        "twice as large",
    ),
    (
        "stand-ins that are used",
        cluster_map(broker("kafka-1:9092", "198.51.100.7:9092"), stand_ins="198.51.100.0/24"),
        f"{HQ}.brokers[0].reachable",
        "198.51.100.7 lies within stand_ins",
        "a prefix that no host uses",
    ),
    (
        "stand-ins within a prefix",
        cluster_map(networks=[network()], stand_ins="192.0.2.0/25"),
        f"{HQ}.networks[0]",
        "overlaps stand_ins",
        "a prefix that no host uses",
    ),
    (
        "a prefix through a gateway",
        cluster_map(networks=[network()], hq={"gateway": GATEWAY}),
        f"{HQ}.networks",
        "cannot go through a gateway",
        "list the brokers",
    ),
    (
        "hosts to a gateway",
        cluster_map(broker("kafka:9092", id=1), hq={"gateway": GATEWAY, "mechanism": "hosts"}),
        f"{HQ}.mechanism",
        "hosts cannot lead to a gateway's ports",
        "use auto",
    ),
    (
        "a gateway port without a gateway",
        cluster_map(broker(gateway_port=1)),
        f"{HQ}.brokers[0].gateway_port",
        "stands in a cluster without a gateway",
        f"add {HQ}.gateway",
    ),
    (
        "no gateway port",
        cluster_map(broker(), hq={"gateway": GATEWAY}),
        f"{HQ}.brokers[0]",
        "has no port on the gateway",
        "give it gateway_port",
    ),
    (
        "a gateway port too high",
        cluster_map(broker(id=60000), hq={"gateway": GATEWAY}),
        f"{HQ}.brokers[0]",
        "first_port + id is 79000",
        "give it gateway_port",
    ),
    (
        "a gateway port twice",
        cluster_map(
            broker(id=1), broker("192.0.2.22:9092", "203.0.113.22:9092", gateway_port=19001), hq={"gateway": GATEWAY}
        ),
        f"{HQ}.brokers[1]",
        f"198.51.100.9:19001 of the gateway is taken by {HQ}.brokers[0]",
        "another gateway_port",
    ),
    (
        "a gateway port that is advertised",
        cluster_map(broker("198.51.100.9:9092", gateway_port=9092), hq={"gateway": GATEWAY}),
        f"{HQ}.brokers[0]",
        "of the gateway is itself advertised",
        "another port",
    ),
    (
        "a prefix by hosts",
        cluster_map(networks=[network()], mechanism="hosts"),
        f"{HQ}.networks",
        "hosts cannot carry a prefix",
        "use auto",
    ),
    (
        "a prefix by nginx",
        cluster_map(networks=[network()], mechanism="nginx_stream"),
        f"{HQ}.networks",
        "nginx_stream cannot carry a prefix",
        "use auto",
    ),
    (
        "an address by hosts",
        cluster_map(broker(), mechanism="hosts"),
        f"{HQ}.brokers[0]",
        "hosts cannot carry an address",
        "use auto",
    ),
    (
        "another port by hosts",
        cluster_map(broker("kafka:9093"), mechanism="hosts"),
        f"{HQ}.brokers[0]",
        "hosts cannot change the port",
        "nginx_stream",
    ),
    (
        "two ways for a name by hosts",
        cluster_map(broker("kafka:9092"), broker("kafka:9093", "203.0.113.22:9093"), mechanism="hosts"),
        f"{HQ}.brokers[1]",
        "hosts cannot lead kafka to two addresses",
        "use auto",
    ),
    (
        "hosts beside another mechanism for one name",
        clusters(
            hq={"brokers": [broker("kafka:9092")], "mechanism": "hosts"},
            dr={"brokers": [broker("kafka:9093", "203.0.113.22:9093")]},
        ),
        "nat_map.clusters.dr.brokers[0]",
        "mechanism hosts of another cluster leads kafka to 203.0.113.21",
        "use auto for both",
    ),
]


@pytest.mark.parametrize(
    ("data", "path", "reason", "mend"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_is_refused(data: Any, path: str, reason: str, mend: str) -> None:
    found = problems_of(data)
    assert [p for p in found if p.path == path and reason in p.reason and mend in p.mend], list(map(str, found))


TAKEN: list[tuple[str, Any]] = [
    ("one name, two ports", cluster_map(broker("kafka:9092"), broker("kafka:9093", "203.0.113.21:9093"))),
    ("one public address, two ports", cluster_map(broker(), broker("192.0.2.22:9092", "203.0.113.21:9093"))),
    ("an exact pair within a prefix", cluster_map(broker(reachable="198.51.100.1:9092"), networks=[network()])),
    ("the same id in two clusters", clusters(
        hq={"brokers": [broker(id=1)]}, dr={"brokers": [broker("192.0.2.22:9092", "203.0.113.22:9092", id=1)]}
    )),
    ("one prefix, two ways by port", cluster_map(
        networks=[network("10.0.0.0/24", "20.0.0.0/24", [1]), network("10.0.0.0/24", "30.0.0.0/24", [2])]
    )),
    ("a way within a prefix, on another port", cluster_map(
        broker(), networks=[network("203.0.113.0/24", "10.0.0.0/24", [1])]
    )),
    ("a prefix that is itself", cluster_map(networks=[network("10.0.0.0/24", "10.0.0.0/24")])),
    ("root, asked for", cluster_map(broker(), scope={"users": ["root"], "allow_root": True})),
]  # fmt: skip


@pytest.mark.parametrize("data", [row[1] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_is_taken(data: Any) -> None:
    assert list(map(str, problems_of(data))) == []
