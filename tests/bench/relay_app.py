"""Copies on demand in one Spark that stays warm: each line of standard input asks for a copy and is answered by a line.

{"tagdata": {settings}} or {"relay": [arguments]}; the answer is {"code": 0, "batches": [[records, seconds], …]}.
The argument is a folder to work in.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import relay
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from tagdata import runner

PATIENCE = 30.0


class Batches(StreamingQueryListener):
    """What a query says of its batches."""

    def __init__(self) -> None:
        self.found: list[tuple[int, float]] = []
        self.ended = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """A copy begins."""
        self.found = []
        self.ended.clear()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch was committed."""
        if event.progress.numInputRows:
            self.found.append((event.progress.numInputRows, event.progress.durationMs["triggerExecution"] / 1000))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing to tell."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The copy is done."""
        self.ended.set()


def copy(spark: SparkSession, asked: dict[str, Any], folder: Path) -> int:
    """Do one copy to its end; its exit code."""
    if "tagdata" in asked:
        settings = folder / "settings.json"
        settings.write_text(json.dumps(asked["tagdata"]))
        code: int = runner.main([str(settings)])
        return code
    arguments = relay.parse(asked["relay"])
    relay.write(relay.read(spark, arguments), arguments).awaitTermination()
    return 0


def main() -> None:
    """Say that Spark is there, then copy until standard input ends."""
    # Spark's JVM writes to standard output as it likes.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    folder = Path(sys.argv[1])
    spark = SparkSession.builder.appName("bench").getOrCreate()
    batches = Batches()
    spark.streams.addListener(batches)
    answers.write(json.dumps({"ready": spark.version}) + "\n")
    for line in sys.stdin:
        code = copy(spark, json.loads(line), folder)
        if code == 0 and not batches.ended.wait(PATIENCE):
            raise TimeoutError(f"the listener did not hear of the end for {PATIENCE:.0f} s")
        answers.write(json.dumps({"code": code, "batches": batches.found}) + "\n")


if __name__ == "__main__":
    main()
