"""How soon a deployed relay brings its first record, and how short its batches get."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Iterator

from bench.relay_job import Job, routed
from bench.relay_lab import Clusters
from bench.rows import Row, row
from lab import inventory
from lab.topology import BUILD, ROOT

DEPLOYMENTS, PATIENCE = 2, 600.0
WARM, BATCHES = 20, 30
LOG = BUILD / "log/bench-deploy.log"


def start(clusters: Clusters) -> Iterator[Row]:
    """From `make deploy-spark-job APP=tagdata` to the first record at the site, on YARN; then a record each second."""
    taken, small = [], []
    with routed(clusters.lab):
        for number in range(DEPLOYMENTS):
            topic = clusters.filled(200, 6)
            clusters.site.create(topic)
            job = Job(clusters.lab, topic, interval=0)
            taken.append(_deployed(clusters, job))
            print(f"  {taken[-1]:.1f} s to the first record", flush=True)
            if number == DEPLOYMENTS - 1:
                with clusters.hq.feeding(topic, 200, 1):
                    small = _batches(job)
            job.stop()
            clusters.hq.drop(topic)
            clusters.site.drop(topic)
    yield row(
        "make deploy-spark-job to the first record in the sink",
        round(statistics.median(taken), 1),
        "s",
        None,
        True,
        least=min(taken),
        most=max(taken),
    )
    yield row(
        f"batch time at a record each second, {len(small)} batches",
        round(statistics.median(small), 3),
        "s",
        None,
        True,
        least=min(small),
        most=max(small),
    )


def _deployed(clusters: Clusters, job: Job) -> float:
    """Deploy it as anyone would; seconds until its first record is there."""
    given = BUILD / f"bench/{clusters.lab.name}/{job.topic}.json"
    settings = job.settings()
    given.write_text(json.dumps({"spark_job_conf": job.variables()["spark_job_conf"]}))
    arguments = f"-i {inventory.path(clusters.lab.name)} -e @{given}"
    command = ["make", "deploy-spark-job", "APP=tagdata", f"RELAY={settings}", f"ARGS={arguments}"]
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("w") as log:
        begun = time.monotonic()
        with subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log) as process:
            while not clusters.site.ends(job.topic):
                if process.poll() or time.monotonic() > begun + PATIENCE:
                    raise RuntimeError(f"no record after {time.monotonic() - begun:.0f} s: see {LOG}")
                time.sleep(0.1)
            taken = time.monotonic() - begun
    if process.returncode:
        raise RuntimeError(f"make deploy-spark-job ended with {process.returncode}: see {LOG}")
    return taken


def _batches(job: Job) -> list[float]:
    """Seconds of the batches that its status shows, after the first ones."""
    found: dict[int, float] = {}
    deadline = time.monotonic() + PATIENCE
    while len(found) < WARM + BATCHES and time.monotonic() < deadline:
        status = job.look()["status"]
        if status["batch"] is not None:
            found[status["batch"]] = status["batch_seconds"]
        time.sleep(1)
    return list(found.values())[WARM:]
