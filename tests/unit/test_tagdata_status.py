"""Status, metrics, and how trouble is sorted: pure functions of what is known."""

import io
import json
import sys
from typing import Any

import pytest
from tagdata import status as st
from tagdata import trouble

JAVA = """An error occurred while calling o12.get.
: java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed out waiting
\tat java.base/java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)
Caused by: org.apache.kafka.common.errors.{}
"""


def status(**more: Any) -> st.Status:
    return st.Status(name="x", run="", **more)


def test_counts_what_was_committed_and_what_was_not_written_again() -> None:
    one = status()
    one.batch(0, 2.0, 100, 90, 10, {"too_large": 1})
    one.batch(1, 2.0, 50, 50, 0, {"too_large": 2, "loop": 1})
    data = one.snapshot()
    assert (data["records_in"], data["records_out"], data["left_out"], data["batch"]) == (150, 140, 10, 1)
    assert data["bad"] == {"too_large": 3, "loop": 1}
    assert data["in_per_second"] == 25
    one.idle()
    assert one.snapshot()["in_per_second"] == 0


def test_sums_the_time_of_waiting_and_says_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(st.time, "time", lambda: now[0])
    one = status()
    assert one.become("RUNNING")
    assert not one.become("RUNNING")
    assert one.become("WAITING", "sink away")
    assert not one.become("WAITING", "sink away")
    now[0] += 5
    assert one.snapshot()["waiting_seconds"] == 5
    assert one.become("RUNNING")
    now[0] += 5
    data = one.snapshot()
    assert (data["waiting_seconds"], data["waits"], data["cause"], data["since"]) == (5, 1, "", 1005)


def test_keeps_the_last_remarks_once() -> None:
    one = status()
    for number in (0, *range(30)):
        one.note(f"n{number}")
    assert len(one.data["notes"]) == st.NOTES
    assert one.data["notes"][-1] == "n29"


def test_one_line_for_people() -> None:
    one = status()
    one.batch(3, 1.5, 3000, 3000, 0, {"loop": 2})
    one.lag({"audit": 1234})
    one.become("WAITING", "sink (b:1): no answer", "start it")
    told = st.line(one.snapshot())
    assert told.startswith("x WAITING  in 0/s out 0/s  lag audit 1,234  batch 3 in 1.5 s  bad loop 2")
    assert "\n  sink (b:1): no answer\n  mend: start it" in told
    assert "said 100 s ago" in st.line(one.snapshot(), now=one.snapshot()["time"] + 100)
    assert "no batch yet" in st.line(status().snapshot())


def test_prometheus_text_names_every_metric_once() -> None:
    one = status()
    one.batch(3, 1.5, 3000, 3000, 0, {"loop": 2})
    one.lag({"audit": 7})
    text = st.prometheus(one.snapshot())
    types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    assert 'tagdata_lag_records{relay="x",run="",topic="audit"} 7\n' in text
    assert 'tagdata_bad_records_total{relay="x",run="",reason="loop"} 2\n' in text
    assert 'tagdata_state{relay="x",run="",state="STARTING"} 1\n' in text
    assert all(line.startswith(("#", "tagdata_")) and not line.endswith("None") for line in text.splitlines())


@pytest.mark.parametrize(("form", "start"), [("line", "x STARTING"), ("prometheus", "# HELP tagdata_state ")])
def test_prints_a_status_from_standard_input(
    form: str, start: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(status().snapshot())))
    assert st.main([form]) == 0
    assert capsys.readouterr().out.startswith(start)
    assert st.main(["xml"]) == 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (JAVA.format("TopicAuthorizationException: Not authorized to access topics: [t]"), "NO_RIGHTS"),
        (JAVA.format("SaslAuthenticationException: Authentication failed"), "NO_RIGHTS"),
        (JAVA.format("RecordTooLargeException: The message is 9 bytes"), "BAD_RECORD"),
        (JAVA.format("UnsupportedVersionException: no"), "UNSUPPORTED"),
        ("[KAFKA_DATA_LOSS.PARTITIONS_DELETED] Partitions have been deleted", "DATA_LOST"),
        ("[USER_RAISED_EXCEPTION] tagdata.bad loop c/t/0/7/1 SQLSTATE: P0001", "BAD_RECORD"),
        (JAVA.format("TimeoutException: Call(callName=listNodes) timed out"), None),
        (JAVA.format("NotLeaderOrFollowerException: moved"), None),
        ("java.net.ConnectException: Connection refused", None),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", None),
    ],
)
def test_sorts_what_passes_from_what_does_not(text: str, code: str | None) -> None:
    found = trouble.sort(RuntimeError(text))
    if code is None:
        assert isinstance(found, trouble.Transient)
    else:
        assert isinstance(found, trouble.Permanent)
        assert found.code == code
        assert found.mend


def test_names_the_record_that_is_refused() -> None:
    found = trouble.sort(RuntimeError("x tagdata.bad too_large c/t/0/7/1700000000000' y"))
    assert isinstance(found, trouble.Permanent)
    assert found.cause == "too_large: c/t/0/7/1700000000000"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (JAVA.format("TimeoutException: no answer"), "TimeoutException: no answer"),
        ("one line", "one line"),
        ("An error occurred\n: java.net.ConnectException: refused\n\tat x", "ConnectException: refused"),
        ("", "RuntimeError"),
    ],
)
def test_a_cause_is_one_line(text: str, line: str) -> None:
    assert trouble.cause(RuntimeError(text)) == line
