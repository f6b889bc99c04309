"""Hosts as a play has seen them: the facts that the reports read."""

from __future__ import annotations

import json
from typing import Any

UNREACHABLE = {"unreachable": True, "changed": False}
CHANGES = [{"what": "hosts", "before": "one\nold\n", "after": "one\nnew\n"}]
ENTRY = {
    "cluster": "hq",
    "broker": "1",
    "advertised": "10.0.0.1:9092",
    "reachable": "203.0.113.1:9092",
    "mechanism": "nftables",
    "reason": "the broker advertises an address",
}


def preview(**others: Any) -> dict[str, Any]:
    """What the verb `preview` answers."""
    return {
        "digest": "a" * 64,
        "before_digest": "0" * 64,
        "changes": CHANGES,
        "refusal": None,
        "foreign": [],
        "conntrack": {"in_use": [], "count": 3, "max": 100, "effect": "tracks only the mapped"},
        "half_done": False,
        "proof": {"brokers": [{"verdict": "OK"}, {"verdict": "CLOSED"}]},
        **others,
    }


def facts(processes: Any = None, neighbours: Any = (), **others: Any) -> dict[str, Any]:
    """One host that was planned and previewed; ``others`` go into the preview."""
    surroundings = {"processes": processes or {"user yarn": 2}, "neighbours": list(neighbours)}
    bundle = {"plan": {"entries": [ENTRY], "notices": ["a notice"]}}
    return {
        "plan_inspected": {"answer": {"surroundings": surroundings}},
        "plan_result": {"problems": []},
        "switch_bundle": {"digest": "a" * 64, "text": json.dumps(bundle)},
        "switch_preview": {"answer": preview(**others)},
    }


def fleet(number: int, **others: Any) -> dict[str, dict[str, Any]]:
    """Equal hosts nm1, nm2, …"""
    return {f"nm{n}": facts(**others) for n in range(1, number + 1)}


def switched(state: str, **others: Any) -> dict[str, Any]:
    """A registered switch."""
    steps = [{"step": "load", "seconds": 0.5}, {"step": "probe", "seconds": 1.0}]
    return {"answer": {"state": state, "digest": "a" * 64, "steps": steps, "changed": True, **others}}
