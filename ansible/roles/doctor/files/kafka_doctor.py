"""What is wrong between this node and that Kafka, named in seconds.

    kafka-natmap-doctor.pyz --bootstrap HOST:PORT[,HOST:PORT] [--as USER]     by hand, without a map
    kafka-natmap-doctor.pyz doctor                                           a request on standard input, JSON out

Nothing is changed. Exit code 0 healthy, 1 findings, 2 could not look. Python 3.6 syntax.
"""

import importlib
import json
import os
import platform
import pwd
import sys
import time
from typing import Any, Dict, List

from kafka_doctor_around import Rules, generations, hosts_sources, routes
from kafka_doctor_cli import parse_arguments
from kafka_doctor_diagnosis import Diagnosis
from kafka_doctor_exam import Exam
from kafka_doctor_findings import finding, ordered, verdict
from kafka_doctor_places import (
    OUTSIDERS,
    known_elsewhere,
    leftover_findings,
    nginx_findings,
    outsider_findings,
    scrub,
)
from kafka_doctor_told import lines
from kafka_doctor_yarn import Asked, container_findings, discovered
from kafka_natmap_identity import show
from kafka_natmap_inspect import account_of, group_of, own_addresses
from kafka_natmap_probe import load, run_as
from kafka_natmap_request import LONGEST, Refused, need, parse_cluster
from kafka_natmap_scope import Tracker
from kafka_natmap_session import Limits
from kafka_natmap_survey import each

FORMAT = 1
EXIT = {"healthy": 0, "findings": 1, "blind": 2}
# Seconds that are kept for the node's own view after the last dial.
AFTER = 0.4
DEFAULTS = {
    "map": False,
    "owner": None,
    "kind": ["local"],
    "path": "advertised",
    "groups": [],
    "topics": [],
    "most_idle_ms": 540000,
    "connect_timeout": 1.5,
    "request_timeout": 1.5,
    "deadline": 4.5,
    "concurrency": 16,
}


def main(argv: List[str]) -> int:
    """Read what is asked, look, print."""
    if len(argv) > 1 and argv[1] == "doctor":
        report = answer(sys.stdin.buffer.read(LONGEST))
        json.dump(report, sys.stdout)
        sys.stdout.write("\n")
    else:
        asked, as_json = parse_arguments(argv[1:], __doc__)
        report = examine(asked)
        sys.stdout.write(json.dumps(report, indent=2) if as_json else "\n".join(lines([report])))
        sys.stdout.write("\n")
    return EXIT[report["verdict"]["state"]]


def answer(data: bytes) -> Dict[str, Any]:
    """The report to a request in JSON."""
    began = time.monotonic()
    try:
        asked = json.loads(data.decode("utf-8"))
        need(isinstance(asked, dict) and isinstance(asked.get("probe"), list), "probe", "a list of clusters by scope")
        need(
            all(isinstance(probe, dict) and probe.get("clusters") for probe in asked["probe"]),
            "probe",
            "objects with clusters",
        )
    except (ValueError, RecursionError):
        return blind({}, "the request is not JSON", "give one JSON object on standard input", began)
    except Refused as refused:
        return blind({}, refused.cause, refused.mend, began)
    return examine(asked)


def examine(asked: Dict[str, Any]) -> Dict[str, Any]:
    """One node's report. Whatever happens, it is a report."""
    began = time.monotonic()
    request: Dict[str, Any] = dict(DEFAULTS, node=platform.node())
    request.update((key, value) for key, value in asked.items() if value is not None)
    try:
        clusters = [
            parse_cluster(cluster, f"probe[{number}].clusters[{place}]")
            for number, probe in enumerate(request["probe"])
            for place, cluster in enumerate(probe["clusters"])
        ]
        need(bool(clusters), "probe", "at least one cluster")
        load_all(request, clusters)
        return look(request, clusters, began)
    except Refused as refused:
        return blind(request, refused.cause, refused.mend, began)


def load_all(request: Dict[str, Any], clusters: List[Dict[str, Any]]) -> None:
    """Everything that must be read while we are root; each probe gets its parsed clusters."""
    load(request.get("kafka_python"), {"clusters": clusters})
    importlib.import_module("kafka.protocol.find_coordinator")
    parsed = iter(clusters)
    request["probe"] = [dict(probe, clusters=[next(parsed) for _ in probe["clusters"]]) for probe in request["probe"]]


def blind(request: Dict[str, Any], cause: str, mend: str, began: float) -> Dict[str, Any]:
    """The report of a node that could not look."""
    return report_of(request, began, [], [], [], [], {"cause": cause, "mend": mend})


def report_of(request, began, who, clusters, walks, findings, error=None):  # type: ignore[no-untyped-def]
    said = verdict(findings, walks)
    if error:
        said = {
            "state": "blind",
            "code": None,
            "text": "could not look: {}. Mend: {}".format(error["cause"], error["mend"]),
        }
    return {
        "format": FORMAT,
        "node": request.get("node", platform.node()),
        "kind": request.get("kind", []),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(time.monotonic() - began, 3),
        "asked_as": who,
        "verdict": said,
        "clusters": clusters,
        "walks": walks,
        "findings": findings,
        "blind": error,
    }


def look(request: Dict[str, Any], clusters: List[Dict[str, Any]], began: float) -> Dict[str, Any]:
    """Every scope's user dials every cluster; then the node says what it knows of these ways."""
    until = began + request["deadline"] - AFTER
    findings: List[Dict[str, Any]] = []
    yarn = Asked(request.get("yarn"))
    identities = [(who, probe) for probe in request["probe"] for who in identities_of(probe, request, findings)]
    tracker = Tracker(clusters)
    rules = Rules(generations(request["owner"]))
    scoped = {who["uid"] for who, _ in identities if who["uid"] is not None}
    findings += leftover_findings(request, rules, scoped)
    exams: List[Any] = []
    try:
        for number, (who, probe) in enumerate(identities):
            # What is left of the time is shared among those who have not asked yet.
            share = time.monotonic() + (until - time.monotonic()) / (len(identities) - number)
            exams += [(who,) + found for found in dial(request, who, probe["clusters"], share, tracker)]
        findings += outsider_findings(request, rules, clusters, exams, tracker, until + AFTER)
    finally:
        tracker.close()
    view = {"rules": rules, "hosts": hosts_sources(), "routes": routes(dialled(exams))}
    walks: List[Dict[str, Any]] = []
    for who, exam, rewritten in exams:
        asked = next(c for c in clusters if c["name"] == exam["name"])
        seen = Diagnosis(exam, asked, request, who, dict(view, rewritten=rewritten))
        findings += seen.examine()
        walks += seen.walks
    findings = [one for one in findings if not known_elsewhere(one, exams)]
    findings += nginx_findings(request, walks)
    scrub(findings + walks, clusters)
    told = [cluster_told(exam) for _, exam, _ in exams]
    unique = list({cluster["name"]: cluster for cluster in told}.values())
    names = sorted({who["label"] for who, _ in identities})
    if not exams and not findings:
        raise Refused("nobody of the scope is known on this node", "name a user of this node: -e as=USER")
    report = report_of(request, began, names, unique, walks, ordered(findings))
    return dict(report, addresses=own_addresses(), yarn=yarn.wait(until + AFTER - time.monotonic()))


def identities_of(
    probe: Dict[str, Any], request: Dict[str, Any], findings: List[Dict[str, Any]]
) -> List[Dict[str, Any]]:
    """Who dials: the users of the scope, one who has each group, the first of a range; else whoever runs this."""
    scope = dict(probe.get("scope") or {})
    found: List[Dict[str, Any]] = []
    if scope.get("discover"):
        by_yarn = discovered()
        scope["users"] = list(scope.get("users") or []) + by_yarn["users"]
        scope["uid_ranges"] = list(scope.get("uid_ranges") or []) + by_yarn["uid_ranges"]
    for user in [probe["user"]] if probe.get("user") else scope.get("users") or []:
        account = account_of(user)
        if account:
            found.append(dict(account, label=user))
        elif probe.get("user"):
            raise Refused(f"there is no user {user} on this node", "name one of `getent passwd`")
        else:
            said = f"getent passwd {user}: nothing"
            findings.append(finding("SCOPE_WRONG", "scope", said, {"node": request["node"], "user": user}, "no_user"))
    for group in [] if probe.get("user") else scope.get("groups") or []:
        gid = group_of(group)
        if gid is not None:
            found.append({"uid": OUTSIDERS[0], "gid": gid, "groups": [gid], "label": "group " + group})
    for low, _ in [] if probe.get("user") else (scope.get("uid_ranges") or [])[:1]:
        found.append({"uid": low, "gid": OUTSIDERS[0], "groups": [], "label": "uid {}".format(low)})
    if probe.get("scope") is None and not probe.get("user"):
        label = pwd.getpwuid(os.geteuid()).pw_name
        found.append({"uid": None, "gid": None, "groups": [], "label": label})
    if probe.get("scope") is not None:
        findings += container_findings(request["node"], scope, found)
    return found


def dial(
    request: Dict[str, Any], who: Dict[str, Any], clusters: List[Dict[str, Any]], until: float, tracker: Tracker
) -> List[Any]:
    """The exams of all clusters as one user: (exam, {flow: what became of it}), looked up while the connections stand."""
    heard: List[Any] = []

    def work(say: Any) -> None:
        limits = Limits(request["connect_timeout"], request["request_timeout"], until)
        options = dict(request, concurrency=max(request["concurrency"] // len(clusters), 3))
        exams = [Exam(cluster, options, limits) for cluster in clusters]
        for exam, found in each(Exam.run, exams, len(exams), until + AFTER):
            say(found if found is not None else exam.told())
            exam.close()

    def hear(told: Dict[str, Any]) -> None:
        heard.append((told, {tuple(flow): became(tracker, tuple(flow)) for flow in told["flows"]}))

    if not run_as(who if who["uid"] is not None else None, work, hear, until + 0.3) and not heard:
        raise Refused(
            "the dials did not end in {} s".format(request["deadline"]), "raise the deadline: -e doctor_deadline=20"
        )
    return heard


def became(tracker: Tracker, flow: Any) -> Any:
    """{"to": "IP:port" where the connection was rewritten to, or None}; None where conntrack cannot be asked."""
    try:
        entry = tracker.find(flow)
    except OSError:
        return None
    if entry is not None and not entry.rewritten:
        tracker.ours.append(entry)
    return {"to": show(entry.answers_from) if entry is not None and entry.rewritten else None}


def dialled(exams: List[Any]) -> List[str]:
    rows = [row for _, exam, _ in exams for row in exam["walks"] if row["address"]]
    return sorted({row["address"].rpartition(":")[0] for row in rows})


def cluster_told(exam: Dict[str, Any]) -> Dict[str, Any]:
    brokers = {str(node): address for address, node in sorted(exam["owners"], key=lambda pair: pair[1])}
    return {"name": exam["name"], "cluster_id": exam["cluster_id"], "protocol": exam["protocol"], "brokers": brokers}


if __name__ == "__main__":
    sys.exit(main(sys.argv))
