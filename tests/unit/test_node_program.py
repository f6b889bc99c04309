"""The node program as one file: its syntax, its verbs, its messages."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.kafka.natmap.plugins.filter import natmap as filters
from unit.nodes import ROOT

FILES = ROOT / "ansible" / "roles" / "switch" / "files"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "kafka-natmap.pyz"
    path.write_bytes(base64.b64decode(filters.program(str(FILES))))
    return path


def ask(program: Path, *arguments: str, request: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(program), *arguments], input=request, capture_output=True, text=True, check=False
    )


def test_it_runs_on_the_oldest_python_of_the_field() -> None:
    vermin = str(Path(sys.executable).with_name("vermin"))
    command = [vermin, "-t=3.6-", "--no-tips", "--violations", *map(str, FILES.glob("*.py"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_needs_the_standard_library_only(program: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(program), "--help"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("argument", ["--help", "-h"])
def test_help_names_every_verb(program: Path, argument: str) -> None:
    done = ask(program, argument)
    assert done.returncode == 0
    for verb in ("inspect", "switch", "verify", "status", "boot", "undo"):
        assert f"kafka-natmap.pyz {verb}" in done.stdout


def test_an_unknown_verb_is_a_usage_error(program: Path) -> None:
    assert ask(program, "aply").returncode == 2


def test_a_refusal_is_told_as_data(program: Path) -> None:
    done = ask(program, "status")
    assert done.returncode == 1
    assert set(json.loads(done.stdout)["error"]) == {"cause", "mend"}


def test_the_same_sources_give_the_same_program() -> None:
    filters.program.cache_clear()
    first = filters.program(str(FILES))
    filters.program.cache_clear()
    assert filters.program(str(FILES)) == first
