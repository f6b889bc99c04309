"""What every part of a lab has to answer before the lab counts as up, and where to look when it does not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.podman import PodmanError, execute
from lab.progress import Clock
from lab.topology import DR_NAME, KAFKA_PORT, Lab

_PROBE = Path(__file__).with_name("probe.py")


@dataclass(frozen=True)
class Check:
    """Ask `question` (a function of probe.py) from a host; `units` are the (host, unit) that answer for it."""

    part: str
    asked_from: str
    question: str
    arguments: dict[str, Any]
    units: tuple[tuple[str, str], ...]


def checks(lab: Lab) -> list[Check]:
    """The questions that fit the hosts this lab has."""
    return [*_brokers(lab), *_router(lab), *_cluster(lab)]


def _brokers(lab: Lab) -> Iterable[Check]:
    hq = lab.hq()
    if hq:
        names = {h[-1]: f"{lab.ip(h)}:{KAFKA_PORT}" for h in hq}
        yield Check(
            "HQ's Kafka",
            hq[0],
            "kafka",
            {"bootstrap": list(names.values()), "brokers": names},
            tuple((h, "kafka") for h in hq),
        )
    if lab.has("dr-1"):
        yield Check(
            "HQ's second Kafka",
            "dr-1",
            "kafka",
            {"bootstrap": [f"{DR_NAME}:{KAFKA_PORT}"], "brokers": {"11": f"{DR_NAME}:{KAFKA_PORT}"}},
            (("dr-1", "kafka"),),
        )
    if lab.has("kafka"):
        address = f"{lab.ip('kafka')}:{KAFKA_PORT}"
        yield Check(
            "the site's Kafka",
            "kafka",
            "kafka",
            {"bootstrap": [address], "brokers": {"21": address}},
            (("kafka", "kafka"),),
        )


def _router(lab: Lab) -> Iterable[Check]:
    site = [h for h in ("nm1", "nm2", "gateway", "edge", "master", "kafka") if lab.has(h)]
    if lab.has("router") and site and lab.remote():
        yield Check(
            "the router",
            site[0],
            "nat",
            {
                "open_addresses": [f"{lab.nat_ip(b)}:{lab.nat_port(b)}" for b in lab.remote()],
                "closed_addresses": [f"{lab.ip(b)}:{KAFKA_PORT}" for b in lab.remote()],
            },
            (("router", "nftables"), ("router", "nat-addresses"), (site[0], "default-route")),
        )


def _cluster(lab: Lab) -> Iterable[Check]:
    if not lab.has("master"):
        return
    nodes = [h for h in ("nm1", "nm2") if lab.has(h)]
    asked_from = "edge" if lab.has("edge") else "master"
    yield Check(
        "HDFS",
        asked_from,
        "hdfs",
        {"url": "http://master:9870", "users": ["yarn", "etl"]},
        tuple(("master", u) for u in ("hdfs-namenode", "hdfs-datanode", "hdfs-layout")),
    )
    yield Check(
        "YARN",
        asked_from,
        "yarn",
        {"url": "http://master:8088", "nodes": len(nodes)},
        (("master", "yarn-resourcemanager"), *((n, "yarn-nodemanager") for n in nodes)),
    )


def ask(lab: Lab, check: Check, seconds: float) -> str:
    """Ask until it answers or `seconds` are over; returns "" or what is wrong."""
    try:
        execute(
            lab.container(check.asked_from),
            "python3",
            "-",
            str(seconds),
            check.question,
            json.dumps(check.arguments),
            stdin=_PROBE.read_bytes(),
            timeout=seconds + 30,
        )
    except PodmanError as error:
        return error.said.splitlines()[-1]
    return ""


def wait(lab: Lab, seconds: float, clock: Clock) -> list[tuple[Check, str]]:
    """Ask every part at once, tell of each as it answers; returns those that do not, with what is wrong."""
    failed: list[tuple[Check, str]] = []
    todo = checks(lab)
    deadline = time.monotonic() + seconds
    with ThreadPoolExecutor(max(1, len(todo))) as pool:
        pending = {pool.submit(ask, lab, check, max(1.0, deadline - time.monotonic())): check for check in todo}
        for future in as_completed(pending):
            check, wrong = pending[future], future.result()
            if wrong:
                failed.append((check, wrong))
            clock.say(f"  {check.part} {f'does not answer: {wrong}' if wrong else 'answers'}")
    return failed


def evidence(lab: Lab, check: Check, count: int = 25) -> str:
    """State and last log lines of each unit behind a part that does not answer."""
    found = []
    for host, unit in check.units:
        found.append(f"--- {lab.container(host)}: {unit}")
        for command in (
            ("systemctl", "show", "-p", "ActiveState,SubState,Result,NRestarts", unit),
            ("journalctl", "-u", unit, "-n", str(count), "--no-pager", "-o", "cat"),
        ):
            try:
                lines = execute(lab.container(host), *command).splitlines()
                found += [line[:200] for line in lines if line.strip()]
            except PodmanError as error:
                found.append(str(error))
    return "\n".join(found)
