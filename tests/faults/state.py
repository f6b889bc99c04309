"""All that is ours on a node, as JSON: rules without counters, files, units, timers. Runs on the node.

Arguments, if any: seconds to wait for, and the state that is waited for (null: any content); it answers as soon as
that is reached.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping

ROOTS = ("/etc/kafka-natmap", "/var/lib/kafka-natmap", "/etc/systemd/system", "/usr/libexec/kafka-natmap")
# What a run may leave: the record, and the stages of Ansible's module.
SPARED = ("/var/lib/kafka-natmap/audit.jsonl",)


def output(*command: str) -> str:
    """What a program prints."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def described(path: str) -> dict[str, str]:
    """A file's digest; of a generation also that of its content, which is the same each time it is confirmed."""
    with open(path, "rb") as stream:
        data = stream.read()
    found = {path: hashlib.sha256(data).hexdigest()}
    if path.endswith(".json") and path.startswith(ROOTS[1]):
        content = {key: value for key, value in json.loads(data).items() if key not in ("since", "by", "state")}
        found["content of " + path] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return found


def state() -> dict[str, str]:
    """Name to content; files by their SHA-256."""
    found = described("/etc/hosts")
    found["table ip nat"] = output("nft", "--stateless", "list", "table", "ip", "nat")
    for line in output("nft", "list", "tables").splitlines():
        if " kafka_" in line:
            found[line] = output("nft", "--stateless", "list", *line.split())
    for root in ROOTS:
        for folder, _, files in os.walk(root):
            for path in (os.path.join(folder, name) for name in files):
                if root in SPARED or path in SPARED or (root == ROOTS[2] and "kafka-natmap" not in path):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    found.update(described(path))
    units = output(
        "systemctl", "list-units", "--all", "--no-legend", "--plain", "kafka-natmap-undo*", "kafka-natmap-switch*"
    )
    found["running"] = " ".join(sorted(line.split()[0] for line in units.splitlines() if line.strip()))
    return found


def holds(found: Mapping[str, str], wanted: Mapping[str, str | None]) -> bool:
    """Whether all names are there with their values, and no others; the volatile ones with any value (null)."""
    return set(found) == set(wanted) and all(value in (None, found[name]) for name, value in wanted.items())


def main() -> None:
    """Print the state and when it was found (CLOCK_MONOTONIC), at once or when it is the one that is wanted."""
    found = state()
    if len(sys.argv) > 1:
        deadline, wanted = time.monotonic() + float(sys.argv[1]), json.loads(sys.argv[2])
        while not holds(found, wanted) and time.monotonic() < deadline:
            time.sleep(0.2)
            found = state()
    json.dump({"at": time.monotonic(), "state": found}, sys.stdout)


if __name__ == "__main__":
    main()
