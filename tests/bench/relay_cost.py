"""CPU time of a copy: of the job, of bare relay.py and of MirrorMaker 2, on the same cores, from the same topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from bench.parts import in_turn, median
from bench.relay_copiers import Bare, Copier, Mirror, Spark, Tuned
from bench.relay_lab import Clusters
from bench.rows import Row, row

# Records of a copy, long against what a query costs once; and of a batch: the job's default.
RECORDS, BATCH = 2_000_000, 500_000
# Bytes of a value: copies to get warm, and the least rate per core as a share of MirrorMaker's.
SIZES = {1000: (3, 0.8), 200: (1, 0.33)}
ROUNDS = 3
# A copy's first records are not counted: until they come, queries are planned and connections made.
SKIPPED = 0.2
PATIENCE = 600.0
OURS, BARE, MIRROR, TUNED = "tagdata", "relay.py", "MirrorMaker 2", "MirrorMaker 2 with the relay's JVM option"


def cost(clusters: Clusters) -> Iterator[Row]:
    """CPU-seconds per million records, warm; the rate per core is their inverse."""
    lab = clusters.lab
    # Each in a process of its own, as it is deployed: what one does would not be what another's compiler learns from.
    with Spark(lab) as spark, Bare(lab) as bare, Mirror(lab) as mirror, Tuned(lab) as tuned:
        copiers: dict[str, Copier] = {OURS: spark, BARE: bare, MIRROR: mirror, TUNED: tuned}
        for size, (warm, bar) in SIZES.items():
            topic = clusters.filled(size, RECORDS)
            total = clusters.hq.ends(topic)

            def measure(name: str, topic: str = topic, total: int = total, size: int = size) -> Callable[[], float]:
                def once() -> float:
                    sink = clusters.empty(topic)
                    copier = copiers[name]
                    copier.begin(topic, sink, BATCH)
                    spent, rate = window(copier, lambda: clusters.site.ends(sink), total)
                    copier.end()
                    clusters.site.drop(sink)
                    print(f"  {size} B {name}: {spent:.2f} CPU-s per million, {rate:,.0f} records/s", flush=True)
                    return spent

                return once

            measures = [measure(name) for name in copiers]
            in_turn(warm, *measures)
            yield from _rows(size, bar, dict(zip(copiers, in_turn(ROUNDS, *measures), strict=True)))
            clusters.hq.drop(topic)


def window(copier: Copier, count: Callable[[], int], total: int) -> tuple[float, float]:
    """CPU-seconds per million records and records a second, from a fifth of the records to the last of them.

    :raises TimeoutError: they do not arrive
    """
    first: tuple[int, float, float] | None = None
    deadline = time.monotonic() + PATIENCE
    while True:
        now = count(), copier.cpu_seconds(), time.monotonic()
        if now[0] >= total:
            break
        if first is None and now[0] >= SKIPPED * total:
            first = now
        if now[2] > deadline or copier.process.poll() is not None:
            raise TimeoutError(f"{now[0]:,} of {total:,} records after {PATIENCE:.0f} s: see {copier.log}")
        time.sleep(0.05)
    if first is None:
        raise RuntimeError(f"{total:,} records were there between two looks: too few to measure")
    copied = now[0] - first[0]
    return (now[1] - first[1]) / copied * 1e6, copied / (now[2] - first[2])


def _rows(size: int, bar: float, found: dict[str, list[float]]) -> Iterator[Row]:
    """Records per CPU-second of two of them, one over the other, round by round."""
    pairs = ((OURS, MIRROR, bar), (BARE, MIRROR, None), (OURS, BARE, None), (OURS, TUNED, None))
    for one, other, least in pairs:
        ratios = [theirs / ours for ours, theirs in zip(found[one], found[other], strict=True)]
        yield row(
            f"{size} B values: records per CPU-second, {one} : {other}",
            value := median(ratios),
            "ratio",
            least,
            least is None or value >= least,
            least=min(ratios),
            most=max(ratios),
            **{f"{name}, CPU-s per million": median(found[name]) for name in (one, other)},
        )
