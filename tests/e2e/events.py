"""Audit events as a headquarters writes them: JSON values, keys, headers and the odd shapes that a relay must carry too."""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.client_async import KafkaClient
from kafka.errors import BrokerResponseError, LeaderNotAvailableError, NoError, TopicAlreadyExistsError, for_code
from kafka.protocol.produce import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

Header = tuple[str, bytes | None]

ACTIONS = ("login", "logout", "read", "export", "grant", "revoke", "delete", "approve")
RESOURCES = ("ledger", "payment", "customer", "contract", "invoice", "report")
OUTCOMES = ("success", "success", "success", "success", "denied", "error")
AGENTS = ("branch-desk/4.1", "batch/2.9", "mobile/11.0 (Größe L)", "api-gateway/7.3")


class Event(NamedTuple):
    """One Kafka record and the partition it belongs to."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


def events(count: int, partitions: int = 6, seed: int = 1) -> Iterator[Event]:
    """`count` events, the same ones for the same arguments.

    Of each hundred, one has no key, one is a tombstone, one an empty value; every third carries a binary header, and
    among the others are events without headers, with an empty header, a null one and a repeated one.
    """
    bits = random.Random(seed).getrandbits
    for number in range(count):
        noise = bits(128)
        actor = b"user-%05d" % (noise % 40_000)
        key = None if number % 100 == 7 else actor
        partition = number % partitions if key is None else crc32(key) % partitions
        yield Event(partition, key, _value(number, noise, actor), _headers(number, noise))


def _value(number: int, noise: int, actor: bytes) -> bytes | None:
    if number % 100 == 13:
        return None
    if number % 100 == 57:
        return b""
    return (
        f'{{"id":"{noise:032x}","sequence":{number},"time":"2025-03-{1 + number % 28:02d}T08:{noise % 60:02d}:00Z",'
        f'"actor":"{actor.decode()}","action":"{ACTIONS[noise % 8]}","outcome":"{OUTCOMES[noise % 6]}",'
        f'"resource":{{"kind":"{RESOURCES[(noise >> 8) % 6]}","number":{noise >> 100}}},'
        f'"client":{{"address":"10.{noise >> 16 & 255}.{noise >> 24 & 255}.{noise >> 32 & 255}",'
        f'"agent":"{AGENTS[noise >> 40 & 3]}"}},"took_ms":{(noise >> 48) % 5_000}}}'
    ).encode()


def _headers(number: int, noise: int) -> list[Header]:
    match number % 12:
        case 0:
            return []
        case 1:
            return [("schema", b"audit/3"), ("note", b"")]
        case 2:
            return [("schema", b"audit/3"), ("note", None)]
        case 3:
            return [("hop", b"branch"), ("hop", b"region"), ("hop", b"headquarters")]
    if number % 3 == 0:
        return [("schema", b"audit/3"), ("trace", noise.to_bytes(16, "big"))]
    return [("schema", b"audit/3"), ("tenant", b"north" if noise & 1 else b"south")]


def create_topic(bootstrap: list[str], topic: str, partitions: int) -> bool:
    """Create `topic` with as many replicas as the brokers give by default; False when it is there already."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=-1)])
    except TopicAlreadyExistsError:
        return False
    finally:
        admin.close()
    return True


def drop_topics(bootstrap: list[str], prefix: str) -> None:
    """Delete the topics whose names start with `prefix`."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    names = [name for name in admin.list_topics() if name.startswith(prefix)]
    if names:
        admin.delete_topics(names)
    admin.close()


class Writer:
    """Writes whole record batches; the client's own producer refuses null header values, and is slower."""

    BATCH = 1_000
    PATIENCE = 15.0

    def __init__(self, bootstrap: list[str], topic: str) -> None:
        self._topic = topic
        self._client = KafkaClient(bootstrap_servers=bootstrap, request_timeout_ms=15_000)
        self._client.poll(future=self._client.set_topics([topic]))
        self._open: dict[int, DefaultRecordBatchBuilder] = {}
        self._sizes: Counter[int] = Counter()

    def write(self, stream: Iterable[Event]) -> int:
        """Write the events and return how many; raises KafkaError when the broker refuses a batch."""
        count = 0
        for event in stream:
            count += 1
            number, position = event.partition, self._sizes[event.partition]
            batch = self._open.get(number) or self._open.setdefault(number, self._batch())
            batch.append(position, int(time.time() * 1000), event.key, event.value, event.headers)
            self._sizes[number] += 1
            if self._sizes[number] == self.BATCH:
                self._send(number)
        for number in list(self._open):
            self._send(number)
        self._client.close()
        return count

    @staticmethod
    def _batch() -> DefaultRecordBatchBuilder:
        # compressed batches spare the checksum, which is pure Python, most of its bytes
        gzip = DefaultRecordBatchBuilder.CODEC_GZIP
        return DefaultRecordBatchBuilder(2, gzip, False, -1, -1, -1, 2**31 - 1)

    def _send(self, number: int) -> None:
        records = bytes(self._open.pop(number).build())
        self._sizes[number] = 0
        end = time.monotonic() + self.PATIENCE
        while (error := self._try(number, records)) is not NoError:
            if not error.retriable or time.monotonic() > end:
                raise error(f"partition {number} of {self._topic}")
            # the leaders of a topic that was just created are still settling
            self._client.poll(future=self._client.cluster.request_update())

    def _try(self, number: int, records: bytes) -> type[BrokerResponseError]:
        leader = self._client.cluster.leader_for_partition(TopicPartition(self._topic, number))
        if leader in (None, -1):
            missing: type[BrokerResponseError] = LeaderNotAvailableError
            return missing
        while not self._client.ready(leader):
            self._client.poll(timeout_ms=100)
        request = ProduceRequest[7](
            transactional_id=None, required_acks=-1, timeout=10_000, topics=[(self._topic, [(number, records)])]
        )
        answer = self._client.send(leader, request)
        self._client.poll(future=answer)
        if answer.failed():
            raise answer.exception
        error: type[BrokerResponseError] = for_code(answer.value.topics[0][1][0][1])
        return error


def main() -> None:
    """Create a topic and fill it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT,…")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, default=200_000, help="0 only creates the topic")
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drop", metavar="PREFIX", help="first delete the topics whose names start so")
    parser.add_argument("--unless-there", action="store_true", help="leave a topic of that name as it is")
    args = parser.parse_args()
    bootstrap = args.bootstrap.split(",")
    begin = time.monotonic()
    if args.drop:
        drop_topics(bootstrap, args.drop)
    if not create_topic(bootstrap, args.topic, args.partitions):
        sys.stdout.write("there already\n")
        sys.exit(0 if args.unless_there else f"topic {args.topic} is there already: take another name")
    count = Writer(bootstrap, args.topic).write(events(args.records, args.partitions, args.seed))
    sys.stdout.write(f"{count} records in {time.monotonic() - begin:.1f} s\n")


if __name__ == "__main__":
    main()
