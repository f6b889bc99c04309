"""What runs on the edge for a relay: looks at it, asks it to end, and checks its settings against the live clusters.

One request as JSON on standard input, one answer as JSON on standard output. Needs what `spark-submit` needs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from relay_hadoop import Hadoop, Trouble
from relay_options import Unreadable, trusted
from relay_places import find

LEASE = 15.0  # seconds without a sign of life from whoever watches, after which the watch ends
TICK = 1.0  # seconds between two looks of a watch
MARKERS = {"stop": "stop.json", "drain": "drain.json"}


def main(arguments: list[str]) -> int:
    """Answer one request; the exit code is 0 unless the program itself failed."""
    out = os.dup(1)
    os.dup2(2, 1)  # the JVM writes where it likes: the answer has standard output for itself
    verb = {"look": look, "withdraw": withdraw, "check": check, "watch": watch, "read": read, "trust": trust}[
        arguments[0]
    ]
    request = json.loads(sys.stdin.read())
    try:
        answer = verb(request)
    except Trouble as trouble:
        answer = {"error": {"cause": trouble.cause, "mend": trouble.mend}}
        if "path" in request:
            put(request["path"], answer)
    os.write(out, (json.dumps(answer) + "\n").encode())
    return 0


def look(request: dict[str, Any]) -> dict[str, Any]:
    """How each relay fares."""
    with Hadoop(request) as hadoop:
        return {"views": hadoop.views(find(request))}


def read(request: dict[str, Any]) -> dict[str, Any]:
    """A JSON file of a relay's state directory; None where there is none."""
    with Hadoop(request) as hadoop:
        return {"content": hadoop.load(request["place"], request["file"])}


def mark(hadoop: Hadoop, request: dict[str, Any]) -> dict[str, str]:
    """Ask a running relay to stop at a batch boundary, or to copy what is there first; the application asked, by title."""
    running = [view for view in hadoop.views(find(request)) if view["running"]]
    if len(running) > 1:
        names = ", ".join(view["title"] for view in running)
        raise Trouble(f"several relays run: {names}", "name one: RELAY=NAME [RUN=NAME]")
    asked = {view["title"]: view["running"][-1]["id"] for view in running}
    for view in running:
        hadoop.write(view, MARKERS[request["mark"]], {"application": asked[view["title"]]})
    return asked


def withdraw(request: dict[str, Any]) -> dict[str, Any]:
    """Take the request to end back."""
    with Hadoop(request) as hadoop:
        places = find(request)
        for place in places:
            for marker in MARKERS.values():
                hadoop.delete(place, marker)
        return {"views": hadoop.views(places)}


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Findings of a relay's settings against the live clusters, YARN and the state directory."""
    from relay_check import findings  # kafka-python, which only this needs

    return findings(request)


def trust(request: dict[str, Any]) -> dict[str, Any]:
    """The certificates by which each side's brokers are trusted, as PEM, for those who lack this edge's files."""
    os.environ.update(request.get("environment") or {})
    found = {}
    for side in ("source", "sink"):
        try:
            found[side] = {
                "cadata": trusted(request["settings"][side]["options"], request.get("files") or []),
                "why": "",
            }
        except (Unreadable, subprocess.SubprocessError) as error:
            found[side] = {"cadata": None, "why": str(error)}
    return found


def watch(request: dict[str, Any]) -> dict[str, Any]:
    """Write the views to a file again and again, as long as somebody renews the lease; `mark` asks for an end first."""
    path, lease = request["path"], request["path"] + ".lease"
    with Hadoop(request) as hadoop:
        asked = mark(hadoop, request) if request.get("mark") else {}
        while os.path.exists(lease) and time.time() - os.stat(lease).st_mtime < LEASE:
            try:
                answer: dict[str, Any] = {"views": hadoop.views(find(request)), "asked": asked}
            except Trouble as trouble:
                answer = {"error": {"cause": trouble.cause, "mend": trouble.mend}}
            put(path, answer)
            time.sleep(TICK)
    return {}


def put(path: str, answer: dict[str, Any]) -> None:
    """Write an answer whole."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.replace(path + ".new", path)
