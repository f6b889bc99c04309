"""The lab as the relay's faults see it: its processes, its state directories on HDFS, the ends of its topics."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import UnknownTopicOrPartitionError
from lab import inventory, podman
from lab.topology import DEFAULT_NAME, ROOT, Lab

_CLONE_NEWNET = 0x40000000  # linux/sched.h
_LIBC = ctypes.CDLL(None, use_errno=True)
DRIVER = "org.apache.spark.deploy.yarn.ApplicationMaster"
EXECUTOR = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"
BROKER, NAMENODE = "kafka.Kafka", "org.apache.hadoop.hdfs.server.namenode.NameNode"
USER = "etl"
HEADQUARTERS, SINK = "hq-1", "kafka"


@dataclass(frozen=True)
class Process:
    """A process of a lab's host, by its number on this machine."""

    pid: int
    host: str
    line: str

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def wake(self) -> None:
        """Let it go on after SIGSTOP, if it is still there."""
        with suppress(ProcessLookupError):
            self.kill(signal.SIGCONT)


@dataclass
class Site:
    """One lab. Everything is asked from inside the hosts' networks, which this machine is no part of."""

    lab: Lab
    _consumers: dict[str, KafkaConsumer] = field(default_factory=dict)
    _first: dict[str, int] = field(default_factory=dict)

    def run(self, host: str, *command: str, user: str = "root", stdin: bytes | None = None) -> str:
        """Run a program on a host."""
        flags = ["-i"] if stdin is not None else []
        return podman.podman("exec", "--user", user, *flags, self.lab.container(host), *command, stdin=stdin)

    def shell(self, host: str, text: str) -> str:
        """Run a line of shell on a host as root."""
        return self.run(host, "sh", "-c", text)

    def play(self, playbook: str, *arguments: str, code: int | None = 0) -> str:
        """Run a playbook on this lab; RuntimeError where it ends with another code (None: any)."""
        with self.playing(playbook, *arguments) as process:
            out, _ = process.communicate(timeout=900)
        if code not in (None, process.returncode):
            raise RuntimeError(f"{playbook} ended with {process.returncode}: {out[-1500:]}")
        return out

    @contextmanager
    def playing(self, playbook: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A playbook that runs."""
        other = [] if self.lab.name == DEFAULT_NAME else ["-i", str(inventory.path(self.lab.name))]
        command = ["ansible-playbook", playbook, *other, *arguments]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL
        ) as process:
            yield process

    @contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """This thread's new sockets are in the network of a host."""
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/proc/{self.first_process(host)}/ns/net", os.O_RDONLY)
        try:
            _enter(there)
            yield
        finally:
            _enter(here)
            os.close(here)
            os.close(there)

    def first_process(self, host: str) -> int:
        """The host's first process, as this machine counts; no fault here restarts a host."""
        if host not in self._first:
            self._first[host] = int(podman.podman("inspect", "-f", "{{.State.Pid}}", self.lab.container(host)))
        return self._first[host]

    def processes(self, *words: str, host: str = "") -> list[Process]:
        """Java programs of the lab whose command line has all these words."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if not line.split(" ", 1)[0].endswith("/java") or not all(word in line for word in words):
                    continue
                # Two labs may run the same application number.
                name, net = (folder / "root/etc/hostname").read_text().strip(), os.stat(folder / "ns/net").st_ino
            except (OSError, ValueError):
                continue
            if (not host or name == host) and name in self.lab.only and net == self._network(name):
                found.append(Process(int(folder.name), name, line))
        return found

    def _network(self, host: str) -> int:
        return os.stat(f"/proc/{self.first_process(host)}/ns/net").st_ino

    @contextmanager
    def frozen(self, host: str, program: str) -> Iterator[None]:
        """A program of a host stands still, its connections open."""
        [process] = self.processes(program, host=host)
        process.kill(signal.SIGSTOP)
        try:
            yield
        finally:
            process.wake()

    def text(self, path: str) -> str | None:
        """A file on HDFS, or None."""
        try:
            with self.inside("edge"):
                place = json.loads(self._hdfs(path, "OPEN&noredirect=true"))["Location"]
                with urllib.request.urlopen(
                    place.replace("//master:", f"//{self.lab.ip('master')}:"), timeout=5
                ) as said:
                    return str(said.read().decode())
        except urllib.error.HTTPError as error:
            if error.code in (403, 404):
                return None
            raise

    def load(self, path: str) -> Any:
        """A JSON file on HDFS, or None."""
        text = self.text(path)
        return None if text is None else json.loads(text)

    def names(self, path: str) -> set[str]:
        """The names in a folder on HDFS."""
        try:
            with self.inside("edge"):
                listed = json.loads(self._hdfs(path, "LISTSTATUS"))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return set()
            raise
        return {one["pathSuffix"] for one in listed["FileStatuses"]["FileStatus"]}

    def put(self, path: str, content: object) -> None:
        """Write a JSON file on HDFS as the job's user."""
        self.run("edge", "hdfs", "dfs", "-put", "-f", "-", path, user=USER, stdin=json.dumps(content).encode())

    def _hdfs(self, path: str, operation: str) -> bytes:
        url = f"http://{self.lab.ip('master')}:9870/webhdfs/v1{path}?user.name={USER}&op={operation}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bytes(answer.read())

    def yarn(self, path: str) -> Any:
        """What the ResourceManager says."""
        with self.inside("edge"):
            url = f"http://{self.lab.ip('master')}:8088/ws/v1/cluster/{path}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)

    def bootstrap(self, host: str) -> list[str]:
        """Addresses at which a cluster's own room reaches it, for HEADQUARTERS or SINK."""
        return [f"{self.lab.ip(one)}:9092" for one in (self.lab.hq() if host == HEADQUARTERS else [host])]

    def ends(self, host: str, topic: str) -> dict[int, int]:
        """The end offset of each partition of a topic at HEADQUARTERS or SINK."""
        with self.inside(host):
            consumer = self._consumers.get(host)
            if consumer is None:
                consumer = self._consumers[host] = KafkaConsumer(bootstrap_servers=self.bootstrap(host))
            numbers = consumer.partitions_for_topic(topic) or set()
            found = consumer.end_offsets([TopicPartition(topic, number) for number in numbers])
        return {partition.partition: end for partition, end in found.items()}

    def partitions(self, host: str, topic: str) -> int:
        """How many partitions a topic has at HEADQUARTERS or SINK."""
        with self.inside(host), closing(KafkaAdminClient(bootstrap_servers=self.bootstrap(host))) as admin:
            return len(admin.describe_topics([topic])[0]["partitions"])

    def configure(self, host: str, topic: str, values: dict[str, str]) -> None:
        """Set properties of a topic at HEADQUARTERS or SINK."""
        with self.inside(host), closing(KafkaAdminClient(bootstrap_servers=self.bootstrap(host))) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, values)])

    def drop(self, host: str, topic: str) -> None:
        """Delete a topic at HEADQUARTERS or SINK, if it is there."""
        with (
            self.inside(host),
            closing(KafkaAdminClient(bootstrap_servers=self.bootstrap(host))) as admin,
            suppress(UnknownTopicOrPartitionError),
        ):
            admin.delete_topics([topic])


def _enter(network: int) -> None:
    if _LIBC.setns(network, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns(2): entering a host's network needs root")


def wait(true: Callable[[], object], what: str, seconds: float = 240, pause: float = 0.2) -> Any:
    """What `true` says once it says something, while parts may be away; TimeoutError when it never does."""
    deadline, last = time.monotonic() + seconds, ""
    while time.monotonic() < deadline:
        try:
            found = true()
            if found:
                return found
        except (OSError, ValueError) as error:
            last = f" ({error})"
        time.sleep(pause)
    raise TimeoutError(f"not after {seconds:g} s: {what}{last}")
