"""Tables for the terminal."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.module_utils import tables


def row(broker_id: int | None, verdict: str, **more: Any) -> dict[str, Any]:
    return {
        "cluster": "hq",
        "id": broker_id,
        "advertised": f"192.0.2.{broker_id}:9092",
        "verdict": verdict,
        "evidence": "seen",
        "latency_ms": 1.25,
    } | more


def proof(*brokers: dict[str, Any], outsider: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"clusters": [{"name": "hq"}], "brokers": list(brokers), "outsider": list(outsider), "error": None}


def test_columns_are_aligned() -> None:
    assert tables.table(("a", "long head"), [("value", None), (1, 2)]) == [
        "a      long head",
        "-----  ---------",
        "value  -",
        "1      2",
    ]


def test_nodes_and_brokers_in_the_order_of_their_ids() -> None:
    other = row(2, "NOT_REWRITTEN")
    lines = tables.proof_lines(
        {
            "nm1": proof(row(10, "OK"), row(2, "DOWN_AT_HQ"), outsider=(other, other)),
            "nm2": proof(row(2, "OK", latency_ms=None), outsider=(row(2, "SCOPE_LEAK"),)),
            "nm3": None,
        }
    )
    assert lines[0].split() == ["node", "hq", "2", "hq", "10", "other", "users"]
    assert lines[2].split() == ["nm1", "DOWN_AT_HQ", "OK", "1.2", "ms", "not", "rewritten", "(2", "of", "2)"]
    assert lines[3].split() == ["nm2", "OK", "not", "asked", "1", "REWRITTEN"]
    assert lines[4:] == ["nm1: DOWN_AT_HQ at 192.0.2.2:9092: seen", "nm2: SCOPE_LEAK at 192.0.2.2:9092: seen"]


def test_brokers_without_an_id_come_last() -> None:
    lines = tables.proof_lines({"nm1": proof(row(None, "OK", advertised="a:1"), row(3, "OK"))})
    assert lines[0].split() == ["node", "hq", "3", "hq", "a:1", "other", "users"]


def test_no_proof_is_said() -> None:
    assert tables.proof_lines({"nm1": None}) == ["no broker was asked"]


def answer(**more: Any) -> dict[str, Any]:
    return {"state": "confirmed", "drift": [], "proof": proof(row(1, "OK"))} | more


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (answer(state="absent"), "this node's plan is absent. Mend: ansible-playbook apply"),
        (answer(drift=[{"what": "nftables"}]), "nftables differs from the confirmed plan"),
        (answer(proof=proof(row(1, "TCP_TIMEOUT"))), "TCP_TIMEOUT at 192.0.2.1:9092: seen"),
        (answer(proof=proof(row(1, "OK"), outsider=(row(1, "SCOPE_LEAK"),))), "SCOPE_LEAK at"),
        (answer(proof=proof() | {"error": {"cause": "no probe", "mend": "install"}}), "no probe. Mend: install"),
    ],
)
def test_verify_names_what_is_wrong(said: Any, problem: str) -> None:
    assert problem in " ".join(tables.verify_problems(said))


@pytest.mark.parametrize("verdict", ["OK", "DOWN_AT_HQ", "UNPROVEN", "STALE_ENTRY"])
def test_verify_takes_what_the_node_is_not_to_blame_for(verdict: str) -> None:
    assert tables.verify_problems(answer(proof=proof(row(1, verdict)))) == []
