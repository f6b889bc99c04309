"""A lab for a measurement: one that stands is used as it is, one that does not is brought up and goes again afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lab import lifecycle
from lab.cli import main as lab_command
from lab.topology import Lab


@contextmanager
def borrowed(name: str, hosts: Sequence[str]) -> Iterator[Lab]:
    """The lab of that name with these hosts or parts, every part answering; SystemExit where it does not come up."""
    ours = lifecycle.standing(name) is None
    if lab_command(["up", "--name", name, "--only", *hosts]):
        raise SystemExit(1)
    try:
        yield lifecycle.standing(name) or Lab(name)
    finally:
        if ours:
            lab_command(["down", "--name", name])
