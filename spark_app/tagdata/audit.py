"""The oracle: both sides read whole, matched by source identity. Executors need no Python here either."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tagdata import trouble
from tagdata.files import StateDir
from tagdata.guard import JOB, Guard, numbered
from tagdata.kafka_admin import EARLIEST, LATEST, Cluster, Offsets
from tagdata.pipeline import ERROR, SOURCE, origin
from tagdata.settings import Settings, load
from tagdata.stream import cluster, reader_options
from tagdata.trouble import Permanent, Transient

SHOWN = 5


def audit(spark: SparkSession, settings: Settings, files: StateDir) -> dict[str, Any]:
    """Counts by kind, and the first few identities of each kind that is wrong."""
    source, sink = (cluster(SparkContext._jvm, settings, side) for side in ("source", "sink"))
    guard = Guard(settings, source, sink, files, lambda _: None)
    guard.job = files.load(JOB) or {}
    if not guard.job:
        raise Permanent("NO_STATE", f"{files.uri} holds no relay that ever started", "correct state_dir or RUN")
    starts, ends = guard.starts(), guard.positions()
    starts = _held(source, {t: {n: starts.get(t, {}).get(n, 0) for n in numbers} for t, numbers in ends.items()})
    mine = _source_rows(_read(spark, _source_options(settings), starts, ends), guard, settings)
    pinned = numbered(guard.job["sink"]["topics"])
    until = sink.offsets({t: about.partitions for t, about in sink.topics(sorted(pinned)).items()}, LATEST)
    since = _held(sink, {t: {n: pinned[t].get(n, 0) for n in numbers} for t, numbers in until.items()})
    theirs = _sink_rows(_read(spark, reader_options(settings), since, until), settings)
    return _figures(mine, theirs, guard.source_id, sum(_span(starts, ends)))


def _span(starts: Offsets, ends: Offsets) -> list[int]:
    return [end - starts[topic][number] for topic, numbers in ends.items() for number, end in numbers.items()]


def _held(side: Cluster, offsets: Offsets) -> Offsets:
    """Offsets no earlier than what the cluster still holds."""
    first = side.offsets({topic: max(numbers, default=-1) + 1 for topic, numbers in offsets.items()}, EARLIEST)
    return {
        topic: {n: max(o, first[topic].get(n, 0)) for n, o in numbers.items()} for topic, numbers in offsets.items()
    }


def _source_options(settings: Settings) -> dict[str, str]:
    bootstrap = {"kafka.bootstrap.servers": ",".join(settings.source.bootstrap)}
    return {**settings.source.options, **bootstrap, "kafka.client.id": settings.client_id}


def _read(spark: SparkSession, options: Mapping[str, str], starts: Offsets, ends: Offsets) -> DataFrame:
    reader = spark.read.format("kafka").options(**options).option("includeHeaders", True)
    reader = reader.option("assign", json.dumps({topic: sorted(numbers) for topic, numbers in ends.items()}))
    return reader.option("startingOffsets", json.dumps(starts)).option("endingOffsets", json.dumps(ends)).load()


def _fingerprint(headers: Column) -> Column:
    """Differs when key, value or a header do; null and empty are different, and so are headers in another order."""
    listed = F.transform(headers, lambda header: F.struct(header["key"], header["value"].isNull(), header["value"]))
    nulls = F.col("key").isNull(), F.col("value").isNull()
    return F.xxhash64(*nulls, "key", "value", F.coalesce(F.size(headers), F.lit(0)), listed)


def _others(headers: str) -> Column:
    """The headers that are not the relay's; null when there is none, as the source gives it."""
    kept = F.filter(headers, lambda header: ~header["key"].isin(SOURCE, ERROR))
    return F.when(F.size(kept) > 0, kept)


def _source_rows(records: DataFrame, guard: Guard, settings: Settings) -> DataFrame:
    place = F.concat_ws("/", F.lit(guard.source_id), "topic", "partition", "offset")
    target = F.lit(None).cast("string")
    for topic in guard.job["source"]["topics"]:
        target = F.when(F.col("topic") == topic, F.lit(settings.sink.of(topic))).otherwise(target)
    partition = F.col("partition") if settings.sink.keep_partitions else F.lit(None).cast("int")
    return records.select(
        place.alias("place"),
        F.concat_ws("/", "topic", "partition").alias("from"),
        F.col("offset").alias("at"),
        target.alias("target"),
        partition.alias("to"),
        _fingerprint(_others("headers")).alias("expected"),
    )


def _sink_rows(records: DataFrame, settings: Settings) -> DataFrame:
    """One row for each identity: how often it is there, and its first occurrence."""
    dead = F.col("topic") == settings.dead_letter_topic if settings.dead_letter_topic else F.lit(False)
    rows = records.select(
        origin().alias("place"),
        F.struct(
            "offset", "topic", "partition", _fingerprint(_others("headers")).alias("found"), dead.alias("dead")
        ).alias("there"),
    )
    first = F.min("there").alias("first")
    found = rows.where(F.col("place").isNotNull()).groupBy("place")
    return found.agg(
        first, F.count(F.lit(1)).alias("times"), F.max("there.found").alias("most"), F.min("there.found").alias("least")
    )


def _figures(mine: DataFrame, theirs: DataFrame, source_id: str, span: int) -> dict[str, Any]:
    both = mine.join(theirs, "place", "left").withColumn("dead", F.coalesce(F.col("first.dead"), F.lit(False)))
    order = Window.partitionBy("from", "first.topic", "first.partition").orderBy("at")
    before = F.max("first.offset").over(order.rowsBetween(Window.unboundedPreceding, -1))
    lost = F.col("times").isNull()
    differs = (F.col("most") != F.col("expected")) | (F.col("least") != F.col("expected"))
    moved = (F.col("first.topic") != F.col("target")) | (F.col("first.partition") != F.col("to"))
    judged = both.select(
        "place",
        "dead",
        F.coalesce(F.col("times") - 1, F.lit(0)).alias("again"),
        lost.alias("lost"),
        F.coalesce(~lost & ~F.col("dead") & (differs | F.coalesce(moved, F.lit(False))), F.lit(False)).alias("altered"),
        F.coalesce(~lost & ~F.col("dead") & (before > F.col("first.offset")), F.lit(False)).alias("reordered"),
    ).persist()
    wrong = ("lost", "altered", "reordered")
    sums = [F.sum(F.col(kind).cast("long")).alias(kind) for kind in (*wrong, "dead", "again")]
    row = judged.agg(
        F.count(F.lit(1)).alias("records"), F.sum((F.col("again") > 0).cast("long")).alias("repeated"), *sums
    )
    counts = {key: value or 0 for key, value in row.collect()[0].asDict().items()}
    shown = {
        kind: [r[0] for r in judged.where(kind).select("place").sort("place").limit(SHOWN).collect()]
        for kind in wrong
        if counts[kind]
    }
    strangers = theirs.where(~F.col("place").startswith(f"{source_id}/")).count()
    judged.unpersist()
    return {
        "records": counts["records"],
        "gaps": span - counts["records"],
        "lost": counts["lost"],
        "altered": counts["altered"],
        "reordered": counts["reordered"],
        "repeated": counts["again"],
        "records_repeated": counts["repeated"],
        "dead_letters": counts["dead"],
        "of_other_sources": strangers,
        "first": shown,
    }


def told(figures: Mapping[str, Any]) -> str:
    """The figures as a table."""
    lines = [f"{key.replace('_', ' '):18} {value:>14,}" for key, value in figures.items() if isinstance(value, int)]
    for kind, places in figures["first"].items():
        lines += [f"{kind}: {place}" for place in places]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Audit the relay of a settings file, and print the figures: as a table, then as one line of JSON."""
    if len(arguments) != 1:
        print("usage: audit.py FILE.json", file=sys.stderr)
        return trouble.SETTINGS
    try:
        settings = load(arguments[0])
        spark = SparkSession.builder.appName(f"tagdata-audit-{settings.name}").getOrCreate()
        spark.conf.set("spark.sql.shuffle.partitions", str(4 * spark.sparkContext.defaultParallelism))
        files = StateDir(SparkContext._jvm, SparkContext._gateway, settings.state_path)
        figures = audit(spark, settings, files)
    except ValueError as error:
        print(f"tagdata: SETTINGS {error}", file=sys.stderr)
        return trouble.SETTINGS
    except (Permanent, Transient) as error:
        print(
            f"tagdata: {error}\ntagdata: mend: {getattr(error, 'mend', 'try again when it is back')}", file=sys.stderr
        )
        return trouble.HALTED
    files.write("audit.json", figures)
    print(f"{told(figures)}\n{json.dumps(figures)}", flush=True)
    return 1 if figures["lost"] or figures["altered"] or figures["reordered"] else 0
