"""The doctor's findings of a fleet, alike ones together, each with the way on which it showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils.report_matrix import Report

SEVERITIES = ("error", "warning", "note")
MOST_FINDINGS = 200
"""So many different findings are printed; a page with more would not be read."""
MOST_NAMED = 12
"""So many hosts are named in a heading; the matrix has them all."""


@dataclass(frozen=True)
class Hop:
    """One step of a way."""

    name: str
    state: str
    said: str


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, on all hosts where it is alike."""

    number: int
    code: str
    severity: str
    hop: str
    place: str
    hosts: str
    evidence: str
    cause: str
    mend: str
    way: tuple[Hop, ...]


def grouped(reports: Sequence[Report]) -> tuple[tuple[Finding, ...], dict[tuple[Any, ...], int]]:
    """Alike findings stand once; and which finding explains the way of (host, user, cluster, advertised)."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for report in reports:
        for one in report["findings"]:
            place = one["advertised"] or one["hop"]["port"]
            key = (one["code"], one["detail"], one["severity"], one["cluster"], one["hop"]["name"], place)
            groups.setdefault(key, []).append(one)
    ordered = sorted(groups.values(), key=lambda ones: SEVERITIES.index(ones[0]["severity"]))
    numbers: dict[tuple[Any, ...], int] = {}
    for number, ones in enumerate(ordered, 1):
        for one in ones if number <= MOST_FINDINGS else ():
            numbers.setdefault((one["node"], one["as"], one["cluster"], one["advertised"]), number)
    walks = {_way_key(report, walk): walk for report in reports for walk in report["walks"] if walk["state"] != "ok"}
    return tuple(_finding(number, ones, walks) for number, ones in enumerate(ordered, 1)), numbers


def _way_key(report: Report, walk: Mapping[str, Any]) -> tuple[Any, ...]:
    return report["node"], walk["as"], walk["cluster"], walk["advertised"]


def _finding(number: int, ones: Sequence[Mapping[str, Any]], walks: Mapping[Any, Mapping[str, Any]]) -> Finding:
    first = ones[0]
    nodes = list(dict.fromkeys(str(one["node"]) for one in ones))
    hop = first["hop"]
    dialled = f"{hop['address']}:{hop['port']}" if hop["address"] and hop["port"] else ""
    place = first["advertised"] or dialled
    if dialled and first["advertised"] and dialled != first["advertised"]:
        place = f"{first['advertised']} by {dialled}"
    walk = walks.get((first["node"], first["as"], first["cluster"], first["advertised"]))
    way = tuple(Hop(step["name"], step["state"], step["said"]) for step in walk["hops"]) if walk else ()
    return Finding(
        number=number,
        code=first["code"],
        severity=first["severity"],
        hop=hop["name"],
        place=place,
        hosts=some(nodes),
        evidence=first["evidence"],
        cause=first["cause"],
        mend=first["mend"].replace(f"--limit {nodes[0]}", "--limit " + ",".join(nodes)),
        way=way,
    )


def some(names: Sequence[Any], most: int = MOST_NAMED) -> str:
    """Names, and how many more there are."""
    known = list(dict.fromkeys(map(str, names)))
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more
