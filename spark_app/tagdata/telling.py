"""What the job says in its own log."""

from __future__ import annotations

import sys
import time


def say(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} tagdata: {text}", flush=True)


def refuse(code: str, cause: str, mend: str, number: int) -> int:
    """Say why it ends, where a log is read first; returns the exit code."""
    print(f"tagdata: {code} {cause}\ntagdata: mend: {mend}", file=sys.stderr, flush=True)
    return number
