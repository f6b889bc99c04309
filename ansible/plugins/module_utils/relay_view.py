"""How a relay fares, from what it says of itself and what YARN says of it. Pure."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

ENDED_WELL = ("STOPPED", "DRAINED", "DONE")
REDEPLOY = "make spark-job-logs shows why; make deploy-spark-job starts it again where it was"


def judged(view: Mapping[str, Any]) -> dict[str, Any]:
    """The view with ``state``, ``cause`` and ``mend`` as they are, whatever the last status said; ``well`` sums up."""
    state, cause, mend = _judge(view)
    well = state not in ("HALTED", "DEAD", "NEVER", "DOUBLE")
    return {**view, "state": state, "cause": cause, "mend": mend, "well": well}


def _judge(view: Mapping[str, Any]) -> tuple[str, str, str]:
    status, halted, running = view["status"], view["halted"], view["running"]
    if len(running) > 1:
        ids = " and ".join(one["id"] for one in running)
        return (
            "DOUBLE",
            f"{ids} run at once; one of them owns the state directory",
            "end the other: yarn application -kill",
        )
    if running:
        if status and status["application"] == running[0]["id"]:
            return status["state"], status["cause"], status["mend"]
        return "SUBMITTED", f"YARN says {running[0]['state']} of {running[0]['id']}", ""
    if halted:
        return "HALTED", f"{halted['code']} {halted['cause']}", halted["mend"]
    if not status:
        return "NEVER", f"nothing has run in {view['state_path']} yet", "make deploy-spark-job starts it"
    if status["state"] in ENDED_WELL:
        return status["state"], status["cause"], status["mend"]
    return "DEAD", _died(view), REDEPLOY


def _died(view: Mapping[str, Any]) -> str:
    application, said = view["application"], view["status"]["state"]
    if not application:
        return f"{view['status']['application']} is unknown to YARN; the last that it said was {said}"
    last = application["diagnostics"].strip().splitlines()[-1:] or ["no more"]
    return f"{application['id']} {application['state']} {application['final']}: {last[0].strip()}"


def told(view: Mapping[str, Any], line: Callable[..., str], now: float | None = None) -> str:
    """A line for people; ``line`` is the job's own."""
    one = judged(view)
    about = {"state": one["state"], "cause": one["cause"], "mend": one["mend"]}
    if one["status"] and (one["state"] in (one["status"]["state"], "HALTED", "DEAD")):
        moment = time.time() if now is None else now
        frozen = {"time": moment} if not one["running"] else {}
        return line({**one["status"], **about, **frozen}, moment)
    tail = "".join(f"\n  {text}" for text in (one["cause"], f"mend: {one['mend']}" if one["mend"] else "") if text)
    return f"{one['title']} {one['state']}{tail}"


def reached(views: list[Mapping[str, Any]], states: list[str], application: str = "") -> bool:
    """Whether every judged view has come to one of the states, or can come no further.

    :param application: the one whose coming is awaited; empty for whichever runs
    """
    for view in views:
        ids = [one["id"] for one in view["running"]]
        ours = not application or (view["status"] or {}).get("application") == application
        goes_on = application in ids if application else bool(ids)
        if goes_on and not (ours and view["state"] in states):
            return False
    return True


def problems(views: list[Mapping[str, Any]], asked: str = "", application: str = "") -> list[str]:
    """What makes a status fail: nothing there, or a relay that neither runs nor has ended as it was asked to.

    :param application: the one that was submitted; what another one says of itself is no success
    """
    if not views:
        what = f"no relay {asked} was deployed from here" if asked else "no relay was deployed from here"
        return [f"{what}. Mend: make deploy-spark-job APP=tagdata RELAY=FILE, or name one that is there"]
    if application:
        lost = [_overtaken(view, application) for view in views]
        if any(lost):
            return list(filter(None, lost))
    found = map(judged, views)
    return [f"{one['title']} {one['state']}: {one['cause']}. Mend: {one['mend']}" for one in found if not one["well"]]


def _overtaken(view: Mapping[str, Any], application: str) -> str:
    """Why an application will never speak for its relay; empty where it does, or still may."""
    if (
        application in [one["id"] for one in view["running"]]
        or (view["status"] or {}).get("application") == application
    ):
        return ""
    if view["running"]:
        by = view["running"][-1]["id"]
        cause, mend = f"{by} owns the state directory and goes on", "none is needed, or stop that one first"
    else:
        cause, mend = "it told nothing", f"yarn logs -applicationId {application} shows why"
    return f"{view['title']}: {application} has ended, {cause}. Mend: {mend}"


def unclear(views: list[Mapping[str, Any]], asked: str = "") -> str:
    """Why there is not one relay that has run among them; empty when there is."""
    if not views:
        return problems([], asked)[0]
    if len(views) > 1:
        titles = ", ".join(view["title"] for view in views)
        return f"several relays were deployed from here: {titles}. Mend: name one, RELAY=NAME [RUN=NAME]"
    one = views[0]
    if one["status"]:
        return ""
    return f"{one['title']}: nothing has run in {one['state_path']} yet. Mend: make deploy-spark-job starts it"


def report(views: list[Mapping[str, Any]]) -> str:
    """The views as JSON, for programs."""
    return json.dumps({"format": 1, "relays": [judged(view) for view in views]}, indent=1, sort_keys=True) + "\n"


def applications(views: list[Mapping[str, Any]]) -> list[str]:
    """The application of each relay whose logs tell how it fares: the one that runs, else the last that spoke."""
    ids = [(view["running"] or [view["application"]])[-1] for view in views]
    return [one["id"] for one in ids if one]


def merged(texts: list[str]) -> str:
    """Several expositions as one: Prometheus wants each family in one piece."""
    families: dict[str, list[str]] = {}
    for text in texts:
        for line in text.splitlines():
            parts = line.split()
            if line.startswith("# HELP"):
                family = families.setdefault(parts[2], [])
            if not (line.startswith("#") and line in family):
                family.append(line)
    return "".join(f"{line}\n" for lines in families.values() for line in lines)
