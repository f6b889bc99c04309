"""The most telling faults for the relay; `make faults-relay` plays all of them. No time is a condition here."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from faults.relay import play
from faults.relay_cases import CASES, Case
from faults.relay_site import Site
from lab import lifecycle
from lab.topology import DEFAULT_NAME

FEW = ("driver-killed-before-commit", "routes-removed")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """The lab, its nodes with the map for a while."""
    lab = lifecycle.standing(os.environ.get("KAFKA_NATMAP_LAB", DEFAULT_NAME))
    assert lab is not None, "bring the lab up: make lab-up"
    site = Site(lab)
    site.play("apply")
    yield site
    site.play("kafka.natmap.remove")


@pytest.mark.parametrize("case", [case for case in CASES if case.name in FEW], ids=lambda case: case.name)
def test_nothing_is_lost_and_nothing_repeated(site: Site, case: Case) -> None:
    row = play(site, case)
    assert row["holds"], row
