"""The ResourceManager's list of nodes: which one is asked, and what it may answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import kafka_natmap_hadoop as hadoop
import kafka_natmap_resourcemanager as manager
import pytest
from kafka_natmap_system import Refusal
from unit.hadoop_node import site

RM = "yarn.resourcemanager."
TWO = {RM + "ha.enabled": "true", RM + "ha.rm-ids": "rm1, rm2"}


def settings(folder: Path, values: dict[str, str]) -> hadoop.Settings:
    (folder / "yarn-site.xml").write_text(site(values))
    return hadoop.Settings(None, [str(folder)])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({RM + "hostname": "master"}, ["http://master:8088"]),
        ({RM + "hostname": "master", "yarn.http.policy": "HTTPS_ONLY"}, ["https://master:8090"]),
        ({RM + "webapp.address": "${yarn.resourcemanager.hostname}:80", RM + "hostname": "m"}, ["http://m:80"]),
        ({RM + "webapp.address": "m"}, ["http://m:8088"]),
        (TWO | {RM + "hostname.rm1": "a", RM + "hostname.rm2": "b"}, ["http://a:8088", "http://b:8088"]),
        (TWO | {RM + "webapp.address.rm1": "a:1", RM + "hostname.rm2": "b"}, ["http://a:1", "http://b:8088"]),
        (
            TWO | {RM + "webapp.https.address.rm1": "a:1", "yarn.http.policy": "HTTPS_ONLY", RM + "hostname": "c"},
            ["https://a:1", "https://c:8090"],
        ),
    ],
)
def test_who_is_asked(tmp_path: Path, values: dict[str, str], expected: list[str]) -> None:
    assert manager.web_addresses(settings(tmp_path, values)) == expected


@pytest.mark.parametrize("values", [{}, {RM + "webapp.address": "0.0.0.0:8088"}])
def test_nobody_to_ask(tmp_path: Path, values: dict[str, str]) -> None:
    with pytest.raises(Refusal, match="names no ResourceManager"):
        manager.web_addresses(settings(tmp_path, values))


def test_no_settings_at_all(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"no yarn-site\.xml in"):
        manager.web_addresses(hadoop.Settings(None, [str(tmp_path)]))


# ------------------------------------------------------------ real HTTP


def nodes(*rows: tuple[str, str]) -> bytes:
    found = [{"id": f"{host}:8041", "nodeHostName": host, "state": state} for host, state in rows]
    return json.dumps({"nodes": {"node": found}}).encode()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """A ResourceManager that answers so; its address."""
    servers = []

    def start(status: int = 200, body: bytes = b"", pause: float = 0.0, **headers: str) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                with suppress(BrokenPipeError, ConnectionResetError):
                    for place in range(0, len(body), 1024):
                        self.wfile.write(body[place : place + 1024])
                        self.wfile.flush()
                        time.sleep(pause)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return f"127.0.0.1:{server.server_port}"

    monkeypatch.setattr(manager, "resolves", lambda names: {name: ["198.18.0.1"] for name in names[:1]})
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def asked(monkeypatch: pytest.MonkeyPatch, folder: Path, *addresses: str) -> dict[str, Any]:
    ids = {f"{RM}webapp.address.rm{number}": address for number, address in enumerate(addresses, 1)}
    ids |= {RM + "ha.enabled": "true", RM + "ha.rm-ids": ",".join(f"rm{n}" for n in range(1, len(addresses) + 1))}
    found = settings(folder, ids)
    monkeypatch.setattr(manager, "settings_of_this_host", lambda: found)
    return manager.nodes()


def test_the_standby_is_passed_by(serve: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standby = serve(307, Location="http://192.0.2.1:8088/ws/v1/cluster/nodes")
    active = serve(body=nodes(("nm1", "RUNNING"), ("nm2", "LOST"), ("nm2", "RUNNING"), ("nm1", "LOST")))
    found = asked(monkeypatch, tmp_path, standby, active)
    assert found == {
        "nodes": [
            {"host": "nm1", "state": "RUNNING", "addresses": ["198.18.0.1"]},
            {"host": "nm2", "state": "RUNNING", "addresses": []},
        ],
        "resource_manager": f"http://{active}",
        "problem": None,
    }


def test_a_cluster_without_nodes(serve: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(monkeypatch, tmp_path, serve(body=b'{"nodes": null}'))
    assert (found["nodes"], found["problem"]) == ([], None)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": 401, "WWW_Authenticate": "Negotiate"}, "needs authentication (Negotiate)"),
        ({"status": 403}, "needs authentication, or does not let"),
        ({"status": 302, "Location": "http://192.0.2.1/"}, "a standby"),
        ({"status": 500}, "HTTP 500"),
        ({"body": b"<html>"}, "no answer of a ResourceManager"),
        ({"body": b"[]"}, "is no ResourceManager"),
        ({"body": b"\xff\xfe"}, "no answer of a ResourceManager"),
    ],
)
def test_what_is_no_list(
    answer: dict[str, Any], said: str, serve: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(monkeypatch, tmp_path, serve(**answer))
    assert said in found["problem"]
    assert (found["nodes"], found["resource_manager"]) == ([], None)


def test_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no answer" in asked(monkeypatch, tmp_path, "127.0.0.1:1")["problem"]


def test_time_and_size_are_bounded(serve: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "_WHOLE_SECONDS", 0.3)
    assert "timed out" in asked(monkeypatch, tmp_path, serve(body=b" " * 30_000, pause=0.05))["problem"]
    monkeypatch.setattr(manager, "_WHOLE_SECONDS", 10.0)
    monkeypatch.setattr(manager, "_LARGEST", 5000)
    assert "larger than" in asked(monkeypatch, tmp_path, serve(body=nodes(*[("nm", "RUNNING")] * 200)))["problem"]
