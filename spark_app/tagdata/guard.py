"""May this attempt write? Ids pinned at the first start, topics, partitions, rights, and data that is still there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tagdata import checkpoint
from tagdata.files import StateDir
from tagdata.kafka_admin import EARLIEST, LATEST, NO_ID, Cluster, Limits, Offsets, Topic
from tagdata.pipeline import Spec
from tagdata.settings import Settings, start_ms
from tagdata.trouble import REPLAY, Permanent, Transient

JOB = "job.json"
CONFIRM = 3  # answers in a row that must agree before a topic counts as gone: a broker that just started knows little
PAUSE = 2.0  # seconds between them
NEEDED = {"source": ("READ", "DESCRIBE"), "sink": ("WRITE", "DESCRIBE")}


class Guard:
    """The checks of one run. `check` before the query starts, `before` and `after` around each batch."""

    def __init__(
        self,
        settings: Settings,
        source: Cluster,
        sink: Cluster,
        files: StateDir,
        note: Callable[[str], None],
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self.settings, self.source, self.sink, self.files = settings, source, sink, files
        self.note, self.pause = note, pause
        self.job: dict[str, Any] = {}
        self.here: dict[str, Topic] = {}
        self.there: dict[str, Topic] = {}
        self.limits: dict[str, Limits] = {}
        self.can_read_sink = True

    @property
    def source_id(self) -> str:
        return str(self.job["source"]["cluster_id"])

    @property
    def spec(self) -> Spec:
        """What the pipeline depends on, as of now."""
        return Spec(
            self.source_id,
            str(self.job["sink"]["cluster_id"]),
            self.settings.sink,
            tuple(sorted(self.here)),
            self.settings.dead_letter_topic,
            self.limits,
        )

    def check(self) -> None:
        """Everything. Raises Permanent, or Transient while a cluster does not answer."""
        self.job = self.files.load(JOB) or {}
        self._belongs()
        ids = {"source": self.source.id(), "sink": self.sink.id()}
        self.same_clusters(ids)
        self.here = self._described(self.source, self._wanted(), "TOPIC_MISSING")
        self._match_sink()
        self._rights()
        self.limits = {name: self._limits(name) for name in self._targets()}
        self._pin(ids)
        self.not_recreated()
        self._not_expired()

    def before(self) -> None:
        """The sink takes all that the next batch may hold, and the source is still the same."""
        self._fresh()
        lacking = [
            topic
            for topic, about in self.here.items()
            if self.settings.sink.of(topic) not in self.there
            or (
                self.settings.sink.keep_partitions
                and self.there[self.settings.sink.of(topic)].partitions < about.partitions
            )
        ]
        if lacking:
            self._match_sink()
            self.limits = {name: self._limits(name) for name in self._targets()}
        if set(self.here) - set(self.job["source"]["topics"]):
            self._pin({})

    def after(self) -> None:
        """What was read in this batch came from the topics that it was planned for."""
        self._fresh()

    def starts(self) -> Offsets:
        """Where each partition of the source began."""
        return numbered(self.job["source"]["topics"])

    def positions(self) -> Offsets:
        """The next offset of each partition: after the last committed batch, or the start."""
        last = checkpoint.last_batch(self.files)
        positions = self.starts()
        if last is not None:
            for topic, numbers in checkpoint.batch_end(self.files, last).items():
                positions.setdefault(topic, {}).update(numbers)
        return positions

    def sink_ends(self) -> Offsets:
        """The end of every partition that the job may write."""
        wanted = {name: self.there[name].partitions for name in self._targets()}
        return self.sink.offsets(wanted, LATEST)

    def _targets(self) -> set[str]:
        names = {self.settings.sink.of(topic) for topic in self.here}
        return names | ({self.settings.dead_letter_topic} - {""})

    def _wanted(self) -> list[str]:
        source = self.settings.source
        if not source.pattern:
            return list(source.topics)
        # One that was there and went must be missed.
        pinned = self.job.get("source", {}).get("topics", {})
        return sorted({*self.source.names(source.pattern), *pinned})

    def _belongs(self) -> None:
        if not self.job:
            return
        settings = self.settings
        for key, value in {"name": settings.name, "run": settings.run}.items():
            if self.job[key] != value:
                wrong = f"{self.files.uri} belongs to {key} {self.job[key]!r}, not {value!r}"
                raise Permanent(
                    "STATE_OF_ANOTHER", wrong, "give each relay a state_dir, and each replay a RUN, of its own"
                )
        if settings.run and self.job["from"] != settings.source.start:
            wrong = f"RUN={settings.run} began FROM={self.job['from']}, not {settings.source.start}"
            raise Permanent("STATE_OF_ANOTHER", wrong, "give the new replay another RUN")
        gone = sorted(set(self.job["source"]["topics"]) - set(settings.source.topics))
        if gone and not settings.source.pattern:
            wrong = f"no longer read: {', '.join(gone)}"
            raise Permanent("JOB_CHANGED", wrong, "put them back, or " + REPLAY)

    def same_clusters(self, ids: Mapping[str, str]) -> None:
        """Raises Permanent unless the addresses lead to two clusters, those that the job began with."""
        if ids["source"] == ids["sink"]:
            wrong = f"source and sink are one cluster, {ids['sink']}"
            raise Permanent("SAME_CLUSTER", wrong, "correct the bootstrap addresses")
        for side, now in ids.items():
            pinned = self.job.get(side, {}).get("cluster_id", now)
            if pinned != now:
                wrong = f"the {side}'s address leads to cluster {now}, the job began with {pinned}"
                raise Permanent("CLUSTER_CHANGED", wrong, "correct the address or its route, or " + REPLAY)

    def _described(self, cluster: Cluster, names: list[str], code: str) -> dict[str, Topic]:
        for attempt in range(CONFIRM):
            found = cluster.topics(names, rights=True)
            missing = [name for name in names if name not in found]
            if not missing:
                return found
            if attempt < CONFIRM - 1:
                self.pause(PAUSE)
        mend = (
            "create it, with at least the source's partitions" if code == "SINK_TOPIC_MISSING" else "correct the name"
        )
        raise Permanent(code, f"the {cluster.side} has no topic {', '.join(missing)}", mend)

    def _match_sink(self) -> None:
        """The sink has every topic and partition that is needed, or gets it."""
        settings = self.settings
        need: dict[str, int] = {}
        for topic, about in self.here.items():
            target = settings.sink.of(topic)
            need[target] = max(need.get(target, 1), about.partitions if settings.sink.keep_partitions else 1)
        if settings.sink.grow and settings.source.pattern:
            for target in sorted(set(need) - set(self.sink.topics(sorted(need)))):
                self.note(f"the sink gets topic {target} with {need[target]} partitions")
                self.sink.create(target, need[target])
        self.there = self._described(self.sink, sorted({*need, *self._targets()}), "SINK_TOPIC_MISSING")
        short = {name: count for name, count in need.items() if self.there[name].partitions < count}
        if short and not settings.sink.grow:
            told = ", ".join(
                f"{name} has {self.there[name].partitions}, needs {count}" for name, count in short.items()
            )
            raise Permanent("SINK_PARTITIONS", told, "add the partitions at the sink, or set sink.grow: true")
        for name, count in short.items():
            self.note(f"the sink's topic {name} grows from {self.there[name].partitions} to {count} partitions")
            self.sink.grow(name, count)
        if short:
            self._await_growth(short)

    def _await_growth(self, need: Mapping[str, int]) -> None:
        for _ in range(30):
            self.there.update(self.sink.topics(sorted(need), rights=True))
            if all(self.there[name].partitions >= count for name, count in need.items()):
                return
            self.pause(PAUSE / 4)
        raise Transient(f"sink: {', '.join(need)} do not show their new partitions yet")

    def _rights(self) -> None:
        for side, topics in (("source", self.here), ("sink", self.there)):
            for name, about in topics.items():
                lacking = [right for right in NEEDED[side] if about.may is not None and right not in about.may]
                if lacking:
                    wrong = f"no right to {' and '.join(lacking)} topic {name} at the {side}"
                    raise Permanent("NO_RIGHTS", wrong, f"grant {', '.join(lacking)} to the job's principal")
        self.can_read_sink = all(about.may is None or "READ" in about.may for about in self.there.values())
        if self.settings.dedup and not self.can_read_sink:
            self.note("no right to read the sink: after a crash the last batch is repeated whole")

    def _limits(self, name: str) -> Limits:
        try:
            return self.sink.limits(name)
        except Permanent as error:
            self.note(
                f"no right to see the settings of {name} at the sink ({error.code}): Kafka's defaults are assumed"
            )
            return Limits()

    def _pin(self, ids: Mapping[str, str]) -> None:
        """Write down ids and starts of what is new."""
        first = not self.job
        if first:
            self.job = {"name": self.settings.name, "run": self.settings.run, "from": self.settings.source.start}
            self.job.update({side: {"cluster_id": number, "topics": {}} for side, number in ids.items()})
        new_here = {name: about for name, about in self.here.items() if name not in self.job["source"]["topics"]}
        new_there = {name: about for name, about in self.there.items() if name not in self.job["sink"]["topics"]}
        if not first and not new_here and not new_there:
            return
        # What joins a run that is under way is read from its beginning, as Spark does with it.
        starts = self._start(new_here, self.settings.source.start if first else "earliest")
        ends = self.sink.offsets({name: about.partitions for name, about in new_there.items()}, LATEST)
        for side, new, offsets in (("source", new_here, starts), ("sink", new_there, ends)):
            for name, about in new.items():
                self.job[side]["topics"][name] = {
                    "id": about.id,
                    "start": {str(n): o for n, o in offsets[name].items()},
                }
        self.files.write(JOB, self.job)

    def _start(self, topics: Mapping[str, Topic], start: str) -> Offsets:
        partitions = {name: about.partitions for name, about in topics.items()}
        moment = start_ms(start)
        if moment is None:
            return self.source.offsets(partitions, EARLIEST if start == "earliest" else LATEST)
        ends, found = self.source.offsets(partitions, LATEST), self.source.offsets(partitions, moment)
        return {name: {**ends[name], **found[name]} for name in partitions}

    def _fresh(self) -> None:
        names = self._wanted()
        here = self.source.topics(names)
        if set(names) - set(here):
            here = self._described(self.source, names, "TOPIC_MISSING")
        self.here = here
        self.not_recreated()

    def not_recreated(self) -> None:
        """Raises Permanent where a topic has another id than at the start."""
        for side, topics in (("source", self.here), ("sink", self.there)):
            for name, about in topics.items():
                pinned = self.job[side]["topics"].get(name, {}).get("id", about.id)
                if NO_ID not in (pinned, about.id) and pinned != about.id:
                    wrong = f"topic {name} at the {side} was deleted and created again (id {pinned}, now {about.id})"
                    raise Permanent("TOPIC_RECREATED", wrong, REPLAY)

    def _not_expired(self) -> None:
        partitions = {name: about.partitions for name, about in self.here.items()}
        positions = self.positions()
        first = self.source.offsets(partitions, EARLIEST)
        self._compare(
            positions, first, "DATA_EXPIRED", "deleted at the source before it was read", lambda at, is_: at < is_
        )
        for attempt in range(CONFIRM):
            try:
                last = self.source.offsets(partitions, LATEST)
                self._compare(positions, last, "DATA_LOST", "the source's log ends before it", lambda at, is_: at > is_)
                return
            except Permanent:
                if attempt == CONFIRM - 1:
                    raise
                self.pause(PAUSE)

    def _compare(
        self, positions: Offsets, now: Offsets, code: str, what: str, wrong: Callable[[int, int], bool]
    ) -> None:
        found = [
            f"{topic}/{number} position {at}, now {now[topic][number]}"
            for topic, numbers in positions.items()
            for number, at in sorted(numbers.items())
            if number in now.get(topic, {}) and wrong(at, now[topic][number])
        ]
        if found:
            raise Permanent(code, f"{what}: {'; '.join(found[:5])}", REPLAY)


def numbered(topics: Mapping[str, Any]) -> Offsets:
    """Pinned starts with numbers as numbers; JSON knows only text for keys."""
    return {name: {int(number): offset for number, offset in pin["start"].items()} for name, pin in topics.items()}
