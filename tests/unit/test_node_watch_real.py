"""The watch with the real nft, iptables and ip, in a namespace: what it notices, whom it names, what it puts back."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka_natmap_watch as watching
import pytest
from kafka_natmap_drift import differences
from kafka_natmap_system import locked
from netns import Namespace
from unit.guarded import Machine
from unit.maps import broker, parsed
from unit.test_tracking import FREE

FIREWALL = """
table inet others {
    chain in {
        type filter hook input priority 0
        ct state established accept
    }
}
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.fixture
def inside(namespace: Namespace) -> Iterator[None]:
    with namespace.entered():
        yield
        subprocess.run(["nft", "flush", "ruleset"], check=True)


@pytest.fixture
def watched(machine: Machine, inside: None) -> Iterator[Callable[..., dict[str, Any]]]:
    """Confirm a map and watch it, in the namespace."""
    stop, wake = os.pipe()
    threads: list[threading.Thread] = []

    def start(drift: str = "repair", facts: Any = None, texts: Any = None, **more: Any) -> dict[str, Any]:
        natmap = parsed(broker("kafka-1:9092", id=1), owner="a", **more)
        generation = machine.confirm(natmap, drift, texts, **(facts or {}))
        one = watching.Watch("a")
        threads.append(threading.Thread(target=one.serve, args=(stop,)))
        threads[0].start()
        wait(lambda: one.held_until > 0)
        return generation

    yield start
    os.write(wake, b"x")
    for thread in threads:
        thread.join(10)
    os.close(stop)
    os.close(wake)


def wait(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    """Until it holds; a machine under load may take longer than the node's bound, so no time is a bar here."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("mechanism", "command"),
    [
        ("nftables", "nft delete table ip kafka_natmap_a"),
        ("nftables", "nft flush ruleset"),
        ("nftables", "nft delete element ip kafka_natmap_a pairs_hq {{ {stand_in} . 9092 }}"),
        ("nftables", "nft add rule ip kafka_natmap_a output accept"),
        ("iptables", "iptables -t nat -F KNM-a-hq"),
        ("iptables", "iptables -t nat -D OUTPUT 1"),
    ],
)
def test_a_foreign_change_is_undone_and_its_author_named(
    machine: Machine, watched: Callable[..., dict[str, Any]], mechanism: str, command: str
) -> None:
    generation = watched(mechanism=mechanism)
    subprocess.run(command.format(stand_in=generation["pairs"][0][0]).split(), check=True)
    wait(lambda: machine.said()["repairs"] == 1)
    assert differences(generation) == []
    record = machine.audited()[-1]
    assert record["result"] == "repaired"
    assert record["by"].startswith(command.split()[0])


def test_a_route_that_was_deleted_is_back(machine: Machine, watched: Callable[..., dict[str, Any]]) -> None:
    generation = watched(texts={"routes": "192.0.2.21 dev left via 198.18.254.2\n"})
    subprocess.run(["ip", "route", "del", "192.0.2.21"], check=True)
    wait(lambda: machine.said()["repairs"] == 1)
    assert differences(generation) == []
    subprocess.run(["ip", "route", "del", "192.0.2.21"], check=True)


def test_rules_are_polled_where_no_kernel_reports_them(
    machine: Machine, watched: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "ruleset_reports", lambda: None)
    generation = watched()
    subprocess.run(["nft", "delete", "table", "ip", "kafka_natmap_a"], check=True)
    wait(lambda: machine.said()["repairs"] == 1)
    assert differences(generation) == []


def test_a_change_waits_while_somebody_else_switches_the_node(
    machine: Machine, watched: Callable[..., dict[str, Any]]
) -> None:
    generation = watched()
    with locked("a switch"):
        subprocess.run(["nft", "delete", "table", "ip", "kafka_natmap_a"], check=True)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            assert [one["what"] for one in differences(generation, {"nftables"})] == ["nftables"]
    wait(lambda: not differences(generation))


@pytest.mark.parametrize("drift", ["repair", "report"])
def test_the_exemption_goes_as_soon_as_others_track(
    machine: Machine, watched: Callable[..., dict[str, Any]], drift: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching.Watch, "must_poll", lambda _: False)
    assert "notrack" in watched(drift, {"conntrack": FREE})["texts"]
    subprocess.run(["nft", "-f", "-"], input=FIREWALL, text=True, check=True)
    wait(lambda: "kafka_notrack_a" not in tables())
    subprocess.run(["nft", "add", "table", "ip", "kafka_notrack_a"], check=True)
    subprocess.run(["nft", "delete", "table", "ip", "kafka_notrack_a"], check=True)
    subprocess.run(["nft", "delete", "table", "ip", "kafka_natmap_a"], check=True)
    wait(lambda: machine.audited()[-1]["result"] == {"repair": "repaired", "report": "drift"}[drift])
    assert "kafka_notrack_a" not in tables()
    kept = json.loads(machine.generation.read_text())
    assert ("notrack" in kept["texts"], kept["lifted"]) == (False, "inet others: chain in asks conntrack")


def tables() -> str:
    return subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
