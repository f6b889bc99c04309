"""Two clusters of one broker each, one Spark in this process, and relays that run in threads of it."""

from __future__ import annotations

import itertools
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from e2e.events import Event, Writer, events
from kafka import KafkaConsumer, TopicPartition
from pyspark import SparkContext
from pyspark.sql import SparkSession
from spark.broker import Broker
from tagdata import audit, settings
from tagdata.files import StateDir
from tagdata.loop import Runner

logging.getLogger("kafka").setLevel(logging.CRITICAL)
CONNECTOR = Path(__file__).parents[2] / "build/jars/connector"
PATIENCE = float(os.environ.get("TAGDATA_PATIENCE", "120"))  # seconds for anything to come about
names = (f"t{number}" for number in itertools.count())


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Future[Broker]]]:
    """Two clusters, which start while Spark does."""
    with ThreadPoolExecutor(2) as pool:
        folders = [tmp_path_factory.mktemp(side) / "broker" for side in ("source", "sink")]
        started = [pool.submit(_start, folder, number) for number, folder in enumerate(folders, 1)]
        yield started
        for one in started:
            if not one.exception():
                one.result().clear()


def _start(folder: Path, number: int) -> Broker:
    return Broker(folder, number).start()


@pytest.fixture(scope="session")
def source(brokers: list[Future[Broker]], spark: SparkSession) -> Broker:
    return brokers[0].result()


@pytest.fixture(scope="session")
def sink(brokers: list[Future[Broker]], spark: SparkSession) -> Broker:
    return brokers[1].result()


# Tests of a few hundred records: neither the JVM's second compiler nor Spark's own pays off.
SMALL = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.fixture(scope="session")
def spark(brokers: list[Future[Broker]]) -> Iterator[SparkSession]:
    jars = ",".join(map(str, sorted(CONNECTOR.glob("*.jar"))))
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    for key, value in SMALL.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


class Relay:
    """A relay of one topic, its own on both sides."""

    def __init__(self, spark: SparkSession, brokers: tuple[Broker, Broker], folder: Path, **more: Any) -> None:
        self.spark = spark
        self.source, self.sink = brokers
        self.topic = next(names)
        self.data: dict[str, Any] = {
            "name": self.topic,
            "source": {"bootstrap": [self.source.address], "topics": [self.topic], **more.pop("source", {})},
            "sink": {"bootstrap": [self.sink.address], **more.pop("sink", {})},
            "trigger": {"interval_seconds": 0.2},
            "state_dir": f"file://{folder}/state",
            "waiting": {"first_seconds": 0.5, "most_seconds": 1},
            **more,
        }
        self.folder = folder / "state/main"
        self.code: int | None = None
        self.runner: Runner
        self.thread: threading.Thread | None = None

    @property
    def settings(self) -> settings.Settings:
        return settings.parse(self.data)

    @property
    def files(self) -> StateDir:
        return StateDir(SparkContext._jvm, SparkContext._gateway, self.settings.state_path)

    def topics(self, partitions: int = 3, **sink_configs: object) -> Relay:
        self.source.create(self.topic, partitions, max_message_bytes=10_000_000)
        self.sink.create(self.topic, partitions, **sink_configs)
        return self

    def fill(self, count: int, partitions: int = 3, seed: int = 1) -> int:
        return Writer([self.source.address], self.topic).write(events(count, partitions, seed))

    def put(self, *records: Event) -> None:
        Writer([self.source.address], self.topic).write(records)

    def start(self) -> Relay:
        """Run it in a thread."""
        self.code = None
        self.runner = Runner(self.spark, self.settings, self.files)

        def run() -> None:
            self.code = self.runner.run()

        self.thread = threading.Thread(target=run)
        self.thread.start()
        return self

    def finish(self) -> int | None:
        """Wait for its end; returns the exit code."""
        assert self.thread
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), self.status
        return self.code

    def once(self) -> int | None:
        """Run it until all that is there has been copied."""
        self.data["trigger"] = {"interval_seconds": 0.2, "available_now": True}
        return self.start().finish()

    def ask(self, marker: str) -> int | None:
        """Ask it to stop or to drain, as the controller does."""
        self.files.write(f"{marker}.json", {"application": self.runner.application})
        return self.finish()

    @property
    def status(self) -> dict[str, Any]:
        return self.runner.status.snapshot()

    def until(self, true: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait until its status is as wanted."""
        end = time.monotonic() + PATIENCE
        while not true(self.status):
            assert time.monotonic() < end, self.status
            assert self.thread
            assert self.thread.is_alive(), self.status
            self.thread.join(0.1)
        return self.status

    def halted(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "halted.json").read_text())
        assert found["mend"]
        return found

    def audit(self) -> dict[str, Any]:
        return audit.audit(self.spark, self.settings, self.files)


@pytest.fixture
def relay(spark: SparkSession, source: Broker, sink: Broker, tmp_path: Path) -> Iterator[Callable[..., Relay]]:
    """Make a relay; one that still runs in the end is asked to stop."""
    made: list[Relay] = []

    def make(**more: Any) -> Relay:
        made.append(Relay(spark, (source, sink), tmp_path / str(len(made)), **more))
        return made[-1]

    yield make
    for one in made:
        if one.thread and one.thread.is_alive():
            one.ask("stop")


def read(broker: Broker, topic: str) -> dict[int, list[Any]]:
    """Every record of a topic, by partition."""
    consumer = KafkaConsumer(bootstrap_servers=broker.address)
    partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    found: dict[int, list[Any]] = {partition.partition: [] for partition in partitions}
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        for partition, records in consumer.poll(1000).items():
            found[partition.partition] += records
    consumer.close()
    return found


def clean(figures: dict[str, Any]) -> bool:
    return not (figures["lost"] or figures["altered"] or figures["reordered"])
