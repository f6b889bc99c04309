"""Findings beside the ways: leftovers in conntrack, users outside the scope, proxies on this node. Python 3.6 syntax."""

import os
from typing import Any, Dict, List

import kafka_doctor_nginx as nginx
from kafka_doctor_around import Rules, leftovers
from kafka_doctor_findings import finding
from kafka_natmap_identity import show
from kafka_natmap_probe import run_as
from kafka_natmap_scope import pairs_to_prove, prove_outsider

OUTSIDERS = range(65533, 60000, -1)


def known_elsewhere(one: Dict[str, Any], exams: List[Any]) -> bool:
    """A topic is asked of every cluster, and need be in one."""
    if one["detail"] != "no_topic":
        return False
    told = [about for _, exam, _ in exams for about in exam["references"] if about["id"] is not None]
    return any(one["cause"].startswith(about["of"] + " ") for about in told)


def leftover_findings(request: Dict[str, Any], rules: Rules, scoped: Any) -> List[Dict[str, Any]]:
    found = []
    for entry, kind in leftovers(rules, scoped):
        address = show(entry.dialled)
        said = "conntrack: {}:{} to {} in state {}, not rewritten".format(
            entry.orig[0], entry.orig[1], address, entry.state
        )
        about = {"node": request["node"], "address": address, "source": entry.orig[0], "source_port": entry.orig[1]}
        detail = "live" if kind == "live" else ""
        found.append(finding("CONNTRACK_LEFTOVER", "conntrack", said, dict(about, advertised=address), detail))
    return found[:20]


def outsider_findings(request, rules, clusters, exams, tracker, until):  # type: ignore[no-untyped-def]
    """Whether a user outside the scope is rewritten: asked only where rules of ours are, and only of root."""
    if request["path"] != "advertised" or not rules.kept or os.geteuid() != 0:
        return []
    held = [scope for generation in rules.kept.values() for scope in generation.get("who", ())]
    held += [["uid", who["uid"], who["uid"]] for who, _, _ in exams if who["uid"] is not None]
    numbers = [number for number in OUTSIDERS if not any(low <= number <= high for _, low, high in held)]
    outsider = {"uid": numbers[0], "gid": numbers[0], "groups": [], "label": "uid {}".format(numbers[0])}
    mapped = [dict(c, brokers=[b for b in c["brokers"] if b["advertised"] != b["reachable"]]) for c in clusters]
    rows = prove_outsider(pairs_to_prove(mapped, []), outsider, tracker, run_as, until)
    leaks = [row for row in rows if row["verdict"] == "SCOPE_LEAK"]
    about = {"node": request["node"], "user": outsider["label"]}
    return [
        finding(
            "SCOPE_LEAK", "scope", row["evidence"], dict(about, cluster=row["cluster"], advertised=row["advertised"])
        )
        for row in leaks
    ]


def nginx_findings(request: Dict[str, Any], walks: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Lint of every nginx that runs here, and of the files named in the request."""
    known = {walk[key] for walk in walks for key in ("advertised", "reachable", "dialled", "rewritten_to") if walk[key]}
    known.update(walk["advertised"] for walk in walks)
    found = []
    for path in sorted(set(nginx.running()) | set(request.get("nginx") or [])):
        for one in nginx.lint(path, known.__contains__, request["most_idle_ms"]):
            port = one["listen"].split()[0].rpartition(":")[2]
            about = {
                "node": request["node"],
                "address": "{}:{}".format(
                    "0.0.0.0" if port == one["listen"] else one["listen"].rpartition(":")[0], port
                ),
            }
            found.append(finding(one["code"], "nginx", one["evidence"], about))
    return found


def scrub(rows: List[Dict[str, Any]], clusters: List[Dict[str, Any]]) -> None:
    """No peer can make us repeat a secret."""
    secrets = {cluster["security"].get(key) for cluster in clusters for key in ("password", "keypassword")} - {None, ""}
    for row in rows:
        for part in [row] + row.get("hops", []):
            for key in ("evidence", "said"):
                for secret in secrets if part.get(key) else ():
                    part[key] = part[key].replace(secret, "***")
