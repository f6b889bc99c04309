"""The proof by conntrack: what is rewritten, for whom, and what is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kafka_natmap_probe
import pytest
from kafka_natmap_conntrack import Entry, ct_dump
from kafka_natmap_identity import show
from kafka_natmap_scope import Tracker, pairs_to_prove
from netns import Namespace
from probe_peers import Site, closed_port, listening

FLOW = ("10.0.0.5", 40000, "192.0.2.21", 9092)
KEPT = Entry(FLOW, ("192.0.2.21", 9092, "10.0.0.5", 40000), 1, 0, 0, "SYN_SENT")
TURNED = KEPT._replace(reply=("203.0.113.21", 9092, "10.0.0.5", 40000))


class Watched(Tracker):
    """A tracker that reads from memory."""

    def __init__(self, entry: Entry | OSError | None, lost: bool = False) -> None:
        self.entry, self.ours = entry, []
        self.watch = type("Watch", (), {"lost": lost})()

    def find(self, flow: Any) -> Entry | None:
        if isinstance(self.entry, OSError):
            raise self.entry
        return self.entry


def row(**more: Any) -> dict[str, Any]:
    return {
        "advertised": "192.0.2.21:9092", "reachable": "203.0.113.21:9092", "dialled": "192.0.2.21:9092",
        "verdict": "OK", "evidence": "seen", "latency_ms": 1.0, "rewritten_to": None,
    } | more  # fmt: skip


SETTLED: list[tuple[str, Entry | OSError | None, dict[str, Any], str, str | None]] = [
    ("rewritten", TURNED, row(), "OK", "203.0.113.21:9092"),
    ("reached without a rule", KEPT, row(), "NOT_REWRITTEN", None),
    ("lost without a rule", KEPT, row(verdict="TCP_TIMEOUT", latency_ms=None), "NOT_REWRITTEN", None),
    ("connected, not tracked", None, row(), "NOT_REWRITTEN", None),
    ("never left", None, row(verdict="TCP_TIMEOUT", latency_ms=None), "TCP_TIMEOUT", None),
    ("a name led to it", KEPT, row(advertised="hq-1:9092"), "OK", None),
    ("nothing to rewrite", KEPT, row(reachable="192.0.2.21:9092"), "OK", None),
    ("conntrack closed to us", OSError(1, "Operation not permitted"), row(), "OK", None),
]


@pytest.mark.parametrize(("entry", "told", "verdict", "to"), [c[1:] for c in SETTLED], ids=[c[0] for c in SETTLED])
def test_settle(entry: Any, told: dict[str, Any], verdict: str, to: str | None) -> None:
    Watched(entry).settle(told, FLOW)
    assert (told["verdict"], told["rewritten_to"]) == (verdict, to)


OUTSIDE: list[tuple[Any, Any, bool, str, str]] = [
    (FLOW, KEPT, False, "NOT_REWRITTEN", "answered by itself"),
    (FLOW, TURNED, False, "SCOPE_LEAK", "answered by 203.0.113.21:9092"),
    (FLOW, None, False, "NOT_REWRITTEN", "tracks nothing"),
    (FLOW, None, True, "UNPROVEN", "lost reports"),
    (FLOW, OSError(1, "Operation not permitted"), False, "UNPROVEN", "cannot be read"),
    (None, None, False, "NOT_REWRITTEN", "no route"),
]


@pytest.mark.parametrize(("flow", "entry", "lost", "verdict", "said"), OUTSIDE)
def test_judge_outsider(flow: Any, entry: Any, lost: bool, verdict: str, said: str) -> None:
    told = Watched(entry, lost).judge_outsider(flow, "no route")
    assert (told[0], said in told[1]) == (verdict, True)


def test_addresses_come_before_names() -> None:
    clusters = [{"name": "hq", "brokers": [{"advertised": "HQ-1:9092"}, {"advertised": "192.0.2.21:9092"}]}]
    rows = [row(cluster="hq", advertised="192.0.2.77:9092"), row(cluster="hq", advertised="hq-1:9092"),
            row(cluster="hq", advertised="192.0.2.9:9092", reachable=None)]  # fmt: skip
    assert pairs_to_prove(clusters, rows) == [("hq", p) for p in ("192.0.2.21:9092", "192.0.2.77:9092", "HQ-1:9092")]


SCOPED = {"uid": 12001, "gid": 12001, "label": "yarn"}
NOBODY = {"uid": 65534, "gid": 65534, "label": "nobody"}
ADVERTISED = ("198.51.100.21", "198.51.100.22")
MOST = {"connect_timeout": 0.3, "request_timeout": 2, "deadline": 5}


@pytest.mark.usefixtures("kafka_python")
@pytest.mark.parametrize(
    ("rule", "turned", "brokers", "outsider"),
    [
        ("meta skuid 12001", True, ["OK", "OK"], "NOT_REWRITTEN"),
        ("", True, ["OK", "OK"], "SCOPE_LEAK"),
        ("meta skuid 65534", True, ["NOT_REWRITTEN"] * 2, "SCOPE_LEAK"),
        ("meta skuid 12001", False, ["WRONG_BROKER"] * 2, "NOT_REWRITTEN"),
    ],
    ids=["as planned", "for everyone", "for another", "swapped"],
)
def test_through_real_rules(namespace: Namespace, rule: str, turned: bool, brokers: list[str], outsider: str) -> None:
    site = Site("C", {n: (host, 9092) for n, host in enumerate(ADVERTISED, 1)}, {"t": [(1, [1]), (2, [2])]})
    with namespace.entered(), contextlib.ExitStack() as open_:
        there = [open_.enter_context(listening(site.broker(node))) for node in (1, 2)]
        load_rule(rule, there if turned else there[::-1])
        told = probe(map_of(there) | {"identity": SCOPED, "outsider": NOBODY})
        left = [entry for entry in ct_dump() if entry.dialled[0] in ADVERTISED and not entry.rewritten]
    assert told["error"] is None
    assert [broker["verdict"] for broker in told["brokers"]] == brokers, told["brokers"]
    assert [entry["verdict"] for entry in told["outsider"]] == [outsider] * 2, told["outsider"]
    if "NOT_REWRITTEN" not in brokers:
        assert [b["rewritten_to"] for b in told["brokers"]] == [show(t) for t in (there if turned else there[::-1])]
    assert left == []


@pytest.mark.usefixtures("kafka_python")
def test_a_leak_to_a_port_that_refuses_is_seen(namespace: Namespace) -> None:
    site = Site("C", {1: (ADVERTISED[0], 9092)}, {"t": [(1, [1])]})
    with namespace.entered(), listening(site.broker(1)) as there:
        load_rule("", [closed_port()])
        told = probe(map_of([there]) | {"identity": SCOPED, "outsider": NOBODY})
    assert [broker["verdict"] for broker in told["brokers"]] == ["TCP_REFUSED"]
    assert [entry["verdict"] for entry in told["outsider"]] == ["SCOPE_LEAK"]


def load_rule(scope: str, targets: list[tuple[str, int]]) -> None:
    rules = "".join(f"{scope} ip daddr {host} tcp dport 9092 dnat to {ip}:{port}\n"
                    for host, (ip, port) in zip(ADVERTISED, targets, strict=False))  # fmt: skip
    text = f"add table ip t\ndelete table ip t\ntable ip t {{\nchain out {{\ntype nat hook output priority -101;\n{rules}}}\n}}\n"
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)


def map_of(there: list[tuple[str, int]]) -> dict[str, Any]:
    pairs = [{"id": n, "advertised": f"{ADVERTISED[n - 1]}:9092", "reachable": show(t)} for n, t in enumerate(there, 1)]
    return {"path": "advertised", "clusters": [{"name": "hq", "brokers": pairs}]} | MOST


def probe(request: dict[str, Any]) -> dict[str, Any]:
    """The program as a node starts it."""
    program = Path(kafka_natmap_probe.__file__)
    done = subprocess.run([sys.executable, "-I", str(program)], input=json.dumps(request).encode(), capture_output=True)
    assert done.stderr == b"", done.stderr.decode()
    result: dict[str, Any] = json.loads(done.stdout)
    assert os.waitstatus_to_exitcode(done.returncode << 8) == (1 if result["error"] else 0)
    return result
