"""What the lab does to the machine it stands on: subnets, kernel settings, set-up steps."""

import sys
from pathlib import Path

import pytest
from lab import cli, network, progress, setup
from lab.podman import LABEL
from lab.progress import StepFailed, run_logged
from lab.topology import ROOT

FORWARD = "net.ipv4.ip_forward"
INOTIFY = "fs.inotify.max_user_instances"


class Machine:
    """Podman's networks and /proc/sys, in memory and in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.networks: dict[str, dict[str, str]] = {}
        self.running = ""
        for setting, value in ((FORWARD, "0"), (INOTIFY, "128")):
            self.path(setting).write_text(value + "\n")

    def path(self, setting: str) -> Path:
        return self.folder / setting

    def settings(self) -> tuple[str, str]:
        return self.path(FORWARD).read_text().strip(), self.path(INOTIFY).read_text().strip()

    def podman(self, *args: str) -> str:
        if args[:2] == ("network", "create"):
            labels = [args[i + 1] for i, a in enumerate(args) if a == "--label"]
            self.networks[args[-1]] = dict(label.split("=", 1) for label in labels)
            self.path(FORWARD).write_text("1\n")
        elif args[:2] == ("network", "rm"):
            for name in args[3:]:
                del self.networks[name]
        return self.running

    def labelled(self, kind: str, lab: str) -> list[str]:
        return [n for n, labels in self.networks.items() if labels[LABEL] == lab]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    fake = Machine(tmp_path)
    monkeypatch.setattr(network, "podman", fake.podman)
    monkeypatch.setattr(network, "networks", lambda: dict(fake.networks))
    monkeypatch.setattr(network, "labelled", fake.labelled)
    monkeypatch.setattr(network, "_path", fake.path)
    monkeypatch.setattr(network, "_LOCKS", tmp_path)
    return fake


def test_labs_get_subnets_of_their_own(machine: Machine) -> None:
    assert network.claim("other", None) == 1
    assert network.claim("natmap", None) == 0
    assert network.claim("third", None) == 2
    assert network.claim("other", None) == 1
    with pytest.raises(StepFailed, match="belongs to another lab"):
        network.claim("fourth", 2)
    with pytest.raises(StepFailed, match="stands on subnet number 1"):
        network.claim("other", 5)


def test_the_last_lab_puts_the_machines_settings_back(machine: Machine) -> None:
    network.claim("one", None)
    network.claim("two", None)
    assert machine.settings() == ("1", "2048")
    network.release("one")
    assert machine.settings() == ("1", "2048")
    network.release("two")
    assert machine.settings() == ("0", "128")
    assert not machine.networks


def test_settings_that_others_need_stay(machine: Machine) -> None:
    network.claim("one", None)
    machine.running = "somebody's container"
    network.release("one")
    assert machine.settings() == ("1", "2048")


def test_settings_that_are_enough_are_left_alone(machine: Machine) -> None:
    machine.path(INOTIFY).write_text("8192\n")
    network.claim("one", None)
    assert machine.settings()[1] == "8192"
    network.release("one")
    assert machine.settings()[1] == "8192"


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A set-up of one step that is done once it ran; returns the record of its runs."""
    runs: list[str] = []
    one = setup.Step("a thing", lambda: bool(runs), lambda: runs.append("ran"))
    monkeypatch.setattr(setup, "STEPS", {"thing": one})
    monkeypatch.setattr(setup, "USUAL", ("thing",))
    return runs


def test_a_step_that_is_done_is_not_run_again(step: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    setup.run(())
    setup.run(())
    assert step == ["ran"]
    assert "setup thing: done in" in capsys.readouterr().out
    setup.run((), quiet=True)
    assert capsys.readouterr().out == ""


def test_an_unknown_step_names_those_there_are(step: list[str]) -> None:
    with pytest.raises(StepFailed, match="no step jars"):
        setup.run(["jars"])


def test_a_program_that_fails_says_cause_and_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "BUILD", tmp_path)
    with pytest.raises(StepFailed, match="no route to the registry") as caught:
        run_logged("x", [sys.executable, "-c", "import sys; sys.exit('no route to the registry')"], "mend the route")
    assert caught.value.mend == "mend the route"
    assert (tmp_path / "log/x.log").read_text() == "no route to the registry\n"


def test_without_root_one_line_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert cli.main(["status"]) == 1
    assert capsys.readouterr().err == "lab status: needs root, for containers and networks: run it with sudo\n"


def test_pyspark_and_its_connector_match() -> None:
    pom = (ROOT / "spark_app/pom.xml").read_text()
    pinned = next(line for line in (ROOT / "requirements.in").read_text().splitlines() if line.startswith("pyspark"))
    assert f"<spark.version>{pinned.partition('==')[2]}</spark.version>" in pom


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-core216.txt"])
def test_every_requirement_has_a_hash_and_no_registry(name: str) -> None:
    text = (ROOT / name).read_text()
    requirements = [block for block in text.replace("\\\n", " ").splitlines() if block and not block.startswith("#")]
    assert requirements
    assert all("--hash=sha256:" in block for block in requirements)
    assert "://" not in text
    assert "index-url" not in text


def test_the_pom_names_no_registry() -> None:
    assert "<repositor" not in (ROOT / "spark_app/pom.xml").read_text()
