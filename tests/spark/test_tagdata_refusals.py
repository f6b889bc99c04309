"""Bad input is refused twice: by the check before anything is submitted, and by the job itself, with cause and mend."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import relay_check
import relay_rules
from kafka import KafkaProducer
from relay_clusters import see
from spark.conftest import Relay
from tagdata import runner

Make = Callable[..., Relay]
SECONDS = 30.0
DAY = 86_400_000


class Edge:
    """The edge's Hadoop, as far as the check of one relay needs it."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay

    def files(self, place: Any) -> Any:
        return self.relay.files


def checked(one: Relay) -> dict[str, tuple[str, str]]:
    """What the check finds: level and path by code."""
    sides: dict[str, Any] = {}
    for side, end in (("source", one.settings.source), ("sink", one.settings.sink)):
        sides[side] = see(side, end.bootstrap, end.options, [], time.monotonic() + SECONDS)
        sides[side].look(*relay_check._wanted(one.settings, side, sides))
    state = relay_check._state(Edge(one), {"state_path": one.settings.state_path})  # type: ignore[arg-type]
    found = relay_rules.judge(one.settings, sides["source"], sides["sink"], state, time.time())
    for opened in sides.values():
        opened.close()
    assert all(finding.cause and finding.mend for finding in found)
    return {finding.code: (finding.level, finding.path) for finding in found}


class Refusal(NamedTuple):
    """How the job itself ended."""

    code: int
    said: list[str]


def submitted(one: Relay, capfd: pytest.CaptureFixture[str], text: str | None = None) -> Refusal:
    """Start the job as a submission does, with its settings in a file."""
    file = one.folder.parents[1] / "tagdata.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(one.data) if text is None else text)
    capfd.readouterr()
    begin = time.monotonic()
    code = runner.main([str(file)])
    assert time.monotonic() - begin < SECONDS
    said = [line for line in capfd.readouterr().err.splitlines() if line.strip()]
    # Nothing of Java stands before the cause, and after it comes the mend.
    assert said[0].startswith("tagdata: "), said
    assert all(line.startswith("tagdata: mend: ") and len(line) > 20 for line in said[1::2]), said
    return Refusal(code, said)


def no_sink_topic(one: Relay) -> None:
    one.source.create(one.topic)


def no_source_topic(one: Relay) -> None:
    one.sink.create(one.topic)


def too_few_partitions(one: Relay) -> None:
    one.source.create(one.topic, 3)
    one.sink.create(one.topic, 2)


def one_cluster(one: Relay) -> None:
    one.topics()
    one.data["sink"]["bootstrap"] = [one.source.address.replace("127.0.0.1", "localhost")]


def state_of_another(one: Relay) -> None:
    one.topics()
    assert one.once() == 0
    one.data["name"] = "another"


def fewer_topics(one: Relay) -> None:
    one.topics()
    assert one.once() == 0
    one.data["source"]["topics"] = [f"{one.topic}-b"]
    one.source.create(f"{one.topic}-b")
    one.sink.create(f"{one.topic}-b")


def may_not_read(one: Relay) -> None:
    one.topics().source.forbid(one.topic, "READ")


def may_not_see(one: Relay) -> None:
    one.topics().source.forbid(one.topic, "DESCRIBE")


def may_not_write(one: Relay) -> None:
    one.topics().sink.forbid(one.topic, "WRITE")


@pytest.mark.parametrize(
    ("spoil", "code", "path"),
    [
        (no_sink_topic, "SINK_TOPIC_MISSING", "sink.topics"),
        (no_source_topic, "TOPIC_MISSING", "source.topics"),
        (too_few_partitions, "SINK_PARTITIONS", "sink.partitions"),
        (one_cluster, "SAME_CLUSTER", "sink.bootstrap"),
        (state_of_another, "STATE_OF_ANOTHER", "state_dir"),
        (fewer_topics, "JOB_CHANGED", "source.topics"),
        (may_not_read, "NO_RIGHTS", "source.topics"),
        (may_not_see, "NO_RIGHTS", "source.topics"),
        (may_not_write, "NO_RIGHTS", "sink.topics"),
    ],
)
def test_what_the_clusters_contradict_is_refused_by_check_and_job(
    relay: Make,
    capfd: pytest.CaptureFixture[str],
    spoil: Callable[[Relay], None],
    code: str,
    path: str,
) -> None:
    one = relay()
    spoil(one)
    assert checked(one)[code] == ("error", path)
    refused = submitted(one, capfd)
    assert (refused.code, refused.said[0].split()[1]) == (3, code)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("{", ["tagdata.json"]),
        ("[]", ["name"]),
        (None, ["nmae", "sink.bootstrap", "dead_letter_topic"]),
    ],
)
def test_settings_that_will_not_do_are_refused_all_at_once(
    relay: Make, capfd: pytest.CaptureFixture[str], text: str | None, paths: list[str]
) -> None:
    one = relay(nmae="x", on_bad_record="dead_letter")
    one.data["sink"]["bootstrap"] = one.data["source"]["bootstrap"]
    refused = submitted(one, capfd, text)
    assert refused.code == 2
    for path in paths:
        assert any(f"{path}: " in line for line in refused.said[::2]), refused.said


def test_what_may_fail_later_is_told_before(relay: Make) -> None:
    one = relay().topics(max_message_bytes=1_000_000)
    assert checked(one)["TOO_SMALL"] == ("error", "sink")
    one.data.update(on_bad_record="dead_letter", dead_letter_topic=f"{one.topic}-dead")
    one.sink.create(f"{one.topic}-dead", 1)
    assert checked(one)["TOO_SMALL"][0] == "warning"


def test_lag_that_the_source_is_about_to_delete_is_told(relay: Make) -> None:
    one = relay()
    one.source.create(one.topic, 1, retention_ms=7 * DAY)
    one.sink.create(one.topic, 1, max_message_bytes=10_000_000)
    assert one.once() == 0
    producer = KafkaProducer(bootstrap_servers=one.source.address)
    producer.send(one.topic, b"old", timestamp_ms=int(time.time() * 1000) - 6 * DAY)
    producer.send(one.topic, b"new")
    producer.close()
    assert checked(one) == {"RETENTION": ("warning", "source.topics")}
    assert one.once() == 0
    assert checked(one) == {}


def test_a_sink_that_may_not_be_read_costs_dedup_alone(relay: Make) -> None:
    one = relay().topics(max_message_bytes=20_000_000)
    one.sink.forbid(one.topic, "READ")
    one.fill(50)
    assert checked(one) == {"NO_RIGHTS": ("warning", "dedup")}
    assert one.once() == 0
    assert one.status["records_out"] == 50
    assert any("no right to read the sink" in note for note in one.status["notes"])
