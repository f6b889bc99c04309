"""What the relay's figures are taken with: programs of this machine in a host's network, topics, and the events in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import podman
from lab.topology import BUILD, ROOT, Lab

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


# A name that the lab does not know has to be refused at once there, too; this machine's name servers are out of reach.
NAMES = """for file in hosts resolv.conf; do mount --bind "$0/$file" "/etc/$file" || exit; done; exec "$@" """


def inside(lab: Lab, host: str, user: str = "") -> list[str]:
    """What to put before a command so that it runs in the network of a host, with its names, as one of its users."""
    process = podman.podman("inspect", "-f", "{{.State.Pid}}", lab.container(host)).strip()
    command = ["nsenter", f"--net=/proc/{process}/ns/net", "unshare", "--mount"]
    command += ["sh", "-c", NAMES, str(_names(lab, host))]
    if user:
        number = podman.execute(lab.container(host), "id", "-u", user).strip()
        command += ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups"]
    return command


def _names(lab: Lab, host: str) -> Path:
    """A folder with copies of what a host finds names by: nothing of its own can be mounted elsewhere."""
    folder = BUILD / f"bench/{lab.name}/names-{host}"
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("hosts", "resolv.conf"):
        (folder / file).write_text(podman.execute(lab.container(host), "cat", f"/etc/{file}"))
    return folder


def brokers(lab: Lab, host: str) -> list[str]:
    """The addresses at which the network of `host`, a broker, finds its cluster."""
    return [f"{lab.ip(one)}:9092" for one in (lab.hq() if host in lab.hq() else [host])]


class Room:
    """The topics of a broker's cluster; see relay_room.py."""

    def __init__(self, lab: Lab, host: str) -> None:
        self.lab, self.host = lab, host
        self.bootstrap = ",".join(brokers(lab, host))
        command = [*inside(lab, host), sys.executable, "-m", "bench.relay_room", self.bootstrap]
        self.process = subprocess.Popen(
            command, cwd=ROOT / "tests", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **asked: Any) -> int:
        """One question. RuntimeError with what the cluster says against it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline() or '{"error": "no answer"}')
        if isinstance(said, dict):
            raise RuntimeError(f"{asked} at {self.host}: {said['error']}")
        return int(said)

    def create(self, topic: str, **config: str) -> None:
        """Make a topic, if it is not there."""
        self.ask(create=topic, config={key.replace("_", "."): value for key, value in config.items()})

    def drop(self, topic: str) -> None:
        """Delete a topic, if it is there."""
        self.ask(drop=topic)

    def ends(self, topic: str) -> int:
        """How many records were ever written to it."""
        return self.ask(ends=topic)

    def feed(self, topic: str, size: int, records: int) -> float:
        """Write records of `size` bytes, as fast as they are taken; records a second."""
        process = self._feeding(topic, "--size", str(size), "--records", str(records))
        # Its standard input stays open: it ends with it.
        assert process.stdout is not None
        out = process.stdout.readline()
        process.communicate(timeout=30)
        if process.returncode:
            raise RuntimeError(f"the feed of {topic} ended with {process.returncode}")
        said = json.loads(out)
        return float(said["records"] / said["seconds"])

    @contextmanager
    def feeding(self, topic: str, size: int, rate: float) -> Iterator[subprocess.Popen[str]]:
        """Write records at a rate meanwhile."""
        process = self._feeding(topic, "--size", str(size), "--rate", str(rate))
        try:
            yield process
        finally:
            process.communicate(timeout=60)

    def _feeding(self, topic: str, *more: str) -> subprocess.Popen[str]:
        arguments = ["--bootstrap", self.bootstrap, "--topic", topic, *more]
        command = [*inside(self.lab, self.host), sys.executable, "-m", "bench.relay_feed", *arguments]
        return subprocess.Popen(command, cwd=ROOT / "tests", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end(self) -> None:
        """Let it go."""
        self.process.communicate(timeout=30)


@contextmanager
def rooms(lab: Lab) -> Iterator[tuple[Room, Room]]:
    """Headquarters' cluster and the site's."""
    both = Room(lab, "hq-1"), Room(lab, "kafka")
    try:
        yield both
    finally:
        for room in both:
            room.end()


@dataclass
class Clusters:
    """Both clusters of a lab; topics get names of their own, for a deleted one may linger."""

    lab: Lab
    hq: Room
    site: Room
    number: int = 0

    def filled(self, size: int, records: int) -> str:
        """A topic at headquarters with at least so many records of `size` bytes."""
        topic = self._name(f"bench-{size}")
        self.hq.create(topic)
        self.hq.feed(topic, size, records)
        return topic

    def empty(self, topic: str) -> str:
        """A topic of the site for a copy of `topic`, named as MirrorMaker names it: ALIAS.TOPIC."""
        sink = f"{self._name('r')}.{topic}"
        self.site.create(sink)
        return sink

    def _name(self, stem: str) -> str:
        self.number += 1
        return f"{stem}-{time.strftime('%H%M%S')}-{self.number}"


def family(process: int) -> list[int]:
    """A process and all that descend from it."""
    found = [process]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def cpu_seconds(processes: Sequence[int]) -> float:
    """CPU time that processes have used, in seconds; proc(5), fields utime and stime."""
    total = 0
    for one in processes:
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def resident_mb(process: int) -> float:
    """Resident memory of a process, in MB; proc(5), statm."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE / 1e6
