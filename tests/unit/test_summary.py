"""The closing line of a test run."""

from __future__ import annotations

from pathlib import Path

import pytest
import summary

SUITE = '<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1"/></testsuites>'


@pytest.mark.parametrize(
    ("files", "code", "line"),
    [
        ({}, "0", "0 passed, 0 failed"),
        ({}, "2", "0 passed, 1 failed"),
        ({"unit.xml": SUITE}, "2", "2 passed, 2 failed"),
        ({"unit.xml": SUITE, "molecule.xml": '<testsuite tests="3" failures="0"/>'}, "2", "5 passed, 2 failed"),
    ],
)
def test_the_line_counts_all_stages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], code: str, line: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    summary.main(str(tmp_path), code)
    assert capsys.readouterr().out == line + "\n"
