"""Records of the source to records of the sink: DataFrame in, DataFrame out, built-in expressions only.

Executors so need no Python. Joins with local data belong into `prepare`, between `_identify` and `_route`: broadcast joins,
because any other reorders a partition's records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tagdata.kafka_admin import Limits
from tagdata.settings import Sink

SOURCE, ERROR = "relay.source", "relay.error"
OBSERVED = "tagdata"
REASONS = ("loop", "no_key", "too_large")
# Kafka's own upper bound of what a record adds to its key, value and headers: AbstractRecords.estimateSizeInBytesUpperBound
OVERHEAD, HEADER_OVERHEAD = 82, 10
# The header that is added: its key, ids, numbers and slashes; the topic's name comes on top.
ADDED = HEADER_OVERHEAD + len(SOURCE) + 90
HEADERS = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True)
class Spec:
    """What the columns depend on; `limits` by the sink's topics, those of the dead letters included."""

    source_id: str
    sink_id: str
    sink: Sink
    topics: tuple[str, ...]
    dead_letter_topic: str = ""
    limits: Mapping[str, Limits] = field(default_factory=dict)


def prepare(records: DataFrame, spec: Spec) -> DataFrame:
    """The columns that the Kafka sink takes; where bad records pass, how many of each reason is observed."""
    judged = _identify(records, spec)
    if spec.dead_letter_topic:
        counts = [F.count(F.when(F.col("reason") == reason, 1)).alias(reason) for reason in REASONS]
        judged = judged.observe(OBSERVED, *counts)
    return _route(judged, spec)


def origin(headers: str = "headers") -> Column:
    """Where a record of the sink came from, as cluster/topic/partition/offset; null when it does not say."""
    mine = F.filter(headers, lambda header: header["key"] == SOURCE)
    there = F.col(headers).isNotNull() & (F.size(mine) > 0)
    return F.when(there, F.substring_index(F.element_at(mine, -1)["value"].cast("string"), "/", 4))


def _identify(records: DataFrame, spec: Spec) -> DataFrame:
    identity = F.concat_ws("/", F.lit(spec.source_id), "topic", "partition", "offset", F.unix_millis("timestamp"))
    header = F.struct(F.lit(SOURCE).alias("key"), identity.cast("binary").alias("value"))
    others = F.filter("headers", lambda header: header["key"] != SOURCE)
    # Lambdas are interpreted, record by record: only the few records that need one pay for it.
    kept = F.when(_relayed(), others).otherwise(F.coalesce("headers", F.array().cast(HEADERS)))
    target = _by_topic(spec.topics, spec.sink.of)
    partition = F.col("partition") if spec.sink.keep_partitions else F.lit(None).cast("int")
    return records.select(
        target.alias("target"),
        partition.alias("to"),
        "key",
        "value",
        F.concat(kept, F.array(header)).cast(HEADERS).alias("all"),
        _reason(spec).alias("reason"),
        identity.alias("identity"),
    )


def _relayed() -> Column:
    """Whether a relay has copied this record before."""
    return F.col("headers").isNotNull() & F.array_contains(F.col("headers")["key"], SOURCE)


def _reason(spec: Spec) -> Column:
    """Why the sink would refuse a record; null when it would not."""

    def limit(topic: str) -> int:
        return spec.limits.get(spec.sink.of(topic), Limits()).bytes

    def compacted(topic: str) -> bool:
        return spec.limits.get(spec.sink.of(topic), Limits()).compacted

    def returns(header: Column) -> Column:
        return (header["key"] == SOURCE) & header["value"].cast("string").startswith(f"{spec.sink_id}/")

    every = F.col("headers")
    texts = F.concat_ws("", every["key"], every["value"].cast("array<string>"))
    headers = F.when(every.isNull(), F.lit(0)).otherwise(F.octet_length(texts) + HEADER_OVERHEAD * F.size(every))
    payload = sum((F.coalesce(F.octet_length(part), F.lit(0)) for part in ("key", "value")), F.lit(OVERHEAD + ADDED))
    longest = max(map(len, spec.topics), default=0)
    reason = F.when(_relayed() & F.exists("headers", returns), F.lit("loop"))
    if any(map(compacted, spec.topics)):
        reason = reason.when(F.col("key").isNull() & _by_topic(spec.topics, compacted), F.lit("no_key"))
    return reason.when(payload + headers + longest > _by_topic(spec.topics, limit), F.lit("too_large"))


def _route(records: DataFrame, spec: Spec) -> DataFrame:
    bad = F.col("reason").isNotNull()
    if not spec.dead_letter_topic:
        # The task ends at this record: those before it are in the sink, those after it are not, so order holds.
        refusal = F.raise_error(F.concat(F.lit("tagdata.bad "), "reason", F.lit(" "), "identity"))
        value = F.when(bad, refusal.cast("binary")).otherwise(F.col("value"))
        return records.select(
            F.col("target").alias("topic"), F.col("to").alias("partition"), "key", value.alias("value"),
            F.col("all").alias("headers"),
        )  # fmt: skip
    room = spec.limits.get(spec.dead_letter_topic, Limits()).bytes
    fits = (F.col("reason") != "too_large") | (_length("key") + _length("value") + 1024 + OVERHEAD + ADDED < room)
    told = F.concat("reason", F.when(fits, F.lit("")).otherwise(F.lit(", value left out")))
    error = F.array(F.struct(F.lit(ERROR).alias("key"), told.cast("binary").alias("value"))).cast(HEADERS)
    return records.select(
        F.when(bad, F.lit(spec.dead_letter_topic)).otherwise(F.col("target")).alias("topic"),
        F.when(~bad, F.col("to")).alias("partition"),
        "key",
        F.when(~bad | fits, F.col("value")).alias("value"),
        F.when(bad, F.concat("all", error)).otherwise(F.col("all")).alias("headers"),
    )


def _length(column: str) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))


def _by_topic(topics: tuple[str, ...], of: Callable[[str], str | int | bool]) -> Column:
    """A value that depends on the record's topic: a constant where it does not."""
    values = {topic: of(topic) for topic in topics}
    if values and all(value == topic for topic, value in values.items()):
        return F.col("topic")
    if len(set(values.values())) == 1:
        return F.lit(next(iter(values.values())))
    column = F.lit(None)
    for value in sorted(set(values.values()), key=str):
        named = [topic for topic in topics if values[topic] == value]
        column = F.when(F.col("topic").isin(named), F.lit(value)).otherwise(column)
    return column
