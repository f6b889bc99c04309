"""The relay as it is deployed: its settings, its playbooks, what YARN runs of it, what it says of itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils import relay_conf
from bench import maps
from bench.parts import playbook
from bench.relay_lab import resident_mb
from faults.node import Node
from lab import podman
from lab.topology import BUILD, Lab

HERE = Path(__file__).parent
HOSTS = ("hq", "router", "yarn", "kafka", "edge")
NODES = ("nm1", "nm2")
FREED = re.compile(r"->(\d+)M\(")
TRACKED = re.compile(r"^-\s+(.+) \(reserved=\d+KB, committed=(\d+)KB\)", re.MULTILINE)
COLLECTIONS = 7  # by one alone, what a batch has just fetched would count as kept
MEMORY = "512m"
# The whole heap from the start: what is resident then grows by leaks outside it only; the log tells those inside.
_JAVA = f"-Xms{MEMORY} -XX:+AlwaysPreTouch -XX:NativeMemoryTracking=summary -Xlog:gc:file=gc.log"
# As anyone would run it for months: the lab's own setting spares the compiler, for jobs of a minute.
CONF = {
    "spark.scheduler.minRegisteredResourcesRatio": "0",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}


@contextmanager
def routed(lab: Lab) -> Iterator[None]:
    """The NAT map on the lab's nodes meanwhile; one that was there stays."""
    nodes = [Node(lab, name) for name in NODES]
    for node in nodes:
        node.place_program()
    held = any(maps.OWNER in "".join(node.state()) for node in nodes)
    playbook(lab, "apply", ",".join(NODES), {"nat_map": maps.hq(nodes[0])})
    yield
    for node in nodes if not held else ():
        node.remove(maps.OWNER)


@dataclass
class Job:
    """One relay of `topic`, deployed to YARN."""

    lab: Lab
    topic: str
    interval: float = 1.0

    @property
    def state(self) -> str:
        """Its state directory's path on HDFS."""
        return f"/checkpoints/tagdata/{self.topic}/main"

    def settings(self) -> Path:
        """Its settings as a file."""
        path = BUILD / f"bench/{self.lab.name}/{self.topic}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "name": self.topic,
            "source": {
                "bootstrap": [f"{self.lab.nat_ip(host)}:9092" for host in self.lab.hq()],
                "topics": [self.topic],
            },
            "sink": {"bootstrap": [f"{self.lab.ip('kafka')}:9092"]},
            "trigger": {"interval_seconds": self.interval},
            "state_dir": f"hdfs://master:8020{self.state.removesuffix('/main')}",
        }
        path.write_text(json.dumps(content, indent=1))
        return path

    def variables(self) -> dict[str, Any]:
        """What the playbooks are given."""
        memory = {"spark_job_driver_memory": MEMORY, "spark_job_executor_memory": MEMORY}
        return {"spark_job_app": "tagdata", "spark_job_relay": str(self.settings()), "spark_job_conf": CONF, **memory}

    def deploy(self) -> None:
        """Submit it, and wait until it runs."""
        playbook(self.lab, "kafka.natmap.deploy_spark_job", ",".join((*NODES, "edge")), self.variables())

    def stop(self) -> None:
        """End it at a batch boundary."""
        asked = {"spark_job_do": "stop", "spark_job_end": "stop", "spark_job_named": self.topic}
        playbook(self.lab, "kafka.natmap.spark_job", "edge", {"spark_job_app": "tagdata", **asked})

    def look(self) -> dict[str, Any]:
        """Its own word, and the files of its checkpoint."""
        code = (HERE / "soak_hdfs.py").read_bytes()
        found: dict[str, Any] = json.loads(
            podman.execute(self.lab.container("master"), "python3", "-", self.state, stdin=code)
        )
        return found

    def processes(self, application: str) -> dict[str, list[int]]:
        """YARN's containers of an application by their role, `driver`, `executor 1` and on, with their processes."""
        found: dict[str, list[int]] = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                folder = os.readlink(entry / "cwd")
            except OSError:
                continue
            if f"/{application}/container_" in folder:
                found.setdefault(folder.rpartition("_")[2], []).append(int(entry.name))
        return {
            ("driver" if number == 0 else f"executor {number}"): found[key] for number, key in enumerate(sorted(found))
        }


def memory(processes: list[int]) -> tuple[float, float | None]:
    """Resident MB of a container, and the MB of its JVM's heap that the last collection left."""
    resident, heap = 0.0, None
    for one in processes:
        try:
            resident += resident_mb(one)
            heap = _freed(one) or heap
        except OSError:
            continue
    return resident, heap


def container_mb(role: str) -> float:
    """What YARN lets a `driver` or an `executor` have: its heap, and what the relay asks for beside it."""
    beside = relay_conf.lasting({"dedup": True})[f"spark.{role}.minMemoryOverhead"]
    return sum(int(one.removesuffix("m")) for one in (MEMORY, beside)) * 2**20 / 1e6


def examined(processes: list[int]) -> dict[str, float]:
    """MB that a container's JVM holds: `live`, the least that full collections leave, and each category outside the heap.

    The categories are those of HotSpot's native memory tracking (the JDK's manual, "Native Memory Tracking").
    """
    java = next(one for one in processes if Path(f"/proc/{one}/comm").read_text() == "java\n")
    live = []
    for _ in range(COLLECTIONS):
        _jcmd(java, "GC.run")
        live.append(_freed(java) or 0.0)
    found = {name: int(kb) / 1024 for name, kb in TRACKED.findall(_jcmd(java, "VM.native_memory", "summary"))}
    del found["Java Heap"]
    return {"live": min(live), **found}


def _freed(java: int) -> float | None:
    left = FREED.findall(Path(f"/proc/{java}/cwd/gc.log").read_text())
    return float(left[-1]) if left else None


def _jcmd(java: int, *command: str) -> str:
    return subprocess.run(["jcmd", str(java), *command], check=True, capture_output=True, text=True, timeout=60).stdout
