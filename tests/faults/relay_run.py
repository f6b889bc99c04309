"""One relay of the fault tests: fed, deployed as its users do, watched, drained and audited."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from e2e import access
from faults.relay_site import BROKER, DRIVER, HEADQUARTERS, SINK, Process, Site, wait
from lab.topology import BUILD, ROOT

FOLDER = BUILD / "faults" / "relay"
PARTITIONS, BACKLOG, RATE, BATCH = 6, 30_000, 400, 6_000
PATIENCE = 400.0  # seconds for anything to come about, on a machine that is busy with other things, too
LOOK = 0.3  # seconds between two looks at the relay's status


@dataclass
class Told:
    """A state that the relay told, and when it was first seen (monotonic seconds)."""

    at: float
    status: dict[str, Any]


@dataclass
class Run:
    """A relay `name`, with a topic of its own on both sides and a new state directory.

    `told` is all that it told, `seen` what its present run did.
    """

    site: Site
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    jumped: bool = False
    told: list[Told] = field(default_factory=list)
    seen: list[Told] = field(default_factory=list)
    replay: str = ""
    _feed: subprocess.Popen[str] | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def state_dir(self) -> str:
        """Where its state is on HDFS."""
        return f"/checkpoints/tagdata/{self.name}/" + (f"runs/{self.replay}" if self.replay else "main")

    @property
    def file(self) -> str:
        """Its settings' file."""
        return str((FOLDER / f"{self.name}.yml").relative_to(ROOT))

    def prepare(self) -> None:
        """Topics, a backlog, and the settings."""
        lab = self.site.lab
        self.fill(HEADQUARTERS, BACKLOG)
        self.fill(SINK, 0)
        if self.jumped:
            self.site.configure(HEADQUARTERS, self.name, {"message.timestamp.after.max.ms": str(2**63 - 1)})
        nat = [f"{lab.nat_ip(host)}:{lab.nat_port(host)}" for host in lab.hq()]
        settings = {
            "name": self.name,
            "source": {"bootstrap": nat, "topics": [self.name]},
            "limits": {"max_records_per_batch": BATCH},
            "state_dir": f"hdfs://master:8020/checkpoints/tagdata/{self.name}",
            "waiting": {"first_seconds": 1, "most_seconds": 5},
            **self.settings,
            "sink": {"bootstrap": [f"{SINK}:9092"], **self.settings.get("sink", {})},
        }
        FOLDER.mkdir(parents=True, exist_ok=True)
        (ROOT / self.file).write_text(json.dumps(settings, indent=1))
        threading.Thread(target=self._watch, daemon=True).start()

    def fill(self, host: str, records: int) -> None:
        """Create its topic on one side, with so many records."""
        arguments = ["--bootstrap", ",".join(self.site.bootstrap(host)), "--topic", self.name]
        access.in_network(self.site.lab, host, "events", *arguments, "--records", str(records))

    def begin_replay(self, name: str) -> None:
        """From now on this is a replay of it, from the earliest record on."""
        self.replay = name
        self.seen = []

    def feed(self, partitions: int = PARTITIONS) -> None:
        """Write to headquarters' topic from now on."""
        process = self.site.first_process(HEADQUARTERS)
        arguments = [",".join(self.site.bootstrap(HEADQUARTERS)), self.name, str(partitions), str(RATE)]
        arguments.append("jumped" if self.jumped else "now")
        self._feed = subprocess.Popen(
            ["nsenter", f"--net=/proc/{process}/ns/net", sys.executable, "-m", "faults.relay_feed", *arguments],
            cwd=ROOT / "tests",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._feed.stdout is not None
        if self._feed.stdout.readline() != "feeding\n":
            raise RuntimeError(f"nothing feeds {self.name}")

    def starve(self) -> int:
        """End the feed; returns how many records headquarters has acknowledged."""
        if self._feed is None:
            return 0
        out, _ = self._feed.communicate("", timeout=600)
        self._feed = None
        said = json.loads(out)
        if said["sent"] != said["acknowledged"]:
            raise RuntimeError(f"headquarters lost records of the feed: {said}")
        return int(said["acknowledged"])

    def deploy(self, code: int | None = 0) -> str:
        """Deploy it, as its users do."""
        return self.site.play("kafka.natmap.deploy_spark_job", *self.arguments(), code=code)

    def arguments(self) -> list[str]:
        """What a deployment of it is given."""
        settings = [f"spark_job_app=tagdata spark_job_relay={ROOT / self.file} natmap_records={FOLDER}"]
        if self.replay:
            settings.append(f"spark_job_run={self.replay} spark_job_from=earliest")
        return [word for one in settings for word in ("-e", one)]

    @property
    def status(self) -> dict[str, Any]:
        """What it said of itself last."""
        return self.seen[-1].status if self.seen else {}

    def until(self, *states: str, seconds: float = PATIENCE, after: float = 0.0) -> Told:
        """Wait until it tells one of these states, after a moment."""
        found = wait(
            lambda: [one for one in self.seen if one.at >= after and one.status["state"] in states],
            f"{self.name} tells {' or '.join(states)}, it told {[one.status['state'] for one in self.seen[-5:]]}",
            seconds,
        )
        return found[0]  # type: ignore[no-any-return]

    def progress(self, after: float, seconds: float = PATIENCE) -> Told:
        """Wait until it has committed a batch that came to an end after a moment."""
        found = wait(
            lambda: [one for one in self.seen if one.at >= after and _came(one, after)],
            f"{self.name} comes forward; last: {self.status}",
            seconds,
        )
        return found[0]  # type: ignore[no-any-return]

    def processes(self, program: str = DRIVER) -> list[Process]:
        """Its driver or its executors, as they run now."""
        return self.site.processes(program, self.status["application"])

    @property
    def driver(self) -> Process:
        """Its driver."""
        return wait(lambda: self.processes(), "the driver runs")[0]  # type: ignore[no-any-return]

    def planned(self, batch: int) -> int:
        """How many records a batch that was begun is to hold."""
        before = self._offsets(batch - 1) if batch else self._starts()
        return sum(end - before.get(number, 0) for number, end in self._offsets(batch).items())

    def _offsets(self, batch: int) -> dict[str, int]:
        text = self.site.text(f"{self.state_dir}/checkpoint/offsets/{batch}") or ""
        found: dict[str, int] = json.loads(text.splitlines()[-1])[self.name]
        return found

    def _starts(self) -> dict[str, int]:
        found: dict[str, int] = self.site.load(f"{self.state_dir}/job.json")["source"]["topics"][self.name]["start"]
        return found

    def written(self) -> int:
        """Records in the sink's topic."""
        return sum(self.site.ends(SINK, self.name).values())

    def begun(self) -> tuple[int, int, int]:
        """Wait for a batch to begin; its number, what it is to hold, and what the sink held before it."""
        first = (self.site.load(f"{self.state_dir}/pending.json") or {"batch": -1})["batch"]

        def new() -> dict[str, Any] | None:
            found: dict[str, Any] | None = self.site.load(f"{self.state_dir}/pending.json")
            return found if found and found["batch"] > first else None

        pending = wait(new, f"{self.name} begins a batch", pause=0.005)
        return pending["batch"], self.planned(pending["batch"]), sum(pending["sink"][self.name].values())

    @contextmanager
    def middle_of_a_batch(self) -> Iterator[int]:
        """The sink stands still while it has a part of a batch; TimeoutError where it never has."""
        for _ in range(50):
            batch, planned, before = self.begun()
            now = 0
            while now <= 0:
                now = self.written() - before
            with self.site.frozen(SINK, BROKER):
                if now < planned:
                    yield batch
                    return
        raise TimeoutError("no batch was caught in its middle")

    def drain(self, seconds: float = PATIENCE) -> None:
        """Let it copy what is there, and wait for its end."""
        application = self.status["application"]
        self.site.put(f"{self.state_dir}/drain.json", {"application": application})
        self.until("DRAINED", seconds=seconds)
        self.gone(application)

    def gone(self, application: str) -> None:
        """Wait until YARN knows that an application has ended."""
        ended = ("FINISHED", "FAILED", "KILLED")
        wait(lambda: self.site.yarn(f"apps/{application}")["app"]["state"] in ended, f"{application} ends")

    def audit(self) -> dict[str, Any]:
        """Both sides compared, by `make audit-spark-job`."""
        record = FOLDER / "audit.json"
        record.unlink(missing_ok=True)
        self.site.play(
            "kafka.natmap.spark_job",
            *self.arguments(),
            "-e",
            f"spark_job_do=audit spark_job_named={ROOT / self.file}",
            code=None,
        )
        found: dict[str, Any] = json.loads(record.read_text())
        return found

    def end(self) -> None:
        """Leave nothing of it running, and no records."""
        self._over.set()
        if self._feed is not None:
            self._feed.kill()
            self._feed.wait()
        for one in (self.site.yarn("apps?states=NEW,SUBMITTED,ACCEPTED,RUNNING")["apps"] or {}).get("app", []):
            with suppress(RuntimeError):
                self.site.run("edge", "yarn", "application", "-kill", one["id"])
        for host in (HEADQUARTERS, SINK):
            self.site.drop(host, self.name)

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            try:
                status = self.site.load(f"{self.state_dir}/status.json")
            except Exception:  # HDFS is away, or half there: the next look tells
                continue
            if status and (not self.seen or status != self.seen[-1].status):
                one = Told(time.monotonic(), status)
                self.seen.append(one)
                self.told.append(one)


def _came(one: Told, after: float) -> bool:
    # The relay's clock is this machine's.
    return bool((one.status["last_progress"] or 0) >= time.time() - (time.monotonic() - after))
