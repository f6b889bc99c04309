"""An approved change plan: whether its file can be trusted, and which hosts it still fits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils import change_plan
from ansible_collections.kafka.natmap.plugins.module_utils.host_view import (
    CHANGE,
    REFUSED,
    SAME,
    UNREACHED,
    HostView,
    Refusal,
)

_ANEW = "make plan writes a new one; have that one signed"
DIGEST_ALONE = Refusal("approved_digest was given, but no approved_plan", "give the file too: -e approved_plan=FILE")
_SHOWN = 3


def read_file(
    path: str, owner: str, hosts: Iterable[str], approved_digest: str = ""
) -> tuple[dict[str, Any], list[Refusal]]:
    """As `read`, from a file on the controller."""
    try:
        content = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no text"
        return {}, [Refusal(f"the approved plan {path} cannot be read: {said}", "give the plan.json that was signed")]
    return read(content, owner, hosts, approved_digest)


def read(
    content: str, owner: str, hosts: Iterable[str], approved_digest: str = ""
) -> tuple[dict[str, Any], list[Refusal]]:
    """The document, and every reason why it cannot be applied.

    :param hosts: all hosts that the inventory has for this map
    :param approved_digest: the fleet digest that was signed; empty where none was given
    """
    document, damage = _document(content)
    if damage:
        return {}, [damage]
    problems = []
    if document["owner"] != owner:
        problems.append(
            Refusal(
                f"the approved plan is for the owner {document['owner']!r}, this map's is {owner!r}",
                "give the plan of this map, or the inventory of that one",
            )
        )
    known = {node["host"] for node in document["nodes"]}
    if not known & set(hosts):
        named = change_plan.some(sorted(known)) or "none"
        problems.append(
            Refusal(f"none of the approved plan's hosts is in this inventory (it names {named})", "check -i")
        )
    if approved_digest and approved_digest != document["digest"]:
        problems.append(
            Refusal(
                f"the plan's fleet digest is {document['digest']}, but {approved_digest} was signed",
                "give the file that was signed",
            )
        )
    return document, problems


def _document(content: str) -> tuple[dict[str, Any], Refusal | None]:
    try:
        document = json.loads(content)
    except ValueError as error:
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "its encoding"
        return {}, Refusal(
            f"the approved plan is not whole: no valid JSON at {where}", f"copy plan.json again; {_ANEW}"
        )
    if not isinstance(document, dict) or document.get("kind") != change_plan.KIND:
        return {}, Refusal("the approved plan is no change plan", "give the plan.json that make plan wrote")
    if document.get("schema") != change_plan.SCHEMA:
        said = f"the approved plan has schema {document.get('schema')!r}, this release reads {change_plan.SCHEMA}"
        return {}, Refusal(said, _ANEW)
    if document.get("checksum") != change_plan.checksum(document):
        return {}, Refusal("the approved plan was changed after it was made: its checksum does not fit", _ANEW)
    try:
        digest = change_plan.fleet_digest(document["owner"], document["nodes"])
    except (KeyError, TypeError):
        digest = None
    if digest is None or digest != document.get("digest"):
        return {}, Refusal("the approved plan contradicts itself: its fleet digest is not that of its hosts", _ANEW)
    return document, None


@dataclass(frozen=True)
class Decision:
    """Of one host: whether the approved plan still is what would happen there; if not, why, and what differs."""

    host: str
    go: bool
    reason: str = ""
    differs: tuple[str, ...] = ()
    unreached: bool = False

    def __str__(self) -> str:
        return "; ".join([self.reason, *self.differs])


def compare(document: Mapping[str, Any], views: Iterable[HostView], inventory: Iterable[str]) -> list[Decision]:
    """Each host of this run, and each of the plan that is not in it.

    :param inventory: every host that there is, also those that this run leaves out
    """
    nodes = {node["host"]: node for node in document["nodes"]}
    decisions = [_decide(document, nodes.pop(view.host, None), view) for view in views]
    known = set(inventory)
    for host in nodes:
        there = "left out of this run" if host in known else "missing: not in the inventory"
        decisions.append(Decision(host, False, there))
    return sorted(decisions, key=lambda decision: (decision.go, decision.host))


def without_plan(views: Iterable[HostView]) -> list[Decision]:
    """Where no plan was approved: every host that was reached and can hold its plan."""
    return [
        Decision(
            view.host,
            view.state not in (UNREACHED, REFUSED),
            " ".join(map(str, view.refusals)),
            unreached=view.state == UNREACHED,
        )
        for view in views
    ]


def refused(decisions: Iterable[Decision], approved: bool, strict: bool, all_or_none: bool) -> list[Refusal]:
    """Why nothing at all may be touched.

    A plan that was approved for the fleet goes where it fits, unless ``strict``; without one, a host that cannot hold
    its plan stops the run, and one that was not reached does so with ``all_or_none``.
    """
    bad = [decision for decision in decisions if not decision.go]
    if approved and (strict or all_or_none):
        which = "strict" if strict else "all_or_none"
        mend = f"{_ANEW}; or leave {which} out: these hosts are then skipped"
        return [Refusal(f"{decision.host}: {decision}", mend) for decision in bad]
    if approved:
        return []
    return [
        Refusal.read(f"{decision.host}: {decision.reason}") for decision in bad if all_or_none or not decision.unreached
    ]


def _decide(document: Mapping[str, Any], node: Mapping[str, Any] | None, view: HostView) -> Decision:
    if view.state == UNREACHED:
        what = "missing: not reached" if node else "new and not reached"
        return Decision(view.host, False, f"{what} ({view.refusals[0].cause})")
    if node is None:
        return Decision(view.host, False, "new: not in the approved plan")
    if view.state not in (CHANGE, SAME):
        return Decision(view.host, False, "refused now", tuple(map(str, view.refusals)))
    if node["digest"] is None:
        word = change_plan.STATE_WORDS[node["state"]]
        return Decision(view.host, False, f"the approved plan holds nothing for it: it was {word}")
    if view.digest == node["digest"] and (view.before_digest == node["before_digest"] or view.state == SAME):
        return Decision(view.host, True)
    return Decision(view.host, False, "changed since", _differences(document, node, view))


def _differences(document: Mapping[str, Any], node: Mapping[str, Any], view: HostView) -> tuple[str, ...]:
    """Layer by layer, the lines that are in one of the two changes alone."""
    then = {
        layer["what"]: layer["diff"] for layer in (document["changes"].get(node["change"]) or {"layers": ()})["layers"]
    }
    now = {c["what"]: change_plan.diff(c["before"], c["after"]) for c in view.preview["changes"]}
    said = []
    for what in sorted({*then, *now}):
        approved, current = _changed(then.get(what, ())), _changed(now.get(what, ()))
        said += _told(what, "approved, but no longer to be done", [line for line in approved if line not in current])
        said += _told(what, "to be done, but not approved", [line for line in current if line not in approved])
    if said:
        return tuple(said)
    return ("what it holds now is not what it held then, though the lines to change are the same",)


def _changed(lines: Iterable[str]) -> dict[str, None]:
    return dict.fromkeys(line for line in lines if line[:1] in ("+", "-"))


def _told(what: str, how: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return [f"{what}: {how}: " + ", ".join(repr(line.replace("\t", " ")) for line in lines[:_SHOWN]) + more]
