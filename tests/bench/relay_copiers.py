"""What copies in the measurements: the jobs in one Spark, MirrorMaker 2 in one Connect worker; both stay warm between copies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from ansible_collections.kafka.natmap.plugins.module_utils import relay_conf
from bench.relay_lab import cpu_seconds, family, inside
from lab import podman
from lab.topology import BUILD, ROOT, Lab

HEAP = "1g"
CORES = 2
# The relay's own settings of its producer, for all that is compared.
PRODUCER = {"acks": "all", "linger.ms": "20", "batch.size": "262144", "compression.type": "none"}
# What else the relay is deployed with.
JAVA = relay_conf.lasting({"dedup": True})["spark.executor.defaultJavaOptions"]
# A node of its own: what YARN runs on the others goes on meanwhile.
HOST, USER = "copier", "yarn"
LOGGING = ROOT / "tests/lab/files/kafka/etc/kafka/log4j2.properties"
REST = """
import json, sys, urllib.request as u
verb, path, body = sys.argv[1:]
request = u.Request(path, body.encode() or None, {"Content-Type": "application/json"}, method=verb)
print(u.urlopen(request, timeout=30).read().decode() or "null")
"""


def sides(lab: Lab, direct: bool = False) -> tuple[list[str], list[str]]:
    """Bootstrap addresses of source and sink as a node of the site sees them; `direct` names the brokers themselves."""
    source = [f"{lab.ip(one) if direct else lab.nat_ip(one)}:9092" for one in lab.hq()]
    return source, [f"{lab.ip('kafka')}:9092"]


def workplace(lab: Lab, name: str, files: Mapping[str, str]) -> Path:
    """A folder with these files that belongs to the user on the node."""
    folder = BUILD / f"bench/{lab.name}/{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file, content in files.items():
        (folder / file).write_text(content)
    number = int(podman.execute(lab.container(HOST), "id", "-u", USER))
    os.chown(folder, number, number)
    return folder


class Copier:
    """A process that copies in the network of a node, as the user whose connections are rewritten."""

    name: str
    answers = False

    def __init__(
        self, lab: Lab, command: Sequence[str], environment: Mapping[str, str], files: Mapping[str, str]
    ) -> None:
        self.lab, self.copies = lab, 0
        self.folder = workplace(lab, self.name, files)
        self.log = BUILD / f"log/bench-{self.name}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*inside(lab, HOST, USER), *command],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if self.answers else log,
                stderr=log,
                env={**os.environ, "HADOOP_USER_NAME": USER, **environment},
                text=True,
            )

    def begin(self, topic: str, sink: str, batch: int) -> None:
        """Begin a copy."""
        raise NotImplementedError

    def end(self) -> object:
        """End it, or wait for its end."""
        raise NotImplementedError

    def cpu_seconds(self) -> float:
        """CPU time that all of it has used."""
        return cpu_seconds(family(self.process.pid))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)


class Spark(Copier):
    """Spark in one process with two cores, driver and executor in one: no YARN between the job and its cores."""

    answers = True
    name, java = "spark", JAVA

    def __init__(self, lab: Lab) -> None:
        jars = ",".join(str(jar) for jar in sorted((BUILD / "jars/connector").glob("*.jar")))
        conf = {
            "spark.driver.host": "127.0.0.1",
            **({"spark.driver.extraJavaOptions": self.java} if self.java else {}),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.task.maxFailures": "1",
        }
        submit = ["--master", f"local[{CORES}]", "--driver-memory", HEAP, "--jars", jars]
        for key, value in conf.items():
            submit += ["--conf", f"{key}={value}"]
        environment = {
            "PYTHONPATH": f"{ROOT / 'spark_app'}",
            "PYSPARK_SUBMIT_ARGS": " ".join([*submit, "pyspark-shell"]),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        script = str(Path(__file__).with_name("relay_app.py"))
        self.begun = time.strftime("%Y%m%d-%H%M%S")
        super().__init__(lab, [sys.executable, "-P", script, "."], environment, {})
        self.end()

    def begin(self, topic: str, sink: str, batch: int, direct: bool = False) -> None:
        """Ask for a copy by the job of months."""
        source, there = sides(self.lab, direct)
        self.copies += 1
        self._ask(
            tagdata={
                "name": f"bench-{self.copies}",
                "source": {"bootstrap": source, "topics": [topic]},
                "sink": {"bootstrap": there, "topics": {topic: sink}},
                "limits": {"max_records_per_batch": batch},
                "trigger": {"available_now": True, "interval_seconds": 0},
                "state_dir": self._state(),
            }
        )

    def _state(self) -> str:
        """A new directory on HDFS, as a deployed job has."""
        return f"hdfs://master:8020/checkpoints/bench/{self.begun}/{self.name}-{self.copies}"

    def _ask(self, **asked: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def end(self) -> list[tuple[int, float]]:
        """Wait for the end of the copy; records and seconds of its batches. RuntimeError when it did not end well."""
        assert self.process.stdout is not None
        said = json.loads(self.process.stdout.readline() or "{}")
        if said.get("code", 1) and "ready" not in said:
            raise RuntimeError(f"Spark's copy {self.copies} ended with {said.get('code')}: see {self.log}")
        return [(records, seconds) for records, seconds in said.get("batches", [])]


class Bare(Spark):
    """The same for the bare job, with nothing but its own."""

    name, java = "bare", ""

    def begin(self, topic: str, sink: str, batch: int, direct: bool = False) -> None:
        """Ask for a copy by the bare job."""
        source, there = sides(self.lab, direct)
        self.copies += 1
        arguments = [
            f"--source-bootstrap={','.join(source)}",
            f"--source-topic={topic}",
            f"--sink-bootstrap={','.join(there)}",
            f"--sink-topic={sink}",
            f"--checkpoint={self._state()}",
            "--available-now",
            f"--source-option=maxOffsetsPerTrigger={batch}",
            *(f"--sink-option=kafka.{key}={value}" for key, value in PRODUCER.items()),
        ]
        self._ask(relay=arguments)


class Mirror(Copier):
    """MirrorMaker 2's source connector in a Connect worker: bytes as they are, no syncs of any kind."""

    name, address = "mirror", "http://127.0.0.1:8083"
    java: Sequence[str] = ()
    producer: ClassVar[Mapping[str, str]] = PRODUCER
    consumer: ClassVar[Mapping[str, str]] = {}

    def __init__(self, lab: Lab) -> None:
        self.alias = ""
        worker = {
            "bootstrap.servers": ",".join(sides(lab)[1]),
            "listeners": self.address,
            "offset.storage.file.filename": "offsets",
            **{
                f"{part}.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"
                for part in ("key", "value", "header")
            },
            **{f"producer.{key}": value for key, value in self.producer.items()},
        }
        name = "worker.properties"
        java = ["java", f"-Xmx{HEAP}", *self.java]
        java += [f"-Dlog4j2.configurationFile={LOGGING}", "-cp", f"{BUILD / 'jars/kafka'}/*"]
        command = [*java, "org.apache.kafka.connect.cli.ConnectStandalone", name]
        super().__init__(lab, command, {}, {name: "".join(f"{k}={v}\n" for k, v in worker.items())})
        self._await_worker(120)

    def begin(self, topic: str, sink: str, batch: int) -> None:
        """Begin a copy to ALIAS.TOPIC, as it names its topics; it knows no batches."""
        alias = self.alias = sink.partition(".")[0]
        source, site = (",".join(side) for side in sides(self.lab))
        self.copies += 1
        self._rest(
            "PUT",
            f"/connectors/{alias}/config",
            {
                "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "tasks.max": str(CORES),
                "topics": topic,
                "source.cluster.alias": alias,
                "target.cluster.alias": "site",
                "source.cluster.bootstrap.servers": source,
                "target.cluster.bootstrap.servers": site,
                "sync.topic.configs.enabled": "false",
                "sync.topic.acls.enabled": "false",
                "emit.offset-syncs.enabled": "false",
                "refresh.topics.enabled": "false",
                "replication.factor": "1",
                **{f"consumer.{key}": value for key, value in self.consumer.items()},
            },
        )

    def end(self) -> None:
        self._rest("DELETE", f"/connectors/{self.alias}")

    def _rest(self, verb: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        command = [
            *inside(self.lab, HOST),
            sys.executable,
            "-c",
            REST,
            verb,
            self.address + path,
            json.dumps(body) if body else "",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"Connect: {verb} {path}: {done.stderr.strip().splitlines()[-1]}; see {self.log}")
        return json.loads(done.stdout)

    def _await_worker(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                self._rest("GET", "/connectors")
                return
            except RuntimeError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.5)


class Tuned(Mirror):
    """The same with what else the relay is deployed with, its JVM's option and its sockets' buffers."""

    name, address = "mirror-tuned", "http://127.0.0.1:8084"
    java = (JAVA,)
    producer: ClassVar[Mapping[str, str]] = {**PRODUCER, "send.buffer.bytes": "-1"}
    consumer: ClassVar[Mapping[str, str]] = {"receive.buffer.bytes": "-1"}
