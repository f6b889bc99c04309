"""What a relay is told: resolved JSON to frozen dataclasses. Standard library only, for the controller reads it too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tagdata.fields import ADDRESS, TOPIC, Fields, Problem, SettingsError
from tagdata.options import SINK, SOURCE, check_options

NAME = "[a-z0-9][a-z0-9-]{0,59}"
NAME_FORM = "small letters, digits and hyphens, at most 60"
ADDRESS_FORM = "host:port"
TOPIC_FORM = "a topic's name: letters, digits, dot, underscore, hyphen"


@dataclass(frozen=True)
class Source:
    """The cluster read from; `start` is earliest, latest or an ISO 8601 time."""

    bootstrap: tuple[str, ...]
    topics: tuple[str, ...]
    pattern: str
    start: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class Sink:
    """The cluster written to, and which of its topics a record goes to."""

    bootstrap: tuple[str, ...]
    topic: str
    topics: Mapping[str, str]
    prefix: str
    keep_partitions: bool
    grow: bool
    options: Mapping[str, str]

    def of(self, source_topic: str) -> str:
        """The sink's topic for a topic of the source."""
        return self.topic or self.topics.get(source_topic) or self.prefix + source_topic


@dataclass(frozen=True)
class Settings:
    """One relay. Times in seconds; `per_second` is 0 when there is no limit."""

    name: str
    run: str
    source: Source
    sink: Sink
    per_batch: int
    per_second: int
    interval: float
    available_now: bool
    dead_letter_topic: str
    dedup: bool
    shadow_group: str
    client_id: str
    state_dir: str
    first_wait: float
    most_wait: float

    @property
    def state_path(self) -> str:
        """The state directory of this very run."""
        return f"{self.state_dir.rstrip('/')}/{f'runs/{self.run}' if self.run else 'main'}"


def start_ms(start: str) -> int | None:
    """Milliseconds since the epoch of a start that is a time; None for earliest and latest. ValueError when neither."""
    if start in ("earliest", "latest"):
        return None
    # fromisoformat takes the Z only from Python 3.11 on
    moment = datetime.fromisoformat(re.sub("[Zz]$", "+00:00", start))
    if moment.tzinfo is None:
        raise ValueError("without time zone")
    return int(moment.timestamp() * 1000)


def parse(data: object, run: str = "", start: str = "") -> Settings:
    """Check a relay's settings; `run` and `start` are what the caller asked for beside them. Raises SettingsError."""
    problems: list[Problem] = []
    top = Fields(data, "", problems)
    if run:
        top.data["run"] = run
    name = top.text("name", "", NAME, NAME_FORM, required=True)
    run = top.text("run", "", f"({NAME})?", NAME_FORM)
    source = _source(top.section("source"), start)
    sink = _sink(top.section("sink"))
    limits, trigger, waiting = (top.section(key) for key in ("limits", "trigger", "waiting"))
    policy = top.choice("on_bad_record", ("stop", "dead_letter"))
    dead_letter = top.text("dead_letter_topic", "", TOPIC.pattern, TOPIC_FORM)
    settings = Settings(
        name=name,
        run=run,
        source=source,
        sink=sink,
        per_batch=limits.number("max_records_per_batch", 500_000, 1, 2**31 - 1, whole=True),
        per_second=limits.number("max_records_per_second", 0, 1, 2**31 - 1, whole=True),
        interval=trigger.number("interval_seconds", 1, 0, 3600),
        available_now=trigger.flag("available_now", False),
        dead_letter_topic=dead_letter,
        dedup=top.flag("dedup", True),
        shadow_group=_shadow_group(top, "-".join(filter(None, ("tagdata", name, run)))),
        client_id=top.text("client_id", f"tagdata-{name}", r"[A-Za-z0-9._-]{1,200}", "letters, digits, . _ -"),
        state_dir=top.text("state_dir", "", r"[a-z][a-z0-9+.-]*:/\S*[^/\s]\S*", "a URI such as hdfs:///relays/x", True),
        first_wait=waiting.number("first_seconds", 1, 0.1, 3600),
        most_wait=waiting.number("most_seconds", 30, 0.1, 3600),
    )
    for fields in (limits, trigger, waiting, top):
        fields.done()
    if start and not run:
        problems.append(Problem("FROM", "replays into the run that is going on", "give the replay a name: RUN=<name>"))
    if (policy == "dead_letter") != bool(dead_letter):
        mend = "set both on_bad_record: dead_letter and dead_letter_topic, or none of them"
        problems.append(Problem("dead_letter_topic", f"{dead_letter!r} with on_bad_record: {policy}", mend))
    problems += _contradictions(settings)
    if problems:
        raise SettingsError(problems)
    return settings


def load(path: str) -> Settings:
    """Read resolved JSON. Raises SettingsError, also for a file that is not there or no JSON."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse(json.load(file))
    except (OSError, ValueError) as error:
        if isinstance(error, SettingsError):
            raise
        raise SettingsError([Problem(path, str(error), "submit it with --files, as JSON")]) from None


def resolved(settings: Settings) -> dict[str, Any]:
    """The settings as the job gets them: every default filled in. `parse` of it gives the same settings."""
    source, sink = settings.source, settings.sink
    chosen = {"pattern": source.pattern} if source.pattern else {"topics": list(source.topics)}
    routed = {"topic": sink.topic} if sink.topic else {"topics": dict(sink.topics), "prefix": sink.prefix}
    return {
        "name": settings.name,
        "run": settings.run,
        "source": {
            "bootstrap": list(source.bootstrap),
            **chosen,
            "from": source.start,
            "options": dict(source.options),
        },
        "sink": {
            "bootstrap": list(sink.bootstrap),
            **routed,
            "partitions": "keep" if sink.keep_partitions else "key",
            "grow": sink.grow,
            "options": dict(sink.options),
        },
        "limits": {
            "max_records_per_batch": settings.per_batch,
            "max_records_per_second": settings.per_second or None,
        },
        "trigger": {"interval_seconds": settings.interval, "available_now": settings.available_now},
        "on_bad_record": "dead_letter" if settings.dead_letter_topic else "stop",
        "dead_letter_topic": settings.dead_letter_topic or None,
        "dedup": settings.dedup,
        "shadow_group": settings.shadow_group or False,
        "client_id": settings.client_id,
        "state_dir": settings.state_dir,
        "waiting": {"first_seconds": settings.first_wait, "most_seconds": settings.most_wait},
    }


def redact(text: str, settings: Settings) -> str:
    """Take the values of secret options out of a text."""
    for options in (settings.source.options, settings.sink.options):
        for key, value in options.items():
            if value and re.search("pass|secret|jaas|token|ssl.*key", key, re.IGNORECASE):
                text = text.replace(value, "***")
    return text


def _source(fields: Fields, start: str) -> Source:
    if isinstance(fields.data.get("from"), datetime):  # YAML's own times
        fields.data["from"] = fields.data["from"].isoformat()
    if start:
        fields.data["from"] = start
    source = Source(
        bootstrap=fields.texts("bootstrap", ADDRESS, ADDRESS_FORM, required=True),
        topics=fields.texts("topics", TOPIC, TOPIC_FORM),
        pattern=fields.text("pattern"),
        start=fields.text("from", "earliest"),
        options=fields.pairs("options"),
    )
    if bool(source.topics) == bool(source.pattern):
        fields.problem("topics", "exactly one of topics and pattern is needed", "list topics or give a pattern")
    try:
        re.compile(source.pattern)
    except re.error as error:
        fields.problem("pattern", f"is no regular expression: {error}", "mend it, or list topics")
    try:
        start_ms(source.start)
    except ValueError:
        form = "earliest, latest or a time with zone such as 2026-01-31T06:00:00+01:00"
        fields.problem("from", f"{source.start!r} will not do", f"give {form}")
    check_options(fields, source.options, SOURCE)
    fields.done()
    return source


def _sink(fields: Fields) -> Sink:
    sink = Sink(
        bootstrap=fields.texts("bootstrap", ADDRESS, ADDRESS_FORM, required=True),
        topic=fields.text("topic", "", TOPIC.pattern, TOPIC_FORM),
        topics=fields.pairs("topics"),
        prefix=fields.text("prefix", "", r"[A-Za-z0-9._-]*", "letters, digits, dot, underscore, hyphen"),
        keep_partitions=fields.choice("partitions", ("keep", "key")) == "keep",
        grow=fields.flag("grow", False),
        options=fields.pairs("options"),
    )
    for source_topic, topic in sink.topics.items():
        if not TOPIC.fullmatch(topic):
            fields.problem(f"topics.{source_topic}", f"{topic!r} will not do", f"give {TOPIC_FORM}")
    if sink.topic and (sink.topics or sink.prefix):
        fields.problem("topic", "excludes topics and prefix", "choose one way of routing")
    if sink.grow and not sink.keep_partitions:
        fields.problem("grow", "has no meaning with partitions: key", "leave it out, or set partitions: keep")
    check_options(fields, sink.options, SINK)
    fields.done()
    return sink


def _shadow_group(top: Fields, default: str) -> str:
    if top.data.get("shadow_group") is False:
        top.flag("shadow_group", False)
        return ""
    return top.text("shadow_group", default, r"[^\s\x00-\x1f]{1,249}", "a group's name, null or false")


def _contradictions(settings: Settings) -> list[Problem]:
    problems = []
    source, sink = settings.source, settings.sink
    for address in sorted(set(source.bootstrap) & set(sink.bootstrap)):
        wrong = f"{address} is the source's too"
        problems.append(Problem("sink.bootstrap", wrong, "a relay reads from one cluster and writes to another"))
    for topic in sink.topics:
        if source.topics and topic not in source.topics:
            problems.append(Problem(f"sink.topics.{topic}", "is not read", "add it to source.topics, or leave it out"))
    for topic in source.topics:
        if settings.dead_letter_topic and sink.of(topic) == settings.dead_letter_topic:
            wrong = f"{topic} is written there as well"
            problems.append(Problem("dead_letter_topic", wrong, "give the dead letters a topic of their own"))
        if not TOPIC.fullmatch(sink.of(topic)):
            problems.append(Problem("sink.prefix", f"{sink.of(topic)!r} is no topic's name", f"give {TOPIC_FORM}"))
    if settings.most_wait < settings.first_wait:
        problems.append(Problem("waiting.most_seconds", "is less than first_seconds", "make it at least as long"))
    return problems
