"""Telling a person what happens: lines with times, and long programs with a log and a sign of life."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.topology import BUILD

SIGN_OF_LIFE = 10.0


class StepFailed(RuntimeError):
    """A step failed: what the cause is, and how to mend it."""

    def __init__(self, cause: str, mend: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.mend = mend


class Clock:
    """Prints lines that start with the seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._start:6.1f} s] {text}", flush=True)


def run_logged(name: str, command: Sequence[str], mend: str, env: Mapping[str, str] | None = None) -> None:
    """Run a long program with its output in build/log/NAME.log and a line on the terminal every ten seconds.

    Raises StepFailed with the log's last lines and `mend`.
    """
    log = BUILD / "log" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    clock = Clock()
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env)
        while True:
            try:
                process.wait(SIGN_OF_LIFE)
                break
            except subprocess.TimeoutExpired:
                clock.say(f"  … {_last_lines(log, 1)[:110]}")
            except BaseException:
                process.terminate()
                process.wait()
                raise
    if process.returncode:
        raise StepFailed(
            f"{command[0]} ended with {process.returncode}; the end of {log}:\n{_last_lines(log, 12)}", mend
        )


def _last_lines(log: Path, count: int) -> str:
    lines = [line for line in log.read_text(errors="replace").replace("\r", "\n").splitlines() if line.strip()]
    return "\n".join(lines[-count:])
