"""The verb `status`: from a node's state in a folder, with programs that answer as told, and with the real nft."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import kafka_natmap_status as status
import pytest
from netns import Namespace
from unit.guarded import UNIT, Machine
from unit.maps import broker, network, parsed

HOSTS_MAP = parsed(broker("kafka-1:9092", "203.0.113.21:9092", id=1), mechanism="hosts", owner="a")


class Systemd:
    """Answers for systemctl; every other program is the real one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.active: set[str] = set()
        self.disabled: set[str] = set()
        self.starters: dict[str, str] = {}
        self.real = status.run
        monkeypatch.setattr(status, "run", self.run)
        monkeypatch.setattr("kafka_natmap_drift.run", self.run)

    def run(self, argv: list[str], *more: Any, **named: Any) -> tuple[int, str, str]:
        if argv[0] != "systemctl":
            return self.real(argv, *more, **named)
        if argv[1] == "is-active":
            return (0 if argv[-1] in self.active else 3), "", ""
        if argv[1] == "is-enabled":
            return (1 if argv[-1] in self.disabled else 0), "", ""
        if argv[1] == "list-unit-files":
            return 0, "".join(f"{unit} enabled enabled\n" for unit in self.starters), ""
        return 0, self.starters[argv[-1]], ""


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch) -> Systemd:
    return Systemd(monkeypatch)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, systemd: Systemd) -> Machine:
    made = Machine(tmp_path, monkeypatch)
    program = tmp_path / "kafka-natmap.pyz"
    program.touch()
    monkeypatch.setattr(status, "PROGRAM", str(program))
    return made


def test_a_host_that_was_installed_anew_is_absent(machine: Machine) -> None:
    said = status.status("a")
    assert (said["state"], said["confirmed"], said["digest"]) == ("absent", False, None)
    assert said["reboot_safe"]["safe"] is False


def test_a_confirmed_plan_says_who_and_since_when(machine: Machine) -> None:
    generation = machine.confirm(HOSTS_MAP)
    said = status.status("a")
    assert (said["state"], said["confirmed"], said["digest"]) == ("confirmed", True, generation["digest"])
    assert (said["who"], said["since"], said["drift"]) == ("ops", "2026-01-01T00:00:00Z", [])
    assert said["reboot_safe"] == {"safe": True, "why": []}


@pytest.mark.parametrize(("active", "state"), [("kafka-natmap-undo-a.timer", "armed"), (None, "half done")])
def test_an_unconfirmed_switch_is_armed_while_something_will_end_it(
    machine: Machine, systemd: Systemd, active: str | None, state: str
) -> None:
    machine.confirm(HOSTS_MAP)
    (machine.lib / "a" / "pending.json").write_text(json.dumps({"unit": "kafka-natmap-switch-7.service"}))
    systemd.active = {active} if active else set()
    said = status.status("a")
    assert (said["state"], said["confirmed"]) == (state, False)
    assert said["reboot_safe"]["why"] == ["a switch is not confirmed yet: a restart undoes it"]


def test_a_damaged_generation_is_not_taken_for_a_new_host(machine: Machine) -> None:
    machine.confirm(HOSTS_MAP)
    machine.generation.write_text("{")
    assert status.status("a")["state"] == "damaged"


def test_drift_shows_both_sides_and_who_it_was(machine: Machine) -> None:
    machine.confirm(HOSTS_MAP)
    machine.hosts.write_text(machine.hosts.read_text().replace("203.0.113.21", "203.0.113.66"))
    (machine.run / "watch-a.json").write_text(json.dumps({"drift": [{"what": "hosts", "by": "vi (pid 7)"}]}))
    (found,) = status.status("a")["drift"]
    assert (found["what"], found["by"]) == ("hosts", "vi (pid 7)")
    assert found["before"].startswith("203.0.113.21 kafka-1")
    assert found["now"].startswith("203.0.113.66 kafka-1")


def test_a_file_or_unit_that_was_edited_is_drift(machine: Machine) -> None:
    machine.confirm(HOSTS_MAP)
    (machine.units / UNIT).write_text("[Unit]\nDescription=mine\n")
    (machine.etc / "a" / "hosts").unlink()
    said = status.status("a")
    assert {one["what"] for one in said["drift"]} == {str(machine.units / UNIT), str(machine.etc / "a" / "hosts")}
    assert said["reboot_safe"]["why"] == [f"{UNIT} is not as it was installed"]


def test_a_restart_is_not_safe_where_a_nodemanager_does_not_wait(machine: Machine, systemd: Systemd) -> None:
    machine.confirm(HOSTS_MAP)
    systemd.starters = {
        "hadoop-yarn-nodemanager.service": "basic.target system.slice",
        "ambari-agent.service": "network-online.target",
        "sshd.service": "basic.target",
    }
    systemd.disabled = {UNIT}
    assert status.status("a")["reboot_safe"] == {
        "safe": False,
        "why": [
            f"{UNIT} is not enabled",
            "hadoop-yarn-nodemanager.service may start before the rules: it is not ordered after network.target",
        ],
    }


def test_a_generation_edited_by_hand_is_named(machine: Machine) -> None:
    generation = machine.confirm(HOSTS_MAP)
    machine.generation.write_text(json.dumps({**generation, "digest": "0" * 64}))
    (why,) = status.status("a")["reboot_safe"]["why"]
    assert "does not have its own digest" in why


@pytest.mark.parametrize("mechanism", ["nftables", "iptables"])
def test_counters_name_the_broker_of_each_address(machine: Machine, namespace: Namespace, mechanism: str) -> None:
    brokers = [broker(id=1), broker("kafka-2:9092", "203.0.113.22:9092", id=2)]
    natmap = parsed(*brokers, networks=[network()], mechanism=mechanism, owner="a")
    with namespace.entered():
        generation = machine.confirm(natmap)
        found = status.status("a")["counters"]
        subprocess.run(["nft", "flush", "ruleset"], check=True)
        subprocess.run(["nft", "delete", "table", "ip", "nat"], check=False, capture_output=True)
    stand_in = next(pair[0] for pair in generation["pairs"] if pair[2] == "203.0.113.22")
    assert [(one["cluster"], one["broker"], one["address"], one["packets"]) for one in found] == [
        ("hq", "1", "192.0.2.21:9092", 0),
        ("hq", "2", f"{stand_in}:9092", 0),
        ("hq", None, network()["advertised"], 0),
    ]
