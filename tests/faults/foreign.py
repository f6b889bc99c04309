"""Make a foreign change and wait until the watch has answered it; prints JSON. Runs on the node.

Arguments: the owner, the longest wait in seconds, what ends it (back: the plan stands again; lifted: the exemption is
gone; told: the watch says that something differs), and the command, for a shell.
"""

import contextlib
import json
import os
import subprocess
import sys
import time

PROGRAM = "/usr/libexec/kafka-natmap/kafka-natmap.pyz"
sys.path.insert(0, PROGRAM)
from kafka_natmap_drift import differences  # noqa: E402 - it is the node's own


def said(owner: str) -> dict:
    """What the watch says of itself."""
    with contextlib.suppress(OSError, ValueError), open(f"/run/kafka-natmap/watch-{owner}.json") as stream:
        return json.load(stream)
    return {}


def output(*command: str) -> str:
    """What a program prints."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def main() -> None:
    """Change, wait, answer."""
    owner, longest, end, command = sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4]
    generation_file = f"/var/lib/kafka-natmap/{owner}/generation.json"
    with open(generation_file) as stream:
        generation = json.load(stream)
    table = "table ip " + generation["names"]["notrack_table"]

    def answered() -> bool:
        if end == "lifted":
            return table not in output("nft", "list", "tables")
        if end == "told":
            return bool(said(owner).get("drift"))
        return os.path.exists(generation_file) and not differences(generation)

    before = answered()
    begun = time.monotonic()
    made = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    changed = not answered() if end == "back" else not before
    while not answered() and time.monotonic() - begun < longest:
        time.sleep(0.01)
    seconds, reached = time.monotonic() - begun, answered()
    # What the watch writes of a repair comes right after it.
    while end == "back" and reached and changed and not said(owner).get("last") and time.monotonic() - begun < longest:
        time.sleep(0.01)
    answer = {"seconds": seconds, "changed": changed, "reached": reached, "code": made.returncode, "watch": said(owner)}
    json.dump({**answer, "printed": made.stdout[-300:]}, sys.stdout)


main()
