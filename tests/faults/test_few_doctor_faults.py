"""The most telling faults for the doctor; `make faults-doctor` plays all of them. No time is a condition here."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from faults.doctor import injected, is_healthy, names
from faults.doctor_cases import faults
from faults.doctor_node import OWNER, Patient, cluster, nat_map, second, told
from lab import lifecycle
from lab.topology import DEFAULT_NAME

# They need none of the listeners that `make faults-doctor` gives HQ.
FEW = (
    "the router's NAT drops one broker",
    "port of one broker closed",
    "MTU black hole to HQ",
    "no default route",
    "one rule deleted",
    "two brokers swapped",
    "a second cluster behind one address",
    "a name without an address",
    "a broker of the map that is gone",
    "another user is rewritten too",
    "no Kafka: a port that announces 2 GB",
)


@pytest.fixture(scope="module")
def patient() -> Iterator[Patient]:
    """A node of the lab that holds a map of HQ's two clusters for a while."""
    lab = lifecycle.standing(os.environ.get("KAFKA_NATMAP_LAB", DEFAULT_NAME))
    assert lab is not None, "bring the lab up: make lab-up"
    node = Patient(lab, "nm1")
    node.prepare()
    node.take(nat_map({"plain": cluster(lab), "dr": second(lab)}))
    yield node
    node.remove(OWNER)


def test_a_healthy_node_has_no_finding(patient: Patient) -> None:
    report, _ = patient.examine(patient.question(nat_map({"plain": cluster(patient.lab), "dr": second(patient.lab)})))
    assert is_healthy(report), told(report)


@pytest.mark.parametrize("name", FEW)
def test_the_fault_is_named_with_its_hop(patient: Patient, name: str) -> None:
    fault = next(one for one in faults(patient.lab) if one.name == name)
    with injected(patient.lab, fault):
        report, _ = patient.examine(patient.question(fault.map, fault.options, bootstrap=fault.bootstrap))
    assert names(report, fault), told(report)
