"""The examination of a cluster: which ways are walked, and who is said to answer."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from typing import Any

import doctor_peers
import pytest
from doctor_peers import HQ, TOPICS, running
from kafka_doctor_cluster import Pool
from kafka_doctor_exam import Exam
from kafka_natmap_identity import show
from kafka_natmap_request import parse_cluster
from kafka_natmap_session import Limits
from probe_peers import listening

pytestmark = pytest.mark.usefixtures("kafka_python")
OPTIONS: dict[str, Any] = {"path": "advertised", "concurrency": 8, "groups": [], "topics": []}


def examine(bootstrap: list[Any], brokers: Any = (), cluster_id: str | None = None, **options: Any) -> dict[str, Any]:
    doctor_peers.loaded()
    asked = parse_cluster(
        {
            "name": "hq",
            "bootstrap": [show(one) for one in bootstrap],
            "brokers": list(brokers),
            "cluster_id": cluster_id,
        },
        "c",
    )
    exam = Exam({**asked, "tls": None}, OPTIONS | options, Limits(0.5, 0.5, time.monotonic() + 4))
    found = exam.run()
    exam.close()
    return found


def by_broker(found: dict[str, Any]) -> dict[str, Any]:
    return {row["asked"]: row for row in found["walks"] if row["role"] != "bootstrap"}


def codes(found: dict[str, Any]) -> set[Any]:
    return {row["code"] for row in found["walks"]}


def test_every_advertised_broker_is_dialled_and_proven() -> None:
    with running() as (_, there):
        found = examine([there[1]])
    rows = by_broker(found)
    assert set(rows) == {show(address) for address in there.values()}
    for node, address in there.items():
        assert rows[show(address)]["code"] is None
        assert f"which broker {node} leads" in rows[show(address)]["hops"]["identity"]["said"]


def test_swapped_brokers_are_told_apart() -> None:
    with running(swap=True) as (_, there):
        rows = by_broker(examine([there[3]]))
    assert (rows[show(there[1])]["code"], rows[show(there[2])]["code"]) == ("WRONG_BROKER", "WRONG_BROKER")
    assert "is broker 1" in rows[show(there[1])]["evidence"]
    assert rows[show(there[3])]["code"] is None


def test_another_cluster_behind_an_address_is_told() -> None:
    with running() as (site, there), running("D") as (_, others):
        site.brokers[2] = others[2]
        rows = by_broker(examine([there[1]]))
    assert rows[show(others[2])]["code"] == "WRONG_CLUSTER"


def test_a_dead_bootstrap_address_holds_nobody_up() -> None:
    with running() as (_, there), socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        found = examine([silent.getsockname(), there[1]])
    assert sum(row["code"] is None for row in by_broker(found).values()) == 3
    assert time.monotonic() - began < 3


def test_without_any_bootstrap_the_pairs_of_the_map_are_dialled() -> None:
    with running() as (_, there):
        pairs = [{"id": node, "advertised": show(at), "reachable": show(at)} for node, at in there.items()]
        found = examine([("127.0.0.1", 1)], pairs)
    assert sum(row["code"] is None for row in by_broker(found).values()) == 3


def test_the_cluster_is_the_one_of_most_addresses() -> None:
    with running() as (_, there), running("D") as (_, others):
        found = examine([others[1], there[1], there[2]])
        assert found["cluster_id"] == "C"
        assert set(by_broker(found)) == {show(address) for address in there.values()}
        assert examine([others[1], there[1]])["cluster_id"] == "D"
        assert examine([others[1], there[1]], cluster_id="C")["cluster_id"] == "C"
        assert {view[1] for view in found["views"]} == {"C", "D"}


def test_a_gateway_dials_the_reachable_side() -> None:
    with running() as (site, there):
        site.brokers = {node: (f"192.0.2.2{node}", 9092) for node in there}
        pairs = [
            {"id": node, "advertised": show(site.brokers[node]), "reachable": show(at)} for node, at in there.items()
        ]
        found = examine([there[1]], pairs, path="reachable")
    assert {row["code"] for row in by_broker(found).values()} == {None}


# ------------------------------------------------------------ identity without topics


def test_nobody_is_proven_without_topics_or_rights() -> None:
    with running(unreadable=True) as (_, there):
        assert {row["code"] for row in by_broker(examine([there[1]])).values()} == {"UNPROVEN"}


def test_the_right_to_describe_proves_without_topics() -> None:
    with running(unreadable=True, describes=True) as (_, there):
        assert codes(examine([there[1]])) == {None}
    with running(unreadable=True, describes=True, swap=True) as (_, there):
        assert by_broker(examine([there[3]]))[show(there[1])]["code"] == "WRONG_BROKER"


def test_a_balanced_address_is_told_by_asking_again() -> None:
    """Behind one port now this broker answers, now that one."""
    with running() as (site, there), ExitStack() as open_:
        turn = iter([2, 1, 3, 2, 1, 3, 2, 1, 3])
        balanced = open_.enter_context(listening(lambda taken: site.broker(next(turn))(taken)))
        site.brokers[1] = balanced
        row = by_broker(examine([there[3]]))[show(balanced)]
    assert (row["code"], row["balanced"]) == ("WRONG_BROKER", True)


# ------------------------------------------------------------ other answers


def test_coordinators_are_asked_only_where_groups_are() -> None:
    with running() as (site, there):
        assert examine([there[1]])["references"] == []
        assert not [request for _, request in site.asked if request.API_KEY == 10]
        site.topics["__consumer_offsets"] = [(2, [2])]
        site.coordinators["kafka-natmap-doctor"] = 2
        (reference,) = examine([there[1]])["references"]
    assert (reference["role"], reference["id"], reference["address"]) == ("coordinator", 2, show(there[2]))


def test_a_coordinator_that_is_not_ready_is_asked_again() -> None:
    with running(coordinators={"etl": 3}, unavailable=2) as (_, there):
        (reference,) = examine([there[1]], groups=["etl"])["references"]
    assert (reference["error"], reference["id"]) == (0, 3)


def test_an_address_that_only_the_coordinator_has_is_dialled() -> None:
    with running(coordinators={"etl": 9}) as (site, there), listening(site.broker(2)) as elsewhere:
        site.brokers[9] = elsewhere
        bootstrap = HQ("C", {1: there[1]}, dict(TOPICS), coordinators={"etl": 9})
        bootstrap.brokers[9] = elsewhere
        with listening(bootstrap.broker(1)) as first:
            row = by_broker(examine([first], groups=["etl"]))[show(elsewhere)]
    assert row["asked"] == show(elsewhere)


def test_leaders_of_topics_are_named() -> None:
    with running() as (_, there):
        references = examine([there[1]], topics=["orders", "none"])["references"]
    assert [(one["of"], one["id"], one["address"]) for one in references] == [
        ("topic orders", 1, show(there[1])),
        ("topic orders", 2, show(there[2])),
        ("topic orders", 3, show(there[3])),
        ("topic none", None, None),
    ]


def test_who_died_while_we_asked_is_told() -> None:
    with running(dead=(2,)) as (site, there):
        found = examine([there[1]])
        assert by_broker(found)[show(there[2])]["code"] == "TCP_REFUSED"
        assert found["gone"] == []
        answers = site._3

        def forgets(node: int, request: Any) -> Any:
            told = answers(node, request)
            if sum(asked.API_KEY == 3 for _, asked in site.asked) > 6:
                site.brokers.pop(2, None)
            return told

        site.asked.clear()
        site._3 = forgets  # type: ignore[method-assign]
        assert examine([there[1]])["gone"] == [2]


def test_a_pool_ends_in_time() -> None:
    pool = Pool(2, time.monotonic() + 0.2)
    for _ in range(4):
        pool.put(lambda: time.sleep(1))
    began = time.monotonic()
    pool.join()
    assert time.monotonic() - began < 0.8
