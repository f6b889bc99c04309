"""The report's page and the drafted map, from real hosts and real brokers behind a real NAT."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kafka.natmap.plugins.module_utils import map_parser
from e2e.story import Story
from lab import inventory, lifecycle
from lab.topology import DEFAULT_NAME, ROOT, Lab

NOBODY_S = {"owner": "data-platform", "scope": {"users": ["yarn"]}, "clusters": {}}


@pytest.fixture(scope="module")
def lab() -> Lab:
    found = lifecycle.standing(os.environ.get("KAFKA_NATMAP_LAB", DEFAULT_NAME))
    assert found is not None, "no lab is up. Mend: make lab-up"
    return found


@pytest.fixture(scope="module")
def clusters(lab: Lab) -> Any:
    """What the committed map says of this lab, which is the truth."""
    text = (ROOT / "inventory/group_vars/all/nat_map.yml").read_text()
    return yaml.safe_load(inventory.translate(text, lab))["nat_map"]["clusters"]


def discover(lab: Lab, draft: Path, bootstrap: str, nat_map: Any) -> tuple[int, str]:
    given = json.dumps({"bootstrap": bootstrap, "discover_draft": str(draft), "nat_map": nat_map})
    return Story(lab).playbook("kafka.natmap.discover", "-e", given)


def test_a_map_is_drafted_from_one_address_of_each_cluster(lab: Lab, clusters: Any, tmp_path: Path) -> None:
    """The draft holds the very pairs of the map that somebody wrote by hand."""
    for name, body in clusters.items():
        draft = tmp_path / f"{name}.yml"
        code, said = discover(lab, draft, body["brokers"][-1]["reachable"], NOBODY_S)
        assert code == 0, said
        (found,) = map_parser.parse(yaml.safe_load(draft.read_text())["nat_map"]).clusters
        drafted = [{"id": b.id, "advertised": str(b.advertised), "reachable": str(b.reachable)} for b in found.brokers]
        assert drafted == body["brokers"]
        assert draft.read_text().count("guess, verified") == len(body["brokers"]) - 1


def test_the_present_map_is_compared_and_left_alone(lab: Lab, clusters: Any, tmp_path: Path) -> None:
    wrong = json.loads(json.dumps({**NOBODY_S, "clusters": clusters}))
    pairs = wrong["clusters"]["hq"]["brokers"]
    pairs[1]["reachable"], pairs[2]["reachable"] = pairs[2]["reachable"], pairs[1]["reachable"]
    code, said = discover(lab, tmp_path / "draft.yml", pairs[0]["reachable"], wrong)
    assert code == 0, said
    assert f"+ {{id: 2, advertised: {pairs[1]['advertised']}, reachable: {pairs[2]['reachable']}}}" in said
    present = tmp_path / "nat_map.yml"
    present.write_text("nat_map: {}\n")
    code, said = discover(lab, present, pairs[0]["reachable"], wrong)
    assert code != 0
    assert "is no draft" in said
    assert present.read_text() == "nat_map: {}\n"


def test_the_page_is_written_whatever_the_hosts_say(lab: Lab, clusters: Any, tmp_path: Path) -> None:
    code, said = Story(lab).playbook("kafka.natmap.report", "-e", f"natmap_records={tmp_path}")
    seen = json.loads((tmp_path / "report.json").read_text())
    assert (code == 0) == (seen["state"] == "healthy"), said
    page = (tmp_path / "report.html").read_text()
    for report in seen["reports"]:
        assert f'<th scope="row">{report["node"]}</th>' in page
        assert all(one["code"] in page for one in report["findings"])
    assert all(pair["reachable"] in page for body in clusters.values() for pair in body["brokers"])
