"""What the check makes of what it sees: versions, options, and facts of two clusters."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import relay_options as options
import relay_rules as rules
from relay_clusters import Side, Topic
from relay_versions import versions
from tagdata.settings import parse

SPARK = ["spark-core_2.13-4.0.0.jar", "scala-library-2.13.16.jar"]
CONNECTOR = [
    "commons-pool2-2.12.0.jar",
    "kafka-clients-3.9.0.jar",
    "spark-sql-kafka-0-10_2.13-4.0.0.jar",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
]
ALL = frozenset({"READ", "WRITE", "DESCRIBE", "ALTER"})
CONFIG = {"max.message.bytes": "1000000", "cleanup.policy": "delete", "retention.ms": "604800000"}
NOW = 1_800_000_000.0


def settings(**sink: Any) -> Any:
    top = {key: sink.pop(key) for key in ("dedup", "on_bad_record", "dead_letter_topic") if key in sink}
    data = {
        "name": "audit",
        "source": {"bootstrap": ["a:9092"], "topics": ["audit"]},
        "sink": {"bootstrap": ["b:9092"], "prefix": "hq-", **sink},
        "state_dir": "hdfs:///x",
        **top,
    }
    return parse(data)


def topic(**changes: Any) -> Topic:
    ends = {"earliest": {0: 0, 1: 0}, "latest": {0: 100, 1: 100}, "old": {0: 0, 1: 0}}
    return replace(Topic(2, ALL, 0, dict(CONFIG)), **{**ends, **changes})


def side(name: str, **topics: Topic) -> Side:
    one = Side(name)
    one.cluster_ids = {"a:9092": f"id-{name}"}
    one.topics = {key.replace("_", "-"): value for key, value in topics.items()}
    one.aged = lambda moment: None  # type: ignore[method-assign]
    return one


def found(here: Topic, there: Topic, state: dict[str, Any] | None = None, **sink: Any) -> list[tuple[str, str, str]]:
    state = state or {"job": None, "positions": {}}
    judged = rules.judge(settings(**sink), side("source", audit=here), side("sink", hq_audit=there), state, NOW)
    assert all(one.cause and one.mend for one in judged)
    return [(one.level, one.code, one.path) for one in judged]


LARGE = {**CONFIG, "max.message.bytes": "2000000"}


def test_two_clusters_that_fit_have_no_findings() -> None:
    assert found(topic(), topic(config=LARGE)) == []


@pytest.mark.parametrize(
    ("here", "there", "sink", "expected"),
    [
        (topic(error=3), topic(config=LARGE), {}, ("error", "TOPIC_MISSING", "source.topics")),
        (topic(), topic(error=3), {}, ("error", "SINK_TOPIC_MISSING", "sink.topics")),
        (topic(error=29), topic(config=LARGE), {}, ("error", "NO_RIGHTS", "source.topics")),
        (topic(partitions=3), topic(config=LARGE), {}, ("error", "SINK_PARTITIONS", "sink.partitions")),
        (topic(partitions=3), topic(config=LARGE), {"grow": True}, ("note", "SINK_PARTITIONS", "sink.grow")),
        (topic(may=frozenset({"DESCRIBE"})), topic(config=LARGE), {}, ("error", "NO_RIGHTS", "source.topics")),
        (topic(), topic(config=LARGE, may=frozenset({"READ", "DESCRIBE"})), {}, ("error", "NO_RIGHTS", "sink.topics")),
        (topic(), topic(config=LARGE, may=frozenset({"WRITE", "DESCRIBE"})), {}, ("warning", "NO_RIGHTS", "dedup")),
        (topic(), topic(config=LARGE, may=ALL - {"ALTER"}), {"grow": True}, ("warning", "NO_RIGHTS", "sink.grow")),
        (topic(), topic(), {}, ("warning", "TOO_SMALL", "sink")),
        (topic(config=LARGE), topic(), {}, ("error", "TOO_SMALL", "sink")),
        (topic(config=None), topic(), {}, ("note", "UNPROVEN", "source.topics")),
        (topic(), topic(config={**LARGE, "cleanup.policy": "compact"}), {}, ("warning", "COMPACTED", "sink")),
    ],
)  # fmt: skip
def test_each_misfit_is_found(here: Topic, there: Topic, sink: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert expected in found(here, there, **sink)


def test_partitions_by_key_need_no_more_than_one() -> None:
    assert found(topic(partitions=2), topic(partitions=1, config=LARGE), partitions="key") == []


def test_rights_that_brokers_do_not_tell_are_left_out() -> None:
    assert found(topic(may=None), topic(may=None, config=LARGE), grow=True) == []


def test_old_brokers_ask_for_one_right_more() -> None:
    old = side("sink", hq_audit=topic(config=LARGE))
    old.old_brokers, old.may = True, frozenset({"DESCRIBE"})
    state: dict[str, Any] = {"job": None, "positions": {}}
    judged = rules.judge(settings(), side("source", audit=topic()), old, state, NOW)
    assert [(one.code, "IdempotentWrite" in one.mend) for one in judged] == [("NO_RIGHTS", True)]
    old.may = frozenset({"IDEMPOTENT_WRITE"})
    assert not list(rules.rights(settings(), side("source"), old, state))


def at(positions: dict[int, int], **changes: Any) -> dict[str, Any]:
    job = {
        "name": "audit",
        "run": "",
        "from": "earliest",
        "source": {"cluster_id": "id-source", "topics": {"audit": {}}},
    }
    return {"job": {**job, "sink": {"cluster_id": "id-sink"}, **changes}, "positions": {"audit": positions}}


@pytest.mark.parametrize(
    ("here", "state", "expected"),
    [
        (topic(earliest={0: 50}), at({0: 49}), ("error", "DATA_EXPIRED", "source.topics")),
        (topic(), at({0: 101}), ("error", "DATA_LOST", "source.topics")),
        (topic(old={0: 60}), at({0: 10}), ("warning", "RETENTION", "source.topics")),
        (topic(latest={0: 100}), at({0: 100}), ("note", "UNPROVEN", "source.bootstrap")),
        (topic(), at({}, name="other"), ("error", "STATE_OF_ANOTHER", "state_dir")),
        (topic(), at({}, sink={"cluster_id": "x"}), ("error", "CLUSTER_CHANGED", "sink.bootstrap")),
        (
            topic(),
            at({}, source={"cluster_id": "id-source", "topics": {"audit": {}, "more": {}}}),
            ("error", "JOB_CHANGED", "source.topics"),
        ),
    ],
)
def test_what_was_read_before_is_compared(here: Topic, state: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert expected in found(here, topic(config=LARGE), state)


def test_one_cluster_on_both_sides_is_refused() -> None:
    one, two = side("source", audit=topic()), side("sink", hq_audit=topic(config=LARGE))
    two.cluster_ids = dict(one.cluster_ids)
    codes = [found.code for found in rules.clusters(settings(), one, two, {"job": None, "positions": {}})]
    assert codes == ["SAME_CLUSTER"]


def test_an_address_that_is_away_is_an_error_only_where_none_answers() -> None:
    one = side("source")
    one.broken = {"a:9092": "TCP_TIMEOUT no answer"}
    assert [found.level for found in rules.reached(one)] == ["error"]
    one.sessions = [object()]  # type: ignore[list-item]
    assert [found.level for found in rules.reached(one)] == ["warning"]
    one.cluster_ids = {"a": "1", "b": "2"}
    assert [found.code for found in rules.reached(one)] == ["UNREACHABLE", "MIXED_CLUSTERS"]


def test_the_header_is_as_long_as_kafka_writes_it() -> None:
    def varint(number: int) -> int:
        return max(1, -(-(number << 1).bit_length() // 7))  # zigzag

    value = f"{'c' * 22}/audit/11/{2**63 - 1}/1800000000000"
    wanted = varint(len(rules.KEY)) + len(rules.KEY) + varint(len(value)) + len(value)
    # One byte more may be needed to count the headers and the record's own length.
    assert wanted <= rules.header("c" * 22, "audit", 12) <= wanted + 2


# ------------------------------------------------------------ versions


@pytest.mark.parametrize(
    ("spark", "connector", "expected"),
    [
        (SPARK, CONNECTOR, []),
        ([], CONNECTOR, [("error", "spark_job_spark_home")]),
        (["spark-core_2.13-4.0.1.jar"], CONNECTOR, [
            ("error", "jars.spark-sql-kafka-0-10"), ("warning", "jars.spark-token-provider-kafka-0-10"),
        ]),
        (["spark-core_2.12-4.0.0.jar"], CONNECTOR, [
            ("error", "jars.spark-sql-kafka-0-10"), ("error", "jars.spark-token-provider-kafka-0-10"),
        ]),
        (SPARK, CONNECTOR[:2] + CONNECTOR[3:], [("error", "jars.spark-sql-kafka-0-10")]),
        (SPARK, [*CONNECTOR, "kafka-clients-3.9.1.jar"], [("error", "jars.kafka-clients")]),
    ],
)  # fmt: skip
def test_versions_have_to_match(spark: list[str], connector: list[str], expected: list[tuple[str, str]]) -> None:
    assert [(one.level, one.path) for one in versions(spark, connector)] == expected


# ------------------------------------------------------------ options


def test_options_of_java_become_a_session_s() -> None:
    jaas = 'x.ScramLoginModule required username="u" password="a\\"b";'
    given = {
        "kafka.security.protocol": "sasl_ssl",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": jaas,
    }
    found = options.security({**given, "kafka.ssl.endpoint.identification.algorithm": ""})
    assert found["protocol"] == "SASL_SSL"
    assert (found["username"], found["password"], found["verify_name"]) == ("u", 'a"b', False)
    assert options.security({"startingOffsets": "x"}) == {"protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    "given",
    [
        {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "OAUTHBEARER"},
        {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"},
        {"kafka.security.protocol": "SSL", "kafka.ssl.keystore.location": "/k.jks"},
        {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/no/such.jks"},
    ],
)
def test_what_only_java_understands_is_told(given: dict[str, str]) -> None:
    with pytest.raises(options.Unreadable):
        options.security(given)


def test_a_truststore_of_java_is_read(certificate: str, tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    command = ["keytool", "-importcert", "-noprompt", "-alias", "k", "-file", certificate + ".crt"]
    command += ["-keystore", str(store), "-storepass", "secret"]
    subprocess.run(command, check=True, capture_output=True)
    given = {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "./trust.jks"}
    found = options.security({**given, "kafka.ssl.truststore.password": "secret"}, [str(store)])
    assert "BEGIN CERTIFICATE" in found["cadata"]
