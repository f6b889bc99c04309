"""One run of the streaming query: what happens around each batch, and where it may end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tagdata import checkpoint
from tagdata.guard import Guard
from tagdata.kafka_admin import Cluster, Limits
from tagdata.owner import Owner
from tagdata.pipeline import OBSERVED, REASONS, prepare
from tagdata.resume import Resume
from tagdata.settings import Settings
from tagdata.trouble import Changed, Stopped

# A cluster that is away is waited for inside the task: a task that fails repeats its share, or costs its order.
PATIENCE_MS = "3600000"
# The system's own, which grow with the link: Kafka's 64 and 128 KB are asked for often, and hold a long link back.
AUTOTUNED = "-1"
SOURCE_DEFAULTS = {
    "kafka.default.api.timeout.ms": "15000",
    "kafka.request.timeout.ms": "10000",
    "fetchOffset.numRetries": "1",
    "kafkaConsumer.pollTimeoutMs": PATIENCE_MS,
    # Spark asks for the partition's ends after each poll, which loses what the poll left of its fetch: few and whole polls.
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": "2097152",
    "kafka.receive.buffer.bytes": AUTOTUNED,
}
SINK_DEFAULTS = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.linger.ms": "20",
    "kafka.batch.size": "262144",
    "kafka.send.buffer.bytes": AUTOTUNED,
    "kafka.request.timeout.ms": "15000",
    "kafka.delivery.timeout.ms": PATIENCE_MS,
    "kafka.max.block.ms": PATIENCE_MS,
}


class Stream:
    """The query and its batches. `failure` is what ended it, if it was not asked to end."""

    def __init__(self, spark: SparkSession, settings: Settings, guard: Guard, owner: Owner, resume: Resume | None):
        self.spark, self.settings, self.guard = spark, settings, guard
        self.owner, self.resume = owner, resume
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.resumed: dict[int, tuple[int, int]] = {}
        self.taken = -1
        self.spec = guard.spec
        self.begun = 0.0

    def start(self, once: bool) -> StreamingQuery:
        """Start the query; `once` ends it when all that is there now has been copied."""
        source = self.settings.source
        chosen = {"subscribePattern": source.pattern} if source.pattern else {"subscribe": ",".join(source.topics)}
        options = {
            **SOURCE_DEFAULTS,
            **source.options,
            **chosen,
            "kafka.bootstrap.servers": ",".join(source.bootstrap),
            "kafka.client.id": self.settings.client_id,
            "startingOffsets": self._starts(),
            "failOnDataLoss": "true",
            "includeHeaders": "true",
            "maxOffsetsPerTrigger": str(self._per_batch()),
        }
        records = self.spark.readStream.format("kafka").options(**options).load()
        trigger: dict[str, Any] = {"processingTime": f"{round(self.settings.interval * 1000)} milliseconds"}
        writer = (
            prepare(records, self.spec).writeStream.foreachBatch(self._batch).queryName(f"tagdata-{self.settings.name}")
        )
        writer = writer.option("checkpointLocation", f"{self.settings.state_path}/{checkpoint.FOLDER}")
        return writer.trigger(**({"availableNow": True} if once else trigger)).start()

    def news(self, query: StreamingQuery) -> list[dict[str, Any]]:
        """What the query says of itself since the last call: its progress by batch, in order; of one batch the last."""
        recent = query._jsq.recentProgress()  # as it came: Python's copy of it costs a hundred calls
        found: dict[int, dict[str, Any]] = {}
        for index in reversed(range(len(recent))):
            number = recent[index].batchId()
            if number < self.taken:
                break
            if number not in found:
                found[number] = json.loads(recent[index].json())
        self.taken = max(found, default=self.taken)
        return [found[number] for number in sorted(found)]

    def counts(self, progress: dict[str, Any]) -> tuple[int, int, int, dict[str, int]]:
        """Rows read, written and left out in a batch, and how many went among the dead letters for which reason."""
        observed = progress.get("observedMetrics", {}).get(OBSERVED, {})
        rows = progress["numInputRows"]
        dead = {reason: observed[reason] for reason in REASONS if observed.get(reason)}
        if progress["batchId"] in self.resumed:
            rows, left = self.resumed[progress["batchId"]]
            return rows, left, rows - left, {}
        return rows, rows, 0, dead

    def _starts(self) -> str:
        starts = self.guard.starts()
        every = {
            topic: {str(n): starts.get(topic, {}).get(n, -2) for n in range(about.partitions)}
            for topic, about in self.guard.here.items()
        }
        return json.dumps(every)

    def _per_batch(self) -> int:
        settings = self.settings
        return (
            min(settings.per_batch, round(settings.per_second * self._span()))
            if settings.per_second
            else settings.per_batch
        )

    def _span(self) -> float:
        """Seconds that a batch has to take where the rate is limited."""
        return max(self.settings.interval, 1.0)

    def _batch(self, records: DataFrame, batch: int) -> None:
        try:
            self._await_turn()
            self.owner.check()
            self.guard.before()
            if self.guard.spec != self.spec:
                raise Changed("topics or limits changed")
            if self.resume and self.resume.begin(batch):
                records, rows, left = self.resume.missing(records)
                self.resumed[batch] = rows, left
            limits = [limit.bytes for limit in self.guard.limits.values()] or [Limits().bytes]
            records.write.format("kafka").options(**sink_options(self.settings, limits)).save()
            self.guard.after()
        except BaseException as error:
            self.failure = error
            raise

    def _await_turn(self) -> None:
        """Keep to the rate; a batch that is not written yet gives way to a stop."""
        rest = self.begun + self._span() - time.monotonic() if self.settings.per_second and self.begun else 0.0
        if self.stopping.wait(max(rest, 0.0)):
            raise Stopped("stopped at a batch boundary, as asked: no error")
        self.begun = time.monotonic()


def sink_options(settings: Settings, limits: Collection[int]) -> dict[str, str]:
    """Options of Spark's Kafka sink, for topics that take so many bytes a batch (`max.message.bytes`)."""
    options = {
        **SINK_DEFAULTS,
        "kafka.max.request.size": str(max(limits) + 1024),
        "kafka.buffer.memory": str(max(33_554_432, 4 * max(limits))),
        **settings.sink.options,
        "kafka.bootstrap.servers": ",".join(settings.sink.bootstrap),
        "kafka.client.id": settings.client_id,
        "includeHeaders": "true",
    }
    # A batch that a topic refuses for its size is split and sent again, and one behind it may arrive before it.
    return {**options, "kafka.batch.size": str(min(int(options["kafka.batch.size"]), *limits))}


def lag(progress: dict[str, Any]) -> dict[str, int]:
    """Records of each topic between a query's position and the source's end, from its progress."""
    source = progress["sources"][0]
    ends, at = (as_offsets(source.get(key)) for key in ("latestOffset", "endOffset"))
    return {
        topic: sum(max(0, end - at.get(topic, {}).get(number, end)) for number, end in numbers.items())
        for topic, numbers in ends.items()
    }


def as_offsets(told: Any) -> dict[str, dict[int, int]]:
    """Offsets of a progress, which come as JSON or as text that holds JSON."""
    told = json.loads(told) if isinstance(told, str) else told
    return {topic: {int(n): int(o) for n, o in numbers.items()} for topic, numbers in (told or {}).items()}


def reader_options(settings: Settings) -> dict[str, str]:
    """Options to read the sink with the credentials of the sink."""
    kafka = {key: value for key, value in settings.sink.options.items() if _serves_reading(key)}
    return {
        "kafka.bootstrap.servers": ",".join(settings.sink.bootstrap),
        "kafka.client.id": settings.client_id,
        "kafka.isolation.level": "read_uncommitted",
        **kafka,
    }


def _serves_reading(key: str) -> bool:
    return key.startswith(("kafka.security.", "kafka.sasl.", "kafka.ssl."))


def cluster(jvm: Any, settings: Settings, side: str) -> Cluster:
    """The admin's view of one side."""
    end = settings.source if side == "source" else settings.sink
    kept = {key: value for key, value in end.options.items() if _serves_reading(key)}
    return Cluster(jvm, side, end.bootstrap, kept, settings.client_id)
