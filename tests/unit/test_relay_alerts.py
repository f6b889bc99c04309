"""The alert rules speak of metrics that the relay has."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from tagdata import status
from unit.nodes import ROOT

RULES: list[dict[str, Any]] = yaml.safe_load((ROOT / "spark_app" / "alerts.yml").read_text())["groups"][0]["rules"]


def metrics() -> dict[str, set[str]]:
    """Every metric of the relay with its labels, as it prints them."""
    one = status.Status(name="audit", run="")
    one.batch(1, 0.5, 10, 9, 1, {"too_large": 1})
    one.lag({"audit": 3})
    found = re.findall(r"^(tagdata_\w+)\{(.*)\} ", status.prometheus(one.snapshot()), re.MULTILINE)
    return {name: set(re.findall(r"(\w+)=", labels)) for name, labels in found}


def test_the_five_cases_are_there() -> None:
    names = ["NoProgress", "LagGrows", "Waiting", "Halted", "BadRecords"]
    assert [rule["alert"] for rule in RULES] == [f"Tagdata{name}" for name in names]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_metrics_states_and_labels_are_the_relay_s_own(rule: dict[str, Any]) -> None:
    known = metrics()
    used = set(re.findall(r"tagdata_\w+", rule["expr"]))
    assert used
    assert used <= set(known)
    states = re.findall(r'state=~?"([^"]+)"', rule["expr"])
    assert {state for one in states for state in one.split("|")} <= set(status.STATES)
    labels = set().union(*(known[name] for name in used))
    assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= labels
    assert rule["expr"].count("(") == rule["expr"].count(")")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["mend"]
    assert rule["labels"]["severity"] in ("warning", "critical")
