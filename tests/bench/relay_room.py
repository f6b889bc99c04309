"""Topics of one cluster, by lines of JSON on standard input. Runs in the network of one of its brokers.

{"create": TOPIC, "config": {…}} makes a topic of six partitions, {"drop": TOPIC} deletes it, {"ends": TOPIC} answers with the
sum of its end offsets. Each line is answered by one: a number, or {"error": text}.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

PARTITIONS = 6
# One replica: the brokers share their cores with what is measured.
CONFIG = {"min.insync.replicas": "1"}


class Cluster:
    """A consumer that stays connected; an admin for each change, for the broker lets go of one that is idle for long."""

    def __init__(self, bootstrap: list[str]) -> None:
        self.bootstrap = bootstrap
        self.consumer = KafkaConsumer(bootstrap_servers=bootstrap)

    def answer(self, asked: dict[str, Any]) -> int:
        """Do what is asked. :raises KafkaError:"""
        if "create" in asked:
            return self._create(asked["create"], asked.get("config", {}))
        if "drop" in asked:
            return self._drop(asked["drop"])
        return self._ends(asked["ends"])

    def _create(self, topic: str, config: dict[str, str]) -> int:
        new = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1, topic_configs={**CONFIG, **config})
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            admin.create_topics([new])
        except TopicAlreadyExistsError:
            return 0
        finally:
            admin.close()
        return PARTITIONS

    def _drop(self, topic: str) -> int:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            admin.delete_topics([topic])
        except UnknownTopicOrPartitionError:
            return 0
        finally:
            admin.close()
        return 1

    def _ends(self, topic: str) -> int:
        return sum(self.consumer.end_offsets([TopicPartition(topic, number) for number in range(PARTITIONS)]).values())


def main() -> None:
    """Answer until standard input ends; the argument is HOST:PORT,…"""
    cluster = Cluster(sys.argv[1].split(","))
    for line in sys.stdin:
        try:
            said: object = cluster.answer(json.loads(line))
        except KafkaError as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
