"""A scope that each node's YARN decides, and several owners on one node, on the lab's real parts."""

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e import yarn_application
from e2e.story import Story
from lab import inventory, lifecycle, podman
from lab.topology import DEFAULT_NAME, ROOT, Lab

NODES = ("nm1", "nm2")
CONF = "/etc/hadoop"
EXECUTOR = "yarn.nodemanager.container-executor.class"
LINUX = f"""
  <property><name>{EXECUTOR}</name>
    <value>org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor</value></property>
  <property><name>yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users</name>
    <value>false</value></property>
</configuration>"""
SITE = f"{CONF}/yarn-site.xml"
CFG = f"{CONF}/container-executor.cfg"


@dataclass
class Site:
    """The lab, its map, and a folder of records."""

    lab: Lab
    records: Path
    nat_map: dict[str, Any]

    def map_of(self, owner: str, **changed: Any) -> dict[str, Any]:
        """A map of cluster hq alone, of this owner."""
        clusters = {"hq": deepcopy(self.nat_map["clusters"]["hq"])}
        return {"owner": owner, "scope": {"users": ["yarn"]}, "clusters": clusters} | changed

    def play(self, playbook: str, nat_map: Any, *arguments: str) -> tuple[int, str]:
        """Run a playbook with this map; each owner has records of its own."""
        records = f"natmap_records={self.records / nat_map['owner']}"
        more = ["-e", records, "-e", json.dumps({"nat_map": nat_map})]
        return Story(self.lab).playbook(playbook, *more, *arguments)

    def planned(self, nat_map: dict[str, Any], *arguments: str) -> str:
        """The change plan as an operator gets it."""
        assert self.play("kafka.natmap.plan", nat_map, *arguments)[0] == 0
        return (self.records / nat_map["owner"] / "plan.json").read_text()

    def clear(self) -> None:
        """Take every owner off that is on a node."""
        listing = ("sh", "-c", "ls -d /var/lib/kafka-natmap/*/ 2>&1 || true")
        found = {Path(line).name for node in NODES for line in self.run(node, *listing).splitlines() if line[-1] == "/"}
        for owner in sorted(found):
            assert self.play("kafka.natmap.remove", self.map_of(owner))[0] == 0

    def run(self, node: str, *command: str, stdin: bytes | None = None) -> str:
        """A command on a node, as root."""
        return podman.execute(self.lab.container(node), *command, stdin=stdin)

    def dial(self, node: str, user: str, broker: str) -> None:
        """One connection of a user to a broker's advertised address, whatever becomes of it."""
        self.run(node, "runuser", "-u", user, "--", "sh", "-c", f"kcat -L -b {broker} -m 2 || true")

    def carried(self, owner: str, node: str, broker: str) -> int:
        """How many connections to a broker this owner's rules have rewritten on a node; -1 where there are none."""
        table = f"kafka_natmap_{owner.replace('-', '_')}"
        listing = self.run(node, "sh", "-c", f"nft list set ip {table} carried_hq 2>&1 || true")
        found = re.search(re.escape(broker.replace(":", " . ")) + r" counter packets (\d+)", listing)
        return int(found.group(1)) if found else -1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Nothing of these owners on any node, before and after."""
    lab = lifecycle.standing(os.environ.get("KAFKA_NATMAP_LAB", DEFAULT_NAME))
    assert lab, "no lab is up: run `make lab-up`"
    assert lab.has(*NODES, "hq-1", "router", "master")
    folder = ROOT / "inventory" if lab.name == DEFAULT_NAME else inventory.path(lab.name)
    nat_map = yaml.safe_load((folder / "group_vars/all/nat_map.yml").read_text())["nat_map"]
    here = Site(lab, tmp_path_factory.mktemp("records"), nat_map)
    yield here
    here.clear()


@pytest.fixture(autouse=True)
def _clean(site: Site) -> None:
    site.clear()


def advertised(nat_map: dict[str, Any]) -> list[str]:
    """Where the brokers say that they are."""
    return [broker["advertised"] for broker in nat_map["clusters"]["hq"]["brokers"]]


def test_containers_of_the_default_executor_are_rewritten(site: Site) -> None:
    """A real application of another user, in a container of the NodeManager's user: the counter moves."""
    nat_map = site.map_of("discovering", scope={"discover": "yarn"})
    assert site.play("apply", nat_map)[0] == 0
    assert f"{EXECUTOR} is DefaultContainerExecutor" in site.planned(nat_map)
    broker = advertised(nat_map)[0]
    before = {node: site.carried("discovering", node, broker) for node in NODES}
    source = Path(yarn_application.__file__).read_bytes()
    command = f"kcat -L -b {broker} -m 5"
    said = json.loads(site.run("nm1", "python3", "-", "alice", "http://master:8088", command, stdin=source))
    assert said["code"] == 0, said
    assert site.carried("discovering", said["node"], broker) > before[said["node"]]


@pytest.fixture
def linux_executor(site: Site) -> Iterator[str]:
    """A node whose files say LinuxContainerExecutor without limit-users, and who may submit."""
    before = site.run("nm2", "cat", SITE)
    site.run("nm2", "tee", SITE, stdin=before.replace("</configuration>", LINUX).encode())
    site.run("nm2", "tee", CFG, stdin=b"min.user.id=1000\nbanned.users=yarn,hdfs\n")
    yield "nm2"
    site.run("nm2", "tee", SITE, stdin=before.encode())
    site.run("nm2", "rm", CFG)


def test_submitters_are_rewritten_under_the_linux_executor(site: Site, linux_executor: str) -> None:
    """The executor's own program does not come with the jars; a process of a submitter's uid stands for a container."""
    nat_map = site.map_of("discovering", scope={"discover": "yarn"})
    assert site.play("apply", nat_map, "--limit", linux_executor)[0] == 0
    said = site.planned(nat_map, "--limit", linux_executor)
    for part in ("limit-users is false", "min.user.id 1000", "was changed after the NodeManager was started"):
        assert part in said
    broker = advertised(nat_map)[1]
    for user, moves in (("alice", True), ("yarn", False)):
        before = site.carried("discovering", linux_executor, broker)
        site.dial(linux_executor, user, broker)
        assert (site.carried("discovering", linux_executor, broker) > before) is moves


def test_a_node_without_its_files_is_refused_with_the_mend(site: Site) -> None:
    site.run("nm2", "mv", SITE, SITE + ".away")
    try:
        code, output = site.play("apply", site.map_of("discovering", scope={"discover": "yarn"}))
    finally:
        site.run("nm2", "mv", SITE + ".away", SITE)
    assert code != 0
    assert "yarn-site.xml was not found" in output
    assert "name users, groups or a uid_range" in output


def test_one_owner_takes_over_and_gives_back(site: Site) -> None:
    lower, upper = site.map_of("lower"), site.map_of("upper")
    assert site.play("apply", lower)[0] == 0
    code, output = site.play("apply", upper)
    assert code != 0
    assert "is rewritten here by owner lower" in output
    assert "take_over: [lower]" in output
    assert site.carried("upper", "nm1", advertised(upper)[0]) == -1

    code, output = site.play("apply", upper | {"take_over": ["lower"]})
    assert code == 0
    assert site.play("apply", lower)[0] == 0, "its owner may apply again"
    broker = advertised(upper)[0]
    for owner, moves in (("upper", True), ("lower", False)):
        before = site.carried(owner, "nm1", broker)
        site.dial("nm1", "yarn", broker)
        assert (site.carried(owner, "nm1", broker) > before) is moves
    assert site.play("kafka.natmap.remove", upper)[0] == 0
    before = site.carried("lower", "nm1", broker)
    site.dial("nm1", "yarn", broker)
    assert site.carried("lower", "nm1", broker) > before


def audited(site: Site, node: str) -> list[dict[str, Any]]:
    """What was done on a node, in its order."""
    return [json.loads(line) for line in site.run(node, "cat", "/var/lib/kafka-natmap/audit.jsonl").splitlines()]


def at_once(site: Site, *maps: dict[str, Any]) -> list[tuple[int, str]]:
    """Apply these maps, all at the same time."""
    with ThreadPoolExecutor(len(maps)) as pool:
        return list(pool.map(lambda one: site.play("apply", one), maps))


def test_two_owners_at_once_never_hold_the_same_pair(site: Site) -> None:
    """Both are planned on an empty node; whoever comes second is refused, and the node holds one of them, whole."""
    lower, upper = site.map_of("lower"), site.map_of("upper")
    ends = at_once(site, lower, upper)
    for node in NODES:
        holders = [one for one in ("lower", "upper") if site.carried(one, node, advertised(upper)[0]) >= 0]
        assert len(holders) == 1
    assert any(code != 0 for code, _ in ends)
    assert any("is rewritten here by owner" in output for _, output in ends)


def test_one_owner_applied_twice_at_once_ends_as_one_of_the_two(site: Site) -> None:
    more, less = site.map_of("upper"), site.map_of("upper")
    less["clusters"]["hq"]["brokers"].pop()
    lines = {node: len(audited(site, node)) for node in NODES}
    ends = at_once(site, more, less)
    for node in NODES:
        held = [site.carried("upper", node, broker) >= 0 for broker in advertised(more)]
        assert held in ([True, True, True], [True, True, False])
        results = [line["result"] for line in audited(site, node)[lines[node] :]]
        assert set(results) <= {"confirmed", "refused"}
        assert "confirmed" in results
    assert any(code == 0 for code, _ in ends)
