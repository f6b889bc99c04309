"""What runs on the edge for a relay: looks at it, asks it to end, and checks its settings against the live clusters.

One request as JSON on standard input, one answer as JSON on standard output. Needs what `spark-submit` needs.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from relay_hadoop import Hadoop, Trouble
from relay_places import find

LEASE = 15.0  # seconds without a sign of life from whoever watches, after which the watch ends
TICK = 1.0  # seconds between two looks of a watch
MARKERS = {"stop": "stop.json", "drain": "drain.json"}


def main(arguments: list[str]) -> int:
    """Answer one request; the exit code is 0 unless the program itself failed."""
    out = os.dup(1)
    os.dup2(2, 1)  # the JVM writes where it likes: the answer has standard output for itself
    verb = {"look": look, "stop": mark, "drain": mark, "withdraw": withdraw, "check": check, "watch": watch}[
        arguments[0]
    ]
    request = json.loads(sys.stdin.read())
    try:
        answer = verb({**request, "verb": arguments[0]})
    except Trouble as trouble:
        answer = {"error": {"cause": trouble.cause, "mend": trouble.mend}}
    os.write(out, (json.dumps(answer) + "\n").encode())
    return 0


def look(request: dict[str, Any]) -> dict[str, Any]:
    """How each relay fares."""
    with Hadoop(request) as hadoop:
        return {"views": hadoop.views(find(request))}


def mark(request: dict[str, Any]) -> dict[str, Any]:
    """Ask a running relay to stop at a batch boundary, or to copy what is there and then end."""
    with Hadoop(request) as hadoop:
        views = hadoop.views(find(request))
        running = [view["title"] for view in views if view["running"]]
        if len(running) > 1:
            raise Trouble(f"several relays run: {', '.join(running)}", "name one: RELAY=NAME [RUN=NAME]")
        for view in views:
            for application in view["running"][-1:]:
                hadoop.write(view, MARKERS[request["verb"]], {"application": application["id"]})
                view["asked"] = application["id"]
        return {"views": views}


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


def watch(request: dict[str, Any]) -> dict[str, Any]:
    """Write the views to a file again and again, as long as somebody renews the lease."""
    path, lease = request["path"], request["path"] + ".lease"
    with Hadoop(request) as hadoop:
        while os.path.exists(lease) and time.time() - os.stat(lease).st_mtime < LEASE:
            try:
                answer: dict[str, Any] = {"views": hadoop.views(find(request))}
            except Trouble as trouble:
                answer = {"error": {"cause": trouble.cause, "mend": trouble.mend}}
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(answer, file)
            os.replace(path + ".new", path)
            time.sleep(TICK)
    return {}
