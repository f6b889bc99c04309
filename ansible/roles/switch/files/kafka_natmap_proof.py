"""The proof: a Kafka conversation with every broker, as the job's user, and that nobody else is rewritten."""

import json
import os
import sys

from kafka_natmap_system import LIBEXEC, Refusal, first_lines, run

_GRACE = 10.0
MOST_ALIKE = 10


def prove(requests, path, stage):
    """Run the probe once for each identity and put the answers together.

    :param requests: the probe's requests (kafka_natmap_request.py), one an identity
    :param path: "reachable" before the rules are loaded, "advertised" through them
    :param stage: where the programs of this run are, or None for the installed ones
    """
    whole = {"clusters": [], "brokers": [], "outsider": [], "seconds": 0.0, "error": None}
    kafka_python = os.path.join(stage or "", "kafka-python.zip")
    if not stage or not os.path.exists(kafka_python):
        kafka_python = os.path.join(LIBEXEC, "kafka-python.zip")
    for request in requests:
        command = [sys.executable, "-I", sys.argv[0], "probe", "--kafka-python", kafka_python]
        code, out, err = run(command, json.dumps(dict(request, path=path)), timeout=request["deadline"] + _GRACE)
        try:
            answer = json.loads(out)
        except ValueError:
            said = first_lines(err) or "exit code %d" % code
            answer = {"error": {"cause": "the probe gave no answer: " + said, "mend": "run it by hand on the node"}}
        for key in ("clusters", "brokers", "outsider"):
            whole[key] += answer.get(key, [])
        whole["seconds"] = round(whole["seconds"] + answer.get("seconds", 0.0), 3)
        whole["error"] = whole["error"] or answer.get("error")
    return whole


def brief(proof):
    """A proof that may travel: of entries that nobody advertises and of untouched outsiders, the first and the number."""
    if proof is None:
        return None
    kept = dict(proof)
    for key, common in (("brokers", "STALE_ENTRY"), ("outsider", "NOT_REWRITTEN")):
        usual = [row for row in proof[key] if row["verdict"] == common]
        kept[key] = [row for row in proof[key] if row["verdict"] != common] + usual[:MOST_ALIKE]
        kept[key + "_more"] = len(usual[MOST_ALIKE:])
    return kept


def alive(row):
    """Whether a broker answered as a Kafka broker, proven or not."""
    return row is not None and (
        row["verdict"] == "OK" or (row["verdict"] == "UNPROVEN" and row["api_versions"] is not None)
    )


def refuse_if_hopeless(proof):
    """Before anything is changed: a wrong broker behind an address, or no broker at all, ends the run."""
    if proof.get("error"):
        raise Refusal(proof["error"]["cause"], proof["error"]["mend"])
    wrong = [row for row in proof["brokers"] if row["verdict"] in ("WRONG_BROKER", "WRONG_CLUSTER", "NOT_KAFKA")]
    if wrong:
        said = "; ".join("%s %s: %s" % (row["verdict"], row["advertised"], row["evidence"]) for row in wrong)
        raise Refusal(
            "the map does not lead to the right broker: " + first_lines(said),
            "correct the reachable addresses in the map",
        )
    if not any(alive(row) for row in proof["brokers"]):
        said = [row["evidence"] for row in proof["brokers"]] or [
            r["evidence"] for c in proof["clusters"] for r in c["bootstrap"]
        ]
        raise Refusal(
            "no broker answers: " + "; ".join(said[:3]), "check the reachable addresses and HQ's NAT from this node"
        )


def failures(before, after, pairs):
    """What the change broke or failed to do; empty where it may be kept.

    A broker that answered before must answer through the rule, as itself, rewritten as planned;
    a connection of another user must not be rewritten.
    """
    if after["error"]:
        return [after["error"]["cause"]]
    found = []
    now = {(row["cluster"], row["advertised"]): row for row in after["brokers"]}
    targets = {"%s:%d" % (to, port) for _, _, to, port in pairs}
    for row in before["brokers"]:
        answered = now.get((row["cluster"], row["advertised"]))
        if not alive(row) or row["reachable"] is None:
            continue
        if not alive(answered):
            said = answered["evidence"] if answered else "it was not asked"
            found.append(
                "broker %s (%s) answered before and does not through the rule: %s"
                % (row["id"], row["advertised"], said)
            )
        elif answered["verdict"] != "OK" and row["verdict"] == "OK":
            found.append(
                "broker %s (%s) was proven before and is not any more: %s"
                % (row["id"], row["advertised"], answered["evidence"])
            )
    for row in after["brokers"]:
        if row["verdict"] in ("WRONG_BROKER", "WRONG_CLUSTER"):
            found.append("%s at %s: %s" % (row["verdict"], row["advertised"], row["evidence"]))
        elif row["verdict"] == "OK" and row["rewritten_to"] not in targets | {None, row["reachable"]}:
            found.append("%s is rewritten to %s, which is not in the plan" % (row["advertised"], row["rewritten_to"]))
    for row in after["outsider"]:
        if row["verdict"] == "SCOPE_LEAK":
            found.append("another user is rewritten too, at %s: %s" % (row["advertised"], row["evidence"]))
    return found
