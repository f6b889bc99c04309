"""What a node holds that a change of its rules could touch, as JSON. Runs on the node; standard library only."""

import hashlib
import json
import os
import re
import stat
import subprocess
import sys

TREES = (
    "/etc",
    "/root",
    "/srv",
    "/usr/lib/systemd",
    "/usr/libexec",
    "/usr/local",
    "/var/lib/kafka-natmap",
    "/var/spool/cron",
)
LISTINGS = {
    "nftables": ["nft", "--stateless", "list", "ruleset"],
    "iptables": ["iptables-save"],
    "legacy iptables": ["iptables-legacy-save"],
    "routes": ["ip", "route", "show", "table", "all"],
    "policy rules": ["ip", "rule"],
    "units": ["systemctl", "list-unit-files", "--no-legend", "--no-pager"],
    "timers": ["systemctl", "list-timers", "--all", "--no-legend", "--no-pager", "--output=json"],
}


def describe(path: str) -> str:
    """Kind, mode, owner and content of one file."""
    info = os.lstat(path)
    if stat.S_ISLNK(info.st_mode):
        content = os.readlink(path)
    elif stat.S_ISREG(info.st_mode):
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read()).hexdigest()
    else:
        content = ""
    return f"{stat.filemode(info.st_mode)} {info.st_uid}:{info.st_gid} {content}"


def listing(command: list[str]) -> str:
    """What a program prints, without what moves by itself: the time in comments, counters in brackets."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "not installed"
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    return re.sub(r"\[\d+:\d+\]", "", "\n".join(lines))


def timers(text: str) -> str:
    """The names alone; the rest of the list changes by itself."""
    return " ".join(sorted(timer["unit"] for timer in json.loads(text or "[]")))


def main() -> None:
    """Print {path or listing: content}."""
    state: dict[str, str] = {}
    for tree in TREES:
        for folder, folders, files in os.walk(tree):
            for path in [folder, *(os.path.join(folder, name) for name in folders + files)]:
                state[path] = describe(path)
    for name, command in LISTINGS.items():
        state[name] = listing(command)
    state["timers"] = timers(state["timers"])
    json.dump(state, sys.stdout)


if __name__ == "__main__":
    main()
