"""The audit sees what went wrong, and says when it cannot tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing

import pytest
from e2e.events import Event, Writer
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from spark.conftest import Relay, read
from tagdata import checkpoint
from tagdata.guard import Guard
from tagdata.kafka_admin import LATEST
from tagdata.stream import cluster
from tagdata.trouble import Permanent

Make = Callable[..., Relay]


def pretend(one: Relay) -> None:
    """Note down all that is at the source as copied, and copy nothing."""
    source, sink = (cluster(one.spark._jvm, one.settings, side) for side in ("source", "sink"))
    guard = Guard(one.settings, source, sink, one.files, print)
    guard.check()
    ends = source.offsets({one.topic: guard.here[one.topic].partitions}, LATEST)
    for kind, text in (("offsets", f"v1\n{{}}\n{json.dumps(ends)}"), ("commits", "v1\n{}")):
        (one.folder / checkpoint.FOLDER / kind).mkdir(parents=True)
        (one.folder / checkpoint.FOLDER / kind / "0").write_text(text)


def spoil(one: Relay) -> None:
    """Write the source's records into the sink as a relay with a fault would: another fault in each partition."""
    for number, records in read(one.source, one.topic).items():
        copies = []
        for r in records:
            place = f"{one.source.cluster_id}/{one.topic}/{number}/{r.offset}/{r.timestamp}"
            copies.append(Event(number, r.key, r.value, [*r.headers, ("relay.source", place.encode())]))
        if number == 0:
            del copies[3]
        if number == 1:
            copies[4] = copies[4]._replace(value=b"another")
        if number == 2:
            copies[5], copies[6] = copies[6], copies[5]
        if number == 3:
            copies += [copies[7], copies[7], copies[8], Event(3, None, None, [("relay.source", b"elsewhere/t/0/0/0")])]
        Writer([one.sink.address], one.topic).write(copies)


def test_each_kind_of_fault_is_counted_and_placed(relay: Make) -> None:
    one = relay().topics(4)
    one.fill(80, 4)
    pretend(one)
    spoil(one)
    figures = one.audit()
    place = f"{one.source.cluster_id}/{one.topic}"
    assert figures == {
        "records": 80,
        "gaps": 0,
        "lost": 1,
        "altered": 1,
        "reordered": 1,
        "repeated": 3,
        "records_repeated": 2,
        "dead_letters": 0,
        "expired": 0,
        "of_other_sources": 1,
        "first": {"lost": [f"{place}/0/3"], "altered": [f"{place}/1/4"], "reordered": [f"{place}/2/6"]},
    }


@pytest.mark.parametrize("partitions", ["keep", "key"])
def test_what_the_sink_has_deleted_since_is_not_called_lost(relay: Make, partitions: str) -> None:
    one = relay(sink={"partitions": partitions}).topics()
    one.fill(200)
    assert one.once() == 0
    there = read(one.sink, one.topic)
    with closing(KafkaAdminClient(bootstrap_servers=one.sink.address)) as client:
        client.delete_records({TopicPartition(one.topic, 1): there[1][10].offset})
    figures = one.audit()
    assert (figures["lost"], figures["expired"], figures["altered"], figures["reordered"]) == (0, 10, 0, 0)


def test_nothing_is_told_of_a_relay_that_never_ran_or_of_topics_made_anew(relay: Make) -> None:
    one = relay().topics()
    with pytest.raises(Permanent, match="NO_STATE"):
        one.audit()
    one.fill(20)
    assert one.once() == 0
    with closing(KafkaAdminClient(bootstrap_servers=one.sink.address)) as client:
        client.delete_topics([one.topic])
        while one.topic in client.list_topics():
            pass
    one.sink.create(one.topic, 3)
    with pytest.raises(Permanent, match="TOPIC_RECREATED"):
        one.audit()
