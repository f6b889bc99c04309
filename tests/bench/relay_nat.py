"""The job's catch-up through the NAT against the same one without any, pair by pair in one Spark."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench import maps
from bench.parts import in_turn, median
from bench.relay_copiers import HOST, Spark
from bench.relay_lab import Clusters
from bench.rows import Row, row
from faults.node import Node
from lab import podman
from lab.topology import Lab

SIZE, RECORDS, BATCH = 1000, 240_000, 60_000
WARM, PAIRS, BAR = 2, 9, 0.97
DRAWS = 10_000


def nat(clusters: Clusters) -> Iterator[Row]:
    """Seconds of a catch-up by the brokers' own addresses, which the router lets pass, : through node's and router's NAT."""
    node = Node(clusters.lab, HOST)
    plan = node.request(maps.hq(node), probe=False)
    topic = clusters.filled(SIZE, RECORDS)
    with opened(clusters.lab), Spark(clusters.lab) as spark:
        used: dict[bool, list[float]] = {False: [], True: []}

        def measure(direct: bool) -> Callable[[], float]:
            def once() -> float:
                node.remove(maps.OWNER) if direct else switch(node, plan)
                begun = spark.cpu_seconds()
                seconds = catch_up(clusters, spark, topic, BATCH, direct)
                used[direct].append(spark.cpu_seconds() - begun)
                print(f"  {'direct' if direct else 'through the NAT'}: {seconds:.2f} s per million", flush=True)
                return seconds

            return once

        measures = measure(True), measure(False)
        in_turn(WARM, *measures)
        found = in_turn(PAIRS, *measures)
        switch(node, plan)
    clusters.hq.drop(topic)
    yield judged(*found, *(used[direct][WARM:] for direct in (True, False)))


def catch_up(clusters: Clusters, spark: Spark, topic: str, batch: int, direct: bool = False) -> float:
    """Seconds that the job takes for a million records, from the batches after its first."""
    sink = clusters.empty(topic)
    spark.begin(topic, sink, batch, direct)
    _, *batches = spark.end()
    clusters.site.drop(sink)
    return sum(seconds for _, seconds in batches) / sum(records for records, _ in batches) * 1e6


def judged(direct: list[float], through: list[float], cpu_direct: list[float], cpu_through: list[float]) -> Row:
    """The median of the pairs' ratios, and where it lies with 95 % by bootstrap."""
    ratios = [one / other for one, other in zip(direct, through, strict=True)]
    dice = random.Random(1)
    medians = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    return row(
        f"catch-up, rate through the NAT : direct, {len(ratios)} pairs",
        value := median(ratios),
        "ratio",
        BAR,
        value >= BAR,
        least=medians[DRAWS // 40],
        most=medians[-DRAWS // 40],
        **{
            "CPU time, direct : NAT": median([a / b for a, b in zip(cpu_direct, cpu_through, strict=True)]),
            "s per million, direct": median(direct),
            "NAT": median(through),
        },
    )


def switch(node: Node, plan: str) -> None:
    """Put the map on a node. RuntimeError when it does not take it."""
    said = node.ask("switch", plan)
    if said.get("state") not in ("confirmed", "unchanged"):
        raise RuntimeError(f"{node.name} did not take its map: {json.dumps(said)[:600]}")


@contextmanager
def opened(lab: Lab) -> Iterator[None]:
    """The router lets the brokers' own addresses pass meanwhile: the same wire, the same hops, no translation."""
    router = lab.container("router")
    rule = ("ip", "daddr", f"{lab.prefix('hq')}.0/24", "tcp", "dport", "9092", "accept")
    podman.execute(router, "nft", "add", "rule", "ip", "nat_map", "forward", *rule)
    try:
        yield
    finally:
        podman.execute(router, "nft", "-f", "/etc/nftables.conf")
