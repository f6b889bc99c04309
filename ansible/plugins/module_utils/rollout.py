"""What became of a roll-out: each host's end, worst first; the retry list; the controller's record of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils.host_view import REFUSED, UNREACHED, HostView
from ansible_collections.kafka.natmap.plugins.module_utils.tables import table

RESULTS = {
    "unknown": "the connection was lost after the switch began",
    "undone, differs": "undid itself, and is not quite what it was",
    "undone": "undid itself, and is what it was before",
    "refused": "nothing was changed",
    "unreached": "not reached; nothing was changed",
    "old": "not switched; it holds what it held",
    "brought back": "was new, and holds its previous generation again",
    "would change": "a run without --check changes it",
    "new": "confirmed",
    "removed": "everything of this owner is gone",
    "unchanged": "held this already",
}
"""Worst first."""

_GOOD = ("new", "removed", "unchanged", "would change")
_AGAIN = ("unreached", "unknown", "old")
_BUSY = "the node is being switched by"


@dataclass(frozen=True)
class End:
    """How one host ended."""

    host: str
    result: str
    why: str = ""
    digest: str | None = None
    seconds: float = 0.0


def end_of(view: HostView, facts: Mapping[str, Any], skipped: str | None = None) -> End:
    """From the facts ``switch_result`` and ``switch_back``, and why an approved plan left the host out."""
    switched, back = facts.get("switch_result") or {}, facts.get("switch_back") or {}
    if back:
        return _after_the_way_back(_switched(view.host, switched), back)
    if switched and not switched.get("skipped"):
        return _switched(view.host, switched)
    if view.state == UNREACHED and not view.bundle:
        return End(view.host, "unreached", _causes(view))
    if skipped:
        return End(view.host, "old", f"skipped: {skipped}")
    if view.state == REFUSED and (view.preview or not view.bundle):
        return End(view.host, "refused", _causes(view))
    return End(view.host, "old", "the roll-out stopped before it came here")


def state(switched: Mapping[str, Any] | None) -> str | None:
    """What a registered switch ended as; None where it gave no answer."""
    answer: Mapping[str, Any] = (switched or {}).get("answer") or {}
    return answer.get("state")


def end_of_removal(host: str, facts: Mapping[str, Any]) -> End:
    """From the fact ``switch_result`` of a removal."""
    switched = facts.get("switch_result") or {}
    if switched.get("unreachable") and not switched.get("answer"):
        return End(host, "unreached", "it was not reached. Mend: run this again when it is back.")
    end = _switched(host, switched)
    return End(host, "removed", "", None, end.seconds) if state(switched) == "removed" else end


def _causes(view: HostView) -> str:
    return " ".join(map(str, view.refusals))


def _switched(host: str, switched: Mapping[str, Any]) -> End:
    answer = switched.get("answer")
    if not answer:
        said = str(switched.get("msg") or "no answer")
        if _BUSY in said:
            return End(host, "refused", said)
        return End(host, "unknown", f"{said.rstrip('.')}. See make status")
    seconds = round(sum(step["seconds"] for step in answer.get("steps", ())), 3)
    state, why = answer["state"], "; ".join(answer.get("failed") or ())
    if state == "refused":
        why = "{cause}. Mend: {mend}.".format(**answer["refusal"])
    if state == "undone" and not answer.get("clean"):
        state = "undone, differs"
    if state == "removed":
        state, why = "new", "the map holds nothing for it, so all was taken away"
    return End(host, {"confirmed": "new"}.get(state, state), why, answer.get("digest"), seconds)


def _after_the_way_back(end: End, back: Mapping[str, Any]) -> End:
    answer = back.get("answer") or {}
    if answer.get("state") in ("confirmed", "removed"):
        return End(end.host, "brought back", "another host failed (all_or_none)", answer.get("digest"), end.seconds)
    if answer.get("state") == "unchanged" and end.result != "new":
        return end
    if not answer:
        return End(end.host, "unknown", "lost on the way back. See make status", end.digest, end.seconds)
    why = "; ".join(answer.get("failed") or ()) or (answer.get("refusal") or {}).get("cause") or "it holds another plan"
    return End(end.host, "unknown", f"could not be brought back: {why}. See make status", end.digest, end.seconds)


def summary(ends: Iterable[End]) -> dict[str, Any]:
    """Every host's end, worst first, the sentence over them, and whether the run failed."""
    order = list(RESULTS)
    found = sorted(ends, key=lambda end: (order.index(end.result), end.host))
    counts = {result: sum(end.result == result for end in found) for result in order}
    said = ", ".join(f"{count} {result}" for result, count in counts.items() if count)
    failed = any(end.result not in _GOOD for end in found)
    return {
        "nodes": [vars(end) for end in found],
        "failed": failed,
        "verdict": f"{'NOT as the map says' if failed else 'As the map says'}: {said or 'no host'}",
    }


def lines(summed: Mapping[str, Any], records: str, verb: str = "apply") -> list[str]:
    """The summary for the terminal.

    :param records: the controller's folder, in which the retry list is
    """
    rows = [
        (n["host"], n["result"], f"{n['seconds']:.1f} s", (n["digest"] or "-")[:12], n["why"] or RESULTS[n["result"]])
        for n in summed["nodes"]
    ]
    again = [f"Try those again: ansible-playbook {verb} --limit @{records}/{verb}.retry"] if retry_list(summed) else []
    return [*table(("host", "result", "took", "digest", "why"), rows), "", summed["verdict"], *again]


def retry_list(summed: Mapping[str, Any]) -> str:
    """The hosts that another run may finish, for ``--limit @FILE``; those that need a mend first are not among them."""
    again = [n["host"] for n in summed["nodes"] if _may_be_finished(n["result"], n["why"])]
    return "".join(f"{host}\n" for host in sorted(again))


def _may_be_finished(result: str, why: str) -> bool:
    return _BUSY in why or (result in _AGAIN and not why.startswith("skipped: "))


def audit_record(
    summed: Mapping[str, Any], time: str, who: str, verb: str, owner: str, map_text: str, approved_digest: str = ""
) -> str:
    """One JSON line: who did what to which hosts, by which map, and how each ended."""
    record = {
        "time": time,
        "who": who,
        "verb": verb,
        "owner": owner,
        "map": sha256(map_text.encode("utf-8", "surrogateescape")).hexdigest() if map_text else None,
        "approved": approved_digest or None,
        "verdict": "failed" if summed["failed"] else "done",
        "nodes": {n["host"]: {"result": n["result"], "digest": n["digest"]} for n in summed["nodes"]},
    }
    return json.dumps(record, sort_keys=True)
