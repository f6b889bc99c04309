"""The status of a fleet: what is held against a host, and the three forms in which it is told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.filter import reports
from ansible_collections.kafka.natmap.plugins.module_utils import rollout, status_report
from unit.fleet import UNREACHABLE

DRIFT = {"what": "nftables", "before": "map pairs", "now": "nothing", "by": "nft (pid 7)"}
NOW = "2026-01-02T03:04:05Z"


def answer(**others: Any) -> dict[str, Any]:
    """What the verb `status` answers of a host where all is well."""
    return {
        "owner": "team",
        "state": "confirmed",
        "confirmed": True,
        "digest": "a" * 64,
        "since": "2026-01-01T00:00:00Z",
        "who": "ann",
        "counters": [{"cluster": "hq", "broker": "1", "address": "10.0.0.1:9092", "packets": 5, "bytes": 300}],
        "drift": [],
        "notices": [],
        "reboot_safe": {"safe": True, "why": []},
        "watch": {"state": "watching", "policy": "repair", "repairs": 0, "last": None},
        **others,
    }


ABSENT = {"digest": None, "since": None, "who": None, "confirmed": False, "counters": []}


def report(registered: dict[str, Any], tmp_path: Path, **others: Any) -> dict[str, Any]:
    hostvars = {host: {"report_status": one, **others} for host, one in registered.items()}
    groups = {"yarn_nodes": [host for host in registered if host.startswith("nm")]}
    return reports.status(list(hostvars), hostvars, groups, "team", NOW, str(tmp_path))


def test_a_healthy_fleet_has_no_problem(tmp_path: Path) -> None:
    made = report({"nm1": {"answer": answer()}, "nm2": {"answer": answer()}}, tmp_path)
    assert made["problems"] == []
    assert made["text"].startswith("All 2 host(s) are as they should be\n")
    assert re.search(r"hq +1 +10\.0\.0\.1:9092 +5 +5", made["text"])


@pytest.mark.parametrize(
    ("registered", "said"),
    [
        (UNREACHABLE, "nm1: not reached"),
        ({"failed": True, "msg": "no python"}, "nm1: no python"),
        ({"answer": answer(state="half done")}, "a switch died here"),
        ({"answer": answer(state="armed")}, "a switch is going on"),
        ({"answer": answer(state="damaged", **ABSENT)}, "cannot be read"),
        ({"answer": answer(state="absent", **ABSENT)}, "never switched. Mend: ansible-playbook apply"),
        ({"answer": answer(drift=[DRIFT])}, "nftables differs, done by nft (pid 7): now 'nothing', it was 'map pairs'"),
        ({"answer": answer(reboot_safe={"safe": False, "why": ["unit off"]})}, "a restart may lose it: unit off"),
        ({"answer": answer(watch={"state": "not running", "policy": "repair", "repairs": 0})}, "not running"),
    ],
)
def test_what_is_wrong_is_a_problem(registered: dict[str, Any], said: str, tmp_path: Path) -> None:
    made = report({"nm1": registered}, tmp_path)
    assert any(said in problem for problem in made["problems"])
    assert said in made["text"]
    assert json.loads(made["json"])["hosts"]["nm1"]["problems"]


def test_a_gateway_that_the_map_does_not_need_may_be_empty(tmp_path: Path) -> None:
    empty = {"answer": answer(state="absent", **ABSENT)}
    assert report({"gw": empty}, tmp_path)["problems"] == []
    needed = report({"gw": empty}, tmp_path, nat_map={"clusters": {"hq": {"gateway": {}}}})
    assert "never switched" in needed["problems"][0]


def test_a_host_that_was_confirmed_and_holds_nothing_was_re_imaged(tmp_path: Path) -> None:
    summed = {"failed": False, "nodes": [{"host": "nm1", "result": "new", "digest": "a" * 64}]}
    gone = {"failed": False, "nodes": [{"host": "nm1", "result": "removed", "digest": None}]}
    lines = [rollout.audit_record(summed, NOW, "ann", "apply", "team", "")]
    audit = tmp_path / "audit.jsonl"
    audit.write_text("damaged\n" + "\n".join(lines) + "\n")
    empty = {"nm1": {"answer": answer(state="absent", **ABSENT)}}
    assert f"confirmed at {NOW}: re-imaged or removed" in report(empty, tmp_path)["problems"][0]
    lines.append(rollout.audit_record(gone, NOW, "ann", "remove", "team", ""))
    audit.write_text("\n".join(lines) + "\n")
    assert "never switched" in report(empty, tmp_path)["problems"][0]


def test_nodes_that_yarn_knows_and_the_inventory_does_not_are_named(tmp_path: Path) -> None:
    nodes = [{"host": "nm1.site", "state": "RUNNING"}, {"host": "nm7.site", "state": "RUNNING"}]
    made = report({"nm1": {"answer": answer()}}, tmp_path, report_yarn={"answer": {"nodes": nodes, "problem": None}})
    assert made["problems"][0].startswith("YARN knows nm7.site, the inventory does not")
    assert 'kafka_natmap_unmanaged_nodes{owner="team"} 1' in made["prometheus"]


def test_a_resourcemanager_that_does_not_answer_is_told_and_is_no_problem(tmp_path: Path) -> None:
    silent = {"answer": {"nodes": [], "problem": "http://rm:8088 refused"}}
    made = report({"nm1": {"answer": answer()}}, tmp_path, report_yarn=silent)
    assert made["problems"] == []
    assert "YARN was not asked: http://rm:8088 refused" in made["text"]


def test_prometheus_can_read_it(tmp_path: Path) -> None:
    made = report({'nm"1\n': {"answer": answer(drift=[DRIFT])}, "nm2": UNREACHABLE}, tmp_path)
    text = made["prometheus"]
    assert text.endswith("\n")
    names = set()
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            names.add(line.split()[2])
            continue
        if not line.startswith("#"):
            assert re.fullmatch(r'(\w+)\{(\w+="([^"\\\n]|\\.)*",?)*\} [0-9.e+-]+', line), line
            assert line.partition("{")[0] in names
    assert 'kafka_natmap_up{host="nm2",owner="team"} 0' in text
    assert 'kafka_natmap_drift{host="nm\\"1\\n",owner="team"} 1' in text
    assert 'cluster="hq",broker="1",address="10.0.0.1:9092"} 5' in text
    assert "since_seconds" in text
    assert "1767225600" in text


def test_the_records_of_other_owners_say_nothing_of_this_one() -> None:
    summed = {"failed": False, "nodes": [{"host": "nm1", "result": "new", "digest": "a"}]}
    line = rollout.audit_record(summed, NOW, "ann", "apply", "other", "")
    assert status_report.last_known(line, "team") == {}
    assert status_report.last_known(line, "other") == {"nm1": NOW}


def test_a_host_is_known_by_what_it_calls_itself(tmp_path: Path) -> None:
    """The inventory's name for a host, YARN's and its own may all differ."""
    known = [{"host": f"worker{n}", "state": "RUNNING", "addresses": [f"10.0.0.{n}"]} for n in (1, 2)]
    asked = {"answer": {"nodes": known, "resource_manager": "http://master:8088", "problem": None}}
    here = {"nm-a": {"answer": answer(known_as=["127.0.0.1", "10.0.0.1"])}}
    problems = report(here, tmp_path, report_yarn=asked)["problems"]
    assert [one for one in problems if "YARN knows" in one and "worker2" in one and "worker1" not in one]
    assert report(here, tmp_path, report_yarn=asked, ansible_host="worker2")["problems"] == problems
    here["nm-b"] = {"answer": answer(known_as=["worker2"])}
    assert report(here, tmp_path, report_yarn=asked)["problems"] == []
