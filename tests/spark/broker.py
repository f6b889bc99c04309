"""A Kafka broker of its own on loopback, from the lab's jars: a whole cluster in one process."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    NewTopic,
    ResourcePattern,
    ResourceType,
)

JARS = Path(__file__).parents[2] / "build/jars/kafka"
PROPERTIES = """
process.roles=broker,controller
node.id={node}
controller.quorum.voters={node}@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/log
log.retention.ms=-1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
"""
STARTUP = 120.0  # seconds


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Broker:
    """Start with `start`, end with `stop`; the data stay until `clear`."""

    def __init__(self, folder: Path, node: int) -> None:
        self.folder, self.node, self.port = folder, node, free_port()
        self.cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "x")
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        values = {"node": node, "port": self.port, "controller": free_port(), "folder": folder}
        (folder / "server.properties").write_text(PROPERTIES.format(**values))
        self._java("kafka.tools.StorageTool", "format", "--cluster-id", self.cluster_id, "--config").wait()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Broker:
        """Start and wait until it answers."""
        self.process = self._java("kafka.Kafka")
        end = time.monotonic() + STARTUP
        while True:
            try:
                KafkaAdminClient(bootstrap_servers=self.address).close()
                return self
            except Exception:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError((self.folder / "out").read_text()[-2000:]) from None

    def stop(self, kill: bool = False) -> None:
        if self.process:
            self.process.kill() if kill else self.process.terminate()
            self.process.wait()
            self.process = None

    def clear(self) -> None:
        self.stop(kill=True)
        shutil.rmtree(self.folder)

    def create(self, topic: str, partitions: int = 3, **configs: object) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])
        admin.close()

    def forbid(self, topic: str, operation: str) -> None:
        """Take one right to a topic away from everybody; all others stay."""
        pattern = ResourcePattern(ResourceType.TOPIC, topic)
        kinds = (("ALL", ACLPermissionType.ALLOW), (operation, ACLPermissionType.DENY))
        acls = [ACL("User:ANONYMOUS", "*", ACLOperation[name], kind, pattern) for name, kind in kinds]
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        admin.create_acls(acls)
        admin.close()

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = ["java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]
        command += [main, *arguments, f"{self.folder}/server.properties"]
        with (self.folder / "out").open("ab") as out:
            return subprocess.Popen(command, stdout=out, stderr=out, cwd=self.folder)
