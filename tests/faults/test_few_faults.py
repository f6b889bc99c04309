"""The most telling rows of the table of faults; `make faults-switch` plays all of them. No time is a condition here."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from faults import points
from faults.bad import BAD
from faults.node import Node
from faults.play import Case, Stage
from lab import lifecycle
from lab.topology import DEFAULT_NAME

CASES = [
    Case(None, "none", BAD[0]),
    Case(None, "none", BAD[2], early=True),
    Case(points.HALF, "switch"),
    Case(points.WRITTEN, "switch"),
    Case(points.UNDO_HALF, "switch", BAD[0]),
    Case(points.PROBE, "channel", BAD[3]),
    Case(points.LOAD, "controller", BAD[1]),
]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A node of the lab that holds another owner's map for a while."""
    lab = lifecycle.standing(os.environ.get("KAFKA_NATMAP_LAB", DEFAULT_NAME))
    assert lab is not None, "bring the lab up: make lab-up"
    node = Node(lab, "nm1")
    made = Stage(node)
    made.set()
    yield made
    node.remove()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_node_is_as_before_or_as_after(stage: Stage, case: Case) -> None:
    row = stage.play(case)
    assert row["state"] == case.expected, row
    if case.fault == "switch":
        assert row["beside"]["the caller was told"] == {"old": "undone", "new": "confirmed"}[case.expected]


def test_a_first_change_by_iptables_and_hosts_leaves_nothing(stage: Stage) -> None:
    first = Stage(stage.node, True, "iptables")
    first.set()
    row = first.play(Case(points.ANY_CONFIRM, "switch"))
    assert row["state"] == "old", row
