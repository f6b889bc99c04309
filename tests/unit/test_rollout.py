"""The summary of a roll-out: how each host ended, who may try again, and the record of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.filter import reports
from ansible_collections.kafka.natmap.plugins.module_utils import rollout
from unit.fleet import UNREACHABLE, facts, switched

REFUSAL = {"cause": "the window is too short", "mend": "give more"}
BUSY = {"cause": "the node is being switched by owner lab (ann), process 7", "mend": "wait"}
NEW = switched("confirmed")


def planned(**others: Any) -> dict[str, Any]:
    return {key: fact for key, fact in facts().items() if key != "switch_preview"} | others


def one(hostvars: dict[str, Any], skip: dict[str, str] | None = None) -> dict[str, Any]:
    summed = reports.rollout_summary(["nm1"], {"nm1": hostvars}, skip)
    return {**summed["nodes"][0], "failed": summed["failed"], "retry": rollout.retry_list(summed)}


@pytest.mark.parametrize(
    ("hostvars", "result", "why", "again"),
    [
        (planned(switch_result=NEW), "new", "", False),
        (planned(switch_result=switched("unchanged")), "unchanged", "", False),
        (planned(switch_result=switched("would change")), "would change", "", False),
        (planned(switch_result=switched("removed")), "new", "the map holds nothing for it", False),
        (planned(switch_result=switched("refused", refusal=REFUSAL)), "refused", "too short. Mend: give more.", False),
        (planned(switch_result=switched("refused", refusal=BUSY)), "refused", "by owner lab", True),
        (planned(switch_result=switched("undone", clean=True, failed=["1 is 2"])), "undone", "1 is 2", False),
        (planned(switch_result=switched("undone", clean=False, failed=["x"])), "undone, differs", "x", False),
        (planned(switch_result=UNREACHABLE), "unknown", "See make status", True),
        (planned(switch_result={"failed": True, "msg": "gone."}), "unknown", "gone. See make status", True),
        (planned(), "old", "stopped before it came here", True),
        ({"plan_inspected": UNREACHABLE}, "unreached", "not asked", True),
        ({"plan_inspected": {"answer": {}}, "plan_result": {"problems": ["a. Mend: b."]}}, "refused", "a.", False),
        (planned(switch_result=NEW, switch_back=switched("confirmed")), "brought back", "all_or_none", False),
        (planned(switch_result=NEW, switch_back=switched("removed")), "brought back", "all_or_none", False),
        (planned(switch_result=NEW, switch_back=switched("undone", failed=["z"])), "unknown", "z", True),
        (planned(switch_result=NEW, switch_back=UNREACHABLE), "unknown", "lost on the way back", True),
    ],
)
def test_each_host_has_one_end(hostvars: dict[str, Any], result: str, why: str, again: bool) -> None:
    end = one(hostvars)
    assert (end["result"], end["failed"]) == (result, result not in ("new", "unchanged", "would change"))
    assert why in end["why"]
    assert end["retry"] == ("nm1\n" if again else "")


def test_what_the_approved_plan_left_out_is_old_and_is_not_tried_again() -> None:
    end = one(facts(), {"nm1": "changed since"})
    assert (end["result"], end["why"], end["retry"]) == ("old", "skipped: changed since", "")
    summed = reports.rollout_summary([], {}, {"gone": "missing: not in the inventory"})
    assert [(node["host"], node["result"]) for node in summed["nodes"]] == [("gone", "old")]


def test_the_worst_comes_first_and_the_verdict_counts() -> None:
    hosts = {
        "a": planned(switch_result=NEW),
        "b": planned(),
        "c": planned(switch_result=switched("undone", clean=True, failed=["d"])),
        "d": {"plan_inspected": UNREACHABLE},
    }
    summed = reports.rollout_summary(list(hosts), hosts)
    assert [node["host"] for node in summed["nodes"]] == ["c", "d", "b", "a"]
    assert summed["verdict"] == "NOT as the map says: 1 undone, 1 unreached, 1 old, 1 new"
    lines = rollout.lines(summed, "records")
    assert "1.5 s" in lines[2]
    assert lines[-1].endswith("--limit @records/apply.retry")
    assert rollout.retry_list(summed) == "b\nd\n"


def test_the_record_is_one_line_with_who_what_and_how_it_ended() -> None:
    summed = reports.rollout_summary(["nm1"], {"nm1": planned(switch_result=NEW)})
    line = rollout.audit_record(summed, "2026-01-02T03:04:05Z", "ann", "apply", "team", "the\nmap", "f" * 64)
    assert "\n" not in line
    record = json.loads(line)
    assert record["nodes"] == {"nm1": {"result": "new", "digest": "a" * 64}}
    assert (record["who"], record["approved"], record["verdict"]) == ("ann", "f" * 64, "done")
    assert "map" not in record["map"]


@pytest.mark.parametrize(
    ("registered", "result", "failed"),
    [
        (switched("removed"), "removed", False),
        (switched("unchanged"), "unchanged", False),
        (UNREACHABLE, "unreached", True),
        ({"failed": True, "msg": "no"}, "unknown", True),
        ({}, "unknown", True),
    ],
)
def test_a_removal_is_summed_up_too(registered: dict[str, Any], result: str, failed: bool) -> None:
    summed = reports.removal_summary(["nm1"], {"nm1": {"switch_result": registered}})
    assert (summed["nodes"][0]["result"], summed["failed"]) == (result, failed)


def test_only_what_this_run_changed_is_brought_back() -> None:
    hosts = {"a": {"switch_result": NEW}, "b": {"switch_result": switched("unchanged")}, "c": {}}
    assert reports.switched(list(hosts), hosts) == ["a"]
