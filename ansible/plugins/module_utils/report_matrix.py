"""The doctor's reports of a fleet as one matrix, hosts x brokers: what every host saw of every broker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Report = Mapping[str, Any]
Walk = Mapping[str, Any]

WORST_FIRST = ("broken", "unproven", "ok", "none")
"""States of a way; ``none`` is one that was not asked."""


@dataclass(frozen=True)
class Column:
    """One broker: its cluster, its id where it is known, and what it advertises."""

    cluster: str
    name: str
    advertised: str


@dataclass(frozen=True)
class Cell:
    """One way from a host to a broker. ``target`` is the address that the way led to, ``code`` what is wrong."""

    state: str = "none"
    code: str = ""
    latency_ms: float | None = None
    target: str = ""
    mapped: bool = False

    @property
    def text(self) -> str:
        """The cell in words: never colour alone."""
        if self.state == "ok":
            return "ok" if self.latency_ms is None else f"ok {self.latency_ms:.1f} ms"
        return self.code or {"none": "not asked"}.get(self.state, self.state)


@dataclass(frozen=True)
class Row:
    """One host as one user. ``cells`` are in the order of the columns."""

    host: str
    asked_as: str
    gateway: bool
    blind: bool
    cells: tuple[Cell, ...]

    @property
    def state(self) -> str:
        """The worst of its ways."""
        return "none" if self.blind else worst(cell.state for cell in self.cells)


@dataclass(frozen=True)
class Matrix:
    """All of it."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def worst(states: Iterator[str] | Sequence[str]) -> str:
    """The worst of these states; ``none`` where there are none."""
    return min(states, key=WORST_FIRST.index, default="none")


def natural(text: str) -> list[Any]:
    """A key that sorts nm9 before nm10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def to_brokers(report: Report) -> Iterator[Walk]:
    """The ways that end at a broker."""
    return (walk for walk in report["walks"] if walk["role"] != "bootstrap")


def make(reports: Sequence[Report]) -> Matrix:
    """Every host has a row for each user that asked; a host that could not look has one as well."""
    columns = _columns(reports)
    places = {(column.cluster, column.name): place for place, column in enumerate(columns)}
    rows: list[Row] = []
    for report in sorted(reports, key=lambda one: natural(str(one["node"]))):
        for asked_as in report["asked_as"] or ["-"]:
            cells = [Cell()] * len(columns)
            for walk in to_brokers(report):
                place = places[walk["cluster"], _name(walk)]
                if walk["as"] == asked_as or not report["asked_as"]:
                    cells[place] = min(cells[place], _cell(walk), key=lambda cell: WORST_FIRST.index(cell.state))
            blind = report["verdict"]["state"] == "blind"
            rows.append(Row(str(report["node"]), asked_as, "gateway" in report["kind"], blind, tuple(cells)))
    return Matrix(columns, tuple(rows))


def _columns(reports: Sequence[Report]) -> tuple[Column, ...]:
    """Every broker that a host dialled, by cluster and number."""
    found: dict[tuple[str, str], str] = {}
    for report in reports:
        for walk in to_brokers(report):
            found.setdefault((walk["cluster"], _name(walk)), walk["advertised"] or "")
    ordered = sorted(found.items(), key=lambda item: (natural(item[0][0]), natural(item[0][1])))
    return tuple(Column(cluster, name, advertised) for (cluster, name), advertised in ordered)


def _name(walk: Walk) -> str:
    return str(walk["advertised"] if walk["id"] is None else walk["id"])


def _cell(walk: Walk) -> Cell:
    target = walk["rewritten_to"] or walk["reachable"] or walk["dialled"] or walk["advertised"] or ""
    mapped = target != walk["advertised"]
    return Cell(walk["state"], walk["code"] or "", walk["latency_ms"], target, mapped)
