"""Podman's command line as typed calls."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LABEL = "kafka-natmap.lab"
_ENVIRONMENT = os.environ | {"CONTAINERS_CONF": str(Path(__file__).with_name("containers.conf"))}


class PodmanError(RuntimeError):
    """A podman call failed. `said` is what podman, or the program it ran, had to say."""

    def __init__(self, call: str, said: str) -> None:
        super().__init__(f"{call}: {said}")
        self.said = said


def podman(*args: str, stdin: bytes | None = None, timeout: float = 120) -> str:
    """Run podman, return its stdout. Raises PodmanError with its stderr, or when `timeout` seconds are over."""
    call = " ".join(("podman", *args[:3]))
    try:
        done = subprocess.run(
            ["podman", *args],
            input=stdin,
            capture_output=True,
            timeout=timeout,
            env=_ENVIRONMENT,
            check=False,
            stdin=subprocess.DEVNULL if stdin is None else None,
        )
    except FileNotFoundError:
        raise PodmanError("podman", "is not installed: run `make setup`") from None
    except subprocess.TimeoutExpired:
        raise PodmanError(call, f"no end after {timeout:g} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise PodmanError(call, said or f"exit {done.returncode}")
    return done.stdout.decode(errors="replace")


def execute(container: str, *command: str, stdin: bytes | None = None, timeout: float = 120) -> str:
    """Run a command in a container as root, return its stdout."""
    return podman("exec", *(["-i"] if stdin is not None else []), container, *command, stdin=stdin, timeout=timeout)


def containers(lab: str) -> dict[str, dict[str, Any]]:
    """The lab's containers by name, as `podman inspect` gives them, running or not."""
    names = podman("ps", "-a", "--filter", f"label={LABEL}={lab}", "--format", "{{.Names}}").split()
    found: list[dict[str, Any]] = json.loads(podman("container", "inspect", *names)) if names else []
    return {c["Name"]: c for c in found}


def networks() -> dict[str, dict[str, str]]:
    """Labels of every lab's networks, by network name."""
    listed = json.loads(podman("network", "ls", "--filter", f"label={LABEL}", "--format", "json") or "[]")
    return {n["name"]: n.get("labels") or {} for n in listed}


def labelled(kind: str, lab: str) -> list[str]:
    """Names of the lab's networks or volumes (`kind` is `network` or `volume`)."""
    return podman(kind, "ls", "--filter", f"label={LABEL}={lab}", "--format", "{{.Name}}").split()


def is_alive(container: dict[str, Any]) -> bool:
    """Whether the container's first process still runs.

    Podman believes in it for ever once conmon was killed, so ask the kernel; the id guards against a reused pid.
    """
    state = container["State"]
    if state["Status"] != "running" or not _belongs(state.get("ConmonPid", 0), container["Id"], "cmdline"):
        return False
    return _belongs(state["Pid"], container["Id"], "cgroup")


def _belongs(pid: int, container_id: str, file: str) -> bool:
    try:
        return pid > 0 and container_id in Path(f"/proc/{pid}/{file}").read_text()
    except OSError:
        return False


def remove(names: Sequence[str]) -> None:
    """Remove containers whatever state they are in; their volumes stay."""
    if not names:
        return
    try:
        podman("rm", "-f", "-t", "0", *names, timeout=300)
    except PodmanError:
        # What died with its conmon is refused once, found stopped by that, and removed the second time.
        podman("rm", "-f", "-t", "0", "-i", *names, timeout=300)
