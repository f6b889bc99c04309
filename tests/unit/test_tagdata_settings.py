"""A relay's settings: what is taken, what is refused, all at once, with path and mend."""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tagdata import settings as s

ROOT = Path(__file__).parents[2]
GOOD: dict[str, Any] = {
    "name": "audit",
    "source": {"bootstrap": ["a:9092"], "topics": ["t", "u"]},
    "sink": {"bootstrap": ["b:9092"]},
    "state_dir": "hdfs:///relays/audit",
}


def changed(path: str, value: object) -> dict[str, Any]:
    data = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    place = data
    for parent in parents:
        place = place.setdefault(parent, {})
    if value is None:
        place.pop(last)
    else:
        place[last] = value
    return data


def problems(data: object, run: str = "", start: str = "") -> dict[str, str]:
    with pytest.raises(s.SettingsError) as refused:
        s.parse(data, run, start)
    found = refused.value.problems
    assert all(problem.mend for problem in found)
    return {problem.path: problem.wrong for problem in found}


def test_fills_in_every_default_and_reads_back_what_it_resolved() -> None:
    parsed = s.parse(GOOD)
    assert parsed.shadow_group == parsed.client_id == "tagdata-audit"
    assert (parsed.per_batch, parsed.per_second, parsed.interval, parsed.dedup) == (500_000, 0, 1, True)
    assert parsed.state_path == "hdfs:///relays/audit/main"
    assert s.parse(json.loads(json.dumps(s.resolved(parsed)))) == parsed


def test_the_example_is_good_and_shows_every_key() -> None:
    text = (ROOT / "spark_app" / "relay.yml.example").read_text()
    parsed = s.parse(yaml.safe_load(text))
    resolved = s.resolved(parsed)
    for section, keys in resolved.items():
        for key in keys if isinstance(keys, dict) else [section]:
            assert f"{key}:" in text or key == "run", f"{section}.{key}"
    assert s.parse(resolved) == parsed


def test_a_replay_has_a_state_directory_and_a_group_of_its_own() -> None:
    parsed = s.parse(GOOD, run="june", start="2026-06-01T00:00:00Z")
    assert parsed.state_path == "hdfs:///relays/audit/runs/june"
    assert parsed.shadow_group == "tagdata-audit-june"
    assert s.start_ms(parsed.source.start) == 1_780_272_000_000
    assert s.parse(s.resolved(parsed)) == parsed


def test_takes_times_as_yaml_reads_them() -> None:
    data = changed("source.from", datetime(2026, 6, 1, tzinfo=UTC))
    assert s.start_ms(s.parse(data).source.start) == 1_780_272_000_000


@pytest.mark.parametrize(
    ("route", "target"),
    [({}, "t"), ({"prefix": "hq."}, "hq.t"), ({"topics": {"t": "x"}, "prefix": "hq."}, "x"), ({"topic": "all"}, "all")],
)
def test_routes(route: dict[str, Any], target: str) -> None:
    data = copy.deepcopy(GOOD)
    data["sink"].update(route)
    assert s.parse(data).sink.of("t") == target


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("name", None, "name"),
        ("name", "Große Relais", "name"),
        ("source.bootstrap", None, "source.bootstrap"),
        ("source.bootstrap", "a:9092", "source.bootstrap"),
        ("source.bootstrap", ["a"], "source.bootstrap[0]"),
        ("source.bootstrap", ["a:1", "a:1"], "source.bootstrap[1]"),
        ("source.topics", None, "source.topics"),
        ("source.topics", ["a b"], "source.topics[0]"),
        ("source.topics", [".."], "source.topics[0]"),
        ("source.pattern", "a.*", "source.topics"),
        ("source.pattern", "(", "source.pattern"),
        ("source.from", "yesterday", "source.from"),
        ("source.from", "2026-06-01T00:00:00", "source.from"),
        ("source.form", "earliest", "source.form"),
        ("source.options", {"startingOffsets": "latest"}, "source.options.startingOffsets"),
        ("source.options", {"FailOnDataLoss": "false"}, "source.options.FailOnDataLoss"),
        ("source.options", {"kafka.group.id": "x"}, "source.options.kafka.group.id"),
        ("source.options", {"kafka.x": ["y"]}, "source.options.kafka.x"),
        ("source.options", {"security.protocol": "SSL"}, "source.options.security.protocol"),
        ("source.options", {"Kafka.fetch.min.bytes": 1}, "source.options.Kafka.fetch.min.bytes"),
        ("source.options", {"kafka.security.protocol": "SASL-SSL"}, "source.options.kafka.security.protocol"),
        ("source.options", {"kafka.sasl.mechanism": "PLAIN"}, "source.options.kafka.sasl.mechanism"),
        ("sink.bootstrap", ["a:9092"], "sink.bootstrap"),
        ("sink.topics", {"x": "y"}, "sink.topics.x"),
        ("sink.topics", {"t": "a b"}, "sink.topics.t"),
        ("sink.prefix", "x" * 249, "sink.prefix"),
        ("sink.partitions", "hash", "sink.partitions"),
        ("sink.grow", "yes", "sink.grow"),
        ("sink.options", {"kafka.acks": 1}, "sink.options.kafka.acks"),
        ("sink.options", {"kafka.enable.idempotence": False}, "sink.options.kafka.enable.idempotence"),
        ("sink.options", {"topic": "x"}, "sink.options.topic"),
        ("sink.options", {"kafkaConsumer.pollTimeoutMs": 1}, "sink.options.kafkaConsumer.pollTimeoutMs"),
        ("sink.options", {"kafka.batch.size": "64k"}, "sink.options.kafka.batch.size"),
        (
            "sink.options",
            {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.ssl.truststore.location": "x"},
            "sink.options.kafka.ssl.truststore.location",
        ),
        ("limits.max_records_per_batch", 0, "limits.max_records_per_batch"),
        ("limits.max_records_per_second", 1.5, "limits.max_records_per_second"),
        ("limits.max_records_per_second", True, "limits.max_records_per_second"),
        ("trigger.interval_seconds", -1, "trigger.interval_seconds"),
        ("trigger", 5, "trigger"),
        ("waiting.first_seconds", 60, "waiting.most_seconds"),
        ("on_bad_record", "skip", "on_bad_record"),
        ("on_bad_record", "dead_letter", "dead_letter_topic"),
        ("dead_letter_topic", "dead", "dead_letter_topic"),
        ("dedup", "no", "dedup"),
        ("shadow_group", "a b", "shadow_group"),
        ("client_id", "a b", "client_id"),
        ("state_dir", "/relays", "state_dir"),
        ("state_dir", "hdfs:///", "state_dir"),
        ("statedir", "hdfs:///x", "statedir"),
    ],
)
def test_refuses(path: str, value: object, where: str) -> None:
    assert where in problems(changed(path, value))


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("source.options", {"kafkaConsumer.pollTimeoutMs": 60_000, "kafka.fetch.min.bytes": 1}),
        ("sink.options", {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "x"}),
        ("sink.options", {"kafka.security.protocol": "SASL_SSL", "kafka.ssl.truststore.location": "x", "kafka.sasl.mechanism": "PLAIN"}),
        ("sink.options", {"kafka.batch.size": 65536}),
    ],
)  # fmt: skip
def test_takes_what_spark_and_kafka_heed(path: str, options: dict[str, object]) -> None:
    side, _ = path.split(".")
    assert getattr(s.parse(changed(path, options)), side).options == {key: str(one) for key, one in options.items()}


def test_names_each_option_that_the_protocol_does_not_use() -> None:
    idle = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": "x", "kafka.ssl.truststore.location": "y"}
    assert set(problems(changed("source.options", idle))) == {f"source.options.{key}" for key in idle}


def test_refuses_everything_at_once_and_guesses_what_was_meant() -> None:
    with pytest.raises(s.SettingsError) as refused:
        s.parse({"nam": "x", "source": {"topics": ["t"], "pattern": "("}, "sink": {"topic": "a", "prefix": "b"}})
    assert len(refused.value.problems) >= 7
    assert "nam: is unknown; did you mean name?" in str(refused.value)


def test_refuses_what_contradicts() -> None:
    both = changed(
        "sink", {"bootstrap": ["b:1"], "topic": "x", "topics": {"t": "y"}, "grow": True, "partitions": "key"}
    )
    assert {"sink.topic", "sink.grow"} <= set(problems(both))
    dead = {**changed("sink.topics", {"t": "dead"}), "on_bad_record": "dead_letter", "dead_letter_topic": "dead"}
    assert "dead_letter_topic" in problems(dead)
    assert "FROM" in problems(GOOD, start="earliest")
    assert "run" in problems(GOOD, run="Juni")
    assert "the settings" in problems(["x"])


def test_no_shadow_group_when_told_so() -> None:
    parsed = s.parse(changed("shadow_group", False))
    assert parsed.shadow_group == ""
    assert s.parse(s.resolved(parsed)) == parsed


def test_says_when_the_file_is_none(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for content in (None, "{"):
        if content:
            file.write_text(content)
        with pytest.raises(s.SettingsError):
            s.load(str(file))


def test_takes_secrets_out_of_texts() -> None:
    login = {"kafka.security.protocol": "sasl_ssl", "kafka.sasl.jaas.config": "who password='canary';"}
    data = changed("sink.options", {**login, "kafka.linger.ms": 20})
    text = s.redact("bad: who password='canary'; 20", s.parse(data))
    assert "canary" not in text
    assert text.endswith("20")
