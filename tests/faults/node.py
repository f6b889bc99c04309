"""A node of the lab as the fault tests see it: its program, asked as Ansible asks it, and the state that is ours."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.kafka.natmap.plugins.filter import natmap as filters
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from lab import podman, topics
from lab.topology import ROOT, Lab

HERE = Path(__file__).parent
TEXTS = {
    "nftables": ("nftables.nft.j2", "nftables"),
    "notrack": ("notrack.nft.j2", "exempt"),
    "iptables": ("iptables.rules.j2", "iptables"),
    "hosts": ("hosts.j2", "hosts"),
}
PROGRAMS = ROOT / "ansible/roles/switch/files"
JINJA = Environment(
    loader=FileSystemLoader(ROOT / "templates"), trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
)
Map = dict[str, Any]
State = dict[str, str]


@dataclass
class Node:
    """A host of the group yarn_nodes."""

    lab: Lab
    name: str
    stage: str = "/run/kafka-natmap/stage-faults"
    _facts: dict[str, Any] = field(default_factory=dict)

    @property
    def container(self) -> str:
        return self.lab.container(self.name)

    @property
    def process(self) -> int:
        """Its first process, as this machine counts; another one after each restart."""
        return int(podman.podman("inspect", "-f", "{{.State.Pid}}", self.container))

    def run(self, *command: str, stdin: bytes | None = None) -> str:
        """Run a program there as root."""
        return podman.execute(self.container, *command, stdin=stdin)

    def place_program(self) -> None:
        """Put the node program and kafka-python where the module of Ansible puts them for a run."""
        self.run("mkdir", "-p", self.stage)
        packed = {"kafka-natmap.pyz": filters.program(str(PROGRAMS)), "kafka-python.zip": filters.kafka_python(None)}
        for name, content in packed.items():
            self.run("sh", "-c", f"cat > {self.stage}/{name}", stdin=base64.b64decode(content or ""))

    def command(self, verb: str) -> list[str]:
        """How a verb of the program is run on the node, from here."""
        return ["podman", "exec", "-i", self.container, "python3", "-I", f"{self.stage}/kafka-natmap.pyz", verb]

    def ask(self, verb: str, question: str) -> dict[str, Any]:
        """Run a verb and wait for its answer."""
        done = subprocess.run(self.command(verb), input=question, capture_output=True, text=True, check=False)
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise RuntimeError(f"{verb} on {self.name}: {done.stderr.strip()}") from None
        return answer

    def inspect(self, nat_map: Map) -> dict[str, Any]:
        """What `inspect` answers for a map, taken once for each."""
        key = json.dumps(nat_map)
        if key not in self._facts:
            sample = json.loads(filters.read_map(nat_map)["sample"])
            kinds = ("nftables", "iptables", "notrack")
            texts = [JINJA.get_template(TEXTS[kind][0]).render(plan=sample) for kind in kinds]
            self._facts[key] = self.ask("inspect", filters.questions(nat_map, *texts))
        found: dict[str, Any] = self._facts[key]
        return found

    def await_brokers(self, seconds: float = 120) -> None:
        """Until every broker proves itself to this node. :raises TimeoutError:"""
        asked = json.loads(self.request(self.map([(1, "hq-1"), (2, "hq-2"), (3, "hq-3")])))["bundle"]["probe"]
        question = json.dumps({**asked[0], "path": "reachable"})
        command = [*self.command("probe"), "--kafka-python", f"{self.stage}/kafka-python.zip"]
        deadline, seen = time.monotonic() + seconds, ""
        while time.monotonic() < deadline:
            said = subprocess.run(command, input=question, capture_output=True, text=True, check=False).stdout
            seen = " ".join(row["verdict"] for row in json.loads(said or "{}").get("brokers", []))
            if seen == "OK OK OK":
                return
            # A broker that came back a moment ago cannot lead yet.
            with contextlib.suppress(podman.PodmanError):
                topics.balance(self.lab)
        raise TimeoutError(f"the brokers do not prove themselves to {self.name}: {seen or 'no answer'}")

    def map(self, brokers: list[tuple[int, str]], owner: str = "faults", mechanism: str = "nftables") -> Map:
        """A NAT map: each broker id with the host at whose NAT address it is reachable."""
        rows = [
            {
                "id": number,
                "advertised": f"{self.lab.ip(f'hq-{number}')}:9092",
                "reachable": f"{self.lab.nat_ip(host)}:9092",
            }
            for number, host in brokers
        ]
        if mechanism == "iptables":
            # A name that nothing here resolves asks for a hosts line too.
            rows.append({"id": 9, "advertised": "hq-9.example:9092", "reachable": f"{self.lab.nat_ip('hq-1')}:9099"})
        clusters = {"hq": {"brokers": rows}}
        return {"owner": owner, "scope": {"users": ["yarn"]}, "mechanism": mechanism, "clusters": clusters}

    def request(self, nat_map: Map, window: int = 60, probe: bool = True) -> str:
        """What the switch is asked for this map, made as the roles make it."""
        groups, facts = ["yarn_nodes"], self.inspect(nat_map)
        plan = filters.node_plan(nat_map, facts, self.name, groups)
        if plan["problems"]:
            raise ValueError("; ".join(plan["problems"]))
        whole = json.loads(plan["text"])
        texts = {kind: JINJA.get_template(file).render(plan=whole) for kind, (file, key) in TEXTS.items() if whole[key]}
        settings = {"plan": whole, "python": facts["interpreter"], "drift": "repair"}
        kinds = {"main": "kafka-natmap", "watch": "kafka-natmap-watch"}
        units = {kind: JINJA.get_template(f"{name}.service.j2").render(settings) for kind, name in kinds.items()}
        made = filters.node_bundle(nat_map, facts, self.name, groups, texts, units, "repair")
        asked = json.loads(filters.switch_request(made, probe, window, "tests"))
        for question in asked["bundle"]["probe"]:
            question["deadline"] = min(question["deadline"], window / 2)
        return json.dumps(asked)

    def remove(self, owner: str = "faults") -> None:
        """Take all of the owner off."""
        self.ask("switch", json.dumps({"bundle": filters.removal(owner), "who": "tests"}))

    def state(self) -> State:
        """All that is ours on the node, now: rules without counters, and files by content; see state.py."""
        return self._look()[0]

    def await_state(self, wanted: Mapping[str, str | None], seconds: float) -> tuple[State, float]:
        """What the node holds as soon as it is as wanted, or when the time is over; and when that was (time.monotonic)."""
        return self._look(str(seconds), json.dumps(wanted), timeout=seconds + 60)

    def _look(self, *arguments: str, timeout: float = 60) -> tuple[State, float]:
        code = (HERE / "state.py").read_bytes()
        said = podman.execute(self.container, "python3", "-I", "-", *arguments, stdin=code, timeout=timeout)
        found = json.loads(said)
        return found["state"], found["at"]

    def restart(self) -> float:
        """Cut the power, and start it again; when it was started (time.monotonic)."""
        podman.podman("kill", "--signal", "KILL", self.container)
        podman.podman("wait", self.container)
        begun = time.monotonic()
        podman.podman("start", self.container)
        return begun

    def processes(self, *marks: bytes) -> list[int]:
        """The programs there whose command line holds one of these, as process numbers of this machine."""
        home = os.readlink(f"/proc/{self.process}/ns/pid")
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_bytes()
                if any(mark in command for mark in marks) and os.readlink(entry / "ns/pid") == home:
                    found.append(int(entry.name))
            except OSError:
                continue
        return found
