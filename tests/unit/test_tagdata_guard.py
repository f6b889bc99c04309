"""The guard, the owner and the resume, against clusters and a state directory made of dictionaries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tagdata import resume as r
from tagdata import settings as s
from tagdata.guard import Guard
from tagdata.kafka_admin import EARLIEST, LATEST, Limits, Topic
from tagdata.owner import Owner
from tagdata.trouble import NotOwner, Permanent, Transient
from tagdata.yarn import _belongs, _process_has_ended, myself

RIGHTS = frozenset({"READ", "WRITE", "DESCRIBE"})


class Files:
    """A state directory."""

    uri = "hdfs:///x/main"

    def __init__(self) -> None:
        self.content: dict[str, str] = {}
        self.also: Callable[[str], None] = lambda name: None

    def read(self, name: str) -> str | None:
        return self.content.get(name)

    def load(self, name: str) -> Any:
        return json.loads(self.content[name]) if name in self.content else None

    def write(self, name: str, content: Any) -> None:
        self.content[name] = json.dumps(content)

    def create(self, name: str, content: Any) -> bool:
        self.also(name)
        if name in self.content:
            return False
        self.write(name, content)
        return True

    def delete(self, name: str) -> None:
        self.content.pop(name, None)

    def names(self, folder: str = "") -> list[str]:
        prefix = f"{folder}/" if folder else ""
        return [name[len(prefix) :] for name in self.content if name.startswith(prefix)]

    def commit(self, batch: int, ends: Mapping[str, Mapping[int, int]]) -> None:
        offsets = json.dumps({t: {str(n): o for n, o in numbers.items()} for t, numbers in ends.items()})
        self.content[f"checkpoint/offsets/{batch}"] = f"v1\n{{}}\n{offsets}"
        self.content[f"checkpoint/commits/{batch}"] = "v1"


class FakeCluster:
    """A cluster whose topics hold offsets `first` to `last`, in every partition."""

    def __init__(self, side: str, **topics: int) -> None:
        self.side, self.cluster_id = side, f"id-of-{side}"
        self.about = {name: Topic(f"{side}-{name}-1", count, RIGHTS) for name, count in topics.items()}
        self.first, self.last = 0, 100
        self.missing_for = 0

    def id(self) -> str:
        return self.cluster_id

    def names(self, pattern: str) -> list[str]:
        return sorted(name for name in self.about if name.startswith(pattern.rstrip(".*")))

    def topics(self, names: list[str], rights: bool = False) -> dict[str, Topic]:
        if self.missing_for:
            self.missing_for -= 1
            return {}
        return {name: self.about[name] for name in names if name in self.about}

    def offsets(self, partitions: Mapping[str, int], spec: int) -> dict[str, dict[int, int]]:
        value = {EARLIEST: self.first, LATEST: self.last}.get(spec, 50)
        # a time finds nothing in the odd partitions
        return {t: {n: value for n in range(count) if spec < 0 or n % 2 == 0} for t, count in partitions.items()}

    def limits(self, topic: str) -> Limits:
        return Limits(1000, topic == "compacted")

    def grow(self, topic: str, partitions: int) -> None:
        self.about[topic] = Topic(self.about[topic].id, partitions, RIGHTS)

    def create(self, topic: str, partitions: int) -> None:
        self.about[topic] = Topic("new", partitions, RIGHTS)


class Case:
    """A relay of topic t, three partitions."""

    def __init__(self, **more: Any) -> None:
        data = {
            "name": "x",
            "source": {"bootstrap": ["a:1"], **more.pop("source", {"topics": ["t"]})},
            "sink": {"bootstrap": ["b:1"], **more.pop("sink", {})},
            "state_dir": "hdfs:///x",
        }
        self.files = Files()
        self.source, self.sink = FakeCluster("source", t=3), FakeCluster("sink", t=3)
        self.notes: list[str] = []
        self.settings = s.parse({**data, **more})

    def guard(self) -> Guard:
        about: Any = (self.settings, self.source, self.sink, self.files, self.notes.append, lambda seconds: None)
        guard = Guard(*about)
        guard.check()
        return guard

    def refused(self) -> Permanent:
        with pytest.raises(Permanent) as refused:
            self.guard()
        assert refused.value.mend
        return refused.value


def test_pins_ids_and_starts_once() -> None:
    case = Case()
    guard = case.guard()
    assert guard.starts() == {"t": {0: 0, 1: 0, 2: 0}}
    job = case.files.load("job.json")
    assert job["source"] == {
        "cluster_id": "id-of-source",
        "topics": {"t": {"id": "source-t-1", "start": dict.fromkeys("012", 0)}},
    }
    case.source.first = 0
    case.source.last = 500
    assert case.guard().job == job


@pytest.mark.parametrize(
    ("start", "offsets"), [("earliest", [0, 0, 0]), ("latest", [100] * 3), ("2026-01-01T00:00:00Z", [50, 100, 50])]
)
def test_begins_where_it_is_told(start: str, offsets: list[int]) -> None:
    case = Case(source={"topics": ["t"], "from": start})
    assert case.guard().starts() == {"t": dict(enumerate(offsets))}


def test_refuses_one_cluster_on_both_sides() -> None:
    case = Case()
    case.sink.cluster_id = case.source.cluster_id
    assert case.refused().code == "SAME_CLUSTER"


@pytest.mark.parametrize("side", ["source", "sink"])
def test_refuses_another_cluster_behind_the_address(side: str) -> None:
    case = Case()
    case.guard()
    getattr(case, side).cluster_id = "stranger"
    assert case.refused().code == "CLUSTER_CHANGED"


@pytest.mark.parametrize("side", ["source", "sink"])
def test_refuses_a_recreated_topic_before_and_in_a_batch(side: str) -> None:
    case = Case()
    guard = case.guard()
    getattr(case, side).about["t"] = Topic("another", 3, RIGHTS)
    assert case.refused().code == "TOPIC_RECREATED"
    if side == "source":
        with pytest.raises(Permanent, match="TOPIC_RECREATED"):
            guard.after()


def test_old_brokers_have_no_topic_ids() -> None:
    case = Case()
    case.source.about["t"] = Topic("AAAAAAAAAAAAAAAAAAAAAA", 3, None)
    case.guard()
    case.source.about["t"] = Topic("now", 3, None)
    case.guard()


def test_a_topic_is_missing_only_when_all_answers_say_so() -> None:
    case = Case()
    case.source.missing_for = 2
    case.guard()
    case.source.missing_for = 3
    assert case.refused().code == "TOPIC_MISSING"


def test_refuses_a_sink_without_the_topic_even_if_it_may_grow() -> None:
    case = Case(sink={"grow": True})
    del case.sink.about["t"]
    assert case.refused().code == "SINK_TOPIC_MISSING"


def test_refuses_a_sink_with_too_few_partitions_or_grows_it() -> None:
    case = Case()
    case.source.about["t"] = Topic("source-t-1", 5, RIGHTS)
    assert "t has 3, needs 5" in case.refused().cause
    case.settings = s.parse({**s.resolved(case.settings), "sink": {"bootstrap": ["b:1"], "grow": True}})
    case.guard()
    assert case.sink.about["t"].partitions == 5
    assert case.notes == ["the sink's topic t grows from 3 to 5 partitions"]


def test_by_key_the_number_of_partitions_does_not_matter() -> None:
    case = Case(sink={"partitions": "key"})
    case.sink.about["t"] = Topic("x", 1, RIGHTS)
    case.guard()


def test_new_partitions_stop_it_at_the_boundary_or_grow_the_sink() -> None:
    for grow in (False, True):
        case = Case(sink={"grow": grow})
        guard = case.guard()
        case.source.about["t"] = Topic("source-t-1", 4, RIGHTS)
        if grow:
            guard.before()
            assert case.sink.about["t"].partitions == 4
        else:
            with pytest.raises(Permanent, match="SINK_PARTITIONS"):
                guard.before()


def test_a_new_topic_of_a_pattern_changes_the_plan_and_is_created_where_that_is_allowed() -> None:
    case = Case(source={"pattern": "t.*"}, sink={"grow": True})
    guard = case.guard()
    spec = guard.spec
    case.source.about["tt"] = Topic("tt-1", 2, RIGHTS)
    guard.before()
    assert guard.spec != spec
    assert case.sink.about["tt"].partitions == 2
    assert case.files.load("job.json")["source"]["topics"]["tt"]["start"] == {"0": 0, "1": 0}
    del case.source.about["tt"]
    with pytest.raises(Permanent, match="TOPIC_MISSING"):
        guard.before()


@pytest.mark.parametrize(("side", "right"), [("source", "READ"), ("sink", "WRITE"), ("sink", "DESCRIBE")])
def test_refuses_without_rights(side: str, right: str) -> None:
    case = Case()
    getattr(case, side).about["t"] = Topic(f"{side}-t-1", 3, RIGHTS - {right})
    found = case.refused()
    assert (found.code, right in found.cause) == ("NO_RIGHTS", True)


def test_without_the_right_to_read_the_sink_there_is_no_dedup_and_it_is_said() -> None:
    case = Case()
    case.sink.about["t"] = Topic("sink-t-1", 3, frozenset({"WRITE", "DESCRIBE"}))
    assert not case.guard().can_read_sink
    assert "repeated whole" in case.notes[0]


def test_refuses_expired_and_vanished_data() -> None:
    case = Case()
    case.guard()
    case.files.commit(0, {"t": {0: 40, 1: 40, 2: 40}})
    case.source.first = 41
    assert case.refused().code == "DATA_EXPIRED"
    case.source.first, case.source.last = 0, 39
    assert case.refused().code == "DATA_LOST"
    case.source.last = 40
    assert case.guard().positions() == {"t": {0: 40, 1: 40, 2: 40}}


def test_refuses_the_state_of_another() -> None:
    case = Case()
    case.guard()
    resolved = s.resolved(case.settings)
    case.settings = s.parse({**resolved, "name": "y"})
    assert case.refused().code == "STATE_OF_ANOTHER"
    case.settings = s.parse({**resolved, "source": {"bootstrap": ["a:1"], "topics": ["u"]}})
    assert case.refused().code == "JOB_CHANGED"


def test_a_replay_that_began_elsewhere_is_another() -> None:
    case = Case(run="june", source={"topics": ["t"], "from": "latest"})
    case.guard()
    case.settings = s.parse({**s.resolved(case.settings), "run": "june"}, start="earliest")
    assert case.refused().code == "STATE_OF_ANOTHER"


def owner(files: Files, application: str, *ended: str) -> Owner:
    about: Any = (files, application, 1, lambda claim: claim["application"] in ended)
    return Owner(*about)


def test_one_owner_until_yarn_says_that_it_has_ended() -> None:
    files = Files()
    one = owner(files, "one")
    assert one.take() is None
    assert one.take() is None
    with pytest.raises(NotOwner, match="one, attempt 1"):
        owner(files, "two").take()
    two = owner(files, "two", "one")
    before = two.take()
    assert before is not None
    assert before["application"] == "one"
    two.check()
    with pytest.raises(NotOwner, match="two, attempt 1"):
        one.check()


def test_of_two_that_take_over_at_once_one_wins() -> None:
    files = Files()
    owner(files, "one").take()
    files.also = lambda name: files.content.setdefault(
        name, json.dumps({"application": "three", "attempt": 1, "host": "h"})
    )
    with pytest.raises(NotOwner, match="three"):
        owner(files, "two", "one").take()


def test_an_owner_that_sees_no_owners_waits() -> None:
    files = Files()
    one = owner(files, "one")
    one.take()
    files.content.clear()
    with pytest.raises(Transient):
        one.check()


def test_the_highest_claims_are_kept() -> None:
    files = Files()
    for number in range(30):
        owner(files, f"a{number}", f"a{number - 1}").take()
    assert len(files.content) == 22 - 1
    assert max(files.content) == "owner.000030.json"


def test_names_itself_as_yarn_does() -> None:
    assert myself({"CONTAINER_ID": "container_e17_1410901177871_0001_02_000001"}) == (
        "application_1410901177871_0001",
        2,
    )
    assert myself({})[0].startswith("process-")
    claim = {"application": "application_1_0001", "attempt": 2}
    assert _belongs("container_1_0001_02_000003", claim)
    assert not _belongs("container_1_0001_01_000003", claim)
    assert not _belongs("something", claim)


def test_a_process_has_ended_when_it_is_gone_from_this_host() -> None:
    with pytest.raises(Transient):
        _process_has_ended({"application": "process-1", "host": "elsewhere", "pid": 1})


def test_waits_for_containers_and_names_nodes_that_keep_silent() -> None:
    answers: list[tuple[list[str], list[str]]] = [(["c1"], []), ([], ["nm2:8042"])]
    notes: list[str] = []
    r.await_containers(lambda: answers.pop(0), lambda seconds: None, notes.append)
    assert not answers
    assert "nm2:8042" in notes[0]
    with pytest.raises(Transient, match="c1"):
        r.await_containers(lambda: (["c1"], []), lambda seconds: None, notes.append)


def test_waits_until_the_tail_stands_still_but_not_for_ever() -> None:
    ends = [{"t": {0: n}} for n in (1, 2, 3, 3, 3)]
    asked: list[int] = []
    r.await_quiet(lambda: asked.append(1) or ends[min(len(asked), len(ends)) - 1], lambda seconds: None)
    assert len(asked) == 5
    asked.clear()
    r.await_quiet(lambda: asked.append(1) or {"t": {0: len(asked)}}, lambda seconds: None)
    assert len(asked) == 21


def test_a_batch_that_was_begun_is_known_again() -> None:
    case = Case()
    about: Any = (case.files, case.guard(), {})
    begun = r.Resume(*about)
    assert not begun.begin(7)
    case.sink.last = 200
    assert begun.begin(7)
    again = r.Resume(*about)
    assert again.begin(7)
    assert again.pending["sink"]["t"]["0"] == 100
    assert not again.begin(8)
