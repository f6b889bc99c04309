"""Tables for the terminal, and what a proof says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Lines with aligned columns; the last column may be of any length."""
    cells = [list(map(str, head)), *[["-" if cell is None else str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return [lines[0], "  ".join("-" * min(width, 60) for width in widths), *lines[1:]]


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
