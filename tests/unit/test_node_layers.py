"""The layers of listeners and routes, and what inspect says of a node, in a namespace."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka_natmap_inspect as inspection
import kafka_natmap_layers as layers
import pytest
from kafka_natmap_system import Refusal
from netns import Namespace
from unit.maps import broker, parsed
from unit.nodes import node, planned, printed


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def inside(namespace: Namespace) -> Iterator[None]:
    with namespace.entered():
        yield


def conf(tmp_path: Path, natmap: Any) -> tuple[str, list[tuple[str, int]]]:
    """An nginx configuration that leaves nothing in /run, and its listeners."""
    plan = planned(natmap, node(nginx=inspection.nginx()))
    text = printed(plan)["nginx.conf"].replace("pid /run/", f"pid {tmp_path}/")
    return text, [(one.address, one.port) for one in plan.listeners]


def nginx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, listeners: Any) -> Any:
    monkeypatch.setattr(layers, "ETC", str(tmp_path))
    return layers.Nginx({"owner": "a", "listeners": listeners, "nginx_path": "/usr/sbin/nginx"})


def test_a_good_configuration_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text, listeners = conf(tmp_path, parsed(broker(id=1), mechanism="nginx_stream", owner="a"))
    nginx(monkeypatch, tmp_path, listeners).check(text)


def test_ten_thousand_listeners_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    brokers = [broker(f"10.0.{i >> 8}.{i & 255}:9092", f"20.0.{i >> 8}.{i & 255}:9092") for i in range(10_000)]
    text, listeners = conf(tmp_path, parsed(*brokers, mechanism="nginx_stream", owner="a"))
    assert len(listeners) == 10_000
    nginx(monkeypatch, tmp_path, []).check(text)


def test_a_broken_configuration_is_refused_with_nginx_s_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text, listeners = conf(tmp_path, parsed(broker(id=1), mechanism="nginx_stream", owner="a"))
    with pytest.raises(Refusal, match='unknown directive "proxy_pas"'):
        nginx(monkeypatch, tmp_path, listeners).check(text.replace("proxy_pass", "proxy_pas"))


def test_a_taken_port_is_refused_before_anything_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text, listeners = conf(tmp_path, parsed(broker(id=1), mechanism="nginx_stream", owner="a"))
    with socket.socket() as other:
        other.bind(listeners[0])
        other.listen()
        with pytest.raises(Refusal, match=r"nginx cannot listen at 127\..*: Address already in use"):
            nginx(monkeypatch, tmp_path, listeners).check(text)


def test_routes_are_ours_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(layers, "ETC", str(tmp_path))

    def shown() -> str:
        return subprocess.run(["ip", "-4", "route"], check=True, capture_output=True, text=True).stdout

    foreign = "ip route add 192.0.2.99 dev left proto static"
    subprocess.run(foreign.split(), check=True)
    before = shown()
    layer = layers.Routes({"owner": "a"})
    assert layer.snapshot() is None
    layer.load("192.0.2.21 dev left\n192.0.2.22 dev left via 198.18.254.2\n", {})
    first = layer.snapshot()
    assert first.count("\n") == 2
    layer.load("192.0.2.21 dev left\n192.0.2.22 dev left via 198.18.254.2\n", {})
    assert layer.snapshot() == first
    layer.clear({})
    assert layer.snapshot() is None
    assert shown() == before


def test_inspect_asks_the_kernel_for_each_way() -> None:
    found = inspection.routes(["203.0.113.1", "198.18.254.2", "198.18.254.1"])
    assert (found["203.0.113.1"]["source"], found["203.0.113.1"]["device"]) == ("198.18.254.1", "left")
    assert found["203.0.113.1"]["via"] == "198.18.254.2"
    assert found["198.18.254.2"]["via"] is None
    subprocess.run(["ip", "route", "add", "unreachable", "10.66.0.0/24"], check=True)
    assert found == inspection.routes(["203.0.113.1", "198.18.254.2", "198.18.254.1"])
    assert inspection.routes(["10.66.0.1"])["10.66.0.1"]["error"]


@pytest.mark.parametrize("backend", [inspection.nft_backend, inspection.iptables_backend])
def test_a_backend_is_judged_by_test(backend: Any) -> None:
    good = {
        inspection.nft_backend: "table ip t { }",
        inspection.iptables_backend: "*nat\n:KNM-x - [0:0]\nCOMMIT\n",
    }
    assert backend(good[backend]) == {"usable": True, "reason": ""}
    assert "refuses the rules" in backend("nonsense\n")["reason"]
    tables = json.loads(subprocess.run(["nft", "-j", "list", "tables"], check=True, capture_output=True).stdout)
    assert not [item for item in tables["nftables"] if item.get("table", {}).get("name") == "t"]


def test_a_program_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "which", lambda _name: None)
    assert inspection.nft_backend("")["reason"] == "nft is not installed"
    assert inspection.iptables_backend("")["reason"] == "iptables-restore is not installed"
    assert inspection.nginx()["reason"] == "nginx is not installed"


def test_names_of_our_own_lines_do_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    blocks = [f"# BEGIN kafka-natmap {o}: x\n240.0.0.1 kafka-{o}\n# END kafka-natmap {o}\n" for o in ("a", "a-b")]
    hosts.write_text("10.0.0.1 Kafka-1 kafka-1.hq # kafka-2\n" + "".join(blocks) + "::1 kafka-3\n")
    monkeypatch.setattr(inspection, "HOSTS", str(hosts))
    monkeypatch.setattr(inspection, "run", lambda *_args, **_kwargs: (2, "", ""))
    names = ["kafka-1", "kafka-1.hq", "kafka-2", "kafka-3", "kafka-a", "kafka-a-b"]
    assert {name: found for name, found in inspection.resolves(names).items() if found} == {
        "kafka-1": ["10.0.0.1"],
        "kafka-1.hq": ["10.0.0.1"],
    }


def test_users_and_groups_are_numbers_or_nothing() -> None:
    assert inspection.account_of("root")["uid"] == 0
    assert inspection.account_of("no-such-user") is None
    assert inspection.group_of("root") == 0
    assert inspection.group_of("no-such-group") is None
