"""What the map and metadata say of each other, before and after the dials."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from kafka_natmap_identity import View
from kafka_natmap_request import parse_cluster
from kafka_natmap_session import Limits, Session
from kafka_natmap_survey import Answer, Cluster, each

NET = {"advertised": "192.0.2.0/24", "reachable": "203.0.113.0/24", "ports": [9092]}


def broker(node: int | None, last: int = 21) -> dict[str, Any]:
    return {"id": node, "advertised": f"192.0.2.{last}:9092", "reachable": f"203.0.113.{last}:9092"}


def cluster(path: str = "advertised", **more: Any) -> Cluster:
    made = Cluster(parse_cluster({"name": "hq", "bootstrap": ["203.0.113.21:9092"]} | more, "c"), path, None)
    made.cluster_id = "C"
    return made


SORTED: list[tuple[str, dict[str, Any], dict[str, int], set[int], dict[str, str], list[str]]] = [
    # what, map, metadata's owners, replica ids, rows by advertised address, addresses dialled
    ("alive", {"brokers": [broker(1)]}, {"192.0.2.21": 1}, {1}, {}, ["192.0.2.21"]),
    ("alive, map knows no id", {"brokers": [broker(None)]}, {"192.0.2.21": 1}, set(), {}, ["192.0.2.21"]),
    (
        "down: a replica, not alive",
        {"brokers": [broker(1), broker(2, 22)]},
        {"192.0.2.21": 1},
        {1, 2},
        {"192.0.2.22": "DOWN_AT_HQ"},
        ["192.0.2.21"],
    ),
    (
        "down, map knows no id",
        {"brokers": [broker(1), broker(None, 22)]},
        {"192.0.2.21": 1},
        {1, 2},
        {"192.0.2.22": "DOWN_AT_HQ"},
        ["192.0.2.21"],
    ),
    (
        "gone: no trace of it",
        {"brokers": [broker(1), broker(2, 22)]},
        {"192.0.2.21": 1},
        {1},
        {"192.0.2.22": "STALE_ENTRY"},
        ["192.0.2.21"],
    ),
    (
        "the dead one is another of the map",
        {"brokers": [broker(2, 22), broker(None, 23)]},
        {"192.0.2.21": 1},
        {1, 2},
        {"192.0.2.22": "DOWN_AT_HQ", "192.0.2.23": "STALE_ENTRY", "192.0.2.21": "UNMAPPED_BROKER"},
        [],
    ),
    (
        "moved to another address",
        {"brokers": [broker(1)]},
        {"192.0.2.31": 1},
        {1},
        {"192.0.2.21": "STALE_ENTRY", "192.0.2.31": "UNMAPPED_BROKER"},
        [],
    ),
    ("new, covered by a prefix", {"networks": [NET]}, {"192.0.2.77": 7}, set(), {}, ["192.0.2.77"]),
    ("new, outside", {"networks": [NET]}, {"198.51.100.7": 7}, set(), {"198.51.100.7": "UNMAPPED_BROKER"}, []),
    ("new, a name", {"networks": [NET]}, {"hq-7": 7}, set(), {"hq-7": "UNMAPPED_BROKER"}, []),
    ("a pair wins over a prefix", {"brokers": [broker(1)], "networks": [NET]}, {"192.0.2.21": 1}, set(), {}, ["192.0.2.21"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "owners", "known", "rows", "dialled"), [c[1:] for c in SORTED], ids=[c[0] for c in SORTED]
)
def test_sort_out(asked: Any, owners: Any, known: Any, rows: Any, dialled: Any) -> None:
    made = cluster(**asked)
    made.owners, made.known = {(host, 9092): node for host, node in owners.items()}, known
    said, dials = made.sort_out()
    assert {row["advertised"].rpartition(":")[0]: row["verdict"] for row in said} == rows
    assert [pair.advertised[0] for pair in dials] == dialled
    assert all(row["dialled"] is None and row["evidence"] for row in said)


@pytest.mark.parametrize(
    ("address", "reachable"),
    [
        (("192.0.2.77", 9092), ("203.0.113.77", 9092)),
        (("192.0.2.77", 9093), None),
        (("192.0.3.77", 9092), None),
        (("hq-1", 9092), None),
        (("2001:db8::1", 9092), None),
    ],
)
def test_prefix_pairs_keep_the_host(address: Any, reachable: Any) -> None:
    assert cluster(networks=[NET]).compute_reachable(address) == reachable


def test_without_metadata_every_pair_is_dialled() -> None:
    assert cluster(brokers=[broker(1)]).sort_out()[1] == cluster(brokers=[broker(1)]).pairs


@pytest.mark.parametrize(
    ("ids", "pinned", "taken"),
    [("AAB", None, "A"), ("ABB", None, "B"), ("AB", None, "A"), ("AAB", "B", "B"), ("AA", "C", None), ("", None, None)],
)
def test_the_cluster_is_the_pinned_or_the_majority(ids: str, pinned: str | None, taken: str | None) -> None:
    made = cluster(cluster_id=pinned)
    for number, letter in enumerate(ids):
        view = View(letter, {number: (f"h{number}", 9092)}, {}, set())
        session = Session("h", number + 1, {"protocol": "PLAINTEXT"}, Limits(1, 1, 0))
        made.answers[("h", number)] = Answer(session, view, "OK", "")
    assert made.settle() is (taken is not None)
    assert set(made.owners.values()) == {number for number, letter in enumerate(ids) if letter == taken}


def test_reachable_or_advertised_is_dialled() -> None:
    assert [cluster(path, brokers=[broker(1)]).target(cluster(brokers=[broker(1)]).pairs[0]) for path in
            ("reachable", "advertised")] == [("203.0.113.21", 9092), ("192.0.2.21", 9092)]  # fmt: skip


def test_each_is_bounded_in_workers_and_time() -> None:
    stuck, busy, most = threading.Event(), 0, 0
    lock = threading.Lock()

    def work(item: int) -> int:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        if item == 3:
            stuck.wait(30)
        with lock:
            busy -= 1
        return item * 2

    began = time.monotonic()
    done = each(work, list(range(6)), 2, began + 0.5)
    stuck.set()
    assert done == [(0, 0), (1, 2), (2, 4), (3, None), (4, 8), (5, 10)]
    assert most <= 2
    assert time.monotonic() - began < 5
    assert each(work, [], 2, began) == []
