"""`make soak-relay`: the relay on YARN under a steady load; exit code 1 where its memory, its lag or its files grow."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

from bench.relay_job import HOSTS, MEMORY, Job, container_mb, examined, memory, routed
from bench.relay_lab import Room, rooms
from bench.rows import Row, finish, row
from lab import lifecycle
from lab.cli import main as lab_command
from lab.topology import BUILD, Lab

SIZE = 200
EVERY = 10.0  # seconds between two samples
# The calibration doubles its step until Java is warm and a step long against a batch's fixed cost; seconds.
FIRST_STEP, WARM, STEP_SECONDS = 50_000, 60.0, 20.0
# Not all that an hour writes has to lie on the disk: 64 MB segments, six partitions.
KEPT = {"retention_bytes": str(192 * 1024 * 1024)}
JUDGED = 2 / 3  # the last 40 minutes of 60
GROWTH = 5.0  # percent in an hour, of what is resident and of the heap's size
SAMPLES = BUILD / "bench/soak-samples.jsonl"
Sample = dict[str, Any]
Exam = dict[str, dict[str, float]]  # MB by part of the job and by what holds it, as examined() tells


class Slope(NamedTuple):
    """A rate of growth per hour with its 95 % interval, and the level it starts from."""

    value: float
    low: float
    high: float
    level: float


def slope(times: Sequence[float], values: Sequence[float]) -> Slope:
    """Theil-Sen's estimate: the median of the slopes between all pairs of samples; interval by Kendall's statistic."""
    pairs = sorted(
        (b[1] - a[1]) / (b[0] - a[0]) * 3600 for a, b in combinations(zip(times, values, strict=True), 2) if b[0] > a[0]
    )
    count = len(times)
    margin = 1.96 * (count * (count - 1) * (2 * count + 5) / 18) ** 0.5
    low = max(0, round((len(pairs) - margin) / 2))
    return Slope(statistics.median(pairs), pairs[low], pairs[-1 - low], statistics.median(values))


class Soak:
    """One soak on one lab."""

    def __init__(self, lab: Lab, hq: Room, site: Room) -> None:
        self.lab, self.hq, self.site = lab, hq, site
        # A name of its own: an earlier soak's state directory knows other topics.
        self.topic = time.strftime("soak-%H%M%S")
        self.job = Job(lab, self.topic)
        self.application = ""

    def begin(self) -> None:
        """Empty topics, and the relay running on YARN."""
        for room in (self.hq, self.site):
            room.create(self.topic, **KEPT)
        print(f"{self.topic}: deploying the relay to YARN", flush=True)
        self.job.deploy()
        self.application = self.job.look()["status"]["application"]

    def maximum(self) -> float:
        """Records a second that it copies when it has to catch up, after it got warm."""
        records, copied, took, begun = FIRST_STEP, 0, 1.0, time.monotonic()
        while time.monotonic() - begun < WARM or took < STEP_SECONDS:
            records *= 2
            at, first = time.monotonic(), self.site.ends(self.topic)
            self.hq.feed(self.topic, SIZE, records)
            copied = self._catch_up(self.hq.ends(self.topic), 600) - first
            took = time.monotonic() - at
            print(f"{self.topic}: catches up with {copied:,} records in {took:.1f} s", flush=True)
        return copied / took

    def samples(self, minutes: float, rate: float) -> tuple[list[Sample], list[Exam]]:
        """What is seen every ten seconds under that load; what each JVM holds where the judged time begins and ends."""
        found: list[Sample] = []
        exams: list[Exam] = []
        begun = time.monotonic()
        with SAMPLES.open("w") as file, self.hq.feeding(self.topic, SIZE, rate) as feed:
            while (now := time.monotonic() - begun) < minutes * 60:
                if not exams and now >= minutes * 60 * (1 - JUDGED):
                    exams.append(self._exam())
                found.append(sample := self._sample(time.monotonic() - begun))
                file.write(json.dumps(sample) + "\n")
                file.flush()
                if len(found) % 6 == 1:
                    print(f"  {_told(sample)}", flush=True)
                if feed.poll() is not None:
                    raise RuntimeError(f"the feed ended after {now:.0f} s with {feed.returncode}")
                time.sleep(max(0.0, begun + len(found) * EVERY - time.monotonic()))
            exams.append(self._exam())
        return found, exams

    def _exam(self) -> Exam:
        return {name: examined(found) for name, found in self.job.processes(self.application).items()}

    def _sample(self, now: float) -> Sample:
        # The sink first: what comes between counts as lag, not as the contrary.
        there, here, seen = self.site.ends(self.topic), self.hq.ends(self.topic), self.job.look()
        parts = {name: memory(found) for name, found in self.job.processes(self.application).items()}
        names = list(map(_name, seen["files"]))
        status = seen["status"]
        return {
            "at": round(now, 1),
            "lag": here - there,
            "records": there,
            "resident": {name: round(one[0], 1) for name, one in parts.items()},
            "heap": {name: one[1] for name, one in parts.items()},
            "files": len(names),
            "unfinished": sum(map(_is_left, names)),
            "state": status["state"],
            "batch_seconds": status["batch_seconds"],
            "same": status["application"] == self.application and status["attempt"] == 1,
            "restarts": status["restarts"],
        }

    def _catch_up(self, end: int, seconds: float) -> int:
        """Wait until the sink holds that many records; how many it holds."""
        until = time.monotonic() + seconds
        while (there := self.site.ends(self.topic)) < end:
            if time.monotonic() > until:
                told = self.job.look()["status"]
                raise RuntimeError(f"not caught up after {seconds:.0f} s: {told['state']} {told['cause']}")
            time.sleep(0.2)
        return there


def rows(samples: Sequence[Sample], exams: Sequence[Exam], rate: float) -> list[Row]:
    """The judgement, over the last two thirds of the time."""
    judged = [one for one in samples if one["at"] >= samples[-1]["at"] * (1 - JUDGED)]
    times = [one["at"] for one in judged]
    minutes = round((times[-1] - times[0]) / 60)
    found = [_resident(judged, times, name, *(one[name] for one in exams)) for name in exams[-1]]
    found += [_share(samples, name) for name in exams[-1]]
    found += [_live((times[-1] - times[0]) / 3600, name, *(one[name] for one in exams)) for name in exams[-1]]
    lag = slope(times, [one["lag"] for one in judged])
    found.append(
        row(
            f"lag over the last {minutes} min, growth an hour",
            round(lag.value),
            "records",
            round(rate),
            # In an hour less than a second of the load more, or not to be told from none.
            min(lag.value, max(lag.low, 0)) <= rate,
            median=lag.level,
            least=lag.low,
            most=lag.high,
        )
    )
    files = [one["files"] for one in judged]
    found.append(
        row(
            "files of the checkpoint at the end",
            files[-1],
            "files",
            2 * max(files[:60]),
            files[-1] <= 2 * max(files[:60]),
        )
    )
    restarts = samples[-1]["restarts"] + sum(not one["same"] for one in samples)
    found.append(row("restarts of the query or of the application", restarts, "times", 0, restarts == 0))
    done = (samples[-1]["records"] - samples[0]["records"]) / (samples[-1]["at"] - samples[0]["at"])
    batch = statistics.median(one["batch_seconds"] for one in judged)
    found.append(row("copied meanwhile", round(done), "records/s", None, True, load=round(rate), **{"batch s": batch}))
    return found


def _resident(
    judged: Sequence[Sample], times: Sequence[float], name: str, first: dict[str, float], last: dict[str, float]
) -> Row:
    grown = slope(times, [one["resident"][name] for one in judged])
    percent = round(100 * grown.value / grown.level, 2)
    most = sorted(set(first) & set(last) - {"live"}, key=lambda key: first[key] - last[key])[:3]
    return row(
        f"{name}: resident memory, growth an hour",
        percent,
        "%",
        GROWTH,
        percent <= GROWTH,
        **{"MB": grown.level, "least %": 100 * grown.low / grown.level, "most %": 100 * grown.high / grown.level},
        **{f"{key} MB": f"{last[key] - first[key]:+.1f}" for key in most},
    )


def _share(samples: Sequence[Sample], name: str) -> Row:
    most = max(one["resident"].get(name, 0) for one in samples)
    size = container_mb("driver" if name == "driver" else "executor")
    share = round(most / size, 2)
    return row(
        f"{name}: the most that was resident : YARN's container", share, "", 1, share < 1, MB=most, container=size
    )


def _live(hours: float, name: str, first: dict[str, float], last: dict[str, float]) -> Row:
    percent = round(100 * (last["live"] - first["live"]) / hours / float(MEMORY.removesuffix("m")), 2)
    return row(
        f"{name}: heap that is kept, growth an hour",
        percent,
        "% of -Xmx",
        GROWTH,
        percent <= GROWTH,
        **{"first MB": first["live"], "last MB": last["live"]},
    )


def _told(sample: Sample) -> str:
    resident = " ".join(f"{name} {mb:.0f}" for name, mb in sample["resident"].items())
    heap = " ".join(f"{mb or 0:.0f}" for mb in sample["heap"].values())
    return (
        f"{sample['at'] / 60:4.0f} min  {sample['state']}  lag {sample['lag']:,}  batch {sample['batch_seconds']} s  "
        f"MB {resident} (heap {heap})  {sample['files']} files"
    )


def soak(one: Soak, minutes: float, rate: float) -> list[Row]:
    """The whole of it, from the deployment to the figures; a rate of 0 is half of what it catches up at."""
    one.begin()
    most = one.maximum()
    rate = rate or most / 2
    print(f"{one.topic}: catches up at {most:,.0f} records/s; {minutes:g} min at {rate:,.0f}/s", flush=True)
    samples, exams = one.samples(minutes, rate)
    one.job.stop()
    left = sorted(name for name in map(_name, one.job.look()["files"]) if _is_left(name))
    found = rows(samples, exams, rate)
    found.append(row("files left over in the checkpoint (0 kills)", len(left), "files", 0, not left))
    found.append(row("catches up at", round(most), "records/s", None, True))
    for room in (one.hq, one.site):
        room.drop(one.topic)
    return found


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_left(name: str) -> bool:
    """Spark renames what it has written whole."""
    return name.startswith(".") or name.endswith(".tmp")


def main() -> int:
    """Soak, on a lab of its own unless another is named."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--lab", default="soak", help="the lab's name (default: %(default)s); brought up if need be")
    parser.add_argument("--minutes", type=float, default=60, help="default: %(default)s")
    parser.add_argument("--rate", type=float, default=0, help="records a second (default: half of what is measured)")
    args = parser.parse_args()
    if not shutil.which("jcmd"):
        print("jcmd is missing, which asks a JVM what it holds: apt install openjdk-17-jdk-headless", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it started ends with it
    ours = lifecycle.standing(args.lab) is None
    if lab_command(["up", "--name", args.lab, "--only", *HOSTS]):
        return 1
    lab = lifecycle.standing(args.lab) or Lab(args.lab)
    try:
        with routed(lab), rooms(lab) as (hq, site):
            found = soak(Soak(lab, hq, site), args.minutes, args.rate)
    finally:
        if ours:
            lab_command(["down", "--name", args.lab])
    return finish("bench", "soak", found, ("case", "value", "unit", "beside", "bar", "holds"))


if __name__ == "__main__":
    sys.exit(main())
