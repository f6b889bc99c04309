"""Spark's own log of batches, read for what it says of the source: what is planned, and what is committed."""

from __future__ import annotations

import json

from tagdata.files import StateDir
from tagdata.kafka_admin import Offsets
from tagdata.trouble import REPLAY, Permanent

FOLDER = "checkpoint"


def last_batch(files: StateDir) -> int | None:
    """The last committed batch."""
    return max((int(name) for name in files.names(f"{FOLDER}/commits") if name.isdigit()), default=None)


def batch_end(files: StateDir, batch: int) -> Offsets:
    """Where a planned batch ends; its file holds a version, metadata and the source's offsets. Permanent if it does not."""
    lines = (files.read(f"{FOLDER}/offsets/{batch}") or "").splitlines()
    if len(lines) < 3:
        raise Permanent("STATE_BROKEN", f"{FOLDER}/offsets/{batch} is unreadable", REPLAY)
    return {topic: {int(n): o for n, o in numbers.items()} for topic, numbers in json.loads(lines[2]).items()}
