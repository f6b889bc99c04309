"""Records arrive whole, in order and once; the job ends where it is asked to."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka.admin import KafkaAdminClient
from spark.conftest import Relay, clean, read

Make = Callable[..., Relay]


def test_copies_every_record_bit_for_bit_and_goes_on_where_it_ended(relay: Make) -> None:
    one = relay().topics()
    one.fill(500)
    assert one.once() == 0
    one.fill(300, seed=2)
    assert one.once() == 0
    there, here = read(one.sink, one.topic), read(one.source, one.topic)
    for number, records in here.items():
        assert [(r.key, r.value, list(r.headers)) for r in records] == [
            (r.key, r.value, list(r.headers)[:-1]) for r in there[number]
        ]
        origins = [f"{one.source.cluster_id}/{one.topic}/{number}/{r.offset}/{r.timestamp}" for r in records]
        assert [(h := r.headers[-1])[0] + "=" + h[1].decode() for r in there[number]] == [
            f"relay.source={o}" for o in origins
        ]
    figures = one.audit()
    assert clean(figures)
    assert (figures["records"], figures["repeated"], figures["gaps"]) == (800, 0, 0)
    assert one.status["state"] == "DONE"


def test_stops_at_a_batch_boundary_and_shows_its_lag(relay: Make) -> None:
    one = relay(limits={"max_records_per_second": 200}).topics()
    one.fill(1000)
    one.start().until(lambda status: status["batch"] is not None and status["batch"] >= 1)
    assert one.ask("stop") == 0
    assert one.status["state"] == "STOPPED"
    assert not (one.folder / "stop.json").exists()
    at = one.runner.guard.positions()[one.topic]
    assert sum(map(len, read(one.sink, one.topic).values())) == sum(at.values()) < 1000
    assert one.once() == 0
    figures = one.audit()
    assert (figures["records"], figures["repeated"]) == (1000, 0)
    admin = KafkaAdminClient(bootstrap_servers=one.source.address)
    offsets = admin.list_consumer_group_offsets(f"tagdata-{one.topic}")
    admin.close()
    assert sum(offset.offset for offset in offsets.values()) == 1000


def test_drains_all_that_is_there(relay: Make) -> None:
    one = relay(limits={"max_records_per_batch": 250}).topics()
    one.fill(1000)
    one.start().until(lambda status: status["batch"] is not None)
    assert one.ask("drain") == 0
    assert one.status["state"] == "DRAINED"
    assert sum(map(len, read(one.sink, one.topic).values())) == 1000


def test_keeps_to_its_rate_when_it_catches_up(relay: Make) -> None:
    one = relay(limits={"max_records_per_second": 300}).topics()
    one.fill(1500)
    begin = time.monotonic()
    assert one.once() == 0
    assert time.monotonic() - begin >= 4
    assert sum(map(len, read(one.sink, one.topic).values())) == 1500


def test_several_topics_into_one_by_key(relay: Make) -> None:
    one = relay(sink={"topic": "all-in-one", "partitions": "key"})
    two = one.topic + "-b"
    one.data["source"]["topics"] = [one.topic, two]
    one.source.create(two, 2)
    one.source.create(one.topic, 3)
    one.sink.create("all-in-one", 4)
    one.fill(300)
    one.topic, first = two, one.topic
    one.fill(200, 2, seed=3)
    one.topic = first
    assert one.once() == 0
    figures = one.audit()
    assert clean(figures)
    assert figures["records"] == 500


def test_a_replay_has_its_own_state_and_repeats(relay: Make) -> None:
    one = relay().topics()
    one.fill(200)
    assert one.once() == 0
    one.data.update(run="again")
    assert one.once() == 0
    figures = one.audit()
    assert (figures["records"], figures["repeated"]) == (200, 0)
    one.data.pop("run")
    assert one.audit()["repeated"] == 200
