"""Rows of figures: printed as a table, and written as JSON for those who read them by program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.topology import BUILD

Row = dict[str, Any]


def row(case: str, value: float, unit: str, bar: float | None, holds: bool, **beside: Any) -> Row:
    """One figure. ``beside`` is what was measured beside it, ``bar`` what it has to keep to (None: it only informs)."""
    return {"case": case, "value": value, "unit": unit, "beside": beside, "bar": bar, "holds": holds}


def finish(kind: str, name: str, rows: Sequence[Row], columns: Sequence[str]) -> int:
    """Print the rows, write build/KIND/NAME.json, and return the exit code: 1 where one does not hold."""
    path: Path = BUILD / kind / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(rows), indent=1) + "\n")
    print("\n" + "\n".join(table([columns, *([_cell(one, column) for column in columns] for one in rows)])))
    missed = [one for one in rows if not one["holds"]]
    print(f"\n{len(rows) - len(missed)} of {len(rows)} rows hold; {path.relative_to(BUILD.parent)}")
    return 1 if missed else 0


def table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell, a rule under the first line."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    lines = [lines[0], ["-" * width for width in widths], *lines[1:]]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _cell(one: Row, column: str) -> str:
    value = one.get(column)
    if column == "holds":
        return "yes" if value else "NO"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(item)}" for key, item in value.items())
    return "-" if value is None else _short(value)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
