"""Do two topics hold the same records? Count and two checksums over (key, value, headers), partition by partition."""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from struct import pack
from typing import Protocol

from kafka import KafkaConsumer, TopicPartition


class Record(Protocol):
    """What a checksum covers of a record."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Digest:
    """One partition: how many records, what they are in any order, and in their order."""

    records: int
    content: str
    order: str


def fingerprint(record: Record) -> bytes:
    """16 bytes that differ when key, value or a header differ; null and empty are different."""
    parts = [record.key, record.value]
    for name, value in record.headers:
        parts += [name.encode(), value]
    lengths = pack(f">{len(parts)}i", *(-1 if part is None else len(part) for part in parts))
    return blake2b(lengths + b"".join(part or b"" for part in parts), digest_size=16).digest()


def digest(bootstrap: list[str], topic: str) -> dict[int, Digest]:
    """Read `topic` from its first record to its present end; TimeoutError when it stops short of it for 20 s."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, check_crcs=False, fetch_max_bytes=32 * 1024 * 1024)
    numbers = sorted(consumer.partitions_for_topic(topic) or ())
    partitions = [TopicPartition(topic, number) for number in numbers]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    counts, sums = dict.fromkeys(numbers, 0), dict.fromkeys(numbers, 0)
    chains = {number: blake2b(digest_size=16) for number in numbers}
    while behind := [partition for partition in partitions if consumer.position(partition) < ends[partition]]:
        chunk = consumer.poll(timeout_ms=20_000, max_records=20_000)
        if not chunk:
            raise TimeoutError(f"{topic}: no record for 20 s, and short of the end of {behind}")
        for partition, records in chunk.items():
            number = partition.partition
            for record in records:
                if record.offset < ends[partition]:
                    mark = fingerprint(record)
                    counts[number] += 1
                    sums[number] += int.from_bytes(mark, "big")
                    chains[number].update(mark)
    consumer.close()
    return {n: Digest(counts[n], f"{sums[n] % 2**128:032x}", chains[n].hexdigest()) for n in numbers}


def differences(source: Mapping[int, Digest], sink: Mapping[int, Digest]) -> list[str]:
    """What differs, a sentence for each partition; empty when the topics hold the same."""
    found = []
    for number in sorted(source.keys() | sink.keys()):
        left, right = source.get(number), sink.get(number)
        if left is None or right is None:
            found.append(f"partition {number}: only in the {'sink' if left is None else 'source'}")
        elif left.records != right.records:
            found.append(f"partition {number}: {left.records} records in the source, {right.records} in the sink")
        elif left.content != right.content:
            found.append(f"partition {number}: the same number of records, but not the same records")
        elif left.order != right.order:
            found.append(f"partition {number}: the same records in another order")
    return found


def table(source: Mapping[int, Digest], sink: Mapping[int, Digest]) -> str:
    """Both topics side by side, as text."""
    lines = [f"{'partition':>9}  {'source':>9}  {'sink':>9}  {'content (key, value, headers)':32}  order"]
    none = Digest(0, "-", "-")
    for number in sorted(source.keys() | sink.keys()):
        left, right = source.get(number, none), sink.get(number, none)
        content = left.content if left.content == right.content else f"{left.content[:12]} != {right.content[:12]}"
        order = "same" if left.order == right.order else "DIFFERS"
        lines.append(f"{number:>9}  {left.records:>9,}  {right.records:>9,}  {content:32}  {order}")
    totals = [sum(side.records for side in topic.values()) for topic in (source, sink)]
    lines.append(f"{'total':>9}  {totals[0]:>9,}  {totals[1]:>9,}")
    return "\n".join(lines)


def dump(digests: Mapping[int, Digest]) -> str:
    """Digests as JSON, to carry them between hosts that see one of the clusters only."""
    return json.dumps({number: asdict(one) for number, one in digests.items()})


def load(text: str) -> dict[int, Digest]:
    """The reverse of `dump`."""
    return {int(number): Digest(**one) for number, one in json.loads(text).items()}


def main() -> int:
    """Compare SOURCE with SINK and exit 1 when they differ; with SOURCE alone, print its digests as JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("source", help="BOOTSTRAP/TOPIC, or @FILE with digests printed elsewhere")
    parser.add_argument("sink", nargs="?", help="the same of the sink")
    args = parser.parse_args()
    sides = [_side(text) for text in (args.source, args.sink) if text]
    if len(sides) == 1:
        sys.stdout.write(dump(sides[0]) + "\n")
        return 0
    found = differences(*sides)
    sys.stdout.write("\n".join([table(*sides), *found]) + "\n")
    return 1 if found else 0


def _side(text: str) -> dict[int, Digest]:
    if text.startswith("@"):
        with open(text[1:], encoding="utf-8") as file:
            return load(file.read())
    bootstrap, _, topic = text.rpartition("/")
    return digest(bootstrap.split(","), topic)


if __name__ == "__main__":
    sys.exit(main())
