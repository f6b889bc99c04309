"""One row of the table: a change of a node, a fault at a point of it, and the state that the node comes to hold."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.bad import Bad
from faults.gate import Gate
from faults.node import Node
from faults.points import DISARMED, PREPARE, PREPARED, WRITTEN, Point
from faults.state import holds
from lab import inventory
from lab.topology import BUILD, ROOT

PATIENCE = 40.0
# The same until a switch comes to a point: a playbook has its own way to go on a busy machine.
REACH = 150.0
# Seconds of a switch that is to hang until its undo fires.
WINDOW = 10
BAR = 5.0
RECORDS = str(BUILD / "faults/records")
# What differs each time that the same generation is confirmed.
_VOLATILE = ("/var/lib/kafka-natmap/faults/generation.json", "/var/lib/kafka-natmap/faults/previous.json")


@dataclass
class Case:
    """A row before it is played."""

    point: Point | None
    fault: str
    bad: Bad | None = None
    early: bool = False

    def __str__(self) -> str:
        where = f"{self.point.step}, about to {self.point.about_to}" if self.point else "-"
        return f"{self.change}; {self.fault} at {where}"

    @property
    def change(self) -> str:
        """What is changed, in words."""
        said = self.bad.what if self.bad else "a good change"
        return f"{said}, from the beginning" if self.early else said

    @property
    def dies(self) -> bool:
        """Whether the switch itself does not live on."""
        return self.fault in ("switch", "restart", "hang")

    @property
    def expected(self) -> str:
        if self.bad:
            return "old"
        return "old" if self.dies and self.point not in (WRITTEN, DISARMED) else "new"


@dataclass
class Stage:
    """A node with an old and a new map, between which the rows are played; `bare`: it holds nothing before."""

    node: Node
    bare: bool = False
    mechanism: str = "nftables"
    old_map: dict[str, Any] = field(init=False)
    new_map: dict[str, Any] = field(init=False)
    new: dict[str, str | None] = field(init=False)

    def set(self) -> None:
        """Take off what was there, and learn how the new state looks."""
        node = self.node
        node.place_program()
        node.remove()
        node.await_brokers()
        self.old_map = {} if self.bare else node.map([(1, "hq-1"), (3, "hq-3")], mechanism=self.mechanism)
        self.new_map = node.map([(1, "hq-1"), (2, "hq-2"), (3, "hq-3")], mechanism=self.mechanism)
        self.to(self.old_map)
        self.to(self.new_map)
        self.new = {name: None if name in _VOLATILE else value for name, value in node.state().items()} | {
            "running": ""
        }
        self.to(self.old_map)

    def to(self, nat_map: dict[str, Any]) -> None:
        """Switch, with nothing in the way; an empty map takes all away."""
        if not nat_map:
            self.node.remove()
            return
        said = self.node.ask("switch", self.node.request(nat_map))
        if said.get("state") not in ("confirmed", "unchanged"):
            raise RuntimeError(f"{self.node.name} did not take its map: {json.dumps(said)[:600]}")

    def play(self, case: Case) -> dict[str, Any]:
        """Play one row; the node holds the old map afterwards."""
        # A unit of the switch before may be about to go.
        node, old = self.node, {**self.node.state(), "running": ""}
        with ExitStack() as after:
            gate = after.enter_context(Gate(node.process).watching())
            run = Run(self, case, gate)
            if case.bad:
                after.callback(case.bad.end, node)
                if case.early:
                    case.bad.do(node)
            begun, said = run.through()
            wanted: dict[str, str | None] = dict(old) if case.expected == "old" else self.new
            found, at = node.await_state(wanted, max(0.5, begun + PATIENCE - time.monotonic()))
            failed_at, at = run.failed_probe(), min(at, run.recorded() or at)
        since = begun if failed_at is None else max(begun, failed_at)
        state = "old" if found == old else "new" if holds(found, self.new) else "neither"
        row = self._row(case, state, at - since, said or run.answer())
        if state == "neither":
            row["differs"] = sorted(set(found) ^ set(wanted)) + sorted(
                name for name in set(found) & set(wanted) if wanted[name] not in (None, found[name])
            )
        if case.fault == "restart":
            node.place_program()
        if state != "old":
            self.to(self.old_map)
        return row

    def not_played(self, case: Case, why: Exception) -> dict[str, Any]:
        """The row of a case that could not be played; the node is set anew."""
        self.node.place_program()
        if case.bad:
            case.bad.end(self.node)
        self.to(self.old_map)
        row = self._row(case, "not played", PATIENCE, str(why))
        return {**row, "holds": False}

    def _row(self, case: Case, state: str, seconds: float, said: str) -> dict[str, Any]:
        point = case.point
        where = f"{point.step}, about to {point.about_to}" if point else "-"
        change = f"{case.change}, the first one by {self.mechanism}" if self.bare else case.change
        return {
            "case": f"{change}; {case.fault} at {where}",
            "change": change,
            "step": where,
            "fault": case.fault,
            "state": state,
            "value": round(seconds, 2),
            "unit": "s until there",
            "beside": {"expected": case.expected, "the caller was told": said},
            "bar": BAR,
            "holds": state == case.expected and seconds <= BAR,
        }


class Run:
    """One switch under way, started as the fault needs it."""

    def __init__(self, stage: Stage, case: Case, gate: Gate) -> None:
        self.node, self.case, self.gate = stage.node, case, gate
        self.nat_map = stage.new_map
        self.process: subprocess.Popen[str] | None = None

    def through(self) -> tuple[float, str]:
        """Start it, do what the row says, at its points. When the fault was over, and what the caller was told."""
        case = self.case
        stops: list[tuple[Any, Callable[[], float]]] = []
        if case.bad and not case.early:
            stops.append((self.gate.stop(PREPARED.matcher()), self._turn_bad))
        if case.point:
            fault = (self.gate.stop(case.point.matcher()), getattr(self, f"_{case.fault}"))
            stops.insert(0 if case.point is PREPARE else len(stops), fault)
        self._start()
        begun = time.monotonic()
        for stop, act in stops:
            stop.await_reached(REACH)
            begun = act()
            stop.release()
            if act != self._turn_bad and case.dies:
                break
        if case.fault == "none":
            return begun, self.answer()
        return begun, ""

    def _start(self) -> None:
        if self.case.fault == "controller":
            given = [
                "--limit",
                self.node.name,
                "--extra-vars",
                json.dumps({"nat_map": self.nat_map, "natmap_records": RECORDS}),
            ]
            command = ["ansible-playbook", "-i", str(inventory.path(self.node.lab.name)), "apply", *given]
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
            )
            return
        question = self.node.request(self.nat_map, WINDOW if self.case.fault == "hang" else 60)
        self.process = subprocess.Popen(
            self.node.command("switch"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(question)
        self.process.stdin.close()
        self.process.stdin = None

    def answer(self) -> str:
        """The state that the caller was told, once it has ended."""
        assert self.process is not None
        out, _ = self.process.communicate(timeout=REACH)
        try:
            said = json.loads(out or "")
        except ValueError:
            return "nothing"
        return str(said.get("state") or said["error"]["cause"])

    def recorded(self) -> float | None:
        """When the node wrote its result down: the state was reached by then, though our own look came later."""
        return next((one.at for one in self.gate.seen if one.path == "/var/lib/kafka-natmap/audit.jsonl"), None)

    def failed_probe(self) -> float | None:
        """When the switch began to go back after its probe, if it did."""
        seen = self.gate.seen
        probes = [number for number, one in enumerate(seen) if "probe" in one.arguments]
        loads = [number for number, one in enumerate(seen) if one.arguments == ("nft", "-f", "-")]
        if not probes or not loads or probes[-1] < loads[0]:
            return None
        rest = (one.at for one in seen[probes[-1] + 1 :] if one.path.endswith("/nft") and "switch-now" in one.arguments)
        return next(rest, None)

    def _turn_bad(self) -> float:
        assert self.case.bad is not None
        self.case.bad.do(self.node)
        return time.monotonic()

    def _controller(self) -> float:
        assert self.process is not None
        _kill_all(self.process.pid)
        return time.monotonic()

    def _channel(self) -> float:
        """Both ends of it: the program here, and on the node what it had started there."""
        assert self.process is not None
        for pid in self.node.processes(b"kafka-natmap.pyz\0switch\0", b"systemd-run"):
            _kill(pid)
        _kill_all(self.process.pid)
        return time.monotonic()

    def _switch(self) -> float:
        for pid in self._switches():
            _kill(pid)
        return time.monotonic()

    def _switches(self) -> list[int]:
        """The program itself, not the systemd-run that has started it and waits."""
        found = self.node.processes(b"kafka-natmap.pyz\0switch-now")
        return [pid for pid in found if not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"systemd-run")]

    def _hang(self) -> float:
        """It stands still for ever; what counts is the time after the end of its window."""
        for pid in self._switches():
            os.kill(pid, signal.SIGSTOP)
        armed = next(one.at for one in self.gate.seen if one.path == "/usr/bin/systemd-run")
        return armed + WINDOW

    def _restart(self) -> float:
        return self.node.restart()


def _kill_all(pid: int) -> None:
    """A process and all that it has started, at once (SIGKILL)."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(entry.read_text().rpartition(")")[2].split()[1]), []).append(int(entry.parent.name))
        except OSError:
            continue
    due = [pid]
    for one in due:
        due += parents.get(one, [])
    for one in due:
        _kill(one)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
