"""Findings of the check, for people; those of the YARN nodes are the doctor's own. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils.relay_walk import NEAR

LEVELS = ("error", "warning", "note")
SIDES = ("source", "sink")
MOST = 5


def walked(
    nodes: list[str], hostvars: Mapping[str, Any], known: list[Mapping[str, Any]], short: Sequence[str] = ()
) -> list[dict[str, str]]:
    """What the doctor found on the YARN nodes: a finding once, with the nodes that have it.

    :param short: sides that were asked without their login; only what breaks before it counts there
    """
    found: dict[tuple[str, ...], list[str]] = {}
    asked = 0
    # The doctor tells of a topic that is not there as well.
    told_already = {"LEADER_UNREACHABLE"} if any(one["code"] == "TOPIC_MISSING" for one in known) else set()
    for node in nodes:
        results = (hostvars[node].get("spark_job_walked") or {}).get("results") or []
        asked += bool(results)
        for side, result in zip(SIDES, results, strict=False):
            for one in _of(result):
                if side in short and one.get("hop", {}).get("name", NEAR[0]) not in NEAR:
                    continue
                if one["severity"] in LEVELS[:2] and one["code"] not in told_already:
                    key = (one["severity"], one["code"], f"{side}.bootstrap", one["cause"], one["mend"])
                    found.setdefault(key, []).append(node)
    lines = [
        {"level": level, "code": code, "path": path, "cause": f"{cause} (on {_names(on)})", "mend": mend}
        for (level, code, path, cause, mend), on in found.items()
    ]
    if not asked:
        told = "no YARN node was asked: the group yarn_nodes is empty, or the play was limited"
        mend = "name the nodes in the inventory, and run without --limit"
        lines.append({"level": "note", "code": "UNPROVEN", "path": "yarn_nodes", "cause": told, "mend": mend})
    return lines


def _of(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    answer = result.get("answer")
    if answer and not answer.get("blind"):
        return list(answer["findings"])
    told = (answer or {}).get("blind") or {"cause": str(result.get("msg") or "it was not asked"), "mend": "make doctor"}
    return [{"severity": "warning", "code": "BLIND", "cause": told["cause"], "mend": told["mend"]}]


def _names(nodes: list[str]) -> str:
    return ", ".join(nodes[:MOST]) + (f" and {len(nodes) - MOST} more" if len(nodes) > MOST else "")


def lines(findings: list[Mapping[str, str]], answer: Mapping[str, Any], title: str) -> list[str]:
    """What was seen, then the findings, the worst first."""
    ordered = sorted(findings, key=lambda one: LEVELS.index(one["level"]))
    counts = [f"{sum(one['level'] == level for one in findings)} {level}s" for level in LEVELS[:2]]
    told = [f"check of {title}: {', '.join(counts)}"]
    for side in SIDES:
        seen = answer["facts"][side]
        topics = ", ".join(f"{name} ({count})" for name, count in sorted(seen["topics"].items())) or "no topic"
        told.append(f"  {side:7} cluster {seen['cluster_id'] or '?'}, {seen['brokers']} brokers, partitions: {topics}")
    for one in ordered:
        told += [
            "",
            f"{one['code']}  {one['level']}  {one['path']}",
            f"    cause  {one['cause']}",
            f"    mend   {one['mend']}",
        ]
    return told
