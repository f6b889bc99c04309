"""Which brokers a cluster has, and where each of them answers as itself: the matter of a NAT map.

    kafka-natmap-discover.pyz discover        a request on standard input, JSON out

The request is that of the doctor with one cluster; its brokers are the pairs of a present map, which are tried first.
Nothing is changed. Python 3.6 syntax.
"""

import json
import sys
import time
from typing import Any, Dict, List

from kafka_discover_ask import Discovery
from kafka_discover_rules import prefixes
from kafka_natmap_inspect import account_of
from kafka_natmap_probe import load, run_as
from kafka_natmap_request import LONGEST, Refused, need, parse_cluster
from kafka_natmap_session import Limits

DEFAULTS = {"connect_timeout": 1.5, "request_timeout": 3.0, "deadline": 20.0, "concurrency": 16, "trust_guesses": False}


def main(argv: List[str]) -> int:
    """Read what is asked, find out, print."""
    try:
        asked = json.loads(sys.stdin.buffer.read(LONGEST).decode("utf-8"))
    except (ValueError, RecursionError):
        asked = None
    json.dump(answer(asked), sys.stdout)
    sys.stdout.write("\n")
    return 0


def answer(asked: Any) -> Dict[str, Any]:
    """What was found out; {"error": {"cause", "mend"}} where nothing could be asked."""
    began = time.monotonic()
    try:
        need(isinstance(asked, dict) and isinstance(asked.get("probe"), list), "probe", "a list with one cluster")
        need(
            all(isinstance(one, dict) and isinstance(one.get("clusters"), list) for one in asked["probe"]),
            "probe",
            "objects with clusters",
        )
        clusters = [cluster for one in asked["probe"] for cluster in one["clusters"]]
        need(len(clusters) == 1, "probe", "a list with one cluster")
        request = dict(DEFAULTS, **{key: value for key, value in asked.items() if value is not None})
        found = find(request, parse_cluster(clusters[0], "probe[0].clusters[0]"), began)
    except Refused as refused:
        return {"error": {"cause": refused.cause, "mend": refused.mend}}
    return dict(found, seconds=round(time.monotonic() - began, 3))


def find(request: Dict[str, Any], cluster: Dict[str, Any], began: float) -> Dict[str, Any]:
    """Ask as the user that is named, in a child. Raises Refused."""
    need(bool(cluster["bootstrap"]), "probe[0].clusters[0].bootstrap", "at least one address")
    load(request.get("kafka_python"), {"clusters": [cluster]})
    user = request["probe"][0].get("user")
    who = account_of(user) if user else None
    if user and not who:
        raise Refused("there is no user {} on this host".format(user), "name one of `getent passwd`")
    until = began + request["deadline"]
    heard: List[Dict[str, Any]] = []

    def work(say: Any) -> None:
        limits = Limits(request["connect_timeout"], request["request_timeout"], until)
        found = Discovery(cluster, limits, request["concurrency"], request["trust_guesses"])
        told = found.run()
        say(scrubbed(dict(told, networks=prefixes(found.known)), cluster["security"]))

    identity = dict(who, label=user) if who else None
    if not run_as(identity, work, heard.append, until + 1) and not heard:
        raise Refused("the asking did not end in {} s".format(request["deadline"]), "raise it: -e discover_deadline=60")
    return heard[0]


def scrubbed(told: Dict[str, Any], security: Dict[str, Any]) -> Dict[str, Any]:
    """No peer can make us repeat a secret."""
    text = json.dumps(told)
    for key in ("password", "keypassword"):
        if security.get(key):
            text = text.replace(json.dumps(security[key])[1:-1], "***")
    return dict(json.loads(text))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
