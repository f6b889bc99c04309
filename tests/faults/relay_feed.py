"""Writes events to a topic at a steady rate until its standard input ends, and then says how many were acknowledged."""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Iterator

from e2e.events import Event, events
from kafka import KafkaProducer

TICK = 0.1  # seconds
# Milliseconds since 1970: none at all, the epoch, 2001, and 2099
JUMPS = (0, 1, 1_000_000_000_000, 4_070_908_800_000)


def main(bootstrap: str, topic: str, partitions: str, rate: str, jumped: str) -> None:
    """Feed; a broker that is away is waited for."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        acks="all",
        enable_idempotence=False,  # a record that is sent twice has two offsets, and is two records
        linger_ms=50,
        request_timeout_ms=15_000,
        delivery_timeout_ms=600_000,
        max_block_ms=600_000,
    )
    stream, acknowledged = events(10**9, int(partitions), seed=time.time_ns()), [0]
    print("feeding", flush=True)
    begun, count = time.monotonic(), 0
    while not select.select([sys.stdin], [], [], TICK)[0]:
        due = int((time.monotonic() - begun) * float(rate)) - count
        for event in _some(stream, min(due, 4 * int(rate))):
            count += 1
            stamp = JUMPS[count // 50 % len(JUMPS)] if jumped == "jumped" and count % 3 == 0 else None
            producer.send(
                topic,
                event.value,
                event.key,
                [(name, value or b"") for name, value in event.headers],
                event.partition,
                stamp,
            ).add_callback(lambda _: acknowledged.__setitem__(0, acknowledged[0] + 1))
    producer.flush(600)
    producer.close()
    print(json.dumps({"sent": count, "acknowledged": acknowledged[0]}), flush=True)


def _some(stream: Iterator[Event], count: int) -> Iterator[Event]:
    for _ in range(count):
        yield next(stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
