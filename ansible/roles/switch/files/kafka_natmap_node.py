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
from kafka_natmap_status import status
from kafka_natmap_switch import Switch, lift_if_tracked, own_unit
from kafka_natmap_system import LIB, PROGRAM, Refusal, audit, locked, read_json, read_text, run, unlink, write_text

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
    command = [sys.executable, "-I", os.path.abspath(sys.argv[0]), "switch-now", asked, answer]
    if os.path.isdir("/run/systemd/system") and os.geteuid() == 0:
        unit = "kafka-natmap-switch-%d" % os.getpid()
        # However the switch ends, this looks whether it left something half done: within a second of a kill -9.
        after = "ExecStopPost=-%s -I %s recover %s" % (sys.executable, PROGRAM, json.loads(request)["bundle"]["owner"])
        command = ["systemd-run", "--quiet", "--collect", "--wait", "--unit", unit, "--property", after] + command
    code, _, err = run(command, timeout=900)
    result = read_json(answer)
    if result is None:
        raise Refusal(
            "the switch gave no answer: %s" % (err.strip() or "exit code %d" % code),
            "journalctl -t systemd -u 'kafka-natmap*'",
        )
    return result


def switch_now(asked, answer):
    """The switch itself: its request is read and gone before anything else, since it may hold the probe's secrets."""
    request = json.loads(read_text(asked))
    unlink(asked)
    owner = request["bundle"]["owner"]
    try:
        with locked("owner %s (%s)" % (owner, request.get("who")), request.get("lock_wait", 30.0)):
            result = switch(request, os.path.dirname(asked))
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


def boot(owner):
    """Put the confirmed plan back; an unconfirmed switch that a restart cut short is undone first."""
    with locked("boot of " + owner):
        pending = read_json(os.path.join(LIB, owner, "pending.json"))
        if pending:
            Switch(pending["bundle"]).undo()
            audit({"owner": owner, "result": "undone at boot", "digest": pending["bundle"]["digest"]})
        generation = lift_if_tracked(read_json(os.path.join(LIB, owner, "generation.json")))
        if generation:
            this = Switch(generation)
            kept = {name: text for name, text in generation["texts"].items() if name != "nginx"}
            this.layers = [pair for pair in this.layers if pair[0] != "nginx"]
            this.put(kept, generation["texts"], generation["snapshots"], generation["state"])


def recover(owner):
    """What the switch's own unit calls when it has ended: go back, if it died before it confirmed."""
    pending = read_json(os.path.join(LIB, owner, "pending.json"))
    if pending and pending.get("unit") == own_unit():
        _go_back(owner, "undone, the switch died")


def undo(owner):
    """What the timer calls: end a switch that was not confirmed in its window, and go back."""
    pending = read_json(os.path.join(LIB, owner, "pending.json"))
    if pending is None:
        return
    unit = pending.get("unit")
    if unit:
        run(["systemctl", "kill", "--kill-who=main", "--signal=KILL", unit])
    _go_back(owner, "undone by the timer")


def _go_back(owner, result):
    with locked("undo of " + owner):
        pending = read_json(os.path.join(LIB, owner, "pending.json"))
        if pending is None:
            return
        clean = Switch(pending["bundle"]).undo()
        audit(
            {
                "owner": owner,
                "result": result if clean else "undo differs",
                "digest": pending["bundle"]["digest"],
            }
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv))
