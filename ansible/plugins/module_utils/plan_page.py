"""What the change plan's HTML page prints: everything is decided here, so that the template only prints it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils import change_plan

_OPEN = 60
"""Changes with more lines than these are folded, so that the page begins with what a reader decides on."""
_ROWS = 200
_WORDS = {"+": "added", "-": "removed", "@": "place", " ": "same"}


def view(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the template prints."""
    nodes = sorted(document["nodes"], key=lambda node: (change_plan.STATES.index(node["state"]), node["host"]))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(n["change"] for n in nodes if n["change"]), 1)}
    return {
        "owner": document["owner"],
        "at": document["made"]["at"],
        "by": document["made"]["by"],
        "window": document["window"],
        "digest": document["digest"],
        "checksum": document["checksum"],
        "verdict": change_plan.verdict(document),
        "whole": change_plan.is_whole(document),
        "undo": document["undo"],
        "nodes": [_node(node, document, numbers) for node in nodes],
        "refusals": [{"host": n["host"], **refusal} for n in nodes for refusal in n["refusals"]],
        "changes": [_change(key, number, document, nodes) for key, number in numbers.items()],
        "neighbours": [{**found, "hosts": change_plan.some(found["hosts"])} for found in document["neighbours"]],
        "foreign": [_foreign(found) for found in document["foreign"]],
    }


def _node(node: Mapping[str, Any], document: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[str, Any]:
    lines, mechanism = change_plan.sums(document["changes"].get(node["change"]))
    tracked, brokers = node["tracked"], node["brokers"]
    return {
        "host": node["host"],
        "state": node["state"],
        "word": change_plan.STATE_WORDS[node["state"]],
        "number": numbers.get(node["change"]),
        "lines": lines,
        "mechanism": mechanism,
        "processes": change_plan.processes(node),
        "tracked": "not in use" if tracked["now"] is None else f"{tracked['now']} of {tracked['most']}",
        "brokers": f"{brokers['answering']} of {brokers['asked']}" if brokers["asked"] else "-",
        "before": change_plan.short(node["before_digest"]),
        "after": change_plan.short(node["digest"]),
        "half_done": node["half_done"],
    }


def _change(key: str, number: int, document: Mapping[str, Any], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    change = document["changes"][key]
    return {
        "number": number,
        "hosts": ", ".join(node["host"] for node in nodes if node["change"] == key),
        "lines": change_plan.sums(change)[0],
        "layers": [_layer(layer) for layer in change["layers"]],
        "entries": change["entries"][:_ROWS],
        "more": max(0, len(change["entries"]) - _ROWS),
        "notices": change["notices"],
        "conntrack": change["conntrack"],
    }


def _layer(layer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **layer,
        "folded": len(layer["diff"]) > _OPEN,
        "diff": [{"kind": _WORDS.get(line[:1], "same"), "text": line} for line in layer["diff"]],
    }


def _foreign(found: Mapping[str, Any]) -> dict[str, str]:
    return {
        "hosts": change_plan.some(found["hosts"]),
        "text": f"{found['pair']} is taken by another rule: {found['rule']}",
    }
