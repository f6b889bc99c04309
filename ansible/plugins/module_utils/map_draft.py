"""A draft of a NAT map from what `discover` has found: only proven pairs are entries, all else is said in comments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils import reading

MARK = "# A draft by kafka-natmap discover"
"""The first line of every draft: only a file that begins so is ever written over."""
_KEPT = ("mechanism", "gateway", "scope", "networks")
_DEFAULT_SCOPE = {"users": ["yarn"]}
_CLEAR = (
    "its address would have to be guessed, and the password would go there in clear; name its address too "
    "(BOOTSTRAP=a,b,c), or allow it (discover_trust_guesses, --trust-guesses)"
)
_NO_RULE = "no rule that explains every known pair leads anywhere new; name its address too (BOOTSTRAP=a,b,c)"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Draft:
    """``text`` is the map, empty where nothing is proven; ``lines`` say the same for a terminal."""

    text: str
    lines: tuple[str, ...]
    problems: tuple[str, ...]
    networks: tuple[Mapping[str, Any], ...] = ()


def cluster_name(wanted: str, answer: Row, present: Mapping[str, Any]) -> str:
    """The name asked for; else that of the present map's cluster with this id or one of these brokers; else ``hq``."""
    clusters: Mapping[str, Any] = present.get("clusters") or {}
    advertised = {row["advertised"] for row in answer["brokers"]}
    for name, body in clusters.items():
        own = {str(broker.get("advertised")).lower() for broker in body.get("brokers") or ()}
        if not wanted and (own & advertised or body.get("cluster_id") == answer["cluster_id"]):
            return str(name)
    free = (name for name in ("hq", "kafka", *(f"kafka-{number}" for number in range(2, 99))) if name not in clusters)
    return wanted or next(free)


def make(
    answer: Row,
    asked_on: str,
    at: str,
    wanted: str = "",
    present: Mapping[str, Any] | None = None,
    security: Mapping[str, Any] | None = None,
    user: str = "",
) -> Draft:
    """The draft.

    :param answer: what `discover` found
    :param present: the map that is there already, as plain data
    :param security: how the cluster was spoken to; its secrets are not written
    :param user: as whom it was asked
    """
    known = dict(present or {})
    name = cluster_name(wanted, answer, known)
    proven, left = _sorted_out(answer)
    lines = _told(answer, name, asked_on, proven, left)
    if not proven:
        return Draft("", tuple(lines), (_nothing(answer),))
    body = (known.get("clusters") or {}).get(name) or {}
    networks = () if body.get("networks") else tuple(answer["networks"])
    text = _head(asked_on, at, known, user)
    text += [f"    {name}:", *_cluster(answer, proven, left, body, networks, security or {}, name)]
    if present is not None:
        lines += ["", *compared(body, name, proven, left)]
    return Draft("\n".join(text) + "\n", tuple(lines), (), networks)


def _sorted_out(answer: Row) -> tuple[list[Row], list[tuple[Row, str]]]:
    """Rows that are proven and can stand in a map, and the others with the reason."""
    proven: list[Row] = []
    left: list[tuple[Row, str]] = []
    for row in answer["brokers"]:
        host = row["advertised"].rpartition(":")[0]
        problem = reading.host_problem(host)
        if problem:
            left.append((row, f"its advertised host {reading.shown(host)} {problem[0]}"))
        elif row["reachable"]:
            proven.append(row)
        else:
            tries = [f"{one['address']} ({one['rule']}): {one['code']}, {one['said']}" for one in row["tried"]]
            left.append((row, "tried " + "; ".join(tries) if tries else _NO_RULE if answer["may_guess"] else _CLEAR))
    return proven, left


def _nothing(answer: Row) -> str:
    """Why there is no draft at all."""
    failed = [f"{row['address']}: {row['code']}, {row['said']}" for row in answer["bootstrap"] if row["code"]]
    why = "; ".join(failed) or "no broker could be proven"
    if answer["brokers"]:
        mend = "let the asking user describe a topic (kafka-acls.sh --add --operation Describe), or name more addresses"
    else:
        mend = "ask from a host that has a way there (FROM=nm1), or make doctor BOOTSTRAP=HOST:PORT says what is in the way"
    return _line(f"Nothing is written: {why}. Mend: {mend}.")


def _head(asked_on: str, at: str, known: Mapping[str, Any], user: str) -> list[str]:
    scope = known.get("scope") or ({"users": [user]} if user and user != "root" else _DEFAULT_SCOPE)
    lines = [
        "---",
        f"{MARK}, {at}, asked from {_line(asked_on)}. Read it, then move it to group_vars/all/nat_map.yml.",
        "# Each reachable address has answered as its very broker; how it was found stands behind it.",
        "nat_map:",
    ]
    lines += [
        f"  {key}: {json.dumps(known[key])}" for key in ("owner", "mechanism", "stand_ins", "take_over") if key in known
    ]
    note = "" if known.get("scope") else "   # whose connections are rewritten: whom YARN's containers run as"
    return [*lines, f"  scope: {json.dumps(scope)}{note}", "  clusters:"]


def _cluster(
    answer: Row,
    proven: Sequence[Row],
    left: Sequence[tuple[Row, str]],
    body: Mapping[str, Any],
    networks: Sequence[Mapping[str, Any]],
    security: Mapping[str, Any],
    name: str,
) -> list[str]:
    lines = [f"cluster_id: {json.dumps(answer['cluster_id'])}"] if answer["cluster_id"] else []
    named = {row["broker"]: row["address"] for row in answer["bootstrap"] if row["broker"] is not None}
    # A certificate is for the advertised name, so with TLS the bootstrap goes by that.
    tls = "SSL" in security.get("protocol", "")
    bootstrap = [row["advertised"] if tls else named[row["id"]] for row in proven if row["id"] in named]
    lines += [f"bootstrap: {json.dumps(bootstrap)}"] if bootstrap else []
    lines += [f"{key}: {json.dumps(body[key])}" for key in _KEPT if key in body]
    lines += ["brokers:"]
    lines += [f"  - {_pair(row)}   # {_line(how(row))}" for row in proven]
    if left:
        lines += ["# Left out, since no way there is proven:"]
        lines += [f"#   broker {row['id']} at {_line(row['advertised'])}: {_line(why)}" for row, why in left]
    for network in networks:
        lines += [
            f"# Proposed for brokers not yet born: {network['filled']} of these {network['size']} addresses are proven.",
            "# networks:",
            f"#   - {_network(network)}",
        ]
    return [f"      {line}" for line in [*lines, *_security(security, name)]]


def _pair(row: Row) -> str:
    return f"{{id: {row['id']}, advertised: {row['advertised']}, reachable: {row['reachable']}}}"


def _network(network: Mapping[str, Any]) -> str:
    ports = ", ".join(map(str, network["ports"]))
    return f"{{advertised: {network['advertised']}, reachable: {network['reachable']}, ports: [{ports}]}}"


def _security(security: Mapping[str, Any], name: str) -> list[str]:
    """The settings; a secret only as the name of a variable that Vault may hold."""
    if security.get("protocol", "PLAINTEXT") == "PLAINTEXT":
        return []
    keys = ("protocol", "mechanism", "username", "cafile", "certfile", "keyfile", "kerberos_service_name")
    said = {key: security[key] for key in keys if security.get(key)}
    for key in ("password", "keyfile_password"):
        if security.get(key):
            said[key] = f"{{{{ vault_{name.replace('-', '_')}_{key} }}}}"
    return [f"security: {json.dumps(said)}"]


def how(row: Row) -> str:
    """How a pair was found, in words."""
    return f"guess, verified: {row['rule']}" if row["how"] == "guess" else str(row["rule"])


def _told(answer: Row, name: str, asked_on: str, proven: Sequence[Row], left: Sequence[tuple[Row, str]]) -> list[str]:
    count = f"{len(proven)} of {len(answer['brokers'])} brokers have a proven way"
    took = f"asked from {asked_on} in {answer['seconds']:.1f} s"
    lines = [f"Cluster {answer['cluster_id']} ({name}): {count}; {took}."]
    lines += [f"  bootstrap {row['address']}: {row['code'] or 'ok'}, {row['said']}" for row in answer["bootstrap"]]
    lines += [
        f"  broker {row['id']}  {row['advertised']} -> {row['reachable']}  {how(row)}; {row['proof']}" for row in proven
    ]
    lines += [f"  broker {row['id']}  {row['advertised']}  left out: {why}" for row, why in left]
    lines += [
        f"  proposed prefix {_network(network)}: {network['filled']} of {network['size']} proven"
        for network in answer["networks"]
    ]
    return [_line(line, "  " if line.startswith("  ") else "") for line in lines]


def compared(body: Mapping[str, Any], name: str, proven: Sequence[Row], left: Sequence[tuple[Row, str]]) -> list[str]:
    """What differs between the present map's cluster and the draft's, as a diff."""
    if not body:
        return [f"The present map has no cluster {name}: all of it is new."]
    old = {str(pair["advertised"]).lower(): pair for pair in body.get("brokers") or ()}
    new = {row["advertised"]: row for row in proven}
    unproven = {row["advertised"] for row, _ in left}
    lines = []
    for advertised in dict.fromkeys((*old, *new)):
        was, now = old.get(advertised), new.get(advertised)
        if was is not None and now is not None and _same(was, now):
            lines.append(f"  {_pair(now)}")
            continue
        why = "not proven now" if advertised in unproven else "no broker advertises it"
        if was is not None:
            shown = {"id": was.get("id", "?"), "advertised": advertised, "reachable": was["reachable"]}
            lines.append(f"- {_pair(shown)}" + ("" if now is not None else f"   # {why}"))
        if now is not None:
            lines.append(f"+ {_pair(now)}")
    changed = any(not line.startswith("  ") for line in lines)
    return [f"Cluster {name}, the present map and the draft{'' if changed else ': no difference'}", *map(_keep, lines)]


def _keep(line: str) -> str:
    return _line(line, line[: len(line) - len(line.lstrip())])


def _same(was: Mapping[str, Any], now: Row) -> bool:
    return was["reachable"] == now["reachable"] and was.get("id") in (None, now["id"])


def _line(text: str, indent: str = "") -> str:
    """One printable line: peers choose some of these words."""
    words = " ".join(str(text).split())
    return indent + (words if words.isprintable() else words.encode("unicode_escape").decode("ascii"))
