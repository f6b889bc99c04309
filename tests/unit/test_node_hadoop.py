"""Settings as Hadoop reads them, and the daemons of a node."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kafka_natmap_hadoop as hadoop
import pytest
from kafka_natmap_system import Refusal
from unit.hadoop_node import NODE_MANAGER, FakeProc, site


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., hadoop.Settings]:
    """Settings of a daemon whose class path is one folder with these files."""

    def make(files: dict[str, str], arguments: tuple[str, ...] = (), **environment: str) -> hadoop.Settings:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        daemon = hadoop.Daemon("yarn", ("java", "-cp", f"/x.jar:{tmp_path}:/y/*", *arguments), environment)
        return hadoop.Settings(daemon, folders=())

    return make


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"a": " x "}, "x"),
        ({"a": "${b}/c", "b": "${d}", "d": "deep"}, "deep/c"),
        ({"a": "${user.name}"}, "yarn"),
        ({"a": "${jvm.set}", "jvm.set": "by file"}, "by option"),
        ({"a": "${env.HERE}"}, "there"),
        ({"a": "${env.NONE-else}"}, "else"),
        ({"a": "${env.EMPTY-else}"}, ""),
        ({"a": "${env.EMPTY:-else}"}, "else"),
    ],
)
def test_variables_are_filled_in(
    settings: Callable[..., hadoop.Settings], values: dict[str, str], expected: str
) -> None:
    found = settings({"yarn-site.xml": site(values)}, ("-Djvm.set=by option",), HERE="there", EMPTY="")
    assert found.get("a") == expected


@pytest.mark.parametrize("value", ["${nobody.knows}", "${a}", "${env.NONE}"])
def test_a_variable_that_cannot_be_known_is_refused(settings: Callable[..., hadoop.Settings], value: str) -> None:
    with pytest.raises(Refusal, match="cannot be known here"):
        settings({"yarn-site.xml": site({"a": value})}).get("a")


def test_the_later_file_wins_unless_the_earlier_says_final(settings: Callable[..., hadoop.Settings]) -> None:
    core = site({"kept": "core", "changed": "core"}, final=("kept",))
    found = settings({"core-site.xml": core, "yarn-site.xml": site({"kept": "yarn", "changed": "yarn"})})
    assert (found.get("kept"), found.get("changed")) == ("core", "yarn")
    assert found.source("kept").endswith("core-site.xml")
    assert (found.get("absent", "3"), found.source("absent")) == ("3", "Hadoop's default")


def test_attributes_nesting_and_empty_values(settings: Callable[..., hadoop.Settings]) -> None:
    more = '<property name="a" value="1"/><configuration><property><name>b</name><value>2</value></property>'
    more += "</configuration><property><name>c</name></property><property><name>d</name><value/></property>"
    found = settings({"yarn-site.xml": site({"c": "kept"}, more)})
    assert [found.get(name, "default") for name in "abcd"] == ["1", "2", "kept", ""]


def test_what_is_included_counts_where_it_stands(settings: Callable[..., hadoop.Settings]) -> None:
    include = (
        '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{}"><xi:fallback>{}</xi:fallback></xi:include>'
    )
    spare = "<property><name>f</name><value>fallback</value></property>"
    late = "<property><name>b</name><value>after</value></property>"
    more = include.format("more.xml", "") + include.format("nowhere.xml", spare) + late
    files = {"yarn-site.xml": site({"a": "before", "b": "before"}, more), "more.xml": site({"a": "more", "b": "more"})}
    found = settings(files)
    assert [found.get(name) for name in "abf"] == ["more", "after", "fallback"]
    assert found.source("a").endswith("more.xml")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<configuration>", "is no XML"),
        (site({}, '<include href="nowhere.xml"/>'), "is not there"),
        (site({}, '<include href="yarn-site.xml"/>'), "includes itself"),
        (site({}, '<include href="http://example.org/a.xml"/>'), "is not asked"),
    ],
)
def test_what_cannot_be_read_is_refused(settings: Callable[..., hadoop.Settings], text: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        settings({"yarn-site.xml": text})


@pytest.mark.parametrize(("said", "expected"), [("true", True), ("FALSE", False), ("yes", True), ("", True)])
def test_flags(settings: Callable[..., hadoop.Settings], said: str, expected: bool) -> None:
    assert settings({"yarn-site.xml": site({"a": said})}).flag("a", True) is expected


# ------------------------------------------------------------ daemons


def test_a_daemon_is_found_with_its_user_files_and_options(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    java = ("/opt/java", "-Da.b=c", "-cp", "conf:/opt/x.jar", NODE_MANAGER)
    proc.add(7, *java, uid=4242, environment={"HADOOP_CONF_DIR": "/etc/h"}, place="/srv")
    proc.add(8, "grep", "NodeManager")
    proc.add(9, *java, namespaces={"net": 2})
    (tmp_path / "proc/10").mkdir()  # it ended meanwhile
    here, elsewhere = hadoop.running(NODE_MANAGER, str(proc))
    assert (len(here), elsewhere) == (1, 1)
    daemon = here[0]
    assert (daemon.user, daemon.properties()["a.b"], daemon.since) == ("4242", "c", 1000000100.0)
    assert daemon.folders() == ["/srv/conf", "/etc/h"]


def test_a_daemon_with_a_file_system_of_its_own_is_read_there(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    home = proc.add(7, "java", "-cp", "/conf", NODE_MANAGER, namespaces={"mnt": 5})
    (home / "root/conf").mkdir(parents=True)
    (home / "root/conf/yarn-site.xml").write_text(site({"a": "inside"}))
    found = hadoop.Settings(hadoop.running(NODE_MANAGER, str(proc))[0][0], folders=())
    assert (found.get("a"), found.source("a")) == ("inside", "/conf/yarn-site.xml")


def test_the_class_path_of_the_environment_and_homes(tmp_path: Path) -> None:
    environment = {"CLASSPATH": "/a:/b.jar:/c/*", "YARN_CONF_DIR": "/d", "HADOOP_HOME": "/e"}
    assert hadoop.Daemon("yarn", ("java",), environment).folders() == ["/a", "/d", "/e/etc/hadoop"]


def test_the_usual_folders_count_only_where_the_daemon_names_none(tmp_path: Path) -> None:
    usual, own = tmp_path / "usual", tmp_path / "own"
    for folder in (usual, own):
        folder.mkdir()
    (usual / "yarn-site.xml").write_text(site({"a": "usual"}))
    (usual / "core-site.xml").write_text(site({"b": "usual"}))
    daemon = hadoop.Daemon("yarn", environment={"YARN_CONF_DIR": str(own)})
    assert hadoop.Settings(daemon, [str(usual)]).get("b") == "usual"
    (own / "yarn-site.xml").write_text(site({"a": "own"}))
    found = hadoop.Settings(daemon, [str(usual)])
    assert (found.get("a"), found.get("b", "none")) == ("own", "none")


def test_a_unit_says_its_user_and_where_its_settings_are(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("HADOOP_CONF_DIR=/from/file\n")
    text = f'[Service]\nUser=hadoop\nEnvironmentFile=-{tmp_path}/env\nEnvironment="YARN_CONF_DIR=/from/unit" A=1\n'
    (tmp_path / "hadoop-yarn-nodemanager.service").write_text(text)
    (tmp_path / "other.service").write_text("[Service]\nUser=other\n")
    found = hadoop.from_units("nodemanager", f"{tmp_path}/*.service")
    assert [(one.user, one.folders()) for one in found] == [("hadoop", ["/from/unit", "/from/file"])]


def test_files_that_are_younger_than_their_daemon(tmp_path: Path) -> None:
    path = tmp_path / "yarn-site.xml"
    path.write_text(site({}))
    os.utime(path, (2000, 2000))
    started: list[Any] = [1000, 1999.5, None]
    found = [hadoop.Settings(hadoop.Daemon("y", since=since), [str(tmp_path)]) for since in started]
    assert [bool(one.changed_since_start()) for one in found] == [True, False, False]
