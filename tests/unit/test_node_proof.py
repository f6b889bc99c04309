"""What the switch makes of a probe's answers: keep the change, or undo it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import kafka_natmap_proof as proof
import pytest

PAIRS = [["192.0.2.21", 9092, "203.0.113.21", 9092]]


def row(verdict: str = "OK", **more: Any) -> dict[str, Any]:
    return {
        "cluster": "hq",
        "id": 1,
        "advertised": "192.0.2.21:9092",
        "reachable": "203.0.113.21:9092",
        "dialled": "192.0.2.21:9092",
        "verdict": verdict,
        "evidence": "seen",
        "latency_ms": 1.0,
        "rewritten_to": "203.0.113.21:9092",
        "api_versions": "d1" if verdict in ("OK", "UNPROVEN") else None,
    } | more


def told(*rows: dict[str, Any], outsider: list[Any] | None = None, error: Any = None) -> dict[str, Any]:
    return {"clusters": [], "brokers": list(rows), "outsider": outsider or [], "seconds": 0.1, "error": error}


LEAK = {"cluster": "hq", "advertised": "192.0.2.21:9092", "verdict": "SCOPE_LEAK", "evidence": "answered by another"}
KEPT: list[tuple[str, Any, Any]] = [
    ("as itself", told(row()), told(row())),
    ("unproven stays unproven", told(row("UNPROVEN")), told(row("UNPROVEN"))),
    ("unproven becomes proven", told(row("UNPROVEN")), told(row())),
    ("down before and after", told(row("DOWN_AT_HQ")), told(row("DOWN_AT_HQ"))),
    ("timed out before and after", told(row("TCP_TIMEOUT")), told(row("TCP_TIMEOUT"))),
    ("comes up meanwhile", told(row("TCP_REFUSED")), told(row())),
    ("no entry to tell of a rewrite", told(row()), told(row(rewritten_to=None))),
    ("no way but its own", told(row(reachable=None)), told(row("TCP_TIMEOUT"))),
    ("outsider as it should be", told(row()), told(row(), outsider=[LEAK | {"verdict": "NOT_REWRITTEN"}])),
]


@pytest.mark.parametrize(("before", "after"), [case[1:] for case in KEPT], ids=[case[0] for case in KEPT])
def test_is_kept(before: Any, after: Any) -> None:
    assert proof.failures(before, after, PAIRS) == []


UNDONE: list[tuple[str, Any, Any, str]] = [
    (
        "no answer any more",
        told(row()),
        told(row("TCP_TIMEOUT")),
        "answered before and does not through the rule: seen",
    ),
    ("was not asked", told(row()), told(), "it was not asked"),
    ("a dead listener", told(row()), told(row("UNPROVEN", api_versions=None)), "answered before and does not"),
    ("not proven any more", told(row()), told(row("UNPROVEN")), "was proven before and is not any more"),
    ("not rewritten", told(row()), told(row("NOT_REWRITTEN")), "answered before and does not through the rule"),
    ("another broker", told(row()), told(row("WRONG_BROKER")), "WRONG_BROKER at 192.0.2.21:9092"),
    ("another cluster", told(row("TCP_REFUSED")), told(row("WRONG_CLUSTER")), "WRONG_CLUSTER at"),
    ("another way", told(row()), told(row(rewritten_to="198.51.100.1:9092")), "which is not in the plan"),
    ("another user", told(row()), told(row(), outsider=[LEAK]), "another user is rewritten too"),
    ("no probe", told(row()), told(error={"cause": "no python", "mend": "install"}), "no python"),
]


@pytest.mark.parametrize(("before", "after", "said"), [case[1:] for case in UNDONE], ids=[case[0] for case in UNDONE])
def test_is_undone(before: Any, after: Any, said: str) -> None:
    assert said in " ".join(proof.failures(before, after, PAIRS))


def test_a_prefix_s_way_is_the_one_that_the_probe_computed() -> None:
    assert proof.failures(told(row()), told(row()), []) == []
    assert proof.failures(told(row()), told(row(rewritten_to="198.51.100.1:9092")), []) != []


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    def make(*answers: tuple[int, str, str]) -> list[Any]:
        asked: list[Any] = []
        left = list(answers)

        def run(argv: list[str], text: str, timeout: float) -> tuple[int, str, str]:
            asked.append((argv, json.loads(text), timeout))
            return left.pop(0)

        monkeypatch.setattr(proof, "run", run)
        return asked

    return make


def test_answers_of_all_identities_are_put_together(probe: Callable[..., list[Any]]) -> None:
    asked = probe((0, json.dumps(told(row())), ""), (0, json.dumps(told(row("DOWN_AT_HQ"))), ""))
    whole = proof.prove([{"deadline": 20.0, "identity": {"uid": 1}}, {"deadline": 5.0}], "advertised", None)
    assert [one["verdict"] for one in whole["brokers"]] == ["OK", "DOWN_AT_HQ"]
    assert [(request["path"], timeout) for _, request, timeout in asked] == [("advertised", 30.0), ("advertised", 15.0)]
    assert whole["seconds"] == 0.2


def test_a_probe_that_dies_is_an_error_with_its_last_words(probe: Callable[..., list[Any]]) -> None:
    probe((1, "", "Traceback\nboom"))
    whole = proof.prove([{"deadline": 1.0}], "reachable", None)
    assert "boom" in whole["error"]["cause"]


def test_secrets_travel_by_standard_input(probe: Callable[..., list[Any]]) -> None:
    asked = probe((0, json.dumps(told()), ""))
    proof.prove([{"deadline": 1.0, "clusters": [{"security": {"password": "hidden"}}]}], "reachable", None)
    assert "hidden" not in " ".join(asked[0][0])


@pytest.mark.parametrize("verdict", ["WRONG_BROKER", "WRONG_CLUSTER", "NOT_KAFKA"])
def test_a_pair_that_leads_elsewhere_is_refused_before_anything_changes(verdict: str) -> None:
    with pytest.raises(proof.Refusal, match=verdict):
        proof.refuse_if_hopeless(told(row(), row(verdict, id=2)))
