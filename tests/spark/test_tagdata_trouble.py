"""What passes is waited out, what does not halts the job with its cause; nothing is lost meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from e2e.events import Event
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions
from spark.broker import Broker
from spark.conftest import Relay, clean, read
from tagdata.guard import Guard
from tagdata.pipeline import prepare
from tagdata.resume import Resume
from tagdata.stream import cluster, reader_options
from tagdata.trouble import Transient

Make = Callable[..., Relay]


def admin(broker: Broker) -> Any:
    return closing(KafkaAdminClient(bootstrap_servers=broker.address))


def test_a_batch_that_was_written_but_not_committed_is_not_repeated(relay: Make, monkeypatch: Any) -> None:
    one = relay().topics()
    one.fill(400)
    fails = iter([Transient("as if the driver died here"), None, None])
    after = Guard.after

    def dies(guard: Guard) -> None:
        after(guard)
        error = next(fails, None)
        if error:
            raise error

    monkeypatch.setattr(Guard, "after", dies)
    assert one.once() == 0
    assert (one.status["restarts"], one.status["left_out"]) == (1, 400)
    figures = one.audit()
    assert clean(figures)
    assert figures["repeated"] == 0


def test_a_half_written_batch_is_completed_in_order(relay: Make) -> None:
    one = relay().topics()
    one.fill(300)
    jvm = one.spark._jvm
    source, sink = (cluster(jvm, one.settings, side) for side in ("source", "sink"))
    guard = Guard(one.settings, source, sink, one.files, print)
    guard.check()
    begun = Resume(one.files, guard, reader_options(one.settings))
    begun.begin(0)
    # what the attempt before wrote: partition 0 up to 49 and, after a hole, from 60 on; partition 1 whole; 2 not at all
    options = {"kafka.bootstrap.servers": one.source.address, "subscribe": one.topic, "includeHeaders": "true"}
    records = one.spark.read.format("kafka").options(**options).load()
    half = records.where("partition = 0 and (offset < 50 or offset >= 60) or partition = 1")
    prepare(half, guard.spec).write.format("kafka").options(
        **{"kafka.bootstrap.servers": one.sink.address, "includeHeaders": "true"}
    ).save()
    counts = {number: len(found) for number, found in read(one.source, one.topic).items()}
    assert one.once() == 0
    figures = one.audit()
    assert figures["lost"] == figures["altered"] == 0
    assert figures["repeated"] == counts[0] - 60
    assert one.status["left_out"] == 50 + counts[1]


@pytest.mark.parametrize("side", ["sink", "source"])
def test_a_cluster_that_is_away_is_waited_for(relay: Make, side: str) -> None:
    one = relay().topics()
    one.fill(300)
    one.start().until(lambda status: status["records_out"] == 300)
    broker: Broker = getattr(one, side)
    if side == "sink":
        broker.stop(kill=True)
        one.fill(200, seed=2)
    else:
        broker.stop(kill=True)
    waiting = one.until(lambda status: status["state"] == "WAITING")
    assert side in waiting["cause"]
    broker.start()
    if side == "source":
        one.fill(200, seed=2)
    one.until(lambda status: status["state"] == "RUNNING" and status["records_out"] == 500)
    assert one.ask("stop") == 0
    figures = one.audit()
    assert clean(figures)
    assert (figures["records"], figures["repeated"]) == (500, 0)


def large(value: int = 20_000, partition: int = 0, key: bytes | None = b"k") -> Event:
    return Event(partition, key, b"x" * value, [])


def test_a_record_too_large_halts_at_its_place_and_goes_on_once_it_fits(relay: Make) -> None:
    one = relay().topics(max_message_bytes=10_000)
    one.fill(60)
    one.put(large())
    one.fill(60, seed=2)
    assert one.once() == 3
    halted = one.halted()
    assert halted["code"] == "BAD_RECORD"
    place = f"too_large: {one.source.cluster_id}/{one.topic}/0/"
    assert halted["cause"].startswith(place)
    offset = int(halted["cause"][len(place) :].split("/")[0])
    assert len(read(one.sink, one.topic)[0]) <= offset
    with admin(one.sink) as client:
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, one.topic, {"max.message.bytes": "1000000"})])
    assert one.once() == 0
    assert not (one.folder / "halted.json").exists()
    figures = one.audit()
    assert clean(figures)
    assert (figures["records"], figures["repeated"]) == (121, 0)


def test_a_sink_that_takes_small_batches_alone_gets_them_in_order(relay: Make) -> None:
    one = relay().topics(max_message_bytes=4_000)
    one.fill(6_000)
    assert one.once() == 0
    figures = one.audit()
    assert clean(figures)
    assert (figures["records"], figures["repeated"]) == (6_000, 0)


def test_bad_records_go_among_the_dead_letters(relay: Make) -> None:
    one = relay(on_bad_record="dead_letter", dead_letter_topic="dead")
    one.topics(max_message_bytes=10_000, cleanup_policy="compact")
    one.sink.create("dead", 1, max_message_bytes=30_000)
    back = f"{one.sink.cluster_id}/x/0/0/0".encode()
    one.put(
        large(5),
        large(),
        large(50_000, 1),
        large(5, 1, None),
        Event(2, b"k", b"back", [("a", b"b"), ("relay.source", back)]),
        Event(2, b"k", b"once more", [("relay.source", b"elsewhere/x/0/0/0"), ("a", None)]),
    )
    assert one.once() == 0
    assert one.status["bad"] == {"too_large": 2, "no_key": 1, "loop": 1}
    dead = {dict(r.headers)["relay.error"]: r for r in read(one.sink, "dead")[0]}
    assert set(dead) == {b"too_large", b"too_large, value left out", b"no_key", b"loop"}
    assert len(dead[b"too_large"].value) == 20_000
    assert dead[b"too_large, value left out"].value is None
    assert [name for name, _ in dead[b"loop"].headers] == ["a", "relay.source", "relay.error"]
    arrived = read(one.sink, one.topic)
    assert [len(found) for found in arrived.values()] == [1, 0, 1]
    assert [name for name, _ in arrived[2][0].headers] == ["a", "relay.source"]
    figures = one.audit()
    assert clean(figures)
    assert figures["dead_letters"] == 4


def test_a_recreated_topic_is_refused_though_it_holds_more_than_before(relay: Make) -> None:
    one = relay().topics()
    one.fill(100)
    one.start().until(lambda status: status["records_out"] == 100)
    with admin(one.source) as client:
        client.delete_topics([one.topic])
    while one.topic in _names(one.source):
        pass
    one.source.create(one.topic, 3)
    one.fill(500, seed=2)
    assert one.finish() == 3
    assert one.halted()["code"] in ("TOPIC_RECREATED", "TOPIC_MISSING")
    assert sum(map(len, read(one.sink, one.topic).values())) == 100
    assert one.once() == 3
    assert one.halted()["code"] == "TOPIC_RECREATED"


def _names(broker: Broker) -> list[str]:
    with admin(broker) as client:
        names: list[str] = client.list_topics()
        return names


@pytest.mark.parametrize("grow", [False, True])
def test_new_partitions_at_the_source(relay: Make, grow: bool) -> None:
    one = relay(sink={"grow": grow}).topics()
    one.fill(100)
    one.start().until(lambda status: status["records_out"] == 100)
    with admin(one.source) as client:
        client.create_partitions({one.topic: NewPartitions(5)})
    one.fill(100, 5, seed=2)
    if not grow:
        assert one.finish() == 3
        assert one.halted()["code"] == "SINK_PARTITIONS"
        assert sum(map(len, read(one.sink, one.topic).values())) == 100
        with admin(one.sink) as client:
            client.create_partitions({one.topic: NewPartitions(5)})
        assert one.once() == 0
    else:
        one.until(lambda status: status["records_out"] == 200)
        assert one.ask("stop") == 0
    figures = one.audit()
    assert clean(figures)
    assert (figures["records"], figures["repeated"]) == (200, 0)


def test_expired_data_is_refused(relay: Make) -> None:
    one = relay().topics()
    one.fill(100)
    assert one.once() == 0
    one.fill(100, seed=2)
    with admin(one.source) as client:
        client.delete_records({TopicPartition(one.topic, 0): read(one.source, one.topic)[0][-1].offset})
    assert one.once() == 3
    assert one.halted()["code"] == "DATA_EXPIRED"


def test_a_second_copy_is_refused_and_touches_nothing(relay: Make) -> None:
    one = relay().topics()
    other = {"application": "process-1", "attempt": 1, "host": os.uname().nodename, "pid": 1, "time": 0}
    one.files.write("owner.000001.json", other)
    assert one.once() == 4
    assert sorted(path.name for path in one.folder.iterdir() if not path.name.endswith(".crc")) == ["owner.000001.json"]
    other["pid"] = 2**22 + 1
    one.files.write("owner.000001.json", other)
    assert one.once() == 0


def test_a_taken_over_attempt_ends_without_writing(relay: Make) -> None:
    one = relay().topics()
    one.start().until(lambda status: status["state"] == "RUNNING")
    one.files.write("owner.000002.json", {"application": "another", "attempt": 1, "host": "x", "pid": 1})
    one.fill(100)
    assert one.finish() == 4
    assert not any(read(one.sink, one.topic).values())
    assert json.loads((one.folder / "status.json").read_text())["state"] == "RUNNING"
