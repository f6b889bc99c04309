"""Nodes that YARN knows and the inventory does not."""

from __future__ import annotations

import pytest
from ansible_collections.kafka.natmap.plugins.module_utils.yarn_nodes import unmanaged

Rows = list[tuple[str, str, list[str]]]


@pytest.mark.parametrize(
    ("known", "inventory", "missing"),
    [
        ([("nm1", "RUNNING", [])], {"nm1": []}, []),
        ([("nm1", "RUNNING", []), ("nm3", "RUNNING", [])], {"nm1": []}, ["nm3"]),
        ([("NM1.Site.Example.", "RUNNING", [])], {"nm1.site.example": []}, []),
        ([("nm1.site.example", "RUNNING", [])], {"nm1": []}, []),
        ([("nm1", "RUNNING", [])], {"nm1.site.example": []}, []),
        ([("nm1.site.example", "RUNNING", [])], {"nm1.other.example": []}, ["nm1.site.example"]),
        ([("nm1.a.example", "RUNNING", []), ("nm1.b.example", "RUNNING", [])], {"nm1": []}, ["nm1.b.example"]),
        (
            [("nm1.a.example", "RUNNING", []), ("nm1.b.example", "RUNNING", ["10.0.0.2"])],
            {"nm1": ["10.0.0.2"]},
            ["nm1.a.example"],
        ),
        ([("10.0.0.1", "RUNNING", [])], {"node-a": ["10.0.0.1"]}, []),
        ([("10.0.0.1", "RUNNING", [])], {"10": []}, ["10.0.0.1"]),
        ([("ip-10-0-0-1.ec2", "RUNNING", ["10.0.0.1"])], {"node-a": ["127.0.0.1", "10.0.0.1"]}, []),
        ([("nm1", "RUNNING", ["127.0.1.1"])], {"nm2": ["127.0.1.1"]}, ["nm1"]),
        ([("localhost", "RUNNING", [])], {"nm2": ["localhost"]}, ["localhost"]),
        ([(f"nm{n}", state, []) for n, state in enumerate(("DECOMMISSIONED", "SHUTDOWN", "LOST"))], {}, []),
        ([("nm1", "UNHEALTHY", []), ("nm2", "DECOMMISSIONING", []), ("nm3", "NEW", [])], {}, ["nm1", "nm2", "nm3"]),
        ([("nm1", "RUNNING", []), ("nm1", "RUNNING", [])], {"nm1": [""]}, []),
    ],
)
def test_unmanaged(known: Rows, inventory: dict[str, list[str]], missing: list[str]) -> None:
    rows = [{"host": host, "state": state, "addresses": addresses} for host, state, addresses in known]
    assert unmanaged(rows, inventory) == missing
