"""A fault: what is broken, how it is put back, and the code and the hop that the doctor must say first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faults.node import Map


@dataclass(frozen=True)
class Fault:
    """One row. `do` and `undo` are for a shell on the host `on`; without them the map alone is at fault.

    `expected` is CODE/detail@hop of the first finding, then +CODE of each that has to be told too; `at` its "host:port".
    """

    name: str
    expected: str
    do: str = ""
    undo: str = ""
    on: str = "nm1"
    map: Map | None = None
    at: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    bootstrap: str = ""
