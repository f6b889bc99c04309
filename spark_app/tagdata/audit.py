"""The oracle: both sides read whole, matched by source identity. Executors need no Python here either."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tagdata import figures as told
from tagdata import trouble
from tagdata.fields import SettingsError
from tagdata.files import StateDir
from tagdata.guard import JOB, Guard, numbered
from tagdata.kafka_admin import EARLIEST, LATEST, Cluster, Offsets
from tagdata.pipeline import ERROR, SOURCE, origin
from tagdata.settings import Settings, load
from tagdata.stream import cluster, reader_options
from tagdata.telling import refuse, say
from tagdata.trouble import Permanent
from tagdata.yarn import myself

SHOWN = 5
EVER = 2**63 - 1


def audit(spark: SparkSession, settings: Settings, files: StateDir) -> dict[str, Any]:
    """Counts by kind, and the first few identities of each kind that is wrong."""
    source, sink = (cluster(SparkContext._jvm, settings, side) for side in ("source", "sink"))
    guard = Guard(settings, source, sink, files, lambda _: None)
    guard.job = files.load(JOB) or {}
    if not guard.job:
        raise Permanent("NO_STATE", f"{files.uri} holds no relay that ever started", "correct state_dir or RUN")
    pinned = numbered(guard.job["sink"]["topics"])
    guard.here, guard.there = source.topics(sorted(guard.job["source"]["topics"])), sink.topics(sorted(pinned))
    guard.same_clusters({"source": source.id(), "sink": sink.id()})
    guard.not_recreated()
    starts, ends = guard.starts(), guard.positions()
    starts = _held(source, {t: {n: starts.get(t, {}).get(n, 0) for n in numbers} for t, numbers in ends.items()})
    mine = _source_rows(_read(spark, _source_options(settings), starts, ends), guard, settings)
    until = sink.offsets({t: about.partitions for t, about in guard.there.items()}, LATEST)
    since = _held(sink, {t: {n: pinned[t].get(n, 0) for n in numbers} for t, numbers in until.items()})
    theirs = _sink_rows(_read(spark, reader_options(settings), since, until), settings)
    both = mine.join(theirs, "place", "left").withColumn("dead", F.coalesce(F.col("first.dead"), F.lit(False)))
    cut = {(t, n) for t, numbers in since.items() for n, offset in numbers.items() if offset > pinned[t].get(n, 0)}
    figures = _figures(both, _bounds(both, settings, ends, cut) if cut else {})
    strangers = theirs.where(~F.col("place").startswith(f"{guard.source_id}/")).count()
    return {**figures, "gaps": sum(_span(starts, ends)) - figures["records"], "of_other_sources": strangers}


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


def _bounds(both: DataFrame, settings: Settings, ends: Offsets, cut: set[tuple[str, int]]) -> dict[str, int]:
    """Of each partition of the source, the offset before which the sink may have held a record and deleted it since.

    :param cut: the sink's partitions that no longer begin where they did when the relay began
    """
    found = both.where(~F.col("dead")).groupBy("from", "first.topic", "first.partition").agg(F.min("at")).collect()
    oldest = {(row[0], row[1], row[2]): row[3] for row in found}
    bounds = {}
    for topic, number in ((topic, number) for topic, numbers in ends.items() for number in numbers):
        target, kept = settings.sink.of(topic), settings.sink.keep_partitions
        places = [place for place in cut if place[0] == target and (not kept or place[1] == number)]
        if places:
            bounds[f"{topic}/{number}"] = max(oldest.get((f"{topic}/{number}", *place), EVER) for place in places)
    return bounds


def _judged(both: DataFrame, bounds: Mapping[str, int]) -> DataFrame:
    """One row a record of the source: what is wrong with it."""
    order = Window.partitionBy("from", "first.topic", "first.partition").orderBy("at")
    before = F.max("first.offset").over(order.rowsBetween(Window.unboundedPreceding, -1))
    there = F.col("times").isNotNull()
    known = F.create_map(*(F.lit(item) for pair in bounds.items() for item in pair))
    bound = F.coalesce(known[F.col("from")], F.lit(-1)) if bounds else F.lit(-1)
    differs = (F.col("most") != F.col("expected")) | (F.col("least") != F.col("expected"))
    moved = (F.col("first.topic") != F.col("target")) | (F.col("first.partition") != F.col("to"))
    living = there & ~F.col("dead")
    return both.select(
        "place",
        "dead",
        F.coalesce(F.col("times") - 1, F.lit(0)).alias("again"),
        (~there & (F.col("at") >= bound)).alias("lost"),
        (~there & (F.col("at") < bound)).alias("expired"),
        F.coalesce(living & (differs | F.coalesce(moved, F.lit(False))), F.lit(False)).alias("altered"),
        F.coalesce(living & (before > F.col("first.offset")), F.lit(False)).alias("reordered"),
    )


def _figures(both: DataFrame, bounds: Mapping[str, int]) -> dict[str, Any]:
    judged = _judged(both, bounds).persist()
    counted = {kind: F.sum(F.col(kind).cast("long")) for kind in (*told.WRONG, "expired")}
    counted |= {"repeated": F.sum("again"), "records_repeated": F.sum((F.col("again") > 0).cast("long"))}
    counted |= {"records": F.count(F.lit(1)), "dead_letters": F.sum(F.col("dead").cast("long"))}
    row = judged.agg(*(column.alias(name) for name, column in counted.items())).collect()[0]
    figures: dict[str, Any] = {name: row[name] or 0 for name in counted}
    figures["first"] = {
        kind: [row[0] for row in judged.where(kind).select("place").sort("place").limit(SHOWN).collect()]
        for kind in told.WRONG
        if figures[kind]
    }
    judged.unpersist()
    return figures


def main(arguments: list[str]) -> int:
    """Audit the relay of a settings file, and print the figures: as a table, then as one line of JSON."""
    if len(arguments) != 1:
        return refuse(
            "SETTINGS", "one argument is needed", "audit.py FILE.json, of resolved settings", trouble.SETTINGS
        )
    try:
        figures = _run(load(arguments[0]))
    except SettingsError as error:
        for problem in error.problems:
            refuse("SETTINGS", f"{problem.path}: {problem.wrong}", problem.mend, trouble.SETTINGS)
        return trouble.SETTINGS
    except Exception as error:
        found = trouble.sort(error)
        if isinstance(found, Permanent):
            return refuse(found.code, found.cause, found.mend, trouble.HALTED)
        return refuse("NOT_TOLD", str(found), "try again when it is back; else read spark.log", trouble.HALTED)
    print("\n".join([*told.lines(figures), json.dumps(figures)]), flush=True)
    return 1 if told.problems(figures) else 0


def _run(settings: Settings) -> dict[str, Any]:
    SparkContext._ensure_initialized()  # the JVM alone: a refusal needs no executors
    files = StateDir(SparkContext._jvm, SparkContext._gateway, settings.state_path)
    say(f"reads both sides of {files.uri}")
    spark: SparkSession = SparkSession.builder.appName(f"tagdata-audit-{settings.name}").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", str(4 * spark.sparkContext.defaultParallelism))
    figures = {"application": myself()[0], "time": time.time(), **audit(spark, settings, files)}
    files.write("audit.json", figures)
    return figures
