"""Write audit events of a given size to a topic, at a given rate or as fast as it takes them. Runs in a broker's network.

Whole record batches are made once and sent again and again, so that the feed leaves the cores to what is measured. Each
record has a key, a JSON value that does not compress well, and two headers; the broker stamps the time.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import select
import sys
import time

from bench.relay_room import PARTITIONS
from kafka import TopicPartition
from kafka.client_async import KafkaClient
from kafka.errors import NoError, for_code
from kafka.protocol.produce import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

KINDS = 8  # different batches for each partition
BATCH_BYTES = 100_000
PATIENCE = 30.0


def batches(size: int, records: int, seed: int = 1) -> list[list[bytes]]:
    """For each partition some record batches, uncompressed, of `records` values of `size` bytes."""
    dice = random.Random(seed)
    return [[_batch(dice, size, records) for _ in range(KINDS)] for _ in range(PARTITIONS)]


def _batch(dice: random.Random, size: int, records: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 2**31 - 1)
    for position in range(records):
        head = f'{{"actor":"user-{dice.randrange(40_000):05}","action":"read","detail":"'
        text = base64.b64encode(dice.randbytes(size)).decode()
        value = f'{head}{text[: size - len(head) - 2]}"}}'.encode()
        headers = [("schema", b"audit/3"), ("trace", dice.randbytes(16))]
        builder.append(position, int(time.time() * 1000), head[10:20].encode(), value, headers)
    return bytes(builder.build())


class Feed:
    """Sends batches to the leaders of a topic's partitions, several at a time."""

    def __init__(self, bootstrap: list[str], topic: str) -> None:
        self.topic = topic
        self.client = KafkaClient(bootstrap_servers=bootstrap, request_timeout_ms=15_000)
        self.client.poll(future=self.client.set_topics([topic]))

    def send(self, parts: dict[int, bytes]) -> None:
        """Write these batches, by partition; returns when all are acknowledged. TimeoutError when that takes too long."""
        end = time.monotonic() + PATIENCE
        while parts:
            if time.monotonic() > end:
                raise TimeoutError(f"{self.topic}: no acknowledgement for {PATIENCE:.0f} s")
            parts = {number: parts[number] for number in self._try(parts)}

    def _try(self, parts: dict[int, bytes]) -> list[int]:
        """The partitions that have to be tried again."""
        answers, again = {}, []
        for number, records in parts.items():
            leader = self.client.cluster.leader_for_partition(TopicPartition(self.topic, number))
            if leader in (None, -1) or not self._ready(leader):
                again.append(number)
                continue
            request = ProduceRequest[7](
                transactional_id=None, required_acks=-1, timeout=10_000, topics=[(self.topic, [(number, records)])]
            )
            answers[number] = self.client.send(leader, request)
        for number, answer in answers.items():
            self.client.poll(future=answer)
            if answer.failed() or for_code(answer.value.topics[0][1][0][1]) is not NoError:
                again.append(number)
        if again:
            self.client.poll(future=self.client.cluster.request_update())
        return again

    def _ready(self, leader: int) -> bool:
        if not self.client.ready(leader):
            self.client.poll(timeout_ms=50)
        return bool(self.client.ready(leader))


def main() -> None:
    """Feed until all is written, or standard input ends; prints {"records": …, "seconds": …}."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT,…")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--size", type=int, default=200, help="bytes of a value")
    parser.add_argument("--records", type=int, default=0, help="how many, a multiple of a round; 0: until told to end")
    parser.add_argument("--rate", type=float, default=0.0, help="records a second; 0: as fast as they are taken")
    args = parser.parse_args()
    full = max(1, BATCH_BYTES // (args.size + 100))
    # Ten rounds a second or more, so that the load is even.
    batch = max(1, min(full, round(args.rate / PARTITIONS / 10))) if args.rate else full
    made, feed = batches(args.size, batch), Feed(args.bootstrap.split(","), args.topic)
    begun, sent, turn = time.monotonic(), 0, 0
    # A slow feed writes to one partition at a time.
    width = PARTITIONS if not args.rate or args.rate >= 10 * PARTITIONS else 1
    while not args.records or sent < args.records:
        wait = begun + sent / args.rate - time.monotonic() if args.rate else 0.0
        if select.select([sys.stdin], [], [], max(wait, 0.0))[0]:
            break
        chosen = [(turn * width + n) % PARTITIONS for n in range(width)]
        feed.send({number: made[number][turn % KINDS] for number in chosen})
        sent, turn = sent + width * batch, turn + 1
    print(json.dumps({"records": sent, "seconds": round(time.monotonic() - begun, 2)}), flush=True)


if __name__ == "__main__":
    main()
