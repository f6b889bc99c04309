"""A topic that every broker of HQ leads a part of: without one, no broker could prove who it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lab.podman import PodmanError, execute
from lab.topology import DR_NAME, KAFKA_PORT, Lab

TOPIC = "heartbeat"
_COMMAND = ("/opt/java/bin/java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", "/opt/kafka/libs/*")


def ensure(lab: Lab) -> None:
    """Create the topic in each of HQ's clusters that this lab has, if it is not there."""
    clusters = [
        (host, partitions) for host, partitions in ((next(iter(lab.hq()), ""), 6), ("dr-1", 1)) if lab.has(host)
    ]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda cluster: _create(lab, *cluster), clusters))


def balance(lab: Lab) -> None:
    """Let each broker of HQ lead its share again, as soon as it is back; by itself Kafka does so after 5 minutes."""
    command = ("org.apache.kafka.tools.LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    bootstrap = f"{lab.ip(lab.hq()[0])}:{KAFKA_PORT}"
    execute(lab.container(lab.hq()[0]), *_COMMAND, *command, "--bootstrap-server", bootstrap)


def _create(lab: Lab, host: str, partitions: int) -> None:
    container = lab.container(host)
    try:
        execute(container, "test", "-d", f"/var/lib/kafka/log/{TOPIC}-0")
    except PodmanError:
        bootstrap = f"{lab.ip(host)}:{KAFKA_PORT}" if host != "dr-1" else f"{DR_NAME}:{KAFKA_PORT}"
        command = (
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            bootstrap,
            "--create",
            "--if-not-exists",
        )
        execute(container, *_COMMAND, *command, "--topic", TOPIC, "--partitions", str(partitions))
