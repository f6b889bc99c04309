"""The NAT map as data: what is read, what is refused, with its path and its mend."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from time import process_time
from typing import Any

import pytest
import yaml
from ansible_collections.kafka.natmap.plugins.module_utils import map_parser
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import Advertised, Endpoint, MapError, Scope
from unit.maps import ADVERTISED, REACHABLE, broker, cluster_map, network, parsed, problems_of

WHOLE = """
owner: data-platform
scope: {users: [yarn], groups: [hadoop]}
mechanism: auto
stand_ins: 240.1.0.0/16
add_routes: true
clusters:
  hq:
    bootstrap: [203.0.113.21:9092]
    cluster_id: MkU3OEVBNTcwNTJENDM2Qg
    brokers:
      - {id: 1, advertised: 192.0.2.21:9092, reachable: 203.0.113.21:9092}
      - {id: 2, advertised: Kafka-HQ-2.example:9092, reachable: 203.0.113.20:9093, gateway_port: 19093}
    scope: {uid_range: [1000, 60000]}
    gateway: {addresses: [198.51.100.9], first_port: 19000}
    security: {protocol: SASL_SSL, mechanism: SCRAM-SHA-512, username: probe, password: pw, cafile: /etc/ca.pem}
  lake:
    mechanism: iptables
    networks:
      - {advertised: 10.9.0.0/24, reachable: 10.8.0.0/24, ports: [9093, 9092]}
"""


def test_a_whole_map_is_read() -> None:
    natmap = map_parser.parse(yaml.safe_load(WHOLE))
    hq, lake = natmap.clusters
    assert (natmap.owner, natmap.add_routes, natmap.stand_ins) == ("data-platform", True, IPv4Network("240.1.0.0/16"))
    assert hq.brokers[0].advertised == Advertised("192.0.2.21", 9092)
    assert hq.brokers[1].advertised == Advertised("kafka-hq-2.example", 9092), "names are compared in lower case"
    assert hq.brokers[1].reachable == Endpoint(IPv4Address("203.0.113.20"), 9093)
    assert hq.gateway
    assert [hq.gateway.port_of(one) for one in hq.brokers] == [19001, 19093]
    assert (hq.scope, hq.mechanism) == (Scope(uid_ranges=((1000, 60000),)), "auto")
    assert hq.security.secrets == (("password", "pw"),)
    assert "pw" not in repr(hq.security)
    assert (lake.scope, lake.mechanism) == (Scope(("yarn",), ("hadoop",)), "iptables")
    assert lake.networks[0].ports == (9092, 9093)


def test_the_short_map_has_defaults() -> None:
    natmap = parsed(broker())
    assert (natmap.owner, natmap.clusters[0].mechanism, natmap.add_routes) == ("default", "auto", False)
    assert natmap.clusters[0].security.protocol == "PLAINTEXT"


BROKER = "nat_map.clusters.hq.brokers[0]"
REFUSED: list[tuple[Any, str, str, str]] = [
    # kind of the data
    (None, "nat_map", "is empty, not a mapping", "write it with the keys"),
    ([1], "nat_map", "is a list, not a mapping", "write it with the keys"),
    ({}, "nat_map.clusters", "is missing", "add 'clusters'"),
    ({"clusters": {}}, "nat_map.clusters", "names no cluster", "add at least one"),
    ({"clusters": [1]}, "nat_map.clusters", "names no cluster", "add at least one"),
    (cluster_map(), "nat_map.clusters.hq", "has neither brokers nor networks", "add the pairs"),
    (cluster_map(hq={"brokers": "a:1"}), "nat_map.clusters.hq.brokers", "is a text, not a list", "write it as a list"),
    (cluster_map(hq={"brokers": [7]}), BROKER, "is a number, not a mapping", "write it with the keys"),
    (cluster_map({"advertised": "a:1"}), f"{BROKER}.reachable", "is missing", "add 'reachable'"),
    ({"clusters": {"hq": {"brokers": [broker()]}}}, "nat_map.clusters.hq.scope", "is missing", "name the job's users"),
    # unknown keys
    (cluster_map(broker(), mechanisms="auto"), "nat_map.mechanisms", "is an unknown key", "did you mean 'mechanism'"),
    (cluster_map(broker(), zzz=1), "nat_map.zzz", "is an unknown key", "the keys here are"),
    (cluster_map(broker(reachible=1)), f"{BROKER}.reachible", "is an unknown key", "did you mean 'reachable'"),
    ({**cluster_map(broker()), True: 1}, "nat_map.True", "is an unknown key", "the keys here are"),
    ({**cluster_map(broker()), "a\nb": 1}, "nat_map.a\\nb", "is an unknown key", "the keys here are"),
    # names and words
    (cluster_map(broker(), owner="Data Platform"), "nat_map.owner", "is not a short name", "give a short name"),
    (cluster_map(broker(), owner="a" * 33), "nat_map.owner", "is not a short name", "give a short name"),
    (cluster_map(broker(), owner=7), "nat_map.owner", "7 is not a short name", "give a short name"),
    ({"scope": {"users": ["a"]}, "clusters": {1: {"brokers": [broker()]}}}, "nat_map.clusters.1", "1 is not", "give"),
    (
        {"scope": {"users": ["a"]}, "clusters": {"a\nb": {"brokers": [broker()]}}},
        "nat_map.clusters.a\\nb",
        "is not",
        "",
    ),
    (cluster_map(broker(), mechanism="nftable"), "nat_map.mechanism", "is not one of", "did you mean 'nftables'"),
    (cluster_map(broker(), mechanism=True), "nat_map.mechanism", "True is not one of", "give one of auto"),
    (cluster_map(broker(), add_routes="yes"), "nat_map.add_routes", "is neither true nor false", "write true"),
    (cluster_map(broker(), hq={"cluster_id": "a b"}), "nat_map.clusters.hq.cluster_id", "is not a Kafka", "give"),
    # YAML's own readings
    (cluster_map(broker(id=True)), f"{BROKER}.id", "True is not a broker id", "a whole number from 0"),
    (cluster_map(broker(id=-1)), f"{BROKER}.id", "-1 is not a broker id", "a whole number from 0"),
    (cluster_map(broker(id="1")), f"{BROKER}.id", "'1' is not a broker id", "a whole number from 0"),
    (cluster_map(broker(id=1.0)), f"{BROKER}.id", "1.0 is not a broker id", "a whole number from 0"),
    (cluster_map(broker(advertised=9092)), f"{BROKER}.advertised", "is a number, not host:port", "write it as"),
    (cluster_map(broker(advertised={"kafka": 9092})), f"{BROKER}.advertised", "is a mapping, not host:port", "write"),
    (cluster_map(broker(reachable=None)), f"{BROKER}.reachable", "is empty, not host:port", "write it as host:port"),
    (cluster_map(broker(), scope={"users": "yarn"}), "nat_map.scope.users", "is a text, not a list", "write it as"),
    (cluster_map(broker(), scope={"users": [1000]}), "nat_map.scope.users[0]", "1000 is not the name", "give"),
    (cluster_map(broker(), scope=None), "nat_map.scope", "is empty, not a mapping", "write it with the keys"),
    # ports
    (cluster_map(broker("192.0.2.1:0")), f"{BROKER}.advertised", "has no usable port", "from 1 to 65535"),
    (cluster_map(broker("192.0.2.1:65536")), f"{BROKER}.advertised", "has no usable port", "from 1 to 65535"),
    (cluster_map(broker("192.0.2.1:09092")), f"{BROKER}.advertised", "has no usable port", "from 1 to 65535"),
    (cluster_map(broker("192.0.2.1:-1")), f"{BROKER}.advertised", "has no usable port", "from 1 to 65535"),
    (cluster_map(broker("192.0.2.1:٩٠٩٢")), f"{BROKER}.advertised", "has no usable port", "from 1 to 65535"),
    (cluster_map(broker("192.0.2.1")), f"{BROKER}.advertised", "has no usable port", "from 1 to 65535"),
    (cluster_map(broker(":9092")), f"{BROKER}.advertised", "has no usable port", "from 1 to 65535"),
    (cluster_map(networks=[network(ports=[0])]), "nat_map.clusters.hq.networks[0].ports[0]", "not a TCP port", "give"),
    (cluster_map(networks=[network(ports=[])]), "nat_map.clusters.hq.networks[0].ports", "is empty", "name the"),
    # hosts
    (cluster_map(broker("kafka_1:9092")), f"{BROKER}.advertised", "is not a host name of RFC 1123", "use letters"),
    (cluster_map(broker("-kafka:9092")), f"{BROKER}.advertised", "is not a host name of RFC 1123", "use letters"),
    (cluster_map(broker("kafka.:9092")), f"{BROKER}.advertised", "is not a host name of RFC 1123", "use letters"),
    (cluster_map(broker(f"{'a' * 64}:9092")), f"{BROKER}.advertised", "is not a host name of RFC 1123", "use letters"),
    (cluster_map(broker(f"{'a.' * 127}a:1")), f"{BROKER}.advertised", "is not a host name of RFC 1123", "use letters"),
    (cluster_map(broker("\u212aafka:9092")), f"{BROKER}.advertised", "is not a host name of RFC 1123", "use letters"),
    (cluster_map(broker("192.0.2.256:9092")), f"{BROKER}.advertised", "is not an IPv4 address", "four numbers"),
    (cluster_map(broker("192.0.2.01:9092")), f"{BROKER}.advertised", "is not an IPv4 address", "four numbers"),
    (cluster_map(broker("192.0.2:9092")), f"{BROKER}.advertised", "is not an IPv4 address", "four numbers"),
    (cluster_map(broker("0x7F000001:9092")), f"{BROKER}.advertised", "is not an IPv4 address", "four numbers"),
    (cluster_map(broker("LocalHost:9092")), f"{BROKER}.advertised", "is this very host", "give the name"),
    (cluster_map(broker("hq.localhost:9092")), f"{BROKER}.advertised", "is this very host", "give the name"),
    # addresses that no broker has
    (cluster_map(broker("127.0.0.1:9092")), f"{BROKER}.advertised", "is loopback", "give the address"),
    (cluster_map(broker("0.0.0.0:9092")), f"{BROKER}.advertised", "is unspecified", "give the address"),
    (cluster_map(broker("224.0.0.1:9092")), f"{BROKER}.advertised", "is multicast", "give the address"),
    (cluster_map(broker("169.254.1.1:9092")), f"{BROKER}.advertised", "is link-local", "give the address"),
    (cluster_map(broker("255.255.255.255:9092")), f"{BROKER}.advertised", "is broadcast", "give the address"),
    (cluster_map(broker(reachable="127.0.0.1:9092")), f"{BROKER}.reachable", "is loopback", "the unicast address"),
    (cluster_map(broker(reachable="239.1.1.1:9092")), f"{BROKER}.reachable", "is multicast", "the unicast address"),
    (cluster_map(broker(reachable="kafka:9092")), f"{BROKER}.reachable", "is not an IPv4 address", "give an IPv4"),
    (cluster_map(networks=[network("127.0.0.0/24")]), "nat_map.clusters.hq.networks[0].advertised", "loopback", ""),
    (cluster_map(networks=[network("0.0.0.0/0")]), "nat_map.clusters.hq.networks[0].advertised", "no host has", ""),
    # IPv6, by name
    (cluster_map(broker("[2001:db8::1]:9092")), f"{BROKER}.advertised", "looks like IPv6, which is not supported", ""),
    (cluster_map(broker("2001:db8::1")), f"{BROKER}.advertised", "looks like IPv6, which is not supported", ""),
    (cluster_map(broker(reachable="[::1]:9092")), f"{BROKER}.reachable", "looks like IPv6", "give one IPv4 address"),
    (cluster_map(broker("a:b:c")), f"{BROKER}.advertised", "is not host:port", "give one IPv4 address or name"),
    (
        cluster_map(networks=[network("2001:db8::/64")]),
        "nat_map.clusters.hq.networks[0].advertised",
        "is not an IPv4 prefix",
        "IPv6 is not supported yet",
    ),
    (
        cluster_map(broker(), hq={"gateway": {"addresses": ["2001:db8::9"], "first_port": 1}}),
        "nat_map.clusters.hq.gateway.addresses[0]",
        "is not an IPv4 address",
        "IPv6 is not supported yet",
    ),
    # prefixes
    (cluster_map(networks=[network("192.0.2.1/24")]), "nat_map.clusters.hq.networks[0].advertised", "host bits", "cl"),
    (cluster_map(networks=[network("192.0.2.1")]), "nat_map.clusters.hq.networks[0].advertised", "not a prefix", ""),
    (cluster_map(networks=[{"ports": [1]}]), "nat_map.clusters.hq.networks[0].advertised", "is missing", "add"),
    # scopes
    (cluster_map(broker(), scope={"users": []}), "nat_map.scope", "is for nobody", "name users"),
    (cluster_map(broker(), scope={"users": ["root"]}), "nat_map.scope.users", "includes root", "allow_root: true"),
    (cluster_map(broker(), scope={"groups": ["root"]}), "nat_map.scope.groups", "includes root", "allow_root: true"),
    (cluster_map(broker(), scope={"uid_range": [0, 9]}), "nat_map.scope.uid_range", "includes root", "begin above 0"),
    (cluster_map(broker(), scope={"uid_range": [9, 1]}), "nat_map.scope.uid_range", "is not a range", "[lowest"),
    (cluster_map(broker(), scope={"uid_range": [1]}), "nat_map.scope.uid_range", "is not a range", "[lowest"),
    (cluster_map(broker(), scope={"uid_range": [1, 2**32]}), "nat_map.scope.uid_range[1]", "is not a uid", "give"),
    (cluster_map(broker(), take_over=["default"]), "nat_map.take_over", "the map's own owner", "name the owners"),
    (cluster_map(broker(), take_over=["Not A Name"]), "nat_map.take_over[0]", "the name of an owner", "give"),
    (cluster_map(broker(), take_over="lab"), "nat_map.take_over", "not a list", "as a list"),
    (cluster_map(broker(), scope={"discover": "yran"}), "nat_map.scope.discover", "", "did you mean 'yarn'"),
    (cluster_map(broker(), scope={"user": ["a"]}), "nat_map.scope.user", "is an unknown key", "did you mean 'users'"),
    # gateways and security
    (cluster_map(broker(), hq={"gateway": {}}), "nat_map.clusters.hq.gateway.addresses", "is missing", "add"),
    (cluster_map(broker(), hq={"gateway": {"addresses": []}}), "nat_map.clusters.hq.gateway.addresses", "empty", ""),
    (
        cluster_map(broker(), hq={"security": {"protocol": "SASL_SSL"}}),
        "nat_map.clusters.hq.security.mechanism",
        "is missing with SASL_SSL",
        "give one of PLAIN",
    ),
    (
        cluster_map(broker(), hq={"security": {"password": "a\nb"}}),
        "nat_map.clusters.hq.security.password",
        "is not a text of one line",
        "by Ansible Vault",
    ),
    (
        cluster_map(broker(), hq={"security": {"protocol": "TLS"}}),
        "nat_map.clusters.hq.security.protocol",
        "is not one of",
        "give one of PLAINTEXT",
    ),
]


@pytest.mark.parametrize(("data", "path", "reason", "mend"), REFUSED)
def test_is_refused(data: Any, path: str, reason: str, mend: str) -> None:
    found = problems_of(data)
    assert [p for p in found if p.path == path and reason in p.reason and mend in p.mend], list(map(str, found))


INJECTIONS = [
    "a\n1.2.3.4 kafka",
    "a; flush ruleset",
    "a { accept",
    'a" ; drop',
    "a'b",
    "a`id`",
    "$(id)",
    "a#b",
    "a\\b",
    "a b",
    "a\tb",
    "a\x00b",
    "a\u2028b",
    "{{ lookup('pipe', 'id') }}",
    "",
]


@pytest.mark.parametrize("text", INJECTIONS)
@pytest.mark.parametrize(
    "place",
    [
        lambda text: cluster_map(broker(f"{text}:9092")),
        lambda text: cluster_map(broker(f"192.0.2.21:{text}")),
        lambda text: cluster_map(broker(reachable=f"203.0.113.1{text}:9092" if text else ":9092")),
        lambda text: cluster_map(broker(), owner=text),
        lambda text: cluster_map(broker(), mechanism=text),
        lambda text: cluster_map(broker(), scope={"users": [text]}),
        lambda text: cluster_map(broker(), scope={"groups": [text]}),
        lambda text: {"scope": {"users": ["yarn"]}, "clusters": {text: {"brokers": [broker()]}}},
        lambda text: cluster_map(broker(), hq={"bootstrap": [f"{text}:9092"]}),
        lambda text: cluster_map(broker(), hq={"cluster_id": text}),
        lambda text: cluster_map(networks=[network(f"192.0.2.0/24{text or '/'}")]),
        lambda text: cluster_map(broker(), stand_ins=f"240.0.0.0/12{text or '/'}"),
        lambda text: cluster_map(broker(), hq={"gateway": {"addresses": [text], "first_port": 1}}),
    ],
)
def test_nothing_leaves_its_place(place: Any, text: str) -> None:
    found = problems_of(place(text))
    assert found
    assert all(str(problem).isprintable() for problem in found), "a message stays on its line"


def test_every_error_is_named_at_once() -> None:
    data = {
        "owner": "NO",
        "scope": {"users": ["root"]},
        "mechanism": "magic",
        "clusters": {
            "hq": {"brokers": [broker("127.0.0.1:1"), broker("a:b"), broker(), broker(id=True)], "extra": 1},
            "dr": {"networks": [network("192.0.2.0/24", "203.0.113.0/25")]},
        },
    }
    paths = {problem.path for problem in problems_of(data)}
    assert paths >= {
        "nat_map.owner",
        "nat_map.scope.users",
        "nat_map.mechanism",
        "nat_map.clusters.hq.extra",
        "nat_map.clusters.hq.brokers[0].advertised",
        "nat_map.clusters.hq.brokers[1].advertised",
        "nat_map.clusters.hq.brokers[3].id",
        "nat_map.clusters.dr.networks[0]",
    }


def test_the_error_reads_as_a_list() -> None:
    with pytest.raises(MapError) as caught:
        map_parser.parse(cluster_map(broker("a:0"), owner="NO"))
    assert str(caught.value).splitlines() == [
        "nat_map.owner: 'NO' is not a short name of a-z, 0-9 and -. Mend: give a short name of a-z, 0-9 and -.",
        f"{BROKER}.advertised: 'a:0' has no usable port. Mend: write it as host:port, with a port from 1 to 65535.",
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda i: broker(
            f"k-{i}.hq:9092" if i % 2 else f"10.0.{i >> 8}.{i & 255}:9092", f"20.0.{i >> 8}.{i & 255}:9092"
        ),
        lambda i: {"adversited": i, "reach able": "x"},
        lambda i: broker(id=1),
    ],
    ids=["good", "bad in every line", "all the same"],
)
def test_ten_thousand_entries_take_under_three_seconds(make: Any) -> None:
    data = cluster_map(*map(make, range(10_000)))
    begun = process_time()
    problems_of(data)
    assert process_time() - begun < 3


def test_a_no_op_is_kept() -> None:
    natmap = parsed(broker(ADVERTISED, ADVERTISED), broker("192.0.2.22:9092", REACHABLE))
    assert [one.unchanged for _, one in natmap.brokers()] == [True, False]
