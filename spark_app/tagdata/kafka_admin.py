"""Kafka's AdminClient in the driver's JVM: the connector's own client, so the same security and the same way as the job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tagdata.java import java
from tagdata.trouble import Permanent, Transient, cause, sort

Offsets = dict[str, dict[int, int]]
TIMEOUT = 10  # seconds for one question
EARLIEST, LATEST = -2, -1
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # of brokers before Kafka 2.8


@dataclass(frozen=True)
class Topic:
    """A topic as its cluster describes it; `may` is None where the brokers do not tell rights."""

    id: str
    partitions: int
    may: frozenset[str] | None


@dataclass(frozen=True)
class Limits:
    """What a topic takes: bytes of a record batch, and whether it is compacted."""

    bytes: int = 1_048_588
    compacted: bool = False


class NoSuchTopic(Transient):
    """A topic is not there; a broker that has just started may be the last to know it."""


class Cluster:
    """One Kafka cluster. Every method raises Transient while it does not answer, Permanent where it refuses."""

    def __init__(
        self, jvm: Any, side: str, bootstrap: Iterable[str], options: Mapping[str, str], client_id: str
    ) -> None:
        self.jvm, self.side = jvm, side
        self.properties = {
            "default.api.timeout.ms": str(TIMEOUT * 1000),
            "request.timeout.ms": "5000",
            **{key[len("kafka.") :]: value for key, value in options.items() if key.startswith("kafka.")},
            "bootstrap.servers": ",".join(bootstrap),
            "client.id": f"{client_id}-admin",
        }
        self.admin: Any = None
        self.partitions: dict[tuple[str, int], Any] = {}

    def id(self) -> str:
        """The cluster's id."""
        return str(self._ask(lambda admin: admin.describeCluster().clusterId()))

    def names(self, pattern: str) -> list[str]:
        """Topics whose whole name matches a Java pattern; internal ones do not count."""
        names = self._ask(lambda admin: admin.listTopics().names())
        matches = java(self.jvm, "java.util.regex.Pattern").matches
        return sorted(name for name in names if matches(pattern, name))

    def topics(self, names: Iterable[str], rights: bool = False) -> dict[str, Topic]:
        """Those of the topics that there are; `rights` asks what this user may do, too."""
        found = {}
        options = java(self.jvm, "org.apache.kafka.clients.admin.DescribeTopicsOptions")()
        asked = self._client().describeTopics(self._list(names), options.includeAuthorizedOperations(rights))
        answers = asked.topicNameValues()
        for name in names:
            try:
                topic = self._await(answers[name])
            except NoSuchTopic:
                continue
            may = topic.authorizedOperations() if rights else None
            found[name] = Topic(
                topic.topicId().toString(),
                topic.partitions().size(),
                None if may is None else frozenset(str(operation) for operation in may),
            )
        return found

    def offsets(self, partitions: Mapping[str, int], spec: int) -> Offsets:
        """Offsets of all partitions (given by their number): EARLIEST, LATEST, or the first from a time in ms on.

        A partition without a record from that time on is left out.
        """
        specs = java(self.jvm, "org.apache.kafka.clients.admin.OffsetSpec")
        wanted = {EARLIEST: specs.earliest, LATEST: specs.latest}.get(spec, lambda: specs.forTimestamp(spec))()
        question = java(self.jvm, "java.util.HashMap")()
        for topic, count in partitions.items():
            for number in range(count):
                question[self._partition(topic, number)] = wanted
        answer = self._client().listOffsets(question)
        found: Offsets = {topic: {} for topic in partitions}
        for topic, count in partitions.items():
            for number in range(count):
                offset = self._await(answer.partitionResult(self._partition(topic, number))).offset()
                if offset >= 0:
                    found[topic][number] = offset
        return found

    def limits(self, topic: str) -> Limits:
        """What a topic takes."""
        kind = java(self.jvm, "org.apache.kafka.common.config.ConfigResource")
        resource = kind(kind.Type.TOPIC, topic)
        answer = self._ask(lambda admin: admin.describeConfigs(self._list([resource])).values()[resource])
        policy = answer.get("cleanup.policy").value()
        return Limits(int(answer.get("max.message.bytes").value()), "compact" in policy)

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic this many partitions."""
        new = java(self.jvm, "org.apache.kafka.clients.admin.NewPartitions").increaseTo(partitions)
        question = java(self.jvm, "java.util.HashMap")()
        question[topic] = new
        self._ask(lambda admin: admin.createPartitions(question).all())

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic with the cluster's default replication."""
        optional = java(self.jvm, "java.util.Optional")
        count = optional.of(java(self.jvm, "java.lang.Integer").valueOf(partitions))
        new = java(self.jvm, "org.apache.kafka.clients.admin.NewTopic")(topic, count, optional.empty())
        self._ask(lambda admin: admin.createTopics(self._list([new])).all())

    def commit(self, group: str, offsets: Offsets) -> None:
        """Set a group's offsets; the group must have no members."""
        position = java(self.jvm, "org.apache.kafka.clients.consumer.OffsetAndMetadata")
        question = java(self.jvm, "java.util.HashMap")()
        for topic, numbers in offsets.items():
            for number, offset in numbers.items():
                question[self._partition(topic, number)] = position(offset)
        self._ask(lambda admin: admin.alterConsumerGroupOffsets(group, question).all())

    def close(self) -> None:
        if self.admin is not None:
            self.admin.close(java(self.jvm, "java.time.Duration").ZERO)
            self.admin = None

    def _client(self) -> Any:
        if self.admin is None:
            properties = java(self.jvm, "java.util.Properties")()
            for key, value in self.properties.items():
                properties.setProperty(key, value)
            try:
                self.admin = java(self.jvm, "org.apache.kafka.clients.admin.AdminClient").create(properties)
            except Exception as error:
                raise self._sorted(error) from error
        return self.admin

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        return self._await(question(self._client()))

    def _await(self, future: Any) -> Any:
        """A future's value."""
        try:
            return future.get(2 * TIMEOUT, java(self.jvm, "java.util.concurrent.TimeUnit").SECONDS)
        except Exception as error:
            if "UnknownTopicOrPartitionException" in str(error) or "InvalidTopicException" in str(error):
                raise NoSuchTopic(f"{self.side}: {cause(error)}") from error
            raise self._sorted(error) from error

    def _sorted(self, error: Exception) -> Permanent | Transient:
        trouble = sort(error)
        if isinstance(trouble, Permanent):
            return Permanent(trouble.code, f"{self.side}: {trouble.cause}", trouble.mend)
        return Transient(f"{self.side} ({self.properties['bootstrap.servers']}): {trouble}")

    def _partition(self, topic: str, number: int) -> Any:
        key = (topic, number)
        if key not in self.partitions:
            self.partitions[key] = java(self.jvm, "org.apache.kafka.common.TopicPartition")(topic, number)
        return self.partitions[key]

    def _list(self, items: Iterable[Any]) -> Any:
        result = java(self.jvm, "java.util.ArrayList")()
        for item in items:
            result.add(item)
        return result
