"""The controller's records: whole files, lines that are only added, and a clear word where they cannot be written."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from unit.nodes import ROOT


def record(folder: Path, *more: str, **arguments: Any) -> subprocess.CompletedProcess[str]:
    given = json.dumps({"folder": str(folder), **arguments})
    command = ["ansible", "localhost", "-m", "kafka.natmap.record", "-a", given, *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_files_are_replaced_and_lines_added(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "records"
    for number in (1, 2):
        done = record(folder, files={"plan.json": f"{number}\n"}, append={"audit.jsonl": f"line {number}"})
        assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "plan.json").read_text() == "2\n"
    assert (folder / "audit.jsonl").read_text() == "line 1\nline 2\n"
    assert sorted(path.name for path in folder.iterdir()) == ["audit.jsonl", "plan.json"]


def test_an_empty_text_takes_the_file_away_also_in_check_mode(tmp_path: Path) -> None:
    (tmp_path / "apply.retry").write_text("nm1\n")
    assert record(tmp_path, "--check", files={"apply.retry": ""}).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named_with_a_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = record(tmp_path / "file" / "records", files={"a": "b"})
    assert done.returncode != 0
    assert "cannot be written" in done.stdout + done.stderr
    assert "natmap_records" in done.stdout + done.stderr
