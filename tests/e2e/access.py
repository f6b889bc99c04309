"""How a story reaches the hosts of its lab: programs on a host, and our own tools in a host's network."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lab import podman
from lab.topology import ROOT, Lab

HERE = Path(__file__).parent


def on_host(lab: Lab, host: str, script: str, *arguments: str, user: str = "root") -> Any:
    """Run a script of this folder on a host, as `user`, and return the JSON that it prints."""
    code = (HERE / script).read_bytes()
    command = ["exec", "-i", "--user", user, lab.container(host), "python3", "-", *arguments]
    return json.loads(podman.podman(*command, stdin=code))


def in_network(lab: Lab, host: str, module: str, *arguments: str) -> str:
    """Run a module of this folder here, but in the network of a host; returns what it prints.

    The host's own files stay untouched, and it needs no Kafka client. RuntimeError when the module fails.
    """
    process = podman.containers(lab.name)[lab.container(host)]["State"]["Pid"]
    command = ["nsenter", f"--net=/proc/{process}/ns/net", sys.executable, "-m", f"e2e.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT / "tests", capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{module} in the network of {host}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()
