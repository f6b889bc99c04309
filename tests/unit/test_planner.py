"""From a map and a node's facts to a plan: the smallest mechanism that is enough, and the refusals."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.module_utils.map_parser import parse
from ansible_collections.kafka.natmap.plugins.module_utils.plan import HostRoute, Pair, Selector, chain_name
from unit.maps import ADVERTISED, REACHABLE, broker, cluster_map, network, parsed
from unit.nodes import OLD_NGINX, held, no, node, planned, refusals

NFT_ONLY: dict[str, Any] = {"iptables": no("iptables-restore is not installed")}
IPT_ONLY: dict[str, Any] = {"nftables": no("nft is not installed")}
NEITHER = NFT_ONLY | IPT_ONLY
HQ = "nat_map.clusters.hq"
NAME = broker("kafka-1:9092", id=1)
GATEWAY = {"addresses": ["198.51.100.9"], "first_port": 19000}

# (what, map, facts of the node) -> (mechanism, a part of its reason)
CHOSEN: list[tuple[str, Any, Any, str, str]] = [
    ("an address", parsed(broker()), {}, "nftables", "an address can only be rewritten by DNAT"),
    ("no nft", parsed(broker()), IPT_ONLY, "iptables", "DNAT"),
    ("no iptables", parsed(broker()), NFT_ONLY, "nftables", "DNAT"),
    ("an old kernel", parsed(broker()), {"kernel": [4, 17]}, "iptables", "DNAT"),
    ("the first kernel with both", parsed(broker()), {"kernel": [4, 18]}, "nftables", "DNAT"),
    ("asked for", parsed(broker(), mechanism="iptables"), {}, "iptables", "DNAT"),
    ("an unknown name", parsed(NAME), {}, "hosts+nftables", "nothing here knows the name"),
    ("an unknown name, no nft", parsed(NAME), IPT_ONLY, "hosts+iptables", "nothing here knows the name"),
    ("a known name", parsed(NAME), {"resolves": {"kafka-1": ["10.9.9.9"]}}, "nftables", "known here as 10.9.9.9"),
    ("a name by hosts", parsed(NAME, mechanism="hosts"), {}, "hosts", "hosts has no scope"),
    ("no op", parsed(broker(ADVERTISED, ADVERTISED)), {}, "none", "reachable where it is advertised"),
    (
        "no op within a prefix",
        parsed(broker(ADVERTISED, ADVERTISED, id=1), networks=[network()]),
        {},
        "nftables",
        "kept out of the prefix",
    ),
    ("nginx here", parsed(broker(), mechanism="nginx_stream"), {}, "nftables+nginx_stream", "nginx on this node"),
    ("nginx here, iptables", parsed(broker(), mechanism="nginx_stream"), IPT_ONLY, "iptables+nginx_stream", "nginx"),
    ("nginx here, a name", parsed(NAME, mechanism="nginx_stream"), {}, "hosts+nftables+nginx_stream", "a stand-in"),
    ("nginx, no DNAT", parsed(NAME, mechanism="nginx_stream"), NEITHER, "hosts+nginx_stream", "no DNAT on this node"),
    (
        "a gateway",
        parsed(broker(id=1), hq={"gateway": GATEWAY}),
        {"nginx": no("nginx is not installed")},
        "nftables+nginx_stream",
        "through the gateway 198.51.100.9:19001",
    ),
    ("a prefix", parsed(networks=[network()]), {}, "nftables", "host bits and ports stay"),
    ("a prefix by iptables", parsed(networks=[network()]), IPT_ONLY, "iptables", "host bits and ports stay"),
]


@pytest.mark.parametrize(
    ("natmap", "facts", "mechanism", "reason"), [row[1:] for row in CHOSEN], ids=[row[0] for row in CHOSEN]
)
def test_mechanism(natmap: Any, facts: Any, mechanism: str, reason: str) -> None:
    entry = planned(natmap, node(**facts)).entries[0]
    assert entry.mechanism == mechanism
    assert reason in entry.reason


NO_ROUTE = {"routes": {"192.0.2.21": {"source": None, "error": "Network is unreachable"}}}
REFUSED: list[tuple[str, Any, Any, str, str, str]] = [
    (
        "nginx, no DNAT, a known name",
        parsed(NAME, mechanism="nginx_stream"),
        NEITHER | {"resolves": {"kafka-1": ["10.9.9.9"]}},
        f"{HQ}.brokers[0]",
        "is known here already, and this node can rewrite nothing",
        "install nftables",
    ),
    ("no DNAT at all", parsed(broker()), NEITHER, f"{HQ}.mechanism", "nft is not installed; iptables:", "install"),
    (
        "an old kernel without iptables",
        parsed(broker()),
        NFT_ONLY | {"kernel": [4, 17]},
        f"{HQ}.mechanism",
        "needs Linux 4.18",
        "install",
    ),
    (
        "nft asked for",
        parsed(broker(), mechanism="nftables"),
        IPT_ONLY,
        f"{HQ}.mechanism",
        "nftables cannot be used here: nft is not installed",
        "mechanism: auto",
    ),
    (
        "iptables asked for",
        parsed(broker(), mechanism="iptables"),
        NFT_ONLY,
        f"{HQ}.mechanism",
        "iptables cannot be used here",
        "mechanism: auto",
    ),
    (
        "no nginx",
        parsed(broker(), mechanism="nginx_stream"),
        {"nginx": no("its stream module is not installed")},
        f"{HQ}.mechanism",
        "its stream module is not installed",
        "install nginx",
    ),
    ("no route", parsed(broker()), NO_ROUTE, f"{HQ}.brokers[0]", "so DNAT is never asked", "add_routes: true"),
    (
        "no such user",
        parsed(broker(), scope={"users": ["spark"]}),
        {},
        f"{HQ}.scope",
        "user spark does not exist here",
        "create the user",
    ),
    (
        "no such group",
        parsed(broker(), scope={"groups": ["spark"]}),
        {},
        f"{HQ}.scope",
        "group spark does not exist here",
        "create the group",
    ),
    (
        "another name of root",
        parsed(broker(), scope={"users": ["toor"]}),
        {"users": {"toor": {"uid": 0, "gid": 0}}},
        f"{HQ}.scope",
        "user toor is root here",
        "allow_root: true",
    ),
    (
        "hosts where the name is known",
        parsed(NAME, mechanism="hosts"),
        {"resolves": {"kafka-1": ["10.9.9.9"]}},
        f"{HQ}.brokers[0]",
        "kafka-1 is known here as 10.9.9.9 already",
        "use auto",
    ),
    (
        "a name that means loopback here",
        parsed(NAME),
        {"resolves": {"kafka-1": ["127.0.1.1"]}},
        f"{HQ}.brokers[0]",
        "known here as 127.0.1.1, which is loopback",
        "/etc/hosts",
    ),
    (
        "a name that means another broker's way here",
        parsed(broker("kafka-1:9092", "203.0.113.20:19092"), broker(reachable="203.0.113.20:9092")),
        {"resolves": {"kafka-1": ["203.0.113.20"]}},
        f"{HQ}.brokers[0]",
        "203.0.113.20:9092 is the way to another broker",
        "correct the name",
    ),
    (
        "a name that means another's address here",
        parsed(broker(id=1), broker("kafka-2:9092", "203.0.113.22:9092", id=2)),
        {"resolves": {"kafka-2": ["192.0.2.21"]}},
        HQ,
        "192.0.2.21:9092 stands for hq broker 1 and for hq broker 2",
        "correct what the names mean",
    ),
    (
        "another owner's pair",
        parsed(broker()),
        {"others": {"lab": held(["192.0.2.21", 9092, "1.1.1.1", 1])}},
        HQ,
        "is rewritten here by owner lab",
        "let one of the two own it",
    ),
    (
        "another owner's pair within a prefix",
        parsed(networks=[network()]),
        {"others": {"lab": held(["192.0.2.21", 9092, "1.1.1.1", 1])}},
        HQ,
        "is rewritten here by owner lab",
        "let one of the two own it",
    ),
]


@pytest.mark.parametrize(
    ("natmap", "facts", "path", "reason", "mend"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_is_refused(natmap: Any, facts: Any, path: str, reason: str, mend: str) -> None:
    found = refusals(natmap, node(**facts))
    assert [p for p in found if p.path == path and reason in p.reason and mend in p.mend], list(map(str, found))


def test_every_reason_is_named_at_once() -> None:
    natmap = parsed(broker(), networks=[network("10.0.0.0/24", "20.0.0.0/24")], scope={"users": ["a"], "groups": ["b"]})
    routes = {address: {"source": None, "error": "unreachable"} for address in ("192.0.2.21", "10.0.0.1")}
    assert len(refusals(natmap, node(routes=routes))) == 4


def test_a_route_is_added_where_asked_for() -> None:
    routes = NO_ROUTE["routes"] | {"203.0.113.21": {"source": "10.1.1.5", "device": "eth0", "via": "10.1.1.1"}}
    plan = planned(parsed(broker(), add_routes=True), node(routes=routes))
    assert plan.routes == (HostRoute("192.0.2.21", "eth0", "10.1.1.1"),)
    assert any("routes are not scoped" in notice for notice in plan.notices)


def test_a_route_for_a_listener_is_that_of_the_reachable() -> None:
    routes = NO_ROUTE["routes"] | {"203.0.113.21": {"source": "10.1.1.5", "device": "eth0"}}
    plan = planned(parsed(broker(), add_routes=True, mechanism="nginx_stream"), node(routes=routes))
    assert plan.routes == (HostRoute("192.0.2.21", "eth0", None),)


@pytest.mark.parametrize(("there", "expected"), [("10.1.1.5", False), ("10.2.2.5", True), (None, False)])
def test_flows_are_masqueraded_where_another_source_is_right(there: str | None, expected: bool) -> None:
    facts = node(routes={"192.0.2.21": {"source": "10.1.1.5"}, "203.0.113.21": {"source": there}})
    (rules,) = planned(parsed(broker(), networks=[network("10.0.0.0/24", "20.0.0.0/24")]), facts).rules
    assert [pair.masquerade for pair in rules.pairs] == [expected]
    assert [prefix.masquerade for prefix in rules.prefixes] == [False]


def test_scopes_become_numbers() -> None:
    natmap = parsed(broker(), scope={"users": ["yarn", "etl", "yarn"], "groups": ["hadoop"], "uid_range": [2000, 2999]})
    (rules,) = planned(natmap).rules
    assert rules.selectors == (
        Selector("gid", 989, 989, "group hadoop"),
        Selector("uid", 991, 991, "user yarn"),
        Selector("uid", 1500, 1500, "user etl"),
        Selector("uid", 2000, 2999, "uids 2000 to 2999"),
    )


def test_a_cluster_s_own_scope_wins() -> None:
    data = cluster_map(broker(), hq={"scope": {"users": ["etl"]}})
    data["clusters"]["dr"] = {"brokers": [broker("192.0.2.9:9092", "203.0.113.9:9092")]}
    dr, hq = planned(parse(data)).rules
    assert [(rules.name, rules.selectors[0].low) for rules in (dr, hq)] == [("dr", 991), ("hq", 1500)]


def test_each_address_of_a_known_name_is_rewritten() -> None:
    plan = planned(parsed(NAME), node(resolves={"kafka-1": ["10.9.9.9", "10.8.8.8", "10.9.9.9", "203.0.113.21"]}))
    assert plan.rules[0].pairs == (
        Pair("10.8.8.8", 9092, "203.0.113.21", 9092, "hq broker 1"),
        Pair("10.9.9.9", 9092, "203.0.113.21", 9092, "hq broker 1"),
    )
    assert plan.hosts == ()


def test_a_name_keeps_its_stand_in_when_the_map_grows() -> None:
    small = planned(parsed(NAME)).hosts[0]
    grown = planned(parsed(NAME, *[broker(f"k-{i}:9092", f"20.0.0.{i}:9092") for i in range(1, 200)])).hosts
    assert small in grown
    assert len({line.address for line in grown}) == 200


def test_one_name_with_two_ports_has_one_line() -> None:
    plan = planned(parsed(NAME, broker("kafka-1:9093", "203.0.113.22:9093")))
    assert len(plan.hosts) == 1
    assert {(pair.address, pair.port) for pair in plan.rules[0].pairs} == {
        (plan.hosts[0].address, 9092),
        (plan.hosts[0].address, 9093),
    }


@pytest.mark.parametrize("flip", [1, -1])
def test_a_line_names_the_same_broker_whatever_the_order(flip: int) -> None:
    pairs = [NAME, broker("kafka-1:9093", "203.0.113.22:9093", id=2)][::flip]
    assert planned(parsed(*pairs)).hosts[0].broker == "hq broker 1"


def test_listeners_stand_alone() -> None:
    brokers = [broker(f"192.0.2.{i}:9092", f"203.0.113.{i}:9092") for i in range(1, 50)]
    plan = planned(parsed(*brokers, mechanism="nginx_stream"))
    assert len({(one.address, one.port) for one in plan.listeners}) == len(brokers)
    assert {one.to_address for one in plan.listeners} == {f"203.0.113.{i}" for i in range(1, 50)}
    assert {(pair.to_address, pair.to_port) for pair in plan.rules[0].pairs} == {
        (one.address, one.port) for one in plan.listeners
    }


def test_a_gateway_serves_and_nodes_dial_it() -> None:
    natmap = parsed(broker(id=1), NAME | {"reachable": "203.0.113.22:9092", "id": 2}, hq={"gateway": GATEWAY})
    served = planned(natmap, node("gw", is_node=False, is_gateway=True, addresses=["127.0.0.1", "198.51.100.9"]))
    assert [(o.address, o.port, o.to_address) for o in served.listeners] == [
        ("198.51.100.9", 19001, "203.0.113.21"),
        ("198.51.100.9", 19002, "203.0.113.22"),
    ]
    assert (served.rules, served.hosts) == ((), ())
    dialled = planned(natmap, node(nginx=no("nginx is not installed")))
    assert {(p.to_address, p.to_port) for p in dialled.rules[0].pairs} == {
        ("198.51.100.9", 19001),
        ("198.51.100.9", 19002),
    }
    assert dialled.listeners == ()


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"addresses": ["10.0.0.1"]}, "this gateway has none of 198.51.100.9"),
        ({"addresses": ["198.51.100.9"], "nginx": no("nginx is not installed")}, "nginx is not installed"),
    ],
)
def test_a_gateway_that_cannot_serve_is_refused(facts: Any, reason: str) -> None:
    natmap = parsed(broker(id=1), hq={"gateway": GATEWAY})
    found = refusals(natmap, node("gw", is_node=False, is_gateway=True, **facts))
    assert [problem for problem in found if reason in problem.reason]


def test_nodes_are_spread_over_the_gateways() -> None:
    gateway = {"addresses": ["198.51.100.8", "198.51.100.9"], "first_port": 19000}
    natmap = parsed(broker(id=1), hq={"gateway": gateway})
    dialled = [planned(natmap, node(f"nm{i}")).rules[0].pairs[0].to_address for i in range(20)]
    assert set(dialled) == set(gateway["addresses"])
    assert dialled[3] == planned(natmap, node("nm3")).rules[0].pairs[0].to_address


def test_a_host_of_no_group_holds_nothing() -> None:
    assert planned(parsed(broker()), node(is_node=False)).empty


def test_the_order_of_the_map_does_not_matter() -> None:
    one, two = broker(id=1), broker("kafka-2:9092", "203.0.113.22:9092", id=2)
    nets = [network("10.0.0.0/24", "20.0.0.0/24"), network("10.0.1.0/24", "20.0.1.0/24")]
    there = cluster_map(one, two, networks=nets, scope={"users": ["yarn", "etl"]})
    back = cluster_map(two, one, networks=nets[::-1], scope={"users": ["etl", "yarn"]})
    dr = {"brokers": [broker("192.0.2.9:9092", "203.0.113.9:9092")]}
    there["clusters"] = {"dr": dr, **there["clusters"]}
    back["clusters"] = {**back["clusters"], "dr": dr}
    assert planned(parse(there)) == planned(parse(back))


def test_ten_thousand_pairs_are_planned_or_refused_in_time() -> None:
    natmap = parsed(*[broker(f"10.0.{i >> 8}.{i & 255}:9092", f"20.0.{i >> 8}.{i & 255}:9092") for i in range(10_000)])
    begun = process_time()
    assert len(planned(natmap).rules[0].pairs) == 10_000
    routes = {f"10.0.{i >> 8}.{i & 255}": {"source": None, "error": "unreachable"} for i in range(10_000)}
    assert len(refusals(natmap, node(routes=routes))) == 10_000
    assert process_time() - begun < 3


@pytest.mark.parametrize(
    ("owner", "cluster", "chain"),
    [
        ("default", "", "KNM-default"),
        ("a", "hq-dr", "KNM-a-hq-dr"),
        ("data-platform", "hq", "KNM-dataa2b539-hq"),
        ("a" * 32, "b" * 32, None),
    ],
)
def test_chains_are_short(owner: str, cluster: str, chain: str | None) -> None:
    assert len(chain_name(owner) + "-SRC") <= 28
    assert len(chain_name(owner, cluster) + "-P") <= 28
    assert chain in (None, chain_name(owner, cluster))


def test_comments_are_short() -> None:
    long = ".".join(["x" * 63] * 3 + ["y" * 59])
    assert len(planned(parsed(broker(f"{long}:65535"))).rules[0].pairs[0].broker) < 128


def test_no_owner_s_chains_begin_as_another_s() -> None:
    assert not chain_name("a-b").startswith(chain_name("a") + "-")


def test_the_way_and_the_loopback_of_a_plan_use_the_node_s_own_nginx() -> None:
    plan = planned(parsed(broker(), mechanism="nginx_stream"))
    assert plan.nginx
    assert plan.nginx.path == OLD_NGINX["path"]
    assert planned(parsed(broker())).nginx is None
    assert str(plan.rules[0].pairs[0].to_address).startswith("127.")
    assert plan.listeners[0].to_address == REACHABLE.partition(":")[0]
