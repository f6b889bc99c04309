"""What the last attempt left half written: a batch that was begun is compared with the sink before it is written again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tagdata.files import StateDir
from tagdata.guard import Guard
from tagdata.kafka_admin import EARLIEST, Offsets
from tagdata.pipeline import origin
from tagdata.trouble import Transient

PENDING = "pending.json"
QUIET = 3  # listings in a row that must agree before the tail counts as still
PAUSE = 1.0  # seconds between them


class Resume:
    """Remembers where the sink ended before each batch, and what of that batch is there when it comes again."""

    def __init__(self, files: StateDir, guard: Guard, options: Mapping[str, str]) -> None:
        self.files, self.guard, self.options = files, guard, dict(options)
        self.pending: dict[str, Any] = files.load(PENDING) or {}

    def begin(self, batch: int) -> bool:
        """Note the sink's ends before a batch is written; True when this batch was begun before."""
        if self.pending.get("batch") == batch:
            return True
        ends = {topic: {str(n): o for n, o in numbers.items()} for topic, numbers in self.guard.sink_ends().items()}
        pending = {"batch": batch, "sink": ends, "time": time.time()}
        self.files.write(PENDING, pending)
        self.pending = pending
        return False

    def missing(self, records: DataFrame) -> tuple[DataFrame, int, int]:
        """The records without those that are in the sink already; how many there were, and how many are left.

        Of each partition all are written again from the first that is missing on: so first occurrences stay in order.
        """
        here = records.select(origin().alias("place"))
        there = self._tail(records).select(origin().alias("place")).where(F.col("place").isNotNull()).distinct()
        found = here.join(there.withColumn("found", F.lit(True)), "place", "left")
        found = found.select(*_parts(F.col("place")), "found").persist()
        lacking = found.where(F.col("found").isNull()).groupBy("from").agg(F.min("offset")).collect()
        first = {row[0]: row[1] for row in lacking}
        rows, left = found.count(), found.where(_after(first, F.col("from"), F.col("offset"))).count()
        found.unpersist()
        return records.where(_after(first, *_parts(origin()))), rows, left

    def _tail(self, records: DataFrame) -> DataFrame:
        starts, ends = self._range()
        reader = records.sparkSession.read.format("kafka").options(**self.options)
        reader = reader.option("assign", json.dumps({topic: list(numbers) for topic, numbers in ends.items()}))
        reader = reader.option("startingOffsets", json.dumps(starts)).option("endingOffsets", json.dumps(ends))
        return reader.option("includeHeaders", True).load()

    def _range(self) -> tuple[Offsets, Offsets]:
        guard = self.guard
        ends = guard.sink_ends()
        first = guard.sink.offsets({topic: len(numbers) for topic, numbers in ends.items()}, EARLIEST)
        noted = self.pending["sink"]
        starts = {
            topic: {n: max(noted.get(topic, {}).get(str(n), 0), first[topic][n]) for n in numbers}
            for topic, numbers in ends.items()
        }
        return starts, ends


def await_quiet(ends: Callable[[], Offsets], pause: Callable[[float], object], most: int = 20) -> None:
    """Wait until the sink's tail stands still: what a task sent before it died may still arrive.

    Others may write to the same topics, so after `most` listings it goes on; what arrives later is repeated.
    """
    same, last = 0, ends()
    for _ in range(most):
        pause(PAUSE)
        now = ends()
        same, last = (same + 1 if now == last else 0), now
        if same >= QUIET - 1:
            return


def await_containers(
    left: Callable[[], tuple[list[str], list[str]]], pause: Callable[[float], object], note: Callable[[str], None]
) -> None:
    """Wait until no node runs a container of the attempt before. Transient while one does, after a minute."""
    silent: list[str] = []
    for _ in range(60):
        containers, silent = left()
        if not containers:
            break
        pause(PAUSE)
    else:
        raise Transient(f"containers of the attempt before still run: {', '.join(containers)}")
    if silent:
        note(f"could not ask {', '.join(silent)} for containers of the attempt before")


def _parts(place: Column) -> tuple[Column, Column]:
    """Topic and partition, and the offset."""
    return F.substring_index(place, "/", 3).alias("from"), F.substring_index(place, "/", -1).cast("long").alias(
        "offset"
    )


def _after(first: Mapping[str, int], name: Column, offset: Column) -> Column:
    """Rows from the given offset of their partition on; none of a partition that is not given."""
    if not first:
        return F.lit(False)
    table = F.create_map(*(F.lit(part) for pair in first.items() for part in pair))
    return F.coalesce(offset >= F.element_at(table, name), F.lit(False))
