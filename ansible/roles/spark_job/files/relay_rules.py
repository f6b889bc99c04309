"""What the check makes of what it saw. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

REPLAY = "deploy with RUN=<name> FROM=earliest, which begins anew in a state directory of its own"
KEY = "relay.source"
LARGEST = 19, 13  # digits of an offset, and of a time in ms
FIFTH = 0.8  # of the retention; what is older than this is about to go
NEEDED = {"source": ("READ", "DESCRIBE"), "sink": ("WRITE", "DESCRIBE")}


class Finding(NamedTuple):
    """`level` is error (nothing is submitted), warning, or note; `path` is a key of the settings, or of the role."""

    level: str
    code: str
    path: str
    cause: str
    mend: str


def reached(side: Any) -> list[Finding]:
    """Every bootstrap address must answer; one cluster must stand behind them."""
    path = f"{side.name}.bootstrap"
    if side.unproven:
        mend = "the job itself checks it when it starts; or give options that can be checked"
        return [Finding("warning", "UNPROVEN", f"{side.name}.options", side.unproven, mend)]
    mend = "correct the address, or let it through; make doctor walks the way hop by hop"
    level = "warning" if side.answers else "error"
    found = [Finding(level, "UNREACHABLE", path, f"{address}: {why}", mend) for address, why in side.broken.items()]
    if len(set(side.cluster_ids.values())) > 1:
        told = ", ".join(f"{address} is of {number}" for address, number in sorted(side.cluster_ids.items()))
        found.append(Finding("error", "MIXED_CLUSTERS", path, told, "keep the addresses of one cluster only"))
    return found


def judge(settings: Any, source: Any, sink: Any, state: Mapping[str, Any], now: float) -> list[Finding]:
    """Everything about two clusters that answer."""
    rules: tuple[Callable[..., Iterator[Finding]], ...] = (clusters, topics, partitions, rights, sizes)
    found = [one for rule in rules for one in rule(settings, source, sink, state)]
    source.aged(lambda topic: int((now - retention(topic) * FIFTH) * 1000) if retention(topic) else None)
    return found + list(data(settings, source, state))


def clusters(settings: Any, source: Any, sink: Any, state: Mapping[str, Any]) -> Iterator[Finding]:
    """Two different clusters, the same as when the job began, and a state directory of this relay."""
    ids = {side.name: next(iter(side.cluster_ids.values())) for side in (source, sink)}
    if ids["source"] == ids["sink"]:
        told = f"source and sink are one cluster, {ids['sink']}"
        yield Finding("error", "SAME_CLUSTER", "sink.bootstrap", told, "correct the addresses")
    job = state["job"]
    if not job:
        return
    for key, value in (("name", settings.name), ("run", settings.run)):
        if job[key] != value:
            told = f"{settings.state_path} belongs to {key} {job[key]!r}, not {value!r}"
            yield Finding("error", "STATE_OF_ANOTHER", "state_dir", told, "give each relay a state_dir of its own")
    if settings.run and job["from"] != settings.source.start:
        told = f"RUN={settings.run} began FROM={job['from']}, not {settings.source.start}"
        yield Finding("error", "STATE_OF_ANOTHER", "FROM", told, "give the new replay another RUN")
    for side, number in ids.items():
        if job[side]["cluster_id"] != number:
            told = f"leads to cluster {number}; the job began with {job[side]['cluster_id']}"
            yield Finding("error", "CLUSTER_CHANGED", f"{side}.bootstrap", told, f"correct it, or {REPLAY}")
    gone = sorted(set(job["source"]["topics"]) - set(settings.source.topics))
    if gone and not settings.source.pattern:
        told = f"the job has read {', '.join(gone)} as well"
        yield Finding("error", "JOB_CHANGED", "source.topics", told, f"put them back, or {REPLAY}")


def topics(settings: Any, source: Any, sink: Any, state: Mapping[str, Any]) -> Iterator[Finding]:
    """Every topic is there."""
    if settings.source.pattern and not source.topics:
        told = f"{settings.source.pattern} matches no topic"
        yield Finding("error", "TOPIC_MISSING", "source.pattern", told, "mend the pattern; it has to match whole names")
    made = settings.sink.grow and settings.source.pattern
    for side, code, mend in (
        (source, "TOPIC_MISSING", "correct the name, or have it created"),
        (sink, "SINK_TOPIC_MISSING", "create it, with at least the source's partitions"),
    ):
        for name, topic in side.topics.items():
            if topic.error == 29:
                told = f"{name}: no right to see it"
                yield Finding(
                    "error", "NO_RIGHTS", f"{side.name}.topics", told, "grant Describe to the job's principal"
                )
            elif topic.error and not (side is sink and made and name != settings.dead_letter_topic):
                key = "dead_letter_topic" if name == settings.dead_letter_topic else f"{side.name}.topics"
                yield Finding("error", code, key, f"{name} is not there (error {topic.error})", mend)


def partitions(settings: Any, source: Any, sink: Any, state: Mapping[str, Any]) -> Iterator[Finding]:
    """With `partitions: keep` the sink needs as many as the source."""
    if not settings.sink.keep_partitions:
        return
    for name, (topic, there) in pairs(settings, source, sink).items():
        if there.partitions < topic.partitions:
            told = f"the sink's {settings.sink.of(name)} has {there.partitions} partitions, the source's {name} {topic.partitions}"
            if settings.sink.grow:
                yield Finding("note", "SINK_PARTITIONS", "sink.grow", f"{told}; the job adds them", "none is needed")
            else:
                mend = "add the partitions at the sink, or set sink.grow: true, or sink.partitions: key"
                yield Finding("error", "SINK_PARTITIONS", "sink.partitions", told, mend)


def rights(settings: Any, source: Any, sink: Any, state: Mapping[str, Any]) -> Iterator[Finding]:
    """What the job's principal may do; brokers that do not tell are left out."""
    for side in (source, sink):
        for name, topic in there_of(side).items():
            lacking = [right for right in NEEDED[side.name] if topic.may is not None and right not in topic.may]
            if lacking:
                told = f"no right to {' and '.join(lacking)} topic {name}"
                mend = f"grant {', '.join(lacking)} on {name} to the job's principal"
                yield Finding("error", "NO_RIGHTS", f"{side.name}.topics", told, mend)
    for name, topic in there_of(sink).items():
        if settings.dedup and topic.may is not None and "READ" not in topic.may:
            told = f"no right to READ {name}: after a crash the last batch is repeated whole"
            yield Finding("warning", "NO_RIGHTS", "dedup", told, "grant READ on it, or set dedup: false")
        if settings.sink.grow and topic.may is not None and "ALTER" not in topic.may:
            told = f"no right to ALTER {name}: partitions cannot be added"
            yield Finding("warning", "NO_RIGHTS", "sink.grow", told, "grant ALTER on it, or set grow: false")
    if sink.old_brokers and sink.may is not None and "IDEMPOTENT_WRITE" not in sink.may:
        told = "brokers before Kafka 2.8 ask for IdempotentWrite on the cluster, and it is not granted"
        mend = "kafka-acls --add --allow-principal … --operation IdempotentWrite --cluster"
        yield Finding("error", "NO_RIGHTS", "sink", told, mend)


def sizes(settings: Any, source: Any, sink: Any, state: Mapping[str, Any]) -> Iterator[Finding]:
    """A record that the source takes has to fit into the sink with its header."""
    number = next(iter(source.cluster_ids.values()))
    end = "goes to the dead letters" if settings.dead_letter_topic else "halts the job (BAD_RECORD)"
    for name, (topic, there) in pairs(settings, source, sink).items():
        target = settings.sink.of(name)
        if topic.config is None or there.config is None:
            side = "source" if topic.config is None else "sink"
            told = f"no right to see the settings of {name if side == 'source' else target}"
            yield Finding("note", "UNPROVEN", f"{side}.topics", told, "grant DescribeConfigs to have sizes compared")
            continue
        here, most = (int(one.config["max.message.bytes"]) for one in (topic, there))
        added = header(number, name, topic.partitions)
        if most < here:
            told = f"max.message.bytes of the sink's {target} is {most}, of the source's {name} {here}: what does not fit {end}"
            level = "warning" if settings.dead_letter_topic else "error"
            mend = f"set max.message.bytes of {target} to at least {here + added}, or on_bad_record: dead_letter"
            yield Finding(level, "TOO_SMALL", "sink", told, mend)
        elif most < here + added:
            told = f"the sink's {target} takes {most} bytes, the source's {name} {here}, the header adds {added}: what is between {end}"
            yield Finding("warning", "TOO_SMALL", "sink", told, f"set max.message.bytes of {target} to {here + added}")
        if "compact" in there.config.get("cleanup.policy", "") and "compact" not in topic.config.get(
            "cleanup.policy", ""
        ):
            told = f"the sink's {target} is compacted, the source's {name} is not: a record without key {end}"
            yield Finding("warning", "COMPACTED", "sink", told, f"take compact out of cleanup.policy of {target}")


def data(settings: Any, source: Any, state: Mapping[str, Any]) -> Iterator[Finding]:
    """What is still to be read is there, and not about to go."""
    for name, topic in there_of(source).items():
        positions: Mapping[int, int] = state["positions"].get(name, {})
        expired = [
            f"{n} at {at}, now {topic.earliest[n]}" for n, at in positions.items() if at < topic.earliest.get(n, at)
        ]
        if expired:
            told = f"{name} lost records before they were read: partition {'; '.join(expired[:5])}"
            yield Finding("error", "DATA_EXPIRED", "source.topics", told, REPLAY)
        beyond = [f"{n} at {at}, now {topic.latest[n]}" for n, at in positions.items() if at > topic.latest.get(n, at)]
        if beyond:
            told = f"{name} ends before the job's position: partition {'; '.join(beyond[:5])}"
            yield Finding("error", "DATA_LOST", "source.topics", told, REPLAY)
        going = sum(max(0, offset - positions[n]) for n, offset in topic.old.items() if n in positions)
        if going and not expired:
            days = retention(topic) / 86400
            told = f"{going} records of {name} are not copied and older than {FIFTH:.0%} of its {days:.1f} days of retention"
            mend = "raise retention.ms at the source until the relay has caught up; raise limits.* if they hold it back"
            yield Finding("warning", "RETENTION", "source.topics", told, mend)
        dark = topic.partitions - len(topic.latest)
        if dark:
            told = (
                f"{dark} partitions of {name} are led by brokers that no bootstrap address leads to: lag not compared"
            )
            yield Finding("note", "UNPROVEN", "source.bootstrap", told, "list every broker's reachable address")


def header(cluster: str, topic: str, count: int) -> int:
    """Bytes that `relay.source` adds to a record at most: its key, its value, and the lengths of both."""
    value = len(cluster) + len(topic.encode()) + len(str(max(count - 1, 0))) + sum(LARGEST) + 4
    return len(KEY) + value + 1 + (1 if value < 64 else 2) + 1


def retention(topic: Any) -> float:
    """Seconds that a topic keeps records; 0 when it is unknown or for ever."""
    kept = float((topic.config or {}).get("retention.ms") or -1)
    return kept / 1000 if kept > 0 and "delete" in (topic.config or {}).get("cleanup.policy", "delete") else 0.0


def there_of(side: Any) -> dict[str, Any]:
    """The topics of a side that are there."""
    return {name: topic for name, topic in side.topics.items() if not topic.error}


def pairs(settings: Any, source: Any, sink: Any) -> dict[str, tuple[Any, Any]]:
    """Topics of the source with the topic that they are written to, both being there."""
    there = there_of(sink)
    found = {name: (topic, there.get(settings.sink.of(name))) for name, topic in there_of(source).items()}
    return {name: (topic, target) for name, (topic, target) in found.items() if target is not None}


def facts(sides: Mapping[str, Any]) -> dict[str, Any]:
    """What was seen, in a few words for people."""
    return {
        name: {
            "cluster_id": next(iter(side.cluster_ids.values()), ""),
            "brokers": len(side.brokers),
            "topics": {topic: one.partitions for topic, one in there_of(side).items()},
        }
        for name, side in sides.items()
    }
