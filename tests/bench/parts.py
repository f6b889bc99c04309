"""What the figures are taken with: programs on nodes that run beside, pairs taken in turn, playbooks as whole processes."""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults.node import Node
from lab import inventory, podman
from lab.topology import BUILD, ROOT, Lab

HERE = Path(__file__).parent
LOG = BUILD / "log/bench-playbook.log"


class Helper:
    """A script of this folder that runs on a node, as a user, until it has answered."""

    def __init__(self, node: Node, script: str, *arguments: str, user: str = "root") -> None:
        self.node, self.script = node, script
        podman.execute(node.container, "sh", "-c", f"cat > /run/{script}", stdin=(HERE / script).read_bytes())
        command = ["podman", "exec", "-i", "--user", user, node.container, "python3", f"/run/{script}", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def has_said(self) -> bool:
        """Whether a line waits to be read."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def end(self) -> str:
        """Close its standard input, which it takes as the end; what it has printed."""
        out, _ = self.process.communicate(timeout=300)
        if self.process.returncode:
            raise RuntimeError(f"{self.script} on {self.node.name} ended with {self.process.returncode}")
        return out

    def answer(self) -> dict[str, Any]:
        """The JSON object that it prints at its end."""
        found: dict[str, Any] = json.loads(self.end())
        return found


@contextmanager
def listening(node: Node, ports: Mapping[int, str]) -> Iterator[None]:
    """Listeners on a node: port to the byte that it says."""
    helper = Helper(node, "listen.py", *(f"{port}={said}" for port, said in ports.items()))
    if helper.line().strip() != "ready":
        raise RuntimeError(f"nothing listens on {node.name}")
    try:
        yield
    finally:
        helper.end()


def in_turn(rounds: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Take several figures in turn, so that whatever else the machine does falls on all of them."""
    found: list[list[float]] = [[] for _ in measures]
    for number in range(rounds):
        # Every other round backwards: the first of a round has no advantage.
        order = range(len(measures)) if number % 2 == 0 else reversed(range(len(measures)))
        for which in order:
            found[which].append(measures[which]())
    return found


def ratio(over: list[float], under: list[float]) -> float:
    """Of two figures taken in turn: the median of the ratios of each round."""
    return round(statistics.median(one / other for one, other in zip(over, under, strict=True)), 2)


def median(values: list[float]) -> float:
    """Rounded to milliseconds."""
    return round(statistics.median(values), 3)


def playbook(lab: Lab, name: str, limit: str, variables: Mapping[str, Any]) -> float:
    """Run a playbook as anyone would; how long the whole process took, in seconds."""
    given = BUILD / "bench/variables.json"
    given.parent.mkdir(parents=True, exist_ok=True)
    given.write_text(json.dumps({**variables, "natmap_records": str(BUILD / "bench/records")}))
    command = ["ansible-playbook", name, "-i", str(inventory.path(lab.name)), "--limit", limit, "-e", f"@{given}"]
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("w") as log:
        begun = time.monotonic()
        code = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, env=os.environ, check=False).returncode
    if code:
        raise RuntimeError(f"{' '.join(command)} ended with {code}: see {LOG}")
    return time.monotonic() - begun
