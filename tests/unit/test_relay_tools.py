"""The demo's events and their comparison, and what is read from Spark's logs."""

from dataclasses import replace

import pytest
from ansible_collections.kafka.natmap.plugins.module_utils import spark_log
from e2e import compare
from e2e.events import Event, events

MISSED = (
    "[AdminClient clientId=adminclient-1] Connection to node {} could not be established. Node may not be available."
)
LOG = f"""
26/01/02 10:00:00 INFO NetworkClient: [AdminClient clientId=adminclient-1] Node 1 disconnected.
26/01/02 10:00:00 WARN NetworkClient: {MISSED.format("1 (/192.0.2.21:9092)")}
26/01/02 10:00:01 WARN NetworkClient: {MISSED.format("2 (/192.0.2.22:9092)")}
26/01/02 10:00:02 WARN NetworkClient: {MISSED.format("2 (/192.0.2.22:9092)")}
26/01/02 10:00:03 ERROR MicroBatchExecution: Query [id = 1] terminated with error
java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed out waiting.
\tat java.base/java.util.concurrent.CompletableFuture.get(CompletableFuture.java:2073)
Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listNodes
Traceback (most recent call last):
pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query terminated
26/01/02 10:00:04 ERROR ApplicationMaster: User application exited with status 1
org.apache.spark.SparkUserAppException: User application exited with 1
"""


def test_events_are_the_same_for_the_same_seed() -> None:
    assert list(events(500, seed=7)) == list(events(500, seed=7))
    assert list(events(500, seed=7)) != list(events(500, seed=8))


def test_events_hold_every_shape_that_a_relay_must_keep() -> None:
    some = list(events(1_200))
    headers = [header for event in some for header in event.headers]
    assert {event.partition for event in some} == set(range(6))
    assert any(event.key is None for event in some)
    assert {None, b""} <= {event.value for event in some}
    assert any(not event.headers for event in some)
    assert {None, b""} <= {value for _, value in headers}
    assert any(value is not None and max(value, default=0) > 127 for _, value in headers)
    assert any(len({name for name, _ in event.headers}) < len(event.headers) for event in some)


def test_a_key_stays_in_its_partition() -> None:
    homes: dict[bytes, int] = {}
    assert all(homes.setdefault(event.key, event.partition) == event.partition for event in events(5_000) if event.key)


BASE = Event(0, b"k", b"v", [("a", b"1"), ("b", None)])


@pytest.mark.parametrize(
    "other",
    [
        BASE._replace(key=None),
        BASE._replace(key=b""),
        BASE._replace(value=None),
        BASE._replace(value=b""),
        BASE._replace(key=b"kv", value=b""),
        BASE._replace(headers=[]),
        BASE._replace(headers=[("a", b"1"), ("b", b"")]),
        BASE._replace(headers=[("b", None), ("a", b"1")]),
        BASE._replace(headers=[("a", b"1b"), ("", None)]),
    ],
)
def test_the_fingerprint_sees_each_difference(other: Event) -> None:
    assert compare.fingerprint(BASE) != compare.fingerprint(other)
    assert compare.fingerprint(BASE) == compare.fingerprint(BASE._replace(partition=3))


def test_differences_are_named() -> None:
    one = compare.Digest(3, "c", "o")
    assert compare.differences({0: one}, {0: one}) == []
    assert compare.differences({0: one}, {0: replace(one, order="x")}) == [
        "partition 0: the same records in another order"
    ]
    assert "not the same records" in compare.differences({0: one}, {0: replace(one, content="x")})[0]
    assert "3 records in the source, 2 in the sink" in compare.differences({0: one}, {0: replace(one, records=2)})[0]
    assert compare.differences({0: one}, {1: one}) == [
        "partition 0: only in the source",
        "partition 1: only in the sink",
    ]


def test_the_table_shows_both_sides() -> None:
    text = compare.table({0: compare.Digest(1_000, "c", "o")}, {0: compare.Digest(999, "d", "p")})
    assert "1,000" in text
    assert "999" in text
    assert "DIFFERS" in text


def test_digests_travel_as_json() -> None:
    digests = {0: compare.Digest(3, "c", "o"), 11: compare.Digest(0, "", "")}
    assert compare.load(compare.dump(digests)) == digests


def test_the_root_cause_is_the_innermost_exception() -> None:
    assert spark_log.root_cause(LOG) == (
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listNodes"
    )


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("", None),
        ("26/01/02 10:00:00 INFO Client: all well", None),
        ("usage: relay.py [-h]\nrelay.py: error: argument --x", "relay.py: error: argument --x"),
        (
            "Traceback (most recent call last):\nModuleNotFoundError: No module named 'x'",
            "ModuleNotFoundError: No module named 'x'",
        ),
        (
            'Exception in thread "main" java.lang.IllegalArgumentException: a\n\tat b.c(D.java:1)',
            "java.lang.IllegalArgumentException: a",
        ),
        ("java.io.IOException: a\n\tat b.c(D.java:1)\norg.x.FooError: b", "org.x.FooError: b"),
        (
            "java.io.IOException: a\ntagdata: NO_STATE hdfs:/x holds no relay\ntagdata: mend: correct RUN\n",
            "NO_STATE hdfs:/x holds no relay. Mend: correct RUN",
        ),
    ],
)
def test_the_root_cause_of_other_ends(log: str, cause: str | None) -> None:
    assert spark_log.root_cause(log) == cause


def test_each_broker_that_was_not_reached_is_named_once() -> None:
    text = "NetworkClient: Connection to node {} could not be established. Node may not be available."
    assert spark_log.missed_brokers(LOG) == [text.format("2 (/192.0.2.22:9092)"), text.format("1 (/192.0.2.21:9092)")]


def test_the_submission_is_read_from_its_log() -> None:
    log = "\n".join(
        [
            "26/01/02 10:00:00 INFO YarnClientImpl: Submitted application application_17_0001",
            "\t tracking URL: http://master:8088/proxy/application_17_0001/",
        ]
    )
    assert spark_log.application_id(log) == "application_17_0001"
    assert spark_log.tracking_url(log) == "http://master:8088/proxy/application_17_0001/"
    assert spark_log.application_id("") is None
    assert spark_log.tracking_url("") is None
