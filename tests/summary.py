"""The closing line of a test run: how many passed and failed, from the JUnit files that the stages wrote."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def count(folder: Path) -> tuple[int, int]:
    """Passed and failed cases of every file in the folder."""
    suites = [suite for path in sorted(folder.glob("*.xml")) for suite in ElementTree.parse(path).iter("testsuite")]
    total, bad, skipped = (sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "failures", "skipped"))
    bad += sum(int(suite.get("errors", 0)) for suite in suites)
    return total - bad - skipped, bad


def main(folder: str, code: str = "0") -> int:
    """Print the line; a run that broke off without a failed case, say in lint, counts as one."""
    passed, failed = count(Path(folder))
    broke_off = code != "0"
    print(f"{passed} passed, {max(failed, int(broke_off))} failed")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
