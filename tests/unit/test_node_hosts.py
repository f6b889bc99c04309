"""The hosts layer of the node program: one marked block, every other byte as it was."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import kafka_natmap_layers as layers
import pytest
from kafka_natmap_system import Refusal
from unit.maps import broker, parsed
from unit.nodes import planned, printed


def block(owner: str, *names: str) -> str:
    """What the template prints for an owner's names."""
    brokers = [broker(f"{name}:9092", f"203.0.113.{index}:9092") for index, name in enumerate(names, 1)]
    return printed(planned(parsed(*brokers, owner=owner, mechanism="hosts")))["hosts"]


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "hosts"
    monkeypatch.setattr(layers, "HOSTS", str(path))
    return path


def layer(owner: str = "a") -> Any:
    return layers.Hosts({"owner": owner})


FOREIGN = [
    b"127.0.0.1 localhost\n",
    b"127.0.0.1 localhost",
    b"",
    b"\n",
    b"127.0.0.1\tlocalhost  # caf\xe9\n\n\n",
    b"127.0.0.1 localhost\r\n10.0.0.1 crlf\r\n",
    b"# BEGIN other tool\n10.0.0.1 x\n# END other tool\n",
]


@pytest.mark.parametrize("before", FOREIGN)
def test_clear_gives_the_bytes_back(hosts: Path, before: bytes) -> None:
    hosts.write_bytes(before)
    state: dict[str, Any] = {}
    layer().load(block("a", "kafka-1"), state)
    assert hosts.read_bytes().startswith(before)
    assert layer().snapshot() == block("a", "kafka-1")
    layer().load(block("a", "kafka-1", "kafka-2"), state)
    assert layer().listing() == block("a", "kafka-1", "kafka-2")
    layer().clear(state)
    assert hosts.read_bytes() == before
    assert layer().listing() is None


@pytest.mark.parametrize("before", FOREIGN)
def test_what_others_add_meanwhile_stays(hosts: Path, before: bytes) -> None:
    hosts.write_bytes(before)
    state: dict[str, Any] = {}
    layer().load(block("a", "kafka-1"), state)
    with hosts.open("ab") as stream:
        stream.write(b"10.0.0.2 new\n")
    layer().clear(state)
    assert hosts.read_bytes() in (before + b"10.0.0.2 new\n", before + b"\n10.0.0.2 new\n")


@pytest.mark.parametrize("first", ["a", "a-b"])
def test_owners_live_side_by_side(hosts: Path, first: str) -> None:
    hosts.write_text("127.0.0.1 localhost\n")
    second = {"a": "a-b", "a-b": "a"}[first]
    for owner in (first, second):
        layer(owner).load(block(owner, f"kafka-{owner}"), {})
    for owner in (first, second):
        assert layer(owner).listing() == block(owner, f"kafka-{owner}")
    layer(first).clear({})
    assert hosts.read_text() == "127.0.0.1 localhost\n" + block(second, f"kafka-{second}")


def test_a_second_load_writes_nothing(hosts: Path) -> None:
    hosts.write_text("127.0.0.1 localhost\n")
    layer().load(block("a", "kafka-1"), {})
    before = hosts.stat()
    layer().load(block("a", "kafka-1"), {})
    assert (hosts.stat().st_ino, hosts.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_mode_owner_and_xattrs_are_kept(hosts: Path) -> None:
    hosts.write_text("127.0.0.1 localhost\n")
    hosts.chmod(0o640)
    os.chown(hosts, 1, 2)
    os.setxattr(hosts, "user.note", b"kept")
    state: dict[str, Any] = {}
    for step in (lambda: layer().load(block("a", "kafka-1"), state), lambda: layer().clear(state)):
        step()
        found = hosts.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o640, 1, 2)
        assert os.getxattr(hosts, "user.note") == b"kept"
    assert list(hosts.parent.iterdir()) == [hosts], "no temporary file is left"


def test_a_link_is_refused(hosts: Path) -> None:
    hosts.symlink_to("/nowhere/hosts")
    with pytest.raises(Refusal, match=r"is a link to /nowhere/hosts. Mend: make it a file"):
        layer().check("")


def test_a_mount_of_its_own_is_refused(hosts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts.write_text("")
    line = f"36 35 98:0 / {hosts} rw,noatime master:1 - ext3 /dev/root rw\n"
    monkeypatch.setattr(layers, "read_text", lambda _path: line)
    with pytest.raises(Refusal, match="is a mount of its own"):
        layer().check("")


@pytest.mark.parametrize(("name", "cause"), [("immutable", "is immutable"), ("writable", "cannot be written")])
def test_what_cannot_be_replaced_is_refused(
    hosts: Path, monkeypatch: pytest.MonkeyPatch, name: str, cause: str
) -> None:
    hosts.write_text("")
    layer().check("")
    monkeypatch.setattr(layers, name, lambda _path: name == "immutable")
    with pytest.raises(Refusal, match=cause):
        layer().check("")
