"""The check of a relay against the live clusters: what is seen is gathered here, what it means stands in relay_rules."""

from __future__ import annotations

import glob
import json
import os
import time
from typing import Any

import relay_rules as rules
from relay_clusters import see
from relay_hadoop import Hadoop, Trouble
from relay_rules import Finding
from relay_versions import versions
from tagdata.settings import parse

SECONDS = 60.0


def findings(request: dict[str, Any]) -> dict[str, Any]:
    """Every finding about the settings of a request, and the relay's view."""
    settings = parse(request["settings"])
    found = versions(_names(request["spark_home"]), request["jars"])
    until = time.monotonic() + SECONDS
    view: dict[str, Any] = {}
    state: dict[str, Any] = {"job": None, "positions": {}}
    try:
        with Hadoop(request) as hadoop:
            (view,) = hadoop.views([request["place"]])
            state = _state(hadoop, request["place"])
    except Trouble as trouble:
        found.append(Finding("error", "STATE_AWAY", "state_dir", trouble.cause, trouble.mend))
    except ValueError as error:
        found.append(Finding("error", "STATE_BROKEN", "state_dir", str(error), "deploy with RUN=<name> FROM=earliest"))
    sides = {}
    for side, end in (("source", settings.source), ("sink", settings.sink)):
        sides[side] = see(side, end.bootstrap, end.options, request.get("files") or [], until)
        sides[side].look(*_wanted(settings, side, sides))
        found += rules.reached(sides[side])
    if all(side.answers for side in sides.values()):
        found += rules.judge(settings, sides["source"], sides["sink"], state, time.time())
    for opened in sides.values():
        opened.close()
    brokers = {name: sorted(side.brokers.values()) for name, side in sides.items()}
    return {"findings": [one._asdict() for one in found], "view": view, "brokers": brokers, "facts": rules.facts(sides)}


def _wanted(settings: Any, side: str, sides: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """Topics and pattern to look at. The sink's follow from those of the source."""
    if side == "source":
        return settings.source.topics, settings.source.pattern
    names = {settings.sink.of(topic) for topic in sides["source"].topics or settings.source.topics}
    return tuple(sorted(names | ({settings.dead_letter_topic} - {""}))), ""


def _names(spark_home: str) -> list[str]:
    return [os.path.basename(path) for path in glob.glob(os.path.join(glob.escape(spark_home), "jars", "*.jar"))]


def _state(hadoop: Hadoop, place: dict[str, Any]) -> dict[str, Any]:
    """What the job pinned at its first start, and where it is now."""
    files = hadoop.files(place)
    job = files.load("job.json")
    if not job:
        return {"job": None, "positions": {}}
    positions = {topic: dict(one["start"]) for topic, one in job["source"]["topics"].items()}
    commits = [int(name) for name in files.names("checkpoint/commits") if name.isdigit()]
    if commits:
        lines = (files.read(f"checkpoint/offsets/{max(commits)}") or "").splitlines()
        if len(lines) < 3:
            raise ValueError(f"{place['state_path']}/checkpoint/offsets/{max(commits)} is unreadable")
        for topic, numbers in json.loads(lines[2]).items():
            positions.setdefault(topic, {}).update(numbers)
    return {"job": job, "positions": {t: {int(n): o for n, o in of.items()} for t, of in positions.items()}}
