"""Which rule explains the known pairs, and what it guesses for the others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_discover_rules import number_in, prefixes, rules, safe

IPS = {node: (f"192.0.2.{20 + node}", 9092) for node in (1, 2, 3)}
NAMES = {node: (f"kafka-hq-{node}.example", 9092) for node in (1, 2, 3)}
PORTS = {node: ("192.0.2.21", 9091 + node) for node in (1, 2, 3)}
FAR = {101: ("192.0.2.21", 9092), 205: ("192.0.2.22", 9092), 309: ("192.0.2.23", 9092)}

CASES: list[tuple[str, dict[int, Any], dict[int, Any], dict[int, Any], str]] = [
    ("another network", IPS, {1: ("203.0.113.21", 9092)}, {2: ("203.0.113.22", 9092), 3: ("203.0.113.23", 9092)}, "last number kept"),
    ("another network and port", IPS, {2: ("203.0.113.22", 19092)}, {1: ("203.0.113.21", 19092)}, "the port +10000"),
    ("the same host", IPS, {1: ("192.0.2.21", 19092)}, {3: ("192.0.2.23", 19092)}, "the same host, the port +10000"),
    ("moved within the network", IPS, {1: ("203.0.113.121", 9092), 2: ("203.0.113.122", 9092)}, {3: ("203.0.113.123", 9092)}, "one address a broker"),
    ("a port by the id", IPS, {1: ("203.0.113.20", 19091)}, {2: ("203.0.113.20", 19092), 3: ("203.0.113.20", 19093)}, "19090 + n by the broker id"),
    ("ports ten apart", IPS, {1: ("203.0.113.20", 19010), 2: ("203.0.113.20", 19020)}, {3: ("203.0.113.20", 19030)}, "19000 + 10n"),
    ("a port by the place", FAR, {101: ("203.0.113.20", 19092), 205: ("203.0.113.20", 19093)}, {309: ("203.0.113.20", 19094)}, "place among the ids"),
    ("ports that are kept", PORTS, {1: ("203.0.113.20", 9092)}, {2: ("203.0.113.20", 9093), 3: ("203.0.113.20", 9094)}, "one address, 203.0.113.20, the same port"),
    ("names, an address a broker", NAMES, {2: ("203.0.113.22", 9092)}, {3: ("203.0.113.23", 9092)}, "203.0.113.20 + n"),
    ("names, a port a broker", NAMES, {1: ("203.0.113.20", 19092), 2: ("203.0.113.20", 19093)}, {3: ("203.0.113.20", 19094)}, "19091 + n"),
]  # fmt: skip


def known(brokers: dict[int, Any], at: dict[int, Any]) -> Any:
    return {node: (brokers[node], reachable) for node, reachable in at.items()}


@pytest.mark.parametrize(("brokers", "at", "expected", "text"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_rule_is_found(brokers: dict[int, Any], at: dict[int, Any], expected: dict[int, Any], text: str) -> None:
    found = rules(known(brokers, at), brokers)
    fitting = [rule for rule in found if all(safe(rule, n, brokers[n]) == to for n, to in expected.items())]
    assert fitting, [rule.text for rule in found]
    assert text in fitting[0].text
    assert found.index(fitting[0]) < 4, "few addresses are dialled in vain"


def test_nothing_is_guessed_from_nothing() -> None:
    assert rules({}, IPS) == []


def test_a_rule_explains_every_known_pair_or_is_none() -> None:
    """By one pair alone, the last number is kept; the other pair contradicts, and nothing else fits both."""
    scattered = known(IPS, {1: ("203.0.113.21", 9092), 2: ("198.51.100.7", 19099), 3: ("203.0.113.99", 9092)})
    assert rules(scattered, IPS) == []


def test_rules_that_say_the_same_are_one() -> None:
    found = rules(known(IPS, {1: ("203.0.113.21", 9092)}), IPS)
    guesses = [tuple(safe(rule, n, at) for n, at in IPS.items()) for rule in found]
    assert len(guesses) == len(set(guesses))


@pytest.mark.parametrize(
    ("host", "expected"),
    [("kafka-hq-2", 2), ("b1-kafka07.example.9", 7), ("kafka", None), ("192.0.2.21", None), ("k12345678", None)],
)
def test_the_number_in_a_name(host: str, expected: int | None) -> None:
    assert number_in(host) == expected


def test_a_guess_that_nobody_can_dial_is_none() -> None:
    brokers = {1: ("192.0.2.1", 9092), 900: ("192.0.2.2", 9092)}
    by_id = rules(known(brokers, {1: ("203.0.113.1", 65000)}), brokers)
    assert all((safe(rule, 900, brokers[900]) or ("", 1))[1] < 65536 for rule in by_id)


addresses = st.tuples(st.ip_addresses(v=4).map(str), st.integers(1, 65535))
hosts = st.one_of(addresses, st.tuples(st.from_regex(r"[a-z]{1,5}-?[0-9]{0,8}", fullmatch=True), st.integers(1, 65535)))


@given(brokers=st.dictionaries(st.integers(0, 2**31 - 1), hosts, min_size=1, max_size=6), data=st.data())
def test_any_pairs_give_rules_that_explain_them(brokers: dict[int, Any], data: st.DataObject) -> None:
    at = data.draw(st.dictionaries(st.sampled_from(sorted(brokers)), addresses, min_size=1, max_size=3))
    for rule in rules(known(brokers, at), brokers):
        assert all(safe(rule, node, brokers[node]) == reachable for node, reachable in at.items())
        assert all((safe(rule, node, one) or ("", 1))[1] < 65536 for node, one in brokers.items())


def shifted(*last: int, port: int = 9092) -> Any:
    return {n: ((f"192.0.2.{n}", 9092), (f"203.0.113.{n}", port)) for n in last}


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (shifted(20, 21, 22, 23), ("192.0.2.20/30", "203.0.113.20/30", 4)),
        (shifted(21, 22, 23), ("192.0.2.20/30", "203.0.113.20/30", 3)),
        (shifted(21), None),
        (shifted(21, 200), None),
        (shifted(20, 21, port=19092), None),
    ],
    ids=["filled", "three of four", "one alone", "far apart", "another port"],
)
def test_a_prefix_is_proposed_where_brokers_fill_it(pairs: Any, expected: Any) -> None:
    found = [(one["advertised"], one["reachable"], one["filled"]) for one in prefixes(pairs)]
    assert found == ([expected] if expected else [])


def test_a_prefix_is_not_proposed_against_a_pair_within_it() -> None:
    pairs = shifted(20, 21, 22)
    pairs[23] = (("192.0.2.23", 9092), ("198.51.100.5", 9092))
    assert prefixes(pairs) == []


def test_a_prefix_that_is_moved_by_less_than_itself_is_none() -> None:
    assert prefixes({n: ((f"192.0.2.{n}", 9092), (f"192.0.2.{n + 101}", 9092)) for n in (20, 21, 22)}) == []
