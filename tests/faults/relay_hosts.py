"""Harm to the hosts under a relay, and its mending: nodes, brokers, the sink's disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from faults.relay_site import BROKER, SINK, Process, Site, wait
from kafka.admin import KafkaAdminClient

SPARE, DATA = 64, "/var/lib/kafka"  # megabytes that the sink's small file system has left, and where it is mounted


def cut(site: Site, host: str) -> None:
    """A node no longer reaches the ResourceManager, nor HDFS."""
    site.run(host, "ip", "route", "add", "blackhole", f"{site.lab.ip('master')}/32")


def join(site: Site, host: str) -> None:
    site.run(host, "ip", "route", "del", "blackhole", f"{site.lab.ip('master')}/32")
    all_nodes(site)


def all_nodes(site: Site) -> None:
    wait(lambda: site.yarn("metrics")["clusterMetrics"]["activeNodes"] == 2, "both nodes are active")


def never_restart(site: Site, host: str, unit: str) -> None:
    site.shell(
        host,
        f"mkdir -p /run/systemd/system/{unit}.service.d"
        f" && printf '[Service]\\nRestart=no\\n' >/run/systemd/system/{unit}.service.d/fault.conf && systemctl daemon-reload",
    )


def restart_again(site: Site, host: str, unit: str) -> None:
    site.shell(host, f"rm -r /run/systemd/system/{unit}.service.d && systemctl daemon-reload && systemctl start {unit}")
    all_nodes(site)


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
    with suppress(Exception):
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
