"""What a fleet holds now: for people, as JSON, and for Prometheus; and all that is not as it should be.

Prometheus' text is of the exposition format 0.0.4.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils.tables import table

_AGAIN = "ansible-playbook apply"
_BAD_STATES = {
    "half done": ("a switch died here and was not undone yet", f"{_AGAIN} undoes it first"),
    "damaged": ("what is kept of the plan cannot be read", _AGAIN),
    "armed": ("a switch is going on", "wait until it is confirmed or undone, then ask again"),
}
_METRICS = {
    "up": ("gauge", "1 where the host was reached"),
    "confirmed": ("gauge", "1 where a confirmed plan stands"),
    "since_seconds": ("gauge", "When the plan was confirmed, in seconds since 1970"),
    "drift": ("gauge", "Parts that differ from the confirmed plan"),
    "reboot_safe": ("gauge", "1 where a restart brings the plan back before the NodeManager"),
    "watch_active": ("gauge", "1 where the watcher runs and may repair"),
    "repairs": ("gauge", "Repairs since the watcher was started"),
    "connections_total": ("counter", "Connections rewritten since the rules were loaded"),
    "bytes_total": ("counter", "Bytes that the rules have counted, of each connection the first packet"),
    "unmanaged_nodes": ("gauge", "Nodes that YARN knows and the inventory does not"),
    "problems": ("gauge", "Sentences that the status holds against this host"),
}


@dataclass(frozen=True)
class HostStatus:
    """One host: what the node program answered, or why it did not; and what is held against it."""

    host: str
    answer: Mapping[str, Any] | None
    problems: tuple[str, ...] = field(default=())

    @property
    def state(self) -> str:
        """As the node says; `unreached` where it said nothing."""
        return str(self.answer["state"]) if self.answer else "unreached"


def read(host: str, registered: Mapping[str, Any] | None, needed: bool, last_known: str | None) -> HostStatus:
    """From the registered result of the verb `status`.

    :param needed: whether the map wants anything on this host
    :param last_known: when this controller saw a plan confirmed there
    """
    registered = registered or {}
    answer = registered.get("answer")
    if not answer:
        failed = registered.get("msg") if registered.get("failed") else None
        return HostStatus(host, None, (str(failed or "not reached. Mend: see why Ansible cannot connect"),))
    return HostStatus(host, answer, tuple(_problems(answer, needed, last_known)))


def _problems(answer: Mapping[str, Any], needed: bool, last_known: str | None) -> Iterator[str]:
    state = answer["state"]
    if state == "absent":
        if last_known:
            yield f"holds nothing, though a plan was confirmed at {last_known}: re-imaged or removed. Mend: {_AGAIN}"
        elif needed:
            yield f"holds nothing: it is new, or was never switched. Mend: {_AGAIN}"
        return
    if state in _BAD_STATES:
        yield "{}. Mend: {}".format(*_BAD_STATES[state])
    for drift in answer["drift"]:
        yield f"{drift['what']} differs{by(drift)}: {_short(drift)}. Mend: {_AGAIN}"
    if answer["digest"] and not answer["reboot_safe"]["safe"]:
        yield f"a restart may lose it: {'; '.join(answer['reboot_safe']['why'])}. Mend: {_AGAIN}"
    watch = answer["watch"]
    if watch["state"] in ("not running", "only reports"):
        yield f"the watcher {_watching(watch)}. Mend: see its journal on the node, then {_AGAIN}"


def by(drift: Mapping[str, Any]) -> str:
    """Who did it, where that is known."""
    return f", done by {drift['by']}" if drift.get("by") else ""


def _short(drift: Mapping[str, Any]) -> str:
    gone, new = (str(drift.get(key) or "").split("\n") for key in ("before", "now"))
    more = f" (and {len(new) - 1} lines more)" if len(new) > 1 else ""
    return f"now {new[0].strip()!r}{more}, it was {gone[0].strip()!r}"


def _watching(watch: Mapping[str, Any]) -> str:
    if watch["state"] == "only reports":
        return f"only reports, after {watch['repairs']} repairs in 10 minutes"
    return str(watch["state"])


# ------------------------------------------------------------ the three forms


def report(
    hosts: Sequence[HostStatus], owner: str, now: str, unmanaged: Sequence[str], yarn_problem: str | None
) -> dict[str, Any]:
    """{"text", "json", "prometheus", "files", "problems"}.

    :param unmanaged: what YARN knows and the inventory does not
    :param yarn_problem: why YARN could not be asked; it is told, but held against nobody
    """
    problems = [f"{one.host}: {problem}" for one in hosts for problem in one.problems]
    if unmanaged:
        problems.append(
            f"YARN knows {', '.join(unmanaged)}, the inventory does not: jobs there reach no broker. "
            "Mend: add them to yarn_nodes, then ansible-playbook apply"
        )
    document = {
        "owner": owner,
        "at": now,
        "problems": problems,
        "unmanaged": list(unmanaged),
        "yarn_problem": yarn_problem,
        "hosts": {
            one.host: {"state": one.state, "problems": list(one.problems), **dict(one.answer or {})} for one in hosts
        },
    }
    text, metrics = json.dumps(document, indent=1, sort_keys=True) + "\n", _prometheus(hosts, owner, unmanaged)
    return {
        "text": "\n".join(_lines(hosts, owner, now, problems, yarn_problem)),
        "json": text,
        "prometheus": metrics,
        "files": {"status.json": text, "status.prom": metrics},
        "problems": problems,
    }


def _lines(
    hosts: Sequence[HostStatus], owner: str, now: str, problems: Sequence[str], yarn_problem: str | None
) -> Iterator[str]:
    yield f"{len(problems)} problem(s)" if problems else f"All {len(hosts)} host(s) are as they should be"
    yield ""
    head = ("host", "state", "owner", "digest", "since", "by", "drift", "reboot-safe", "watcher")
    yield from table(head, (_row(one, owner) for one in hosts))
    counted = list(_counters(hosts))
    if counted:
        yield ""
        yield from table(("cluster", "broker", "address", *(one.host for one in hosts)), counted)
        yield "Connections to each broker since the rules were loaded."
    yield from (f"{one.host}: {notice}" for one in hosts for notice in (one.answer or {}).get("notices", ()))
    if yarn_problem:
        yield f"YARN was not asked: {yarn_problem}"
    yield from ("", *problems) if problems else ()
    yield f"{now}"


def _row(one: HostStatus, owner: str) -> tuple[Any, ...]:
    if one.answer is None or one.answer["digest"] is None:
        return (one.host, one.state, owner, *["-"] * 6)
    answer = one.answer
    return (
        one.host,
        one.state,
        owner,
        answer["digest"][:12],
        answer["since"],
        answer["who"],
        ", ".join(drift["what"] for drift in answer["drift"]) or "none",
        "yes" if answer["reboot_safe"]["safe"] else "NO",
        f"{answer['watch']['state']}, {answer['watch']['repairs']} repairs",
    )


def _counters(hosts: Sequence[HostStatus]) -> Iterator[tuple[Any, ...]]:
    """One row for each address, one column for each host."""
    found: dict[tuple[str, str, str], dict[str, int]] = {}
    for one in hosts:
        for counter in (one.answer or {}).get("counters", ()):
            key = (counter["cluster"], str(counter["broker"] or "prefix"), counter["address"])
            found.setdefault(key, {})[one.host] = counter["packets"]
    for key, packets in sorted(found.items()):
        yield (*key, *(packets.get(one.host) for one in hosts))


def _prometheus(hosts: Sequence[HostStatus], owner: str, unmanaged: Sequence[str]) -> str:
    samples: dict[str, list[tuple[dict[str, Any], float]]] = {name: [] for name in _METRICS}
    for one in hosts:
        for name, labels, value in _samples(one):
            samples[name].append(({"host": one.host, "owner": owner, **labels}, value))
    samples["unmanaged_nodes"].append(({"owner": owner}, len(unmanaged)))
    lines = []
    for name, (kind, text) in _METRICS.items():
        if samples[name]:
            lines += [f"# HELP kafka_natmap_{name} {text}.", f"# TYPE kafka_natmap_{name} {kind}"]
            lines += [f"kafka_natmap_{name}{{{_labels(labels)}}} {value:.15g}" for labels, value in samples[name]]
    return "\n".join(lines) + "\n"


def _samples(one: HostStatus) -> Iterator[tuple[str, dict[str, Any], float]]:
    answer = one.answer
    yield "up", {}, float(answer is not None)
    yield "problems", {}, len(one.problems)
    if answer is None:
        return
    digest = {"digest": answer["digest"] or ""}
    yield "confirmed", digest, float(bool(answer["confirmed"]))
    if answer["digest"] is None:
        return
    yield "since_seconds", {}, _seconds(answer["since"])
    yield "drift", {}, len(answer["drift"])
    yield "reboot_safe", {}, float(answer["reboot_safe"]["safe"])
    yield "watch_active", {"policy": answer["watch"]["policy"] or ""}, float(answer["watch"]["state"] == "watching")
    yield "repairs", {}, answer["watch"]["repairs"] or 0
    for counter in answer["counters"]:
        labels = {key: counter[key] for key in ("cluster", "broker", "address")}
        labels["broker"] = "" if labels["broker"] is None else labels["broker"]
        yield "connections_total", labels, counter["packets"]
        yield "bytes_total", labels, counter["bytes"]


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time.replace("Z", "+00:00")).astimezone(UTC).timestamp()


def _labels(labels: Mapping[str, Any]) -> str:
    """Escaped as the format asks."""
    pairs: Iterable[tuple[str, str]] = ((key, str(value)) for key, value in labels.items())
    escaped = ((k, v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for k, v in pairs)
    return ",".join(f'{key}="{value}"' for key, value in escaped)


def last_known(audit: str, owner: str) -> dict[str, str]:
    """When each host was last confirmed with a plan, by this controller's audit record; hosts removed since are left out."""
    found: dict[str, str] = {}
    for line in audit.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if not isinstance(record, dict) or record.get("owner") != owner:
            continue
        for host, end in record.get("nodes", {}).items():
            if end["result"] in ("new", "unchanged") and end["digest"]:
                found[host] = record["time"]
            elif end["result"] in ("removed", "new"):
                found.pop(host, None)
    return found
