"""How a story looks on a terminal: numbered steps, the commands as typed, their output, and how long each took."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.topology import ROOT

_COLOURS = {"title": "1", "command": "36", "output": "2", "good": "32", "bad": "31"}


class StoryError(RuntimeError):
    """The story did not go as told; the text says what was expected and what was seen."""


def say(text: str, kind: str = "output", indent: str = "    ") -> None:
    """Print lines in the colour of their kind; plain when nobody watches."""
    colour = _COLOURS[kind] if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ""
    for line in text.splitlines():
        print(f"{indent}\033[{colour}m{line}\033[0m" if colour else f"{indent}{line}".rstrip(), flush=True)


@contextmanager
def step(title: str) -> Iterator[None]:
    """A part of the story, with the time it took below it."""
    say(f"\n== {title} ".ljust(100, "="), "title", "")
    begin = time.monotonic()
    yield
    say(f"{time.monotonic() - begin:.1f} s", "output", "  ")


def good(text: str) -> None:
    """Something that had to hold and does."""
    say(f"ok: {text}", "good", "  ")


def run(command: Sequence[str]) -> tuple[int, str]:
    """Run a command in the repository's root, show it and its output as it comes; returns exit code and output."""
    say("$ " + " ".join(command), "command", "  ")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1", "ANSIBLE_NOCOLOR": "1"}
    lines = []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            if line.strip():
                say(line.rstrip().rstrip("*").rstrip())
    return process.returncode, "".join(lines)
