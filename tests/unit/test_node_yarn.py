"""Whose processes the containers of a node's YARN are, by its files."""

from __future__ import annotations

import pwd
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kafka_natmap_hadoop as hadoop
import kafka_natmap_yarn as yarn
import pytest
from unit.hadoop_node import site

EXECUTOR = "yarn.nodemanager.container-executor.class"
PACKAGE = "org.apache.hadoop.yarn.server.nodemanager."
LINUX = "yarn.nodemanager.linux-container-executor."
KERBEROS = {"hadoop.security.authentication": "kerberos"}
IS_LINUX = {EXECUTOR: PACKAGE + "LinuxContainerExecutor"}
NOBODY_LIMITED = IS_LINUX | {LINUX + "nonsecure-mode.limit-users": "false"}
UIDS = {"root": 0, "yarn": 990, "hdfs": 1200, "etl": 400, "spark": 1500, "low": 2}
LAST = 4294967294


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """A node with these settings and this container-executor.cfg; what it says of itself."""

    def account(name: str) -> Any:
        return SimpleNamespace(pw_uid=UIDS[name])

    def ask(values: dict[str, str] | None, cfg: str | None = None, **daemon: Any) -> dict[str, Any]:
        if values is not None:
            (tmp_path / "yarn-site.xml").write_text(site(values))
        if cfg is not None:
            (tmp_path / "container-executor.cfg").write_text(cfg)
        runs = hadoop.Daemon(daemon.pop("user", "yarn"), ("java", "-cp", str(tmp_path)), **daemon)
        monkeypatch.setattr(yarn, "running", lambda main_class: ([runs], 0))
        monkeypatch.setattr(hadoop, "FOLDERS", ())
        return yarn.discovered()

    monkeypatch.setattr(pwd, "getpwnam", account)
    return ask


@pytest.mark.parametrize(
    ("values", "users", "said"),
    [
        ({}, ["yarn"], ["NodeManager's user yarn", "DefaultContainerExecutor (Hadoop's default)"]),
        ({EXECUTOR: PACKAGE + "DefaultContainerExecutor"}, ["yarn"], ["yarn-site.xml)"]),
        (KERBEROS, ["yarn"], ["DefaultContainerExecutor"]),
        (IS_LINUX, ["nobody"], ["user nobody", "local-user is nobody (Hadoop's default)", "limit-users is not false"]),
        (
            IS_LINUX | {LINUX + "nonsecure-mode.local-user": "etl", LINUX + "nonsecure-mode.limit-users": "True"},
            ["etl"],
            ["local-user is etl", "yarn-site.xml)"],
        ),
    ],
)
def test_one_user_for_all(
    node: Callable[..., dict[str, Any]], values: dict[str, str], users: list[str], said: list[str]
) -> None:
    found = node(values)
    assert (found["users"], found["uid_ranges"], found["refusal"]) == (users, [], None)
    assert all(part in found["found"][0] for part in said), found["found"]


@pytest.mark.parametrize("values", [NOBODY_LIMITED, IS_LINUX | KERBEROS], ids=["limit-users", "secure"])
@pytest.mark.parametrize(
    ("cfg", "users", "ranges"),
    [
        ("", [], [[1000, 1199], [1201, LAST]]),
        ("min.user.id=500\nbanned.users=spark\n", [], [[500, 1499], [1501, LAST]]),
        (" min.user.id = 1000 # why\nbanned.users=bin,nobody-here\n[docker]\nmin.user.id=5\n", [], [[1000, LAST]]),
        ("banned.users=bin\nallowed.system.users=etl, yarn,spark,absent,root\n", ["etl", "yarn"], [[1000, LAST]]),
        ("banned.users=yarn\nallowed.system.users=etl,yarn\n", ["etl"], [[1000, LAST]]),
        ("min.user.id=0\nbanned.users=low\n", [], [[1, 1], [3, LAST]]),
        ("min.user.id=1200\nbanned.users=hdfs\n", [], [[1201, LAST]]),
    ],
)
def test_everybody_who_may_submit(
    node: Callable[..., dict[str, Any]],
    values: dict[str, str],
    cfg: str,
    users: list[str],
    ranges: list[list[int]],
) -> None:
    found = node(values, cfg)
    assert (found["users"], found["uid_ranges"], found["refusal"]) == (users, ranges, None)
    assert "who submits them" in found["found"][0]
    assert "container-executor.cfg" in found["found"][0]


@pytest.mark.parametrize(
    ("values", "cfg", "cause"),
    [
        (None, None, "yarn-site.xml was not found"),
        (NOBODY_LIMITED, None, "container-executor.cfg was not found at"),
        (NOBODY_LIMITED, "min.user.id=many\n", "which is no number"),
        ({EXECUTOR: "com.example.CloudExecutor"}, None, "CloudExecutor"),
        (IS_LINUX | {LINUX + "nonsecure-mode.local-user": "${env.WHO}"}, None, "cannot be known here"),
    ],
)
def test_what_cannot_be_known_is_refused(
    node: Callable[..., dict[str, Any]], values: dict[str, str] | None, cfg: str | None, cause: str
) -> None:
    found = node(values, cfg)
    assert cause in found["refusal"]["cause"]
    assert found["refusal"]["mend"]
    assert (found["users"], found["uid_ranges"]) == ([], [])


def test_the_path_within_the_program_goes_first(node: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    """container-executor reads the one file whose path it was compiled with, here relative to itself."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/container-executor"
    program.write_bytes(b"\x7fELF\0\0../etc/hadoop//container-executor.cfg\0more\0")
    (tmp_path / "etc/hadoop").mkdir(parents=True)
    (tmp_path / "etc/hadoop/container-executor.cfg").write_text("min.user.id=3000\nbanned.users=x\n")
    found = node(NOBODY_LIMITED | {LINUX + "path": str(program)}, "min.user.id=5\n")
    assert found["uid_ranges"] == [[3000, LAST]]
    assert str(tmp_path / "etc/hadoop/container-executor.cfg") in found["found"][0]


def test_runtimes_with_networks_of_their_own_are_named(node: Callable[..., dict[str, Any]]) -> None:
    runtimes = {"yarn.nodemanager.runtime.linux.allowed-runtimes": "default,docker,runc"}
    found = node(IS_LINUX | runtimes)
    assert "docker, runc" in found["notices"][0]
    assert not node(IS_LINUX | {"yarn.nodemanager.runtime.linux.allowed-runtimes": "default"})["notices"]


def test_settings_that_the_daemon_does_not_know_yet_are_named(node: Callable[..., dict[str, Any]]) -> None:
    assert "was changed after the NodeManager was started" in node(IS_LINUX, since=1000.0)["notices"][0]


def test_several_nodemanagers_are_all_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "yarn-site.xml").write_text(site({}))
    runs = [hadoop.Daemon(user, ("java", "-cp", str(tmp_path))) for user in ("yarn", "yarn", "other")]
    monkeypatch.setattr(yarn, "running", lambda main_class: (runs, 0))
    found = yarn.discovered()
    assert (found["users"], len(found["found"])) == (["yarn", "other"], 2)


@pytest.mark.parametrize(
    ("elsewhere", "units", "cause", "notice"),
    [
        (1, [], "network namespace of its own", ""),
        (0, [], "no NodeManager runs here and no unit", ""),
        (0, ["hadoop"], "", "no NodeManager runs here now"),
    ],
)
def test_without_a_running_nodemanager(
    elsewhere: int, units: list[str], cause: str, notice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "yarn-site.xml").write_text(site({}))
    daemons = [hadoop.Daemon(user, environment={"YARN_CONF_DIR": str(tmp_path)}) for user in units]
    monkeypatch.setattr(yarn, "running", lambda main_class: ([], elsewhere))
    monkeypatch.setattr(yarn, "from_units", lambda word: daemons)
    found = yarn.discovered()
    assert cause in (found["refusal"] or {"cause": ""})["cause"]
    assert found["users"] == units
    assert notice in "".join(found["notices"])
