"""How much of what Kafka's own perf tools reach here the job reaches."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from functools import partial

from bench.parts import in_turn, median
from bench.relay_copiers import HEAP, HOST, LOGGING, PRODUCER, USER, Spark, sides
from bench.relay_lab import Clusters, inside
from bench.relay_nat import catch_up
from bench.rows import Row, row
from lab.topology import BUILD, Lab

# Bytes of a value: records of a run, records of a batch.
SIZES = {1000: (300_000, 100_000), 200: (600_000, 150_000)}
WARM, ROUNDS = 1, 3
TOOLS = "org.apache.kafka.tools"


def share(clusters: Clusters) -> Iterator[Row]:
    """Records a second of a catch-up, as a share of the slower one of kafka-producer-perf-test and kafka-consumer-perf-test."""
    with Spark(clusters.lab) as spark:
        for size, (records, batch) in SIZES.items():
            topic = clusters.filled(size, records)
            sink = clusters.empty(topic)
            measures: list[Callable[[], float]] = [
                partial(copied, clusters, spark, topic, batch),
                partial(produced, clusters.lab, sink, records, size),
                partial(consumed, clusters.lab, topic, records),
            ]
            in_turn(WARM, *measures)
            relayed, written, read = in_turn(ROUNDS, *measures)
            shares = [one / min(pair) for one, *pair in zip(relayed, written, read, strict=True)]
            yield row(
                f"{size} B values: catch-up : min(producer-perf, consumer-perf)",
                median(shares),
                "ratio",
                None,
                True,
                least=min(shares),
                most=max(shares),
                **{"records/s": median(relayed), "producer": median(written), "consumer": median(read)},
            )
            clusters.hq.drop(topic)
            clusters.site.drop(sink)


def copied(clusters: Clusters, spark: Spark, topic: str, batch: int) -> float:
    """Records a second that the job copies."""
    return 1e6 / catch_up(clusters, spark, topic, batch)


def produced(lab: Lab, topic: str, records: int, size: int) -> float:
    """Records a second that kafka-producer-perf-test writes to the site's cluster."""
    properties = [f"{key}={value}" for key, value in PRODUCER.items()]
    asked = ["--topic", topic, "--num-records", str(records), "--record-size", str(size), "--throughput", "-1"]
    asked += ["--warmup-records", str(records // 5), "--bootstrap-server", ",".join(sides(lab)[1])]
    said = _tool(lab, "ProducerPerformance", *asked, "--command-property", *properties)
    return float(re.findall(r"([\d.]+) records/sec", said)[-1])


def consumed(lab: Lab, topic: str, records: int) -> float:
    """Records a second that kafka-consumer-perf-test reads from headquarters, through the NAT; its column fetch.nMsg.sec."""
    bootstrap = ",".join(sides(lab)[0])
    said = _tool(
        lab, "ConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)
    )
    # Its one row begins with the time at which it began; the client logs around it.
    (figures,) = re.findall(r"^\d{4}-\d\d-\d\d .*,.*$", said, re.MULTILINE)
    return float(figures.split(",")[-1])


def _tool(lab: Lab, name: str, *arguments: str) -> str:
    java = ["java", f"-Xmx{HEAP}", f"-Dlog4j2.configurationFile={LOGGING}", "-cp", f"{BUILD / 'jars/kafka'}/*"]
    command = [*inside(lab, HOST, USER), *java, f"{TOOLS}.{name}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout
