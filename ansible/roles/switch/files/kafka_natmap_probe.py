#!/usr/bin/python3
"""Probe the Kafka brokers of a NAT map from this node, as the job's user.

    python3 -I kafka_natmap_probe.py --kafka-python kafka.zip < request.json > result.json

One JSON object in, one out; the exit code is 0, or 1 when the result's `error` says why nothing could
be asked. The dials happen in children that have become the user; what became of their connections is
read from conntrack by root, which is what proves the scope. Python 3.6 syntax, kafka-python 2.3.
"""

import argparse
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from kafka_natmap_request import LONGEST, Refused, parse_request
from kafka_natmap_scope import Tracker, pairs_to_prove, prove_outsider
from kafka_natmap_session import Limits
from kafka_natmap_survey import NOT_ASKED, Cluster, Pair, each
from kafka_natmap_wire import load_kafka, load_sasl, tls_context

# The part of the time that the scoped user's dials get when an outsider comes after.
SCOPED_SHARE = 0.8
Say = Callable[[Dict[str, Any]], None]
Identity = Optional[Dict[str, Any]]


def main() -> int:
    """Read the request, probe, print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kafka-python", metavar="PATH", help="a zip that holds the package kafka")
    options = parser.parse_args()
    began = time.monotonic()
    result: Dict[str, Any] = {"clusters": [], "brokers": [], "outsider": [], "error": None}
    try:
        asked = parse_request(sys.stdin.buffer.read(LONGEST))
        load(options.kafka_python, asked)
        result.update(probe(asked, began))
    except Refused as refused:
        result["error"] = {"cause": refused.cause, "mend": refused.mend}
    result["seconds"] = round(time.monotonic() - began, 3)
    json.dump(result, sys.stdout)
    sys.stdout.write("\n")
    return 1 if result["error"] else 0


def load(kafka_python: Optional[str], asked: Dict[str, Any]) -> None:
    """Everything that must be read while we are root: modules, certificates."""
    try:
        load_kafka(kafka_python)
        for cluster in asked["clusters"]:
            if cluster["security"]["protocol"].startswith("SASL"):
                load_sasl(cluster["security"]["mechanism"])
    except (ImportError, OSError) as error:
        raise Refused(
            f"kafka-python cannot be loaded: {error}",
            "give a zip of the package kafka (kafka-python 2.3) as --kafka-python",
        ) from None
    for cluster in asked["clusters"]:
        try:
            cluster["tls"] = tls_context(cluster["security"])
        except (OSError, ValueError, TypeError) as error:
            raise Refused(
                "cluster {}: its certificates cannot be read: {}".format(cluster["name"], error),
                "put cafile, certfile and keyfile of its security on this node",
            ) from None


def probe(asked: Dict[str, Any], began: float) -> Dict[str, Any]:
    """The scoped user's survey, then the outsider's proof; each in a child."""
    through_rules = asked["path"] == "advertised"
    outsider = asked["outsider"] if through_rules else None
    until = began + asked["deadline"]
    survey_until = began + asked["deadline"] * (SCOPED_SHARE if outsider else 1.0)
    tracker = Tracker(asked["clusters"]) if through_rules else None
    found: Dict[str, Any] = {"outsider": []}

    def hear(told: Dict[str, Any]) -> None:
        for row in told["brokers"]:
            flow = row.pop("flow")
            if tracker and flow:
                tracker.settle(row, tuple(flow))
        found.update(told)

    try:
        if not run_as(asked["identity"], lambda say: say(survey(asked, survey_until)), hear, survey_until + 1):
            raise Refused("the survey did not end in {} s".format(asked["deadline"]), "raise the deadline")
        if tracker and outsider:
            pairs = pairs_to_prove(asked["clusters"], found["brokers"])
            found["outsider"] = prove_outsider(pairs, outsider, tracker, run_as, until)
    finally:
        if tracker:
            tracker.close()
    return found


def run_as(
    identity: Identity, work: Callable[[Say], None], hear: Callable[[Dict[str, Any]], None], until: float
) -> bool:
    """Run work(say) in a child that is `identity`; hear() each thing said, while the child waits.

    False when the child had to be ended at the monotonic time `until`. Raises Refused when it failed.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        serve_child(identity, work, theirs, until)
    theirs.close()
    try:
        with ours.makefile("rb") as lines:
            while select.select([ours], [], [], max(until - time.monotonic(), 0))[0]:
                line = lines.readline()
                if not line:
                    return True
                told = json.loads(line.decode("utf-8"))
                if "refused" in told:
                    raise Refused(*told["refused"])
                hear(told)
                ours.sendall(b".")
            return False
    finally:
        ours.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def serve_child(identity: Identity, work: Callable[[Say], None], channel: socket.socket, until: float) -> None:
    """The child's life; does not return."""

    def say(told: Dict[str, Any]) -> None:
        channel.sendall(json.dumps(told).encode("utf-8") + b"\n")
        if not channel.recv(1):
            os._exit(1)

    try:
        # Ends the child also when the parent is gone.
        signal.setitimer(signal.ITIMER_REAL, max(until - time.monotonic(), 0) + 1)
        silence()
        become(identity)
        work(say)
    except Refused as refused:
        say({"refused": [refused.cause, refused.mend]})
    except BaseException as error:  # a traceback could show secrets
        say({"refused": [f"the probe failed with {type(error).__name__}", "report this as a fault"]})
    finally:
        os._exit(0)


def silence() -> None:
    """Whoever waits for our output must not wait for a child."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)


def become(identity: Identity) -> None:
    """Take the identity for good. Raises Refused."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if identity is None or (os.geteuid() != 0 and os.geteuid() == identity["uid"]):
        return
    try:
        os.setgroups(identity["groups"])
        os.setresgid(identity["gid"], identity["gid"], identity["gid"])
        os.setresuid(identity["uid"], identity["uid"], identity["uid"])
    except OSError as error:
        raise Refused(
            "cannot become {}: {}".format(identity["label"], error.strerror), "run the probe as root"
        ) from None


def survey(asked: Dict[str, Any], until: float) -> Dict[str, Any]:
    """Ask every bootstrap address, then every mapped broker: the rows of the result."""
    began, workers = time.monotonic(), asked["concurrency"]
    clusters = [Cluster(cluster, asked["path"], cluster["tls"]) for cluster in asked["clusters"]]

    def limits(share: float) -> Limits:
        return Limits(asked["connect_timeout"], asked["request_timeout"], began + (until - began) * share)

    def ask(clusters_and_addresses: List[Tuple[Cluster, Any]], soon: Limits) -> List[Tuple[Any, Any]]:
        return each(lambda item: item[0].remember(item[1], soon), clusters_and_addresses, workers, soon.until)

    answers = ask([(cluster, address) for cluster in clusters for address in cluster.bootstrap], limits(0.5))
    lost = [cluster for cluster in clusters if not cluster.settle()]
    more = [(cluster, cluster.target(pair)) for cluster in lost for pair in cluster.pairs]
    ask([(cluster, address) for cluster, address in more if address not in cluster.answers], limits(0.7))
    for cluster in lost:
        cluster.settle()
    each(lambda cluster: cluster.learn_leaders(limits(0.8)), clusters, workers, limits(0.8).until)
    brokers = prove_pairs(clusters, limits(0.95), workers)
    for cluster in clusters:
        cluster.recheck([row for row in brokers if row["cluster"] == cluster.name], limits(1.0))
    reports = [
        cluster.report({address: answer for (asked_of, address), answer in answers if asked_of is cluster})
        for cluster in clusters
    ]
    scrub(brokers + [address for report in reports for address in report["bootstrap"]], asked)
    return {"clusters": reports, "brokers": brokers}


def prove_pairs(clusters: List[Cluster], limits: Limits, workers: int) -> List[Dict[str, Any]]:
    """One row for each broker that the map or metadata names."""
    rows: List[Dict[str, Any]] = []
    dials: List[Tuple[Cluster, Pair]] = []
    for cluster in clusters:
        settled, pairs = cluster.sort_out()
        rows.extend(settled)
        dials.extend((cluster, pair) for pair in pairs)
    proven = each(lambda item: item[0].prove(item[1], limits), dials, workers, limits.until)
    rows.extend(row or cluster.row(pair, "UNPROVEN", NOT_ASKED) for (cluster, pair), row in proven)
    return sorted(rows, key=lambda row: (row["cluster"], row["id"] is None, row["id"] or 0, row["advertised"]))


def scrub(rows: List[Dict[str, Any]], asked: Dict[str, Any]) -> None:
    """No peer can make us repeat a secret."""
    secrets = {cluster["security"].get(key) for cluster in asked["clusters"] for key in ("password", "keypassword")}
    for row in rows:
        for secret in filter(None, secrets):
            row["evidence"] = row["evidence"].replace(secret, "***")


if __name__ == "__main__":
    sys.exit(main())
