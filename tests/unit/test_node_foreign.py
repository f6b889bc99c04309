"""Whose rules take a mapped pair already, and who tracks connections: in a namespace with the real nft and iptables."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from typing import Any

import kafka_natmap_ruleset as ruleset
import kafka_natmap_tracking as tracking
import pytest
from kafka_natmap_foreign import takers
from kafka_natmap_system import Refusal
from netns import Namespace

YARN = 991
PLAN: dict[str, Any] = {
    "pairs": [["192.0.2.21", 9092, "203.0.113.21", 9092], ["192.0.2.22", 9092, "203.0.113.21", 9093]],
    "prefixes": [["198.51.100.0/24", [9092], "203.0.113.0/24"]],
    "who": [["uid", YARN, YARN]],
}
OWN = ["10.0.0.5"]


@pytest.fixture(autouse=True)
def clean(namespace: Namespace) -> Iterator[None]:
    with namespace.entered():
        subprocess.run(["nft", "flush", "ruleset"], check=True)
        yield
        subprocess.run(["nft", "flush", "ruleset"], check=True)


def nft(text: str) -> None:
    subprocess.run(["nft", "-f", "-"], input=text, check=True, text=True)


def nft_output(*rules: str, priority: int = -100, more: str = "") -> None:
    body = "\n".join(rules)
    nft(f"table inet theirs {{\n{more}\nchain out {{ type nat hook output priority {priority};\n{body}\n}}\n}}\n")


def iptables(*rules: str) -> None:
    for rule in rules:
        subprocess.run(["iptables", "-t", "nat", *rule.split()], check=True, capture_output=True)


def taken() -> dict[str, str]:
    return {one["pair"]: one["rule"] for one in takers(ruleset.foreign_tables(), PLAN, OWN)}


@pytest.mark.parametrize("priority", [-150, -101, -100, 50])
def test_a_rule_for_the_same_pair_is_named_whatever_its_priority(priority: int) -> None:
    nft_output('ip daddr 192.0.2.21 tcp dport 9092 dnat ip to 10.1.1.1 comment "theirs"', priority=priority)
    assert taken() == {"192.0.2.21:9092": 'nft table inet theirs, chain out "theirs"'}


@pytest.mark.parametrize(
    ("rule", "pairs"),
    [
        ("ip daddr 192.0.2.0/24 tcp dport 9000-9999 redirect to :1", {"192.0.2.21:9092", "192.0.2.22:9092"}),
        ("ip daddr { 192.0.2.22, 10.0.0.0/8 } tcp dport { 80, 9092 } dnat ip to 10.1.1.1", {"192.0.2.22:9092"}),
        ("meta l4proto tcp dnat ip to ip daddr . tcp dport map { 192.0.2.21 . 9092 : 10.1.1.1 }", {"192.0.2.21:9092"}),
        ("ip daddr != 192.0.2.0/24 tcp dport 9092 dnat ip to 10.1.1.1", {"198.51.100.0-198.51.100.255:9092"}),
        ("ip daddr 198.51.100.7 tcp dport 9092 dnat ip to 10.1.1.1", {"198.51.100.0-198.51.100.255:9092"}),
        (f"meta skuid {YARN} ip daddr 192.0.2.21 meta l4proto tcp dnat ip to 10.1.1.1", {"192.0.2.21:9092"}),
        ("ip daddr 192.0.2.21 meta mark 7 meta l4proto tcp dnat ip to 10.1.1.1", {"192.0.2.21:9092"}),
        ("meta skuid 1500 ip daddr 192.0.2.21 meta l4proto tcp dnat ip to 10.1.1.1", set()),
        ("meta skuid != 991 ip daddr 192.0.2.21 meta l4proto tcp dnat ip to 10.1.1.1", set()),
        ("ip daddr 192.0.2.21 udp dport 9092 dnat ip to 10.1.1.1", set()),
        ("ip daddr 192.0.2.21 tcp dport 9093 dnat ip to 10.1.1.1", set()),
        ("fib daddr type local meta l4proto tcp redirect to :1", set()),
        ("ip6 daddr ::1 tcp dport 9092 redirect to :1", set()),
        ("ip daddr 192.0.2.21 tcp dport 9092 counter accept", set()),
    ],
)
def test_what_a_rule_takes(rule: str, pairs: set[str]) -> None:
    nft_output(rule)
    assert set(taken()) == pairs


def test_chains_sets_and_verdict_maps_are_followed() -> None:
    nft_output(
        "ip daddr @kept return",
        "tcp dport vmap { 9092 : jump kafka }",
        more="set kept { type ipv4_addr; elements = { 192.0.2.21 }; }\n"
        "chain kafka { ip daddr { 192.0.2.21, 192.0.2.22 } meta l4proto tcp dnat ip to 10.1.1.1; }",
    )
    assert set(taken()) == {"192.0.2.22:9092"}


def test_iptables_rules_are_named_as_they_stand() -> None:
    rule = "-A OUTPUT -d 192.0.2.22/32 -p tcp -m tcp --dport 9092 -j DNAT --to-destination 10.1.1.1:9092"
    iptables(rule)
    assert taken() == {"192.0.2.22:9092": f"iptables -t nat: {rule}"}


def test_docker_s_rules_take_nothing() -> None:
    iptables(
        "-N DOCKER",
        "-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER",
        "-A DOCKER ! -i docker0 -p tcp -m tcp --dport 9092 -j DNAT --to-destination 172.17.0.2:9092",
    )
    assert taken() == {}


def test_our_own_rules_and_those_of_other_owners_are_left_out() -> None:
    nft("table ip kafka_natmap_b { chain o { type nat hook output priority -101; tcp dport 9092 redirect to :1; }\n}\n")
    iptables("-N KNM-b", "-A OUTPUT -p tcp -j KNM-b", "-A KNM-b -p tcp --dport 9092 -j REDIRECT --to-ports 1")
    assert taken() == {}


def test_thousands_of_rules_and_pairs_take_seconds_at_most() -> None:
    rules = "\n".join(f"ip daddr 10.{i >> 8}.{i & 255}.1 tcp dport 9092 dnat ip to 10.255.0.1" for i in range(3000))
    nft_output(rules, "ip daddr 192.0.2.21 tcp dport 9092 dnat ip to 10.1.1.1")
    pairs = [[f"172.16.{i >> 8}.{i & 255}", 9092, "203.0.113.1", 9092] for i in range(10_000)]
    begun = time.monotonic()
    found = takers(ruleset.foreign_tables(), {**PLAN, "pairs": PLAN["pairs"] + pairs}, OWN)
    assert [one["pair"] for one in found] == ["192.0.2.21:9092"]
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("text", "tracked"),
    [
        ("table inet f { chain i { type filter hook input priority 0; tcp dport 22 accept; }\n}", False),
        ("table inet f { chain i { type filter hook input priority 0; ct state established accept; }\n}", True),
        ("table ip f { chain p { type nat hook postrouting priority 100; }\n}", True),
        ("table ip kafka_natmap_b { chain p { type nat hook postrouting priority 100; }\n}", False),
        ("table ip6 f { chain p { type nat hook postrouting priority 100; }\n}", False),
    ],
)
def test_who_makes_the_kernel_track(text: str, tracked: bool) -> None:
    nft(text + "\n")
    assert bool(tracking.tracking()["in_use"]) == tracked


def test_an_empty_nat_table_of_iptables_tracks_nothing() -> None:
    subprocess.run(["iptables", "-t", "nat", "-L", "-n"], check=True, capture_output=True)
    assert tracking.tracking()["in_use"] == []
    subprocess.run(["iptables", "-A", "INPUT", "-m", "conntrack", "--ctstate", "NEW", "-j", "ACCEPT"], check=True)
    assert "iptables -t filter" in tracking.tracking()["in_use"][0]


@pytest.mark.parametrize(
    ("held", "exempt", "refused"),
    [
        ({"in_use": ["x"], "count": 95, "max": 100, "sockets": 1}, False, True),
        ({"in_use": ["x"], "count": 50, "max": 100, "sockets": 99}, False, False),
        ({"in_use": [], "count": 0, "max": 100, "sockets": 99}, False, True),
        ({"in_use": [], "count": 0, "max": 100, "sockets": 99}, True, False),
        ({"in_use": [], "count": None, "max": None, "sockets": 99}, False, False),
    ],
)
def test_a_full_conntrack_table_is_refused(held: dict[str, Any], exempt: bool, refused: bool) -> None:
    if refused:
        with pytest.raises(Refusal, match="conntrack table would hold 9"):
            tracking.refuse_if_full(held, exempt)
    else:
        tracking.refuse_if_full(held, exempt)
