"""Who answers: verdicts by whose partitions are answered."""

from __future__ import annotations

import time
from typing import Any

import kafka_natmap_identity as identity
import pytest
from doctor_peers import HQ
from kafka_natmap_identity import NOT_LEADER, judge, parse_address, show
from kafka_natmap_session import Limits, Session
from kafka_natmap_wire import request
from probe_peers import Site, listening

A, B, C = ("orders", 0), ("orders", 1), ("orders", 2)
LEADERS = {A: 1, B: 2, C: 1}
NO_ACCESS = 29

JUDGED: list[tuple[str, dict[Any, int], dict[Any, int], bool, str, str]] = [
    ("all mine", LEADERS, {A: 0, B: NOT_LEADER, C: 0}, True, "OK", "answers for orders-0"),
    ("one of mine has moved", LEADERS, {A: 0, B: NOT_LEADER, C: NOT_LEADER}, True, "OK", "orders-0"),
    ("another's", LEADERS, {A: NOT_LEADER, B: 0, C: NOT_LEADER}, True, "WRONG_BROKER", "is broker 2"),
    ("another's, mine unreadable", LEADERS, {A: NO_ACCESS, B: 0}, True, "WRONG_BROKER", "is broker 2"),
    ("both's", LEADERS, {A: 0, B: 0, C: 0}, False, "UNPROVEN", "brokers 1, 2: leadership is moving"),
    ("nobody's", LEADERS, {A: NOT_LEADER, B: NOT_LEADER}, False, "WRONG_BROKER", "leads nothing"),
    ("nothing readable", LEADERS, {A: NO_ACCESS, B: NO_ACCESS}, True, "UNPROVEN", "that this user may read"),
    ("leads nothing", {B: 2}, {B: NOT_LEADER}, True, "UNPROVEN", "no partition led by broker 1"),
    ("leads nothing, and is another", {B: 2}, {B: 0}, True, "WRONG_BROKER", "is broker 2"),
    ("no topic at all", {}, {}, True, "UNPROVEN", "no partition led by broker 1"),
    ("answers what was not asked", {A: 1}, {("evil", 9): 0}, True, "UNPROVEN", "no partition"),
]


@pytest.mark.parametrize(
    ("leaders", "errors", "settled", "verdict", "said"), [case[1:] for case in JUDGED], ids=[case[0] for case in JUDGED]
)
def test_judge(leaders: Any, errors: Any, settled: bool, verdict: str, said: str) -> None:
    done, (code, evidence) = judge(1, leaders, errors)
    assert (done, code) == (settled, verdict)
    assert said in evidence


@pytest.mark.usefixtures("kafka_python")
def test_leadership_that_moves_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "PAUSE", 0.01)
    site = Site("C", {1: ("h", 1), 2: ("h", 2)}, {"orders": [(1, [1, 2]), (2, [1, 2])]})
    with listening(site.broker(1)) as address:
        session = Session(*address, {"protocol": "PLAINTEXT"}, Limits(2.0, 2.0, time.monotonic() + 5))
        session.open()
        stale = {1: [("orders", 1)], 2: [("orders", 0)]}  # each leads what metadata gave the other
        assert identity.identify(session, 1, {1: [], 2: stale[1] + stale[2]})[0] == "WRONG_BROKER"
        assert identity.identify(session, 1, {1: stale[1], 2: []})[0] == "OK"
        session.close()


@pytest.mark.usefixtures("kafka_python")
@pytest.mark.parametrize(
    ("answering", "describes", "verdict", "said"),
    [
        (1, True, "OK", "answers for the configuration of broker 1"),
        (2, True, "WRONG_BROKER", "expected 2 or empty string, but received 1"),
        (1, False, "UNPROVEN", "no partition led by broker 1"),
        (3, False, "WRONG_BROKER", "is broker 3"),
    ],
)
def test_after_a_restart_one_broker_leads_all(answering: int, describes: bool, verdict: str, said: str) -> None:
    site = HQ("C", {n: ("h", n) for n in (1, 2, 3)}, {"orders": [(3, [1, 2, 3])]}, describes=describes)
    with listening(site.broker(answering)) as address:
        session = Session(*address, {"protocol": "PLAINTEXT"}, Limits(2.0, 2.0, time.monotonic() + 5))
        session.open()
        code, evidence = identity.identify(session, 1, {3: [A]})
        session.close()
    assert code == verdict
    assert said in evidence


@pytest.mark.usefixtures("kafka_python")
def test_metadata_is_read() -> None:
    site = Site("C", {1: ("HQ-1", 9092)}, {"orders": [(1, [1, 3]), (-1, [3])]})
    with listening(site.broker(1)) as address:
        session = Session(*address, {"protocol": "PLAINTEXT"}, Limits(2.0, 2.0, time.monotonic() + 5))
        session.open()
        view = identity.read_metadata(session.ask(request("metadata", 5, None, False)))
        session.close()
    assert view.cluster_id == "C"
    assert view.brokers == {1: ("hq-1", 9092)}
    assert view.leads == {1: [A], -1: [B]}
    assert view.known == {1, 3}


@pytest.mark.parametrize("text", ["h", "h:", ":9", "h:0", "h:65536", "h:x", "h:-1", "h:9 "])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"host:port"):
        parse_address(text)


def test_addresses() -> None:
    assert parse_address("HQ-1:9092") == ("hq-1", 9092)
    assert show(("hq-1", 9092)) == "hq-1:9092"
    assert show(None) is None
