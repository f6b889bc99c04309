"""What befalls a relay: each fault does its harm, mends it, and returns when it was mended (monotonic seconds)."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from faults.relay_hosts import DATA, cut_off, dead, quietly, restart_broker, small_disk
from faults.relay_run import BACKLOG, BATCH, PARTITIONS, PATIENCE, Run
from faults.relay_site import EXECUTOR, HEADQUARTERS, NAMENODE, SINK, wait
from kafka.admin import KafkaAdminClient, NewPartitions
from kafka.errors import KafkaError

NODEMANAGER = "yarn-nodemanager"
LOST = 20  # seconds after which the ResourceManager takes a silent node for lost: the lab's yarn-site.xml
AWAY = 60  # seconds
PREFERRED = 0  # election type: KIP-460


@dataclass(frozen=True)
class Case:
    """A fault, and what is to come of it.

    `states` have to be told; `repeats` is the announced bound; what passes uses up no further attempt of YARN's, where one
    is used up `attempts` says so (0: it depends on where YARN placed what). Without `own` the relay is deployed before.
    """

    name: str
    fault: Callable[[Run], float]
    states: tuple[str, ...] = ()
    repeats: int = 0
    attempts: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    own: bool = False
    jumped: bool = False


def executor_killed(run: Run) -> float:
    """kill -9 of an executor in the middle of a batch."""
    with run.middle_of_a_batch():
        run.processes(EXECUTOR)[0].kill()
    return time.monotonic()


def driver_killed(run: Run) -> float:
    """kill -9 of the driver in the middle of a batch."""
    driver = run.driver
    with run.middle_of_a_batch():
        driver.kill()
    return time.monotonic()


def driver_killed_before_commit(run: Run) -> float:
    """kill -9 of the driver when a batch is in the sink, but not yet committed: HDFS stands still meanwhile."""
    driver = run.driver
    batch, planned, before = run.begun()
    with run.site.frozen("master", NAMENODE):
        wait(lambda: run.written() == before + planned, "the whole batch is in the sink", pause=0.005)
        driver.kill()
    if str(batch) in wait(lambda: run.site.names(f"{run.state_dir}/checkpoint/commits"), "HDFS answers"):
        raise TimeoutError("the batch was committed too soon for the fault")
    return time.monotonic()


def node_dies(run: Run) -> float:
    """kill -9 of the NodeManager that has the driver, and of its containers with it."""
    attempt, begun = run.status["attempt"], time.monotonic()
    with dead(run.site, run.driver.host, NODEMANAGER):
        _next_attempt(run, attempt, begun)
    return begun


def node_with_zombies(run: Run) -> float:
    """The ResourceManager loses the node that has the driver, whose containers live on, in the middle of a batch."""
    attempt, host = run.status["attempt"], run.driver.host
    with ExitStack() as harm:
        with run.middle_of_a_batch():
            harm.enter_context(cut_off(run.site, host))
        begun = time.monotonic()
        _next_attempt(run, attempt, begun)
    return begun


def zombie_wakes_late(run: Run) -> float:
    """An executor freezes in the middle of a batch, its node is lost, and it writes on when others have done its work."""
    with ExitStack() as harm:
        with run.middle_of_a_batch() as batch:
            executor = run.processes(EXECUTOR)[0]
            harm.enter_context(cut_off(run.site, executor.host))
            executor.kill(signal.SIGSTOP)
            harm.callback(executor.wake)
        begun = time.monotonic()
        wait(lambda: (run.status["batch"] or 0) >= batch, "others do its batch", PATIENCE)
        run.progress(begun)
    return begun


def headquarters_restarts(run: Run) -> float:
    """Each of headquarters' brokers restarts, one by kill -9; leaders move there and back."""
    for host in run.site.lab.hq():
        restart_broker(run.site, host, kill=host == "hq-2")
        _in_sync(run)
    with run.site.inside(HEADQUARTERS):
        admin = KafkaAdminClient(bootstrap_servers=run.site.bootstrap(HEADQUARTERS))
        with suppress(KafkaError):  # of a partition that its preferred broker leads already
            admin.perform_leader_election(PREFERRED, {run.name: list(range(PARTITIONS))})
        admin.close()
    return time.monotonic()


def sink_restarts(run: Run) -> float:
    """The sink's broker dies by kill -9, and later restarts in good order."""
    for kill in (True, False):
        begun = time.monotonic()
        restart_broker(run.site, SINK, kill)
        run.progress(begun)
    return time.monotonic()


def routes_removed(run: Run) -> float:
    """The NAT map is removed from the nodes, and applied again."""
    begun = time.monotonic()
    run.site.play("kafka.natmap.remove")
    run.until("WAITING", after=begun)
    run.site.play("apply")
    return time.monotonic()


def sink_disk_full(run: Run) -> float:
    """The sink's disk fills up, its broker dies of it, and space is made."""
    site = run.site
    small_disk(site)
    run.progress(time.monotonic())
    ballast = f"{DATA}/ballast"
    begun = time.monotonic()
    site.shell(SINK, f"fallocate -l $(($(df --output=avail -B1 {DATA} | tail -1) - 4000000)) {ballast}")
    run.until("WAITING", after=begun)
    full = site.shell(SINK, f"df --output=avail -BK {DATA} | tail -1").strip()
    if int(full.rstrip("K")) > 4000:
        raise TimeoutError(f"the disk did not fill up, {full} are left")
    site.shell(SINK, f"rm {ballast}")
    return time.monotonic()


def namenode_away(run: Run) -> float:
    """The NameNode is away for a minute."""
    waits = run.status["waits"]
    run.site.run("master", "systemctl", "stop", "hdfs-namenode")
    time.sleep(AWAY)
    run.site.run("master", "systemctl", "start", "hdfs-namenode")
    mended = time.monotonic()
    # It cannot tell while its own state directory is away; the next status says that it waited.
    run.progress(mended)
    if run.status["waits"] <= waits:
        raise TimeoutError("it never told that it waited")
    return mended


def two_copies(run: Run) -> float:
    """Two people deploy the same relay at the same time: one is told that the other's owns the state directory."""
    begun = time.monotonic()
    deploy = ["kafka.natmap.deploy_spark_job", *run.arguments()]
    with run.site.playing(*deploy) as one, run.site.playing(*deploy) as other:
        said = [process.communicate(timeout=900)[0] for process in (one, other)]
    codes = sorted((one.returncode, other.returncode))
    owners = [name for name in run.site.names(run.state_dir) if name.startswith("owner.")]
    if codes[0] or not codes[1] or len(owners) > 1:
        raise RuntimeError(f"owners {owners}, the deployments ended with {codes}: {[text[-800:] for text in said]}")
    return begun


def nothing(run: Run) -> float:
    """Nothing befalls it but its records."""
    begun = time.monotonic()
    run.progress(begun)
    return begun


def topic_recreated(run: Run) -> float:
    """Headquarters deletes the topic and creates it again, with more records than before; a replay reads the new one."""
    run.starve()
    with run.site.inside(HEADQUARTERS):
        admin = KafkaAdminClient(bootstrap_servers=run.site.bootstrap(HEADQUARTERS))
        admin.delete_topics([run.name])
        wait(lambda: run.name not in admin.list_topics(), "the topic is gone")
        admin.close()
    begun = time.monotonic()
    run.fill(HEADQUARTERS, 2 * BACKLOG)
    told = run.until("HALTED")
    if not told.status["cause"].startswith(("TOPIC_RECREATED", "TOPIC_MISSING")):
        raise RuntimeError(f"halted for another reason: {told.status['cause']}")
    run.gone(told.status["application"])
    if run.deploy(code=None).find("TOPIC_RECREATED") < 0:
        raise RuntimeError("a new deployment did not refuse the other topic of that name")
    run.begin_replay("again")
    run.feed()
    run.deploy()
    return begun


def partitions_added(run: Run) -> float:
    """Headquarters adds partitions, and records in them; the sink gets them too (`grow: true`)."""
    begun = time.monotonic()
    _add_partitions(run, HEADQUARTERS, PARTITIONS + 3)
    wait(lambda: run.site.partitions(SINK, run.name) == PARTITIONS + 3, "the sink's topic grows")
    return begun


def partitions_added_at_headquarters(run: Run) -> float:
    """Headquarters adds partitions that the sink lacks: it halts before their first record, and goes on when they are there."""
    _add_partitions(run, HEADQUARTERS, PARTITIONS + 3)
    told = run.until("HALTED")
    if not told.status["cause"].startswith("SINK_PARTITIONS"):
        raise RuntimeError(f"halted for another reason: {told.status['cause']}")
    run.gone(told.status["application"])
    _add_partitions(run, SINK, PARTITIONS + 3)
    begun = time.monotonic()
    run.deploy()
    return begun


def _add_partitions(run: Run, host: str, count: int) -> None:
    if host == HEADQUARTERS:
        run.starve()
    with run.site.inside(host):
        admin = KafkaAdminClient(bootstrap_servers=run.site.bootstrap(host))
        admin.create_partitions({run.name: NewPartitions(count)})
        admin.close()
    if host == HEADQUARTERS:
        run.feed(count)


def _next_attempt(run: Run, attempt: int, after: float) -> None:
    wait(lambda: run.status["attempt"] > attempt, "the next attempt", PATIENCE)
    run.progress(after)


def _in_sync(run: Run) -> None:
    def full() -> bool:
        with run.site.inside(HEADQUARTERS):
            admin = KafkaAdminClient(bootstrap_servers=run.site.bootstrap(HEADQUARTERS))
            [topic] = admin.describe_topics([run.name])
            admin.close()
        return all(len(one["isr"]) == len(one["replicas"]) for one in topic["partitions"])

    wait(lambda: quietly(full), "all replicas are in sync")


CASES = (
    Case("executor-killed", executor_killed, ("RUNNING",)),
    Case("driver-killed", driver_killed, ("RUNNING",), attempts=2),
    Case("driver-killed-before-commit", driver_killed_before_commit, ("RUNNING",), attempts=2),
    Case("node-dies", node_dies, ("RUNNING",), attempts=2),
    Case("node-with-zombies", node_with_zombies, ("RUNNING",), attempts=2, repeats=BATCH),
    Case("zombie-wakes-late", zombie_wakes_late, ("RUNNING",), attempts=0, repeats=BATCH),
    Case("headquarters-restarts", headquarters_restarts, ("RUNNING",)),
    Case("sink-restarts", sink_restarts, ("RUNNING",)),
    Case("routes-removed", routes_removed, ("WAITING", "RUNNING")),
    Case("namenode-away", namenode_away, ("RUNNING",)),
    Case("two-copies", two_copies, ("RUNNING",), own=True),
    Case("jumped-timestamps", nothing, ("RUNNING",), jumped=True),
    Case("topic-recreated", topic_recreated, ("HALTED", "RUNNING")),
    Case("partitions-added", partitions_added, ("RUNNING",), settings={"sink": {"grow": True}}),
    Case("partitions-the-sink-lacks", partitions_added_at_headquarters, ("HALTED", "RUNNING")),
    # The last: what it writes goes with the small file system.
    Case("sink-disk-full", sink_disk_full, ("WAITING", "RUNNING")),
)
