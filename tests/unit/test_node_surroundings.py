"""What else lives on a node: processes by real uid, and programs found by unit, program or chain."""

from __future__ import annotations

from pathlib import Path

import kafka_natmap_surroundings as around
import pytest
from kafka_natmap_ruleset import Table

STATUS = "Name:\tjava\nUid:\t{uid}\t0\t0\t0\nGid:\t{gid}\t0\t0\t0\n{memory}Threads:\t3\n"


def proc(folder: Path, *processes: tuple[int, int, bool]) -> str:
    for number, (uid, gid, user_space) in enumerate(processes, 1):
        (folder / str(number)).mkdir()
        text = STATUS.format(uid=uid, gid=gid, memory="VmSize:\t  100 kB\n" if user_space else "")
        (folder / str(number) / "status").write_text(text)
    (folder / "99").mkdir()  # a process that ended meanwhile
    (folder / "net").mkdir()
    return str(folder)


def test_processes_are_counted_by_real_ids(tmp_path: Path) -> None:
    where = proc(tmp_path, (1001, 50, True), (1001, 50, True), (1002, 1001, True), (0, 0, False), (0, 0, True))
    wanted = [("user yarn", "uid", 1001, 1001), ("group g", "gid", 1001, 1001), ("uids", "uid", 1002, 2000)]
    assert around.count([*wanted, ("user root", "uid", 0, 0)], where) == {
        "user yarn": 2,
        "group g": 1,
        "uids": 1,
        "user root": 1,
    }


def test_this_very_process_is_counted() -> None:
    found = around.surroundings(
        {"uid_ranges": [[0, 2**31]]}, {"root": {"uid": 0, "gid": 0}, "gone": None}, {"none": None}, []
    )
    assert list(found["processes"]) == ["user root", "uids 0 to 2147483648"]
    assert found["processes"]["uids 0 to 2147483648"] >= 1


@pytest.mark.parametrize(
    ("chain", "name"),
    [
        ("DOCKER-USER", "docker"),
        ("NETAVARK-HOSTPORT", "podman"),
        ("CNI-DN-1234", "podman"),
        ("ufw-user-output", "ufw"),
        ("filter_INPUT_ZONES", "firewalld"),
        ("KUBE-SERVICES", "kube-proxy"),
    ],
)
def test_a_neighbour_is_known_by_its_chains(chain: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(around, "which", lambda program: None)
    table = Table("iptables -t nat")
    table.chains[chain] = []
    assert [(one["name"], one["active"]) for one in around.neighbours([table], ())] == [(name, True)]


def test_a_neighbour_is_known_by_its_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ferm.service").touch()
    (tmp_path / "nftables.service").touch()
    (tmp_path / "ufw.service").symlink_to("/dev/null")
    (tmp_path / "shorewall").touch()  # a script of System V
    said = "Id=nftables.service\nActiveState=active\n\nId=ferm.service\nActiveState=inactive\n"
    monkeypatch.setattr(around, "which", lambda program: None if program == "podman" else program)
    monkeypatch.setattr(around, "run", lambda argv, timeout: (0, said, ""))
    found = {one["name"]: one for one in around.neighbours([], (str(tmp_path),))}
    assert {name: one["active"] for name, one in found.items()} == {
        "nftables.service": True,
        "ferm": False,
        "shorewall": False,
    }
    assert "flush ruleset" in found["nftables.service"]["effect"]


def test_without_systemd_nothing_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(around, "which", lambda program: None)
    assert around.active(["nftables.service"]) == set()
