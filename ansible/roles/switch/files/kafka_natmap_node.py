#!/usr/bin/env python3
"""kafka-natmap on a node: look at it, and switch it from one plan to another, safely.

    kafka-natmap.pyz inspect          what the planner must know of this node        JSON in, JSON out
    kafka-natmap.pyz switch           change it, prove it, keep it or undo it        JSON in, JSON out
    kafka-natmap.pyz preview          what a switch would change, and why not       JSON in, JSON out
    kafka-natmap.pyz verify           probe every broker through the rules           JSON in, JSON out
    kafka-natmap.pyz status OWNER     what is here, and what differs                 JSON out
    kafka-natmap.pyz yarn             which nodes the ResourceManager knows          JSON out
    kafka-natmap.pyz boot OWNER       put the confirmed plan back
    kafka-natmap.pyz recover OWNER    the same, where the switch itself has died
    kafka-natmap.pyz watch OWNER      notice what others change of it, and put it back or only tell
    kafka-natmap.pyz undo OWNER       go back to the generation before an unconfirmed switch

Standard library only, Python 3.6. Every text that lands on the node comes ready from the controller.
Exit code 0, or 1 with {"error": {"cause": ..., "mend": ...}} on standard output.
"""

import json
import os
import sys

from kafka_natmap_inspect import inspect
from kafka_natmap_proof import brief, prove
from kafka_natmap_protocol import preview, switch
from kafka_natmap_recovery import boot, recover, undo, what_is_left
from kafka_natmap_status import status
from kafka_natmap_system import LIB, PROGRAM, Busy, Refusal, locked, read_json, read_text, run, unlink, write_text

VERBS = (
    "inspect",
    "preview",
    "switch",
    "verify",
    "status",
    "yarn",
    "boot",
    "undo",
    "recover",
    "watch",
    "probe",
    "switch-now",
)


def main(argv):
    """Run one verb; the exit code."""
    verb = argv[1] if len(argv) > 1 else "--help"
    if verb not in VERBS:
        sys.stdout.write(__doc__)
        return 0 if verb in ("-h", "--help") else 2
    if verb == "probe":
        import kafka_natmap_probe

        del sys.argv[1]
        return kafka_natmap_probe.main()
    try:
        answer = _run(verb, argv[2:])
    except Refusal as refusal:
        answer = {"error": {"cause": refusal.cause, "mend": refusal.mend}}
    except OSError as error:
        where = " (%s)" % error.filename if error.filename else ""
        answer = {"error": {"cause": "%s%s" % (error.strerror or error, where), "mend": "see the node's journal"}}
    if answer is not None:
        json.dump(answer, sys.stdout)
        sys.stdout.write("\n")
    return 1 if answer and answer.get("error") else 0


def _run(verb, arguments):
    if verb == "inspect":
        return inspect(json.load(sys.stdin))
    if verb == "preview":
        return preview(json.load(sys.stdin), os.path.dirname(os.path.abspath(sys.argv[0])))
    if verb == "verify":
        return verify(json.load(sys.stdin))
    if verb == "switch":
        return in_a_unit(sys.stdin.read())
    if verb == "switch-now":
        return switch_now(*arguments)
    if verb == "yarn":
        from kafka_natmap_resourcemanager import nodes

        return nodes()
    if verb == "status" and not arguments and not sys.stdin.isatty():
        arguments = _owner_asked(sys.stdin.read())
    if not arguments:
        raise Refusal("%s needs an owner" % verb, "kafka-natmap.pyz %s OWNER; ls %s shows the owners" % (verb, LIB))
    if verb == "watch":
        # Now, not later: a switch replaces the file that this program is read from.
        from kafka_natmap_watch import watch

        return watch(arguments[0])
    return {"status": status, "boot": boot, "undo": undo, "recover": recover}[verb](arguments[0])


def _owner_asked(text):
    """The owner of a request on standard input: what comes by Ansible."""
    try:
        return [json.loads(text)["owner"]]
    except (ValueError, KeyError, TypeError):
        return []


def in_a_unit(request):
    """Run the switch as a transient unit, so that it ends well although whoever asked for it dies."""
    stage = os.path.dirname(os.path.abspath(sys.argv[0]))
    asked, answer = os.path.join(stage, "request.json"), os.path.join(stage, "answer.json")
    write_text(asked, request, 0o600)
    unlink(answer)
    command = [sys.executable, "-I", os.path.abspath(sys.argv[0]), "switch-now", asked, answer]
    if os.path.isdir("/run/systemd/system") and os.geteuid() == 0:
        unit = "kafka-natmap-switch-%d" % os.getpid()
        # However the switch ends, this looks whether it left something half done: within a second of a kill -9.
        after = "ExecStopPost=-%s -I %s recover %s" % (sys.executable, PROGRAM, json.loads(request)["bundle"]["owner"])
        command = ["systemd-run", "--quiet", "--collect", "--wait", "--unit", unit, "--property", after] + command
    code, _, err = run(command, timeout=900)
    return read_json(answer) or what_is_left(json.loads(request), err.strip() or "exit code %d" % code)


def switch_now(asked, answer):
    """The switch itself: its request is read and gone before anything else, since it may hold the probe's secrets."""
    request = json.loads(read_text(asked))
    unlink(asked)
    owner = request["bundle"]["owner"]
    try:
        with locked("owner %s (%s)" % (owner, request.get("who")), request.get("lock_wait", 30.0)):
            result = switch(request, os.path.dirname(asked))
    except Busy as busy:
        result = {"changed": False, "digest": request["bundle"].get("digest"), "steps": [], "diff": [], "proof": None}
        result.update(state="refused", refusal={"cause": busy.cause, "mend": busy.mend})
    except Refusal as refusal:
        result = {"error": {"cause": refusal.cause, "mend": refusal.mend}}
    except OSError as error:
        where = " (%s)" % error.filename if error.filename else ""
        result = {"error": {"cause": "%s%s" % (error.strerror or error, where), "mend": "see the node's journal"}}
    write_text(answer, json.dumps(result), 0o600)


def verify(request):
    """Every broker through the rules, as the job's user; what differs from the plan; whether another user is rewritten."""
    owner = request["owner"]
    held = status(owner)
    return {
        "state": held["state"],
        "drift": held["drift"],
        "proof": brief(prove(request["probe"], "advertised", os.path.dirname(sys.argv[0]))),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv))
