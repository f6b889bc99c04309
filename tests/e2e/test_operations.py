"""What an operator does with a fleet: plan, sign, apply exactly that, see it, be told what went wrong, go back."""

import json
import os
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e import access
from e2e.story import AUDIT, Story, stand
from lab import podman
from lab.topology import DEFAULT_NAME, ROOT, Lab

NODES = ("nm1", "nm2")
# When, by whom, and from what each generation came.
KEPT = "/var/lib/kafka-natmap/"
MAP = yaml.safe_load((ROOT / "inventory/group_vars/all/nat_map.yml").read_text())["nat_map"]


@dataclass
class Site:
    """The lab as an operator holds it: playbooks, and a folder of records."""

    lab: Lab
    records: Path

    def play(self, playbook: str, *arguments: str, nat_map: Any = None) -> tuple[int, str]:
        """A playbook's exit code and output; with another map, where one is given."""
        more = ["-e", f"natmap_records={self.records}"]
        if nat_map:
            more += ["-e", json.dumps({"nat_map": nat_map})]
        return Story(self.lab).playbook(playbook, *more, *arguments)

    def states(self) -> dict[str, dict[str, str]]:
        """What each node holds, but for its audit record."""
        found = {node: access.on_host(self.lab, node, "node_state.py") for node in NODES}
        return {node: {k: v for k, v in one.items() if k not in AUDIT} for node, one in found.items()}

    def execute(self, node: str, *command: str, stdin: bytes | None = None) -> str:
        """A command on a node, as root."""
        return podman.execute(self.lab.container(node), *command, stdin=stdin)

    def ends(self) -> dict[str, str]:
        """How each host ended, by the last line of the audit record."""
        line = (self.records / "audit.jsonl").read_text().splitlines()[-1]
        return {host: end["result"] for host, end in json.loads(line)["nodes"].items()}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Nothing of ours on any node, before and after."""
    found = stand(os.environ.get("KAFKA_NATMAP_LAB", DEFAULT_NAME))
    clean = Site(found, tmp_path_factory.mktemp("clean"))
    assert clean.play("kafka.natmap.remove")[0] == 0
    yield found
    assert clean.play("kafka.natmap.remove")[0] == 0


@pytest.fixture
def site(lab: Lab, tmp_path: Path) -> Iterator[Site]:
    """A site of its own: other tests leave no plan on it."""
    here = Site(lab, tmp_path / "records")
    yield here
    if (here.records / "audit.jsonl").exists():
        assert here.play("kafka.natmap.remove")[0] == 0


def other_map() -> Any:
    """The map with one broker less."""
    less = deepcopy(MAP)
    less["clusters"]["hq"]["brokers"].pop()
    return less


def swapped_map() -> Any:
    """The map with two brokers behind each other's address."""
    bad = deepcopy(MAP)
    one, two, _ = bad["clusters"]["hq"]["brokers"]
    one["reachable"], two["reachable"] = two["reachable"], one["reachable"]
    return bad


def test_exactly_what_was_signed_is_applied(site: Site) -> None:
    before = site.states()
    assert site.play("kafka.natmap.plan", "--limit", "nm1,gateway")[0] == 0
    plan = site.records / "plan.json"
    signed = json.loads(plan.read_text())
    lines = [line for layer in signed["changes"][signed["nodes"][1]["change"]]["layers"] for line in layer["diff"]]
    assert any("198.18.0.21 . 9092 : 198.18.3.21 . 9092" in line for line in lines)
    assert {node["host"]: node["processes"] for node in signed["nodes"]}["nm1"]["user yarn"] >= 1
    assert (site.records / "plan.html").read_text().startswith("<!doctype html>")
    assert site.states() == before, "a plan changes nothing"

    code, said = site.play("apply", "-e", f"approved_plan={plan}", "-e", "strict=true")
    assert code != 0
    assert "nm2: new: not in the approved plan" in said
    assert site.states() == before, "with strict, nothing is touched"

    code, said = site.play("apply", "-e", f"approved_plan={plan}", nat_map=other_map())
    assert code != 0
    assert "nm1: changed since" in said
    assert "198.18.0.23" in said
    assert site.states() == before, "another map than the signed one is not applied"

    code, said = site.play("apply", "-e", f"approved_plan={plan}", "-e", f"approved_digest={signed['digest']}")
    assert code != 0, "nm2 is not as the map says"
    assert site.ends() == {"nm1": "new", "nm2": "old", "gateway": "unchanged"}
    assert site.states()["nm2"] == before["nm2"]

    cut = site.records / "cut.json"
    cut.write_text(plan.read_text()[:-100])
    code, said = site.play("apply", "-e", f"approved_plan={cut}")
    assert code != 0
    assert "not whole" in said


def test_a_bad_change_stops_at_the_canary_and_status_says_so(site: Site) -> None:
    assert site.play("apply")[0] == 0
    assert site.ends() == {"nm1": "new", "nm2": "new", "gateway": "unchanged"}
    before = site.states()

    code, said = site.play("apply", nat_map=swapped_map())
    assert code != 0
    assert site.ends() == {"nm1": "refused", "nm2": "old", "gateway": "unchanged"}
    assert "WRONG_BROKER" in said
    assert (site.records / "apply.retry").read_text() == "nm2\n"
    assert site.states() == before

    code, _ = site.play("kafka.natmap.status", "-e", "format=json")
    assert code == 0
    status = json.loads((site.records / "status.json").read_text())
    assert status["problems"] == []
    assert {counter["broker"] for counter in status["hosts"]["nm1"]["counters"]} >= {"1", "2", "3"}
    assert "kafka_natmap_confirmed" in (site.records / "status.prom").read_text()


FOREIGN = """
table ip mine {
    chain out {
        type nat hook output priority -110;
        ip daddr 198.18.0.22 dnat to 198.18.3.23
    }
}
"""


def test_all_or_none_brings_the_first_node_back(site: Site) -> None:
    assert site.play("apply", nat_map=other_map())[0] == 0
    site.execute("nm2", "nft", "-f", "-", stdin=FOREIGN.encode())
    try:
        before = site.states()
        code, said = site.play("apply", "-e", "all_or_none=true")
        assert code != 0
        assert site.ends() == {"nm1": "brought back", "nm2": "refused", "gateway": "unchanged"}
        assert "198.18.0.22" in said
        after = site.states()
        assert {path: text for path, text in after["nm1"].items() if not path.startswith(KEPT)} == {
            path: text for path, text in before["nm1"].items() if not path.startswith(KEPT)
        }
        assert after["nm2"] == before["nm2"]
    finally:
        site.execute("nm2", "nft", "delete", "table", "ip", "mine")


def test_a_node_that_is_away_is_named_and_can_be_tried_again(site: Site) -> None:
    subprocess.run(["podman", "pause", site.lab.container("nm2")], check=True, capture_output=True)
    try:
        code, said = site.play("apply", "-e", "all_or_none=true")
        assert code != 0
        assert "Nothing was changed" in said
        code, said = site.play("apply")
        assert code != 0
        assert site.ends() == {"nm1": "new", "nm2": "unreached", "gateway": "unchanged"}
        assert site.play("kafka.natmap.status")[0] != 0
    finally:
        subprocess.run(["podman", "unpause", site.lab.container("nm2")], check=True, capture_output=True)
    code, said = site.play("kafka.natmap.status")
    assert code != 0
    assert "nm2: holds nothing: it is new" in said
    assert site.play("apply", "--limit", f"@{site.records / 'apply.retry'}")[0] == 0
    assert site.play("kafka.natmap.status")[0] == 0
