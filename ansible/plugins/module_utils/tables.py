"""Tables for the terminal: plans, proofs and the summary of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_LONGEST = 40


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Lines with aligned columns; the last column may be of any length."""
    cells = [list(map(str, head)), *[["-" if cell is None else str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return [lines[0], "  ".join("-" * min(width, 60) for width in widths), *lines[1:]]


def plan_lines(plans: Mapping[str, Mapping[str, Any]], most: int = _LONGEST) -> list[str]:
    """What each node would hold and why; long plans are cut, and say so."""
    lines: list[str] = []
    for node, plan in plans.items():
        entries = plan["entries"]
        rows = [
            (e["cluster"], e["broker"], e["advertised"], e["reachable"], e["mechanism"], e["reason"]) for e in entries
        ]
        lines += [f"{node}: {len(entries)} pair(s), owner {plan['owner']}"]
        lines += [
            "  " + line
            for line in table(("cluster", "broker", "advertised", "reachable", "mechanism", "why"), rows[:most])
        ]
        if len(rows) > most:
            lines.append(f"  ... and {len(rows) - most} more (-e plan_most={len(rows)} shows all)")
        lines += [f"  note: {notice}" for notice in plan["notices"]]
    return lines


def proof_lines(proofs: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Nodes x brokers: what answered where; then the evidence of all that is not OK."""
    asked = {node: proof for node, proof in proofs.items() if proof and (proof["brokers"] or proof["clusters"])}
    if not asked:
        return ["no broker was asked"]
    brokers = sorted(
        {_broker(row) for proof in asked.values() for row in proof["brokers"] if row["verdict"] != "STALE_ENTRY"},
        key=lambda broker: (broker[0], isinstance(broker[1], str), broker[1]),
    )
    rows = []
    for node, proof in asked.items():
        seen = {_broker(row): row for row in proof["brokers"]}
        rows.append([node, *[_cell(seen.get(broker)) for broker in brokers], _others(proof)])
    lines = table(("node", *[f"{cluster} {broker}" for cluster, broker in brokers], "other users"), rows)
    for node, proof in asked.items():
        for row in (*proof["brokers"], *proof["outsider"]):
            if row["verdict"] not in ("OK", "NOT_REWRITTEN"):
                lines.append(f"{node}: {row['verdict']} at {row['advertised']}: {row['evidence']}")
        if proof.get("brokers_more"):
            lines.append(
                f"{node}: STALE_ENTRY at {proof['brokers_more']} more pairs of the map, spare ones or left over"
            )
    return lines


def _broker(row: Mapping[str, Any]) -> tuple[str, Any]:
    return row["cluster"], row["id"] if row["id"] is not None else row["advertised"]


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "not asked"
    return (
        f"OK {row['latency_ms']:.1f} ms"
        if row["verdict"] == "OK" and row["latency_ms"] is not None
        else str(row["verdict"])
    )


def _others(proof: Mapping[str, Any]) -> str:
    rows = proof["outsider"]
    if not rows:
        return "not asked"
    leaks = [row for row in rows if row["verdict"] == "SCOPE_LEAK"]
    asked = len(rows) + int(proof.get("outsider_more", 0))
    return f"{len(leaks)} REWRITTEN" if leaks else f"not rewritten ({asked} of {asked})"


def summary_lines(results: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """What became of each node, worst first, each with what to do."""
    rows = []
    for node, result in results.items():
        state = result["state"] if result else "unreached"
        why = "; ".join((result or {}).get("failed", [])[:2])
        if result and result["state"] == "undone":
            why += " (the node is as before)" if result["clean"] else " (the node differs from before: see make status)"
        seconds = sum(step["seconds"] for step in (result or {}).get("steps", []))
        rows.append((node, state, f"{seconds:.1f} s", (result or {}).get("digest", "") or "", why))
    return table(("node", "state", "took", "digest", "why"), [(n, s, t, d[:12], w) for n, s, t, d, w in rows])


def verify_problems(answer: Mapping[str, Any]) -> list[str]:
    """Why a node is not as its map says; empty where it is."""
    proof = answer["proof"]
    found = (
        []
        if answer["state"] == "confirmed"
        else [f"this node's plan is {answer['state']}. Mend: ansible-playbook apply"]
    )
    found += [
        f"{drift['what']} differs from the confirmed plan. Mend: ansible-playbook apply" for drift in answer["drift"]
    ]
    found += [f"{proof['error']['cause']}. Mend: {proof['error']['mend']}"] if proof["error"] else []
    known = ("OK", "NOT_REWRITTEN", "STALE_ENTRY", "DOWN_AT_HQ", "UNPROVEN")
    bad = [row for row in (*proof["brokers"], *proof["outsider"]) if row["verdict"] not in known]
    found += [f"{row['verdict']} at {row['advertised']}: {row['evidence']}" for row in bad]
    return found
