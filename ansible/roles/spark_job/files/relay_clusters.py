"""One Kafka cluster as the edge sees it, through its bootstrap addresses alone: behind a NAT there is no other way there."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_natmap_session import CLUSTER_FRAME, Broken, Limits, Session
from kafka_natmap_wire import load_kafka, load_sasl, request, tls_context
from relay_options import Unreadable, security

METADATA, CONFIGS, OFFSETS = 3, 32, 2
EARLIEST, LATEST = -2, -1
RIGHTS = {3: "READ", 4: "WRITE", 5: "CREATE", 7: "ALTER", 8: "DESCRIBE", 10: "DESCRIBE_CONFIGS", 12: "IDEMPOTENT_WRITE"}
UNTOLD = 31  # the one bit of a broker that has not been asked, or does not tell
UNKNOWN_TOPIC, NO_RIGHT = 3, 29
ASKED = ("max.message.bytes", "cleanup.policy", "retention.ms", "retention.bytes")
Offsets = dict[int, int]


@dataclass
class Topic:
    """A topic; `may` and `config` are None where they cannot be seen."""

    partitions: int
    may: frozenset[str] | None
    error: int = 0
    config: dict[str, str] | None = None
    earliest: Offsets = field(default_factory=dict)
    latest: Offsets = field(default_factory=dict)
    old: Offsets = field(default_factory=dict)
    """The first offset of those that the last fifth of the retention holds."""


class Side:
    """Source or sink. What did not answer stands in `broken`, by address."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.broken: dict[str, str] = {}
        self.unproven = ""
        self.sessions: list[Session] = []
        self.cluster_ids: dict[str, str] = {}
        self.brokers: dict[int, str] = {}
        self.topics: dict[str, Topic] = {}
        self.may: frozenset[str] | None = None
        self.old_brokers = False

    @property
    def answers(self) -> bool:
        return bool(self.sessions)

    def open(self, bootstrap: Sequence[str], guard: Mapping[str, Any], until: float) -> None:
        """A conversation with each bootstrap address."""
        tls = tls_context(dict(guard))
        for address in bootstrap:
            host, _, port = address.rpartition(":")
            session = Session(host, int(port), dict(guard), Limits(5.0, 10.0, until), tls)
            try:
                session.open()
                answer = session.ask(request("metadata", 5, [], False))
            except Broken as broken:
                self.broken[address] = f"{broken.verdict} {broken.evidence}"
                session.close()
                continue
            self.sessions.append(session)
            self.cluster_ids[address] = answer.cluster_id or ""
            self.brokers.update({broker[0]: f"{broker[1]}:{broker[2]}" for broker in answer.brokers})

    def look(self, names: Sequence[str], pattern: str) -> None:
        """Topics with partitions, rights, settings and offsets."""
        if not self.answers:
            return
        if pattern:
            every = self._ask(request("metadata", 5, None, False)).topics
            # As Spark does: internal topics do not match
            names = [t[1] for t in every if not t[2] and re.fullmatch(pattern, t[1])]
        self._describe(list(names))
        self._configure([name for name, topic in self.topics.items() if not topic.error])
        self._offsets(lambda topic: LATEST, "latest")
        self._offsets(lambda topic: EARLIEST, "earliest")

    def aged(self, moment: Callable[[Topic], int | None]) -> None:
        """Of each topic, the first offset since a moment in ms; None where nothing is asked."""
        self._offsets(moment, "old")

    def close(self) -> None:
        for session in self.sessions:
            session.close()

    def _describe(self, names: list[str]) -> None:
        low, high = self.sessions[0].apis.get(METADATA, (0, 0))
        self.old_brokers = high < 10
        if low <= 8 <= high:
            answer = self._ask(request("metadata", 8, names, False, True, True))
            self.may = _rights(answer.authorized_operations)
        else:
            answer = self._ask(request("metadata", 5, names, False))
        for topic in answer.topics:
            may = _rights(topic[4]) if len(topic) > 4 else None
            self.topics[topic[1]] = Topic(len(topic[3]), may, topic[0])

    def _configure(self, names: list[str]) -> None:
        if not names or CONFIGS not in self.sessions[0].apis:
            return
        message = sys.modules["kafka.protocol.admin"].DescribeConfigsRequest[1]
        answer = self._ask(message([(2, name, list(ASKED)) for name in names], False))
        for error, _, _, name, entries in (resource[:5] for resource in answer.resources):
            if not error:
                self.topics[name].config = {entry[0]: entry[1] for entry in entries}

    def _offsets(self, moment: Callable[[Topic], int | None], where: str) -> None:
        """Every broker is asked for all partitions: each answers for those that it leads."""
        asked = [
            (name, [(number, since) for number in range(topic.partitions)])
            for name, topic in self.topics.items()
            if not topic.error and (since := moment(topic)) is not None
        ]
        for session in self.sessions if asked else []:
            answer = session.ask(request("list_offsets", 1, -1, asked), CLUSTER_FRAME)
            for name, partitions in answer.topics:
                for number, error, _, offset in partitions:
                    if not error and offset >= 0:
                        getattr(self.topics[name], where)[number] = offset

    def _ask(self, message: Any) -> Any:
        return self.sessions[0].ask(message, CLUSTER_FRAME)


def see(name: str, bootstrap: Sequence[str], options: Mapping[str, str], files: Sequence[str], until: float) -> Side:
    """A side, as far as it answers."""
    side = Side(name)
    try:
        guard = security(options, files)
        if "metadata" not in str(sys.modules.get("kafka.protocol.metadata", "")):
            load_kafka()
        if guard.get("mechanism"):
            load_sasl(guard["mechanism"])
        side.open(bootstrap, guard, until)
    except (Unreadable, ImportError, OSError, ValueError) as error:
        side.unproven = str(error)
    return side


def _rights(told: Any) -> frozenset[str] | None:
    bits = set(told)
    return None if bits == {UNTOLD} else frozenset(RIGHTS[bit] for bit in bits if bit in RIGHTS)
