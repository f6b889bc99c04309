"""`make faults-switch`: every step of a switch by every fault, as rows; exit code 1 where the node is not as it must be."""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bench.rows import Row, finish
from faults import points
from faults.bad import BAD, BROKER_DIES
from faults.node import Node
from faults.play import Case, Stage
from lab.borrow import borrowed
from lab.topology import Lab

HOSTS = ("hq", "router", "nodes")
COLUMNS = ("change", "step", "fault", "state", "value", "unit", "bar", "holds")
FAULTS = ("controller", "channel", "switch", "restart")


def cases() -> Iterator[Case]:
    """Every row for a node that goes from one map to another."""
    for bad in BAD:
        yield Case(None, "none", bad)
    for bad in BAD[:3]:
        yield Case(None, "none", bad, early=True)
    turn = itertools.cycle(BAD)
    for point, fault in itertools.product((*points.TO_LOAD, *points.TO_UNDO), FAULTS):
        yield Case(point, fault, next(turn))
    for point, fault in itertools.product(points.TO_CONFIRM, FAULTS):
        yield Case(point, fault)
    for point, fault in itertools.product(points.TO_LOAD, FAULTS[:2]):
        yield Case(point, fault)
    yield Case(points.PROBE, "hang")


def first_cases() -> Iterator[Case]:
    """Rows for a node that holds nothing yet."""
    yield Case(points.ARM, "switch")
    for point, fault in itertools.product((points.TIMER, points.HALF, points.WRITTEN), FAULTS[2:]):
        yield Case(point, fault)


class Table:
    """Two nodes play the rows at once; each takes the next one."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes, self.rows, self.lock = nodes, list[Row](), threading.Lock()
        self.failed: list[BaseException] = []

    def play(self, due: Sequence[Case], *given: Any) -> None:
        """Play these on stages of this kind; :raises RuntimeError: where a row could not be played"""
        left = iter(list(enumerate(due)))
        made: dict[int, Row] = {}
        threads = [threading.Thread(target=self._lane, args=(Stage(node, *given), left, made)) for node in self.nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failed:
            raise self.failed[0]
        self.rows += [made[number] for number in sorted(made)]

    def _lane(self, stage: Stage, left: Iterator[tuple[int, Case]], made: dict[int, Row]) -> None:
        node = stage.node
        try:
            stage.set()
            while not self.failed:
                with self.lock:
                    number, case = next(left, (0, None))
                if case is None:
                    break
                try:
                    one = stage.play(case)
                except (TimeoutError, subprocess.TimeoutExpired, RuntimeError) as error:
                    one = stage.not_played(case, error)
                made[number] = one
                said = "" if one["holds"] else f"  MISSED {one.get('differs', '')}"
                print(f"{node.name}  {one['state']:8} {one['value']:6.2f} s  {one['case']}{said}", flush=True)
            node.remove()
        except BaseException as error:  # a thread's errors are lost otherwise
            self.failed.append(error)


def main() -> int:
    """Play all, on a lab of its own unless another is named."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument(
        "--lab", default="faults", help="the lab's name (default: %(default)s); it is brought up if need be"
    )
    args = parser.parse_args()
    begun = time.monotonic()
    with borrowed(args.lab, HOSTS) as lab:
        rows = measure(lab)
    code = finish("faults", "switch", rows, COLUMNS)
    print(f"took {time.monotonic() - begun:.0f} s")
    return code


def measure(lab: Lab) -> list[Row]:
    """All rows, in the order of the table."""
    table = Table([Node(lab, name) for name in ("nm1", "nm2")])
    table.play(list(cases()))
    table.play(list(first_cases()), True)
    table.play([Case(points.ANY_CONFIRM, fault) for fault in FAULTS[2:]], True, "iptables")
    # All nodes see this one, so it is played alone.
    table.nodes = table.nodes[:1]
    table.play([Case(None, "none", BROKER_DIES)])
    return table.rows


if __name__ == "__main__":
    sys.exit(main())
