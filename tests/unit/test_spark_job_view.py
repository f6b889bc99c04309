"""How a relay fares: its own word, YARN's word, and which counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.action.relay import ActionModule
from ansible_collections.kafka.natmap.plugins.filter import relay
from ansible_collections.kafka.natmap.plugins.module_utils import relay_findings, relay_view
from tagdata import figures
from tagdata import status as job_status
from unit.nodes import ROOT

APP = str(ROOT / "spark_app")
APPLICATION = {"id": "application_1_0001", "state": "RUNNING", "final": "UNDEFINED", "diagnostics": "", "url": ""}
OTHER = {**APPLICATION, "id": "other"}
FAILED = {**APPLICATION, "state": "FAILED", "final": "FAILED", "diagnostics": "AM failed\nexit code 52\n"}
HALTED = {"code": "TOPIC_MISSING", "cause": "no audit", "mend": "create it"}


def status(state: str, **more: Any) -> dict[str, Any]:
    return {"state": state, "application": APPLICATION["id"], "cause": "", "mend": "", "time": 100.0, **more}


def view(**more: Any) -> dict[str, Any]:
    base = {
        "title": "audit",
        "state_path": "hdfs:///x/main",
        "status": None,
        "halted": None,
        "running": [],
        "application": None,
    }
    return {**base, **more}


@pytest.mark.parametrize(
    ("seen", "state", "well"),
    [
        (view(), "NEVER", False),
        (view(running=[APPLICATION]), "SUBMITTED", True),
        (view(running=[APPLICATION], status=status("RUNNING")), "RUNNING", True),
        (view(running=[APPLICATION], status=status("WAITING", cause="sink away")), "WAITING", True),
        (view(running=[APPLICATION], status=status("RUNNING", application="application_1_0000")), "SUBMITTED", True),
        (view(running=[APPLICATION], status=status("RUNNING"), halted=HALTED), "RUNNING", True),
        (view(running=[APPLICATION, {**APPLICATION, "id": "application_1_0002"}]), "DOUBLE", False),
        (view(status=status("HALTED"), halted=HALTED, application=FAILED), "HALTED", False),
        (view(status=status("STOPPED"), application=APPLICATION), "STOPPED", True),
        (view(status=status("DONE")), "DONE", True),
        (view(status=status("RUNNING"), application=FAILED), "DEAD", False),
        (view(status=status("RUNNING")), "DEAD", False),
    ],
)
def test_whose_word_counts(seen: dict[str, Any], state: str, well: bool) -> None:
    found = relay_view.judged(seen)
    assert (found["state"], found["well"]) == (state, well)
    assert bool(relay_view.problems([seen])) is not well
    assert found["well"] or (found["cause"] and found["mend"])


def test_a_dead_one_is_told_with_yarn_s_reason() -> None:
    assert "exit code 52" in relay_view.problems([view(status=status("RUNNING"), application=FAILED)])[0]


def test_nothing_there_is_a_problem() -> None:
    assert "no relay audit was deployed" in relay_view.problems([], "audit")[0]


def test_an_audit_needs_one_relay_that_has_run() -> None:
    ran = view(status=status("DONE"))
    assert relay_view.unclear([ran], "audit") == ""
    assert "no relay audit was deployed" in relay_view.unclear([], "audit")
    assert "audit, b. Mend: name one" in relay_view.unclear([ran, {**ran, "title": "b"}])
    assert "nothing has run in hdfs:///x/main" in relay_view.unclear([view()])


def test_the_job_s_own_line_is_told_with_the_state_that_counts() -> None:
    def line(data: dict[str, Any], now: float) -> str:
        return f"{data['state']} {now - data['time']:.0f}"

    assert relay_view.told(view(running=[APPLICATION], status=status("RUNNING")), line, 160.0) == "RUNNING 60"
    assert relay_view.told(view(status=status("RUNNING"), application=FAILED), line, 160.0) == "DEAD 0"
    assert relay_view.told(view(), line, 160.0).startswith("audit NEVER\n  nothing has run")


def test_several_expositions_become_one() -> None:
    one = '# HELP a A.\n# TYPE a gauge\na{r="1"} 1\n# HELP b B.\n# TYPE b gauge\nb{r="1"} 2\n'
    merged = relay_view.merged([one, one.replace('"1"', '"2"')]).splitlines()
    assert merged.count("# HELP a A.") == 1
    assert merged.index('a{r="2"} 1') == merged.index('a{r="1"} 1') + 1


def test_one_that_died_is_in_none_of_its_states() -> None:
    told = job_status.Status(name="audit", run="", application=APPLICATION["id"])
    told.become("RUNNING")
    alive = relay.relay_prometheus([view(running=[APPLICATION], status=told.snapshot())], APP)
    dead = relay.relay_prometheus([view(status=told.snapshot(), application=FAILED)], APP)
    assert 'tagdata_state{relay="audit",run="",state="RUNNING"} 1' in alive
    assert 'tagdata_state{relay="audit",run="",state="RUNNING"} 0' in dead
    assert relay.relay_prometheus([view()], APP) == ""


def test_logs_are_of_the_one_that_runs_else_of_the_last() -> None:
    newer = {**APPLICATION, "id": "application_1_0009"}
    seen = [view(running=[newer], application=FAILED), view(application=FAILED), view()]
    assert relay_view.applications(seen) == ["application_1_0009", "application_1_0001"]


@pytest.mark.parametrize(
    ("seen", "asked", "reached"),
    [
        (view(), {}, True),
        (view(running=[APPLICATION], status=status("RUNNING")), {}, False),
        (view(running=[APPLICATION], status=status("RUNNING")), {"states": ["RUNNING"]}, True),
        (view(running=[OTHER], status=status("RUNNING")), {"states": ["RUNNING"], "application": "other"}, False),
        (view(running=[APPLICATION], status=status("STARTING")), {"states": ["RUNNING"]}, False),
        (view(status=status("HALTED"), halted=HALTED), {"states": ["RUNNING"], "application": "other"}, True),
    ],
)
def test_how_long_is_waited(seen: dict[str, Any], asked: dict[str, Any], reached: bool) -> None:
    assert relay_view.reached([relay_view.judged(seen)], **{"states": [], **asked}) is reached


@pytest.mark.parametrize(
    ("running", "told_by", "reached", "wrong"),
    [
        (["new"], "new", True, ""),
        (["new"], "old", False, ""),
        (["old", "new"], "old", False, ""),
        (["old"], "old", True, "a: new has ended, old owns the state directory and goes on"),
        ([], "old", True, "a: new has ended, it told nothing"),
        ([], None, True, "a: new has ended, it told nothing"),
    ],
)
def test_what_another_application_says_is_no_success_of_the_one_that_was_submitted(
    running: list[str], told_by: str | None, reached: bool, wrong: str
) -> None:
    said = {**status("RUNNING"), "application": told_by} if told_by else None
    seen = view(running=[{**APPLICATION, "id": name} for name in running], status=said)
    one = {**relay_view.judged(seen), "title": "a"}
    assert relay_view.reached([one], ["RUNNING"], "new") is reached
    found = relay_view.problems([one], application="new")
    if reached:
        assert (found[0] if found else "").startswith(wrong)
        assert bool(found) is bool(wrong)


@pytest.mark.parametrize(
    ("live", "text", "shown"),
    [
        (0, "audit RUNNING", "audit RUNNING\n"),
        (10, "audit RUNNING", "\r\x1b[Kaudit RUN"),
        (10, "audit WAITING\n  sink away", "\naudit WAITING\n  sink away\n"),
    ],
)
def test_a_terminal_s_last_line_is_written_anew(
    live: int, text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ActionModule._show(text, "audit RUNNING", live)
    assert capsys.readouterr().out == shown


# ------------------------------------------------------------ findings


def walked(*findings: dict[str, str]) -> dict[str, Any]:
    return {"spark_job_walked": {"results": [{"answer": {"findings": list(findings)}}, {"answer": {"findings": []}}]}}


def test_findings_of_nodes_are_told_once_with_the_nodes() -> None:
    one = {"severity": "error", "code": "NOT_REWRITTEN", "cause": "no rule", "mend": "apply"}
    note = {**one, "severity": "note"}
    found = relay_findings.walked(["nm1", "nm2"], {"nm1": walked(one), "nm2": walked(one, note)}, [])
    assert found == [
        {
            "level": "error",
            "code": "NOT_REWRITTEN",
            "path": "source.bootstrap",
            "cause": "no rule (on nm1, nm2)",
            "mend": "apply",
        }
    ]


def test_of_a_side_without_login_only_the_way_there_counts() -> None:
    base = {"severity": "error", "cause": "c", "mend": "m"}
    refused = {**base, "code": "SASL", "hop": {"name": "metadata"}}
    away = {**base, "code": "TCP_TIMEOUT", "hop": {"name": "tcp"}}
    seen = {"nm1": walked(refused, away)}
    assert [one["code"] for one in relay_findings.walked(["nm1"], seen, [], ["source"])] == ["TCP_TIMEOUT"]
    assert [one["code"] for one in relay_findings.walked(["nm1"], seen, [], ["sink"])] == ["SASL", "TCP_TIMEOUT"]


def test_nodes_that_were_not_asked_are_told() -> None:
    assert relay_findings.walked([], {}, [])[0]["code"] == "UNPROVEN"
    lost = {"spark_job_walked": {"results": [{"unreachable": True, "msg": "gone"}, {"answer": {"findings": []}}]}}
    assert relay_findings.walked(["nm1"], {"nm1": lost}, [])[0]["cause"] == "gone (on nm1)"


def test_the_worst_stands_first() -> None:
    facts = {side: {"cluster_id": "x", "brokers": 1, "topics": {"audit": 6}} for side in ("source", "sink")}
    one = {"level": "note", "code": "N", "path": "a", "cause": "c", "mend": "m"}
    lines = relay_findings.lines([one, {**one, "level": "error", "code": "E"}], {"facts": facts}, "audit")
    assert lines[0] == "check of audit: 1 errors, 0 warnings"
    assert lines.index("E  error  a") < lines.index("N  note  a")


# ------------------------------------------------------------ the audit

FIGURES = {**dict.fromkeys(figures.MEANT, 0), "records": 12_000, "first": {}}


def test_a_clean_audit_is_no_problem() -> None:
    assert relay.relay_audit_problems(FIGURES, APP) == []
    told = relay.relay_audit_lines({**FIGURES, "repeated": 5}, "audit/again", APP)
    assert told[0] == "audit of audit/again: nothing lost, altered or reordered"
    assert any("12,000" in line for line in told)


@pytest.mark.parametrize("kind", ["lost", "altered", "reordered"])
def test_what_an_audit_found_is_told_with_its_places_and_a_mend(kind: str) -> None:
    found = {**FIGURES, kind: 3, "first": {kind: ["c/audit/0/7"]}}
    assert relay.relay_audit_problems(found, APP) == [f"3 {kind}"]
    told = relay.relay_audit_lines(found, "audit", APP)
    at = told.index(f"{kind}, the first 1 of 3:")
    assert told[at + 1].strip() == "c/audit/0/7"
    assert told[at + 2].strip().startswith("mend: ")


def test_an_audit_for_programs_names_its_relay() -> None:
    told = json.loads(relay.relay_audit_report({**FIGURES, "application": "a"}, "audit"))
    assert (told["format"], told["relay"], told["records"], told["application"]) == (1, "audit", 12_000, "a")
