"""Alike hosts and alike brokers of a matrix drawn as one, so that the picture of a large site stays readable."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ansible_collections.kafka.natmap.plugins.module_utils.report_matrix import Cell, Column, Matrix, Row, worst

MOST_SINGLE_ROWS = 8
MOST_SINGLE_COLUMNS = 12
MOST_ROW_GROUPS = 8
MOST_COLUMN_GROUPS = 6
"""In each cluster."""

T = TypeVar("T")


@dataclass(frozen=True)
class Edge:
    """All ways from one group of hosts to one group of brokers: the worst state, and why."""

    state: str
    codes: tuple[str, ...]
    ways: int
    well: int
    targets: tuple[str, ...]
    mapped: bool


def rows_of(rows: Sequence[Row]) -> list[list[Row]]:
    """Few rows each alone; many by what they saw, the smallest groups together where there are too many."""
    if len(rows) <= MOST_SINGLE_ROWS:
        return [[row] for row in rows]
    return _folded(_grouped(rows, lambda row: (row.blind, *map(_kind, row.cells))), MOST_ROW_GROUPS)


def columns_of(matrix: Matrix) -> list[tuple[str, list[list[int]]]]:
    """By cluster: groups of column numbers, few alone and many by how they were seen."""
    names = list(dict.fromkeys(column.cluster for column in matrix.columns))
    single = len(matrix.columns) <= MOST_SINGLE_COLUMNS
    made = []
    for name in names:
        places = [place for place, column in enumerate(matrix.columns) if column.cluster == name]
        groups = [[place] for place in places] if single else _seen_alike(matrix, places)
        made.append((name, groups))
    return made


def _seen_alike(matrix: Matrix, places: list[int]) -> list[list[int]]:
    return _folded(
        _grouped(places, lambda place: tuple(_kind(row.cells[place]) for row in matrix.rows)), MOST_COLUMN_GROUPS
    )


def _kind(cell: Cell) -> tuple[str, str, bool]:
    return cell.state, cell.code, cell.mapped


def _grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _folded(groups: list[list[T]], most: int) -> list[list[T]]:
    """The largest stay themselves; all others become one, the last."""
    if len(groups) <= most:
        return groups
    kept = sorted(range(len(groups)), key=lambda number: -len(groups[number]))[: most - 1]
    rest = [item for number, group in enumerate(groups) if number not in kept for item in group]
    return [groups[number] for number in sorted(kept)] + [rest]


def edge(rows: Sequence[Row], places: Sequence[int]) -> Edge:
    """What a group of hosts saw of a group of brokers."""
    cells = [row.cells[place] for row in rows for place in places if row.cells[place].state != "none"]
    return Edge(
        state=worst([cell.state for cell in cells]),
        codes=tuple(sorted({cell.code for cell in cells if cell.state != "ok" and cell.code})),
        ways=len(cells),
        well=sum(cell.state == "ok" for cell in cells),
        targets=tuple(dict.fromkeys(cell.target for cell in cells if cell.target)),
        mapped=any(cell.mapped for cell in cells),
    )


def span(names: Sequence[str]) -> str:
    """A short name for a group: the first and the last."""
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"


def broker_names(columns: Sequence[Column]) -> str:
    """A short name for a group of brokers."""
    names = span([column.name for column in columns])
    return f"broker {names}" if len(columns) == 1 else f"{len(columns)} brokers, {names}"
