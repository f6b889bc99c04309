"""Harm to the hosts under a relay, and its mending: nodes, brokers, the sink's disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from faults.relay_site import BROKER, SINK, Process, Site, wait
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

SPARE, DATA = 64, "/var/lib/kafka"  # megabytes that the sink's small file system has left, and where it is mounted


@contextmanager
def cut_off(site: Site, host: str) -> Iterator[None]:
    """A node no longer reaches the ResourceManager, nor HDFS."""
    route = f"blackhole {site.lab.ip('master')}/32".split()
    site.run(host, "ip", "route", "add", *route)
    try:
        yield
    finally:
        site.run(host, "ip", "route", "del", *route)
        all_nodes(site)


@contextmanager
def dead(site: Site, host: str, unit: str) -> Iterator[None]:
    """kill -9 of a node's service and of all that it started; it stays away."""
    folder = f"/run/systemd/system/{unit}.service.d"
    site.shell(
        host, f"mkdir -p {folder} && printf '[Service]\\nRestart=no\\n' >{folder}/fault.conf && systemctl daemon-reload"
    )
    try:
        site.run(host, "systemctl", "kill", "-s", "KILL", unit)
        yield
    finally:
        site.shell(host, f"rm -r {folder} && systemctl daemon-reload && systemctl start {unit}")
        all_nodes(site)


def all_nodes(site: Site) -> None:
    wait(lambda: site.yarn("metrics")["clusterMetrics"]["activeNodes"] == 2, "both nodes are active")


def restart_broker(site: Site, host: str, kill: bool) -> None:
    [before] = site.processes(BROKER, host=host)
    if kill:
        before.kill()
    else:
        site.run(host, "systemctl", "restart", "kafka")
    wait(lambda: others(site.processes(BROKER, host=host), before), f"the broker of {host} starts again")
    broker_answers(site, host)


def broker_answers(site: Site, host: str) -> None:
    """Wait until a broker answers."""
    address = site.lab.ip(host)

    def answers() -> bool:
        with site.inside(host):
            KafkaAdminClient(bootstrap_servers=[f"{address}:9092"]).close()
        return True

    wait(lambda: quietly(answers), f"the broker of {host} answers")


def others(found: list[Process], before: Process) -> list[Process]:
    return [one for one in found if one.pid != before.pid]


def quietly(true: Callable[[], bool]) -> bool:
    """What it says, and no while the brokers do not answer."""
    with suppress(KafkaError, OSError):
        return true()
    return False


def small_disk(site: Site) -> None:
    """Move the sink's data to a small file system of its own."""
    large_disk(site)
    site.run(SINK, "systemctl", "stop", "kafka")
    size = int(site.shell(SINK, f"du -sm {DATA}").split()[0]) + SPARE
    site.shell(
        SINK,
        f"cp -a {DATA} /run/kafka-data && mount -t tmpfs -o size={size}m tmpfs {DATA}"
        f" && cp -a /run/kafka-data/. {DATA} && rm -r /run/kafka-data",
    )
    site.run(SINK, "systemctl", "start", "kafka")
    broker_answers(site, SINK)


def large_disk(site: Site) -> None:
    """Take the small file system away again, and what was written there with it."""
    if "tmpfs" in site.shell(SINK, f"df --output=fstype {DATA}"):
        site.run(SINK, "systemctl", "stop", "kafka")
        site.run(SINK, "umount", DATA)
        site.run(SINK, "systemctl", "start", "kafka")
        broker_answers(site, SINK)
