"""Reports as the doctor gives them, of sites of any size, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from ansible_collections.kafka.natmap.plugins.filter import doctor as filters

HOPS = ("name", "route", "rule", "tcp", "api", "metadata", "size", "identity")
AT = "2025-01-01T00:00:00Z"
BREAKS_AT = {
    "NOT_REWRITTEN": "rule",
    "TCP_TIMEOUT": "tcp",
    "TCP_REFUSED": "tcp",
    "WRONG_BROKER": "identity",
    "UNPROVEN": "identity",
}


def advertised(broker: int) -> str:
    return f"192.0.2.{20 + broker}:9092"


def reachable(broker: int) -> str:
    return f"203.0.113.{20 + broker}:9092"


def walk(broker: int, code: str | None = None, **changed: Any) -> dict[str, Any]:
    """The way to one broker, broken by a code where there is one."""
    hops, state = [], "ok"
    for name in HOPS:
        if code and name == BREAKS_AT[code]:
            state = "unproven" if code == "UNPROVEN" else "broken"
        hops.append({"name": name, "state": state, "ms": None, "said": f"{name} was asked"})
        state = "not reached" if state != "ok" else state
    made = {
        "cluster": "hq", "as": "yarn", "role": "broker", "of": None, "id": broker, "advertised": advertised(broker),
        "reachable": reachable(broker), "dialled": advertised(broker), "rewritten_to": reachable(broker), "state": "ok",
        "code": code, "latency_ms": None if code else 0.4, "hops": hops,
    }  # fmt: skip
    if code:
        made["state"] = "unproven" if code == "UNPROVEN" else "broken"
    return {**made, **changed}


def bootstrap(broker: int, **changed: Any) -> dict[str, Any]:
    """The way to one bootstrap address."""
    told = {"role": "bootstrap", "id": None, "advertised": reachable(broker), "rewritten_to": None, **changed}
    return walk(broker, **told)


def report(
    node: str, walks: list[dict[str, Any]], kind: str = "node", addresses: tuple[str, ...] = (), **changed: Any
) -> dict[str, Any]:
    """One host's report, with a finding for each way that is not well."""
    told = filters._module("kafka_doctor_findings")
    found = [
        told.finding(
            one["code"],
            BREAKS_AT[one["code"]],
            f"{one['dialled']} was seen to fail",
            {"node": node, "cluster": one["cluster"], "user": one["as"], "broker": one["id"], "advertised": one["advertised"],
             "address": one["dialled"], "reachable": one["reachable"]},
        )
        for one in walks
        if one["code"]
    ]  # fmt: skip
    return {
        "format": 1, "node": node, "kind": [kind], "time": AT, "seconds": 1.2, "asked_as": ["yarn"], "clusters": [], "walks": walks,
        "findings": told.ordered(found), "blind": None, "verdict": told.verdict(told.ordered(found), walks), "addresses": list(addresses),
        **changed,
    }  # fmt: skip


def blind(node: str) -> dict[str, Any]:
    """A host that could not look."""
    (made,) = filters.doctor_reports([node], {node: {"doctor_result": {"unreachable": True, "msg": "no route"}}}, [])
    return made


def small() -> list[dict[str, Any]]:
    """Two nodes, three brokers, one rule gone, one broker unproven; a gateway through which a second cluster is reached."""
    second = {
        "cluster": "hq-dr",
        "advertised": "kafka-dr-1:9092",
        "reachable": "198.51.100.5:19103",
        "rewritten_to": "198.51.100.5:19103",
    }
    here = {"reachable": "203.0.113.20:19092", "dialled": "203.0.113.20:19092", "rewritten_to": None, "as": "root"}
    gateway = report("gateway", [walk(11, **{**second, **here})], "gateway", ("198.51.100.5",), asked_as=["root"])
    return [
        report(
            "nm1", [bootstrap(1), walk(1), walk(2, "NOT_REWRITTEN", rewritten_to=None), walk(3), walk(11, **second)]
        ),
        report("nm2", [bootstrap(1), walk(1), walk(2), walk(3, "UNPROVEN"), walk(11, **second)]),
        gateway,
        blind("nm3"),
    ]


def large(nodes: int = 200, brokers: int = 30) -> list[dict[str, Any]]:
    """A fleet where every tenth node has lost a rule, and one broker is dark for all."""
    made = []
    for number in range(1, nodes + 1):
        walks = [bootstrap(1), bootstrap(2)]
        for broker in range(1, brokers + 1):
            lost = "NOT_REWRITTEN" if number % 10 == 0 and broker == 7 else None
            walks.append(walk(broker, "TCP_TIMEOUT" if broker == 12 else lost))
        made.append(report(f"worker-{number}.rack.example", walks))
    return made
