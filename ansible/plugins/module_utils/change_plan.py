"""The change plan of a fleet: what every host would gain and lose, as one document that can be signed.

Nodes with the same change share one description of it. Counts and times are told, but stay outside of the digest.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils.host_view import CHANGE, HostView
from ansible_collections.kafka.natmap.plugins.module_utils.tables import table

SCHEMA = 1
KIND = "kafka-natmap change plan"
STATES = ("refused", "unreached", "change", "same")
STATE_WORDS = {
    "change": "will change",
    "same": "nothing to change",
    "refused": "refused",
    "unreached": "not reached",
}
_CONTEXT = 3
_ANSWERING = ("OK", "UNPROVEN")


def make(hosts: Iterable[HostView], owner: str, made_at: str, made_by: str, window: int) -> dict[str, Any]:
    """One document for all hosts.

    :param made_at: the time in UTC as of ISO 8601
    :param window: seconds until a change that was not confirmed is undone
    """
    views = sorted(hosts, key=lambda view: view.host)
    changes: dict[str, dict[str, Any]] = {}
    nodes = [_node(view, changes) for view in views]
    document = {
        "kind": KIND,
        "schema": SCHEMA,
        "owner": owner,
        "made": {"at": made_at, "by": made_by},
        "window": window,
        "digest": fleet_digest(owner, nodes),
        "counts": {state: sum(node["state"] == state for node in nodes) for state in STATES},
        "undo": undo(owner, window),
        "nodes": nodes,
        "changes": changes,
        "neighbours": _by_hosts((view.host, _neighbours(view)) for view in views),
        "foreign": _by_hosts((view.host, view.preview.get("foreign", ())) for view in views),
    }
    return {**document, "checksum": checksum(document)}


def written(document: Mapping[str, Any]) -> str:
    """The document as a file: ASCII JSON, a line for each part, so that versions can be compared."""
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def checksum(document: Mapping[str, Any]) -> str:
    """SHA-256 over everything but the checksum itself: a file that was edited or cut short does not fit it."""
    return _sha256({key: value for key, value in document.items() if key != "checksum"})


def fleet_digest(owner: str, nodes: Iterable[Mapping[str, Any]]) -> str:
    """What is signed: whose map, and for every host what it holds now and what it will hold."""
    return _sha256([SCHEMA, owner, sorted([n["host"], n["digest"] or "", n["before_digest"] or ""] for n in nodes)])


def undo(owner: str, window: int) -> list[str]:
    """How a change is taken back, in plain words."""
    main = f"kafka-natmap-{owner}.service"
    timer = (
        f"If it is not confirmed within {window} s, a timer on the node undoes it: no controller, no connection and no "
        "process of the change itself is needed for that."
        if window
        else "No timer is started, because the window is 0."
    )
    return [
        "Each node asks every broker through the new rules as the job's user; if one that answers today does not, "
        "the node goes back at once to what it holds now.",
        timer,
        f"If the node restarts before that, its rules are gone, and {main} brings back what it holds now.",
        "Afterwards, `make remove` takes all of it away again, whatever was applied before.",
    ]


@lru_cache(maxsize=256)
def diff(before: str, after: str) -> tuple[str, ...]:
    """The lines to be removed and added, in the unified format."""
    pair = (_lines(before), _lines(after))
    return tuple(list(difflib.unified_diff(*pair, n=_CONTEXT, lineterm=""))[2:])


def plan_lines(document: Mapping[str, Any]) -> list[str]:
    """The document's beginning for the terminal."""
    rows = []
    for node in sorted(document["nodes"], key=lambda node: STATES.index(node["state"])):
        change = document["changes"].get(node["change"])
        rows.append((node["host"], STATE_WORDS[node["state"]], *sums(change), processes(node), short(node["digest"])))
    lines = [verdict(document), ""]
    lines += table(("host", "state", "lines", "mechanism", "processes now", "digest"), rows)
    lines += ["", *(f"{n['host']}: {r['cause']}. Mend: {r['mend']}." for n in document["nodes"] for r in n["refusals"])]
    lines += [f"note for {hosts}: {notice}" for notice, hosts in _notices(document)]
    lines += [f"beside us: {n['name']}{'' if n['active'] else ' (not active)'} on {some(n['hosts'])}: {n['effect']}"
              for n in document["neighbours"]]  # fmt: skip
    return [*lines, f"fleet digest {document['digest']}"]


def is_whole(document: Mapping[str, Any]) -> bool:
    """Whether every host can hold its plan."""
    return not (document["counts"]["refused"] or document["counts"]["unreached"])


def _notices(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each notice once, with the hosts that it is for."""
    found: dict[str, list[str]] = {}
    for node in document["nodes"]:
        for notice in document["changes"].get(node["change"] or "", {}).get("notices", ()):
            found.setdefault(notice, []).append(node["host"])
    return [(notice, some(hosts)) for notice, hosts in found.items()]


def verdict(document: Mapping[str, Any]) -> str:
    """One sentence on the whole."""
    counts, total = document["counts"], len(document["nodes"])
    said = ", ".join(f"{counts[state]} {STATE_WORDS[state]}" for state in STATES if counts[state])
    if not total:
        return "No host is in this plan."
    if not is_whole(document):
        return f"Not complete: of {total} hosts {said}."
    return f"Complete: of {total} hosts {said}." if counts[CHANGE] else f"Nothing to do: of {total} hosts {said}."


def sums(change: Mapping[str, Any] | None) -> tuple[str, str]:
    """Of a change: how many lines, and by which mechanisms."""
    if change is None:
        return "-", "-"
    added, removed = (sum(layer[key] for layer in change["layers"]) for key in ("added", "removed"))
    return f"+{added} -{removed}", ", ".join(sorted({entry["mechanism"] for entry in change["entries"]})) or "none"


def processes(node: Mapping[str, Any]) -> str:
    """Whose processes are touched, and how many run now."""
    return ", ".join(f"{label}: {count}" for label, count in sorted(node["processes"].items())) or "-"


def short(digest: str | None) -> str:
    """A digest's beginning, as tables show it."""
    return digest[:12] if digest else "-"


def some(hosts: Sequence[str], most: int = 5) -> str:
    """Names, the first of many."""
    more = f" and {len(hosts) - most} more" if len(hosts) > most else ""
    return ", ".join(hosts[:most]) + more


# ------------------------------------------------------------ one node


def _node(view: HostView, changes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    change = _change(view)
    key = _sha256(change)[:12] if change else None
    if key and change:
        changes.setdefault(key, change)
    tracking = view.preview.get("conntrack") or {}
    rows = (view.preview.get("proof") or {}).get("brokers", ())
    return {
        "host": view.host,
        "state": view.state,
        "digest": view.digest,
        "before_digest": view.before_digest,
        "change": key,
        "refusals": [vars(refusal) for refusal in view.refusals],
        "processes": dict((view.inspected.get("surroundings") or {}).get("processes") or {}),
        "tracked": {"now": tracking.get("count"), "most": tracking.get("max")},
        "brokers": {"asked": len(rows), "answering": sum(row["verdict"] in _ANSWERING for row in rows)},
        "half_done": bool(view.preview.get("half_done")),
    }


def _change(view: HostView) -> dict[str, Any] | None:
    if not view.preview:
        return None
    plan = json.loads(view.bundle)["plan"]
    return {
        "layers": [_layer(change) for change in view.preview["changes"]],
        "entries": list(plan["entries"]),
        "notices": list(plan["notices"]),
        "conntrack": view.preview["conntrack"]["effect"],
    }


def _layer(change: Mapping[str, str]) -> dict[str, Any]:
    lines = diff(change["before"], change["after"])
    return {
        "what": change["what"],
        "added": sum(line.startswith("+") for line in lines),
        "removed": sum(line.startswith("-") for line in lines),
        "diff": list(lines),
    }


def _lines(text: str) -> list[str]:
    """Split at line feeds alone: every other character is a part of its line."""
    lines = text.split("\n")
    end = lines.pop()
    return [*lines, f"{end} (no line end)"] if end else lines


def _neighbours(view: HostView) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = (view.inspected.get("surroundings") or {}).get("neighbours") or ()
    return found


def _by_hosts(found: Iterable[tuple[str, Iterable[Mapping[str, Any]]]]) -> list[dict[str, Any]]:
    """Equal findings once, each with the hosts that have it."""
    hosts: dict[str, list[str]] = {}
    for host, items in found:
        for item in items:
            hosts.setdefault(json.dumps(item, sort_keys=True), []).append(host)
    return [{**json.loads(item), "hosts": named} for item, named in sorted(hosts.items())]


def _sha256(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
