"""What follows a switch that did not end: at boot, after a kill -9, when its window is over, before the next one.

The one point of no return is the generation: before it is written the node goes back, from then on the rest is completed.
"""

import contextlib
import glob
import os
import shutil
import time

from kafka_natmap_switch import Switch, lift_if_tracked, own_unit
from kafka_natmap_system import ETC, HOSTS, LIB, LIBEXEC, UNITS, audit, locked, owners, read_json, run, unlink

# Seconds that an undo may take while its caller waits for it.
PATIENCE = 30


def pending_of(owner):
    """The switch of an owner that has not ended, or None."""
    return read_json(os.path.join(LIB, owner, "pending.json"))


def end_half_done(owner, why):
    """Complete or undo a switch that did not end; under the lock.

    :param why: for the record
    """
    sweep(owner)
    pending = pending_of(owner)
    if not pending:
        return
    this = Switch(pending["bundle"])
    record = {"owner": owner, "digest": pending["bundle"]["digest"]}
    if this.old and this.old != pending["old"]:
        this.conclude(this.old, pending["old"])
        audit(dict(record, result="confirmed, %s" % why))
        return
    clean = this.undo()
    audit(dict(record, result="undone, %s" % why if clean else "undo differs"))


def boot(owner):
    """Put the confirmed plan back; a switch that a restart cut short is ended first."""
    with locked("boot of " + owner):
        end_half_done(owner, "at boot")
        generation = lift_if_tracked(read_json(os.path.join(LIB, owner, "generation.json")))
        if generation:
            this = Switch(generation)
            kept = {name: text for name, text in generation["texts"].items() if name != "nginx"}
            this.layers = [pair for pair in this.layers if pair[0] != "nginx"]
            this.put(kept, generation["texts"], generation["snapshots"], generation["state"])


def recover(owner):
    """What the switch's own unit calls when it has ended, however it did (systemd.exec(5), SERVICE_RESULT)."""
    pending = pending_of(owner)
    mine = pending is not None and pending.get("unit") == own_unit()
    if not mine and os.environ.get("SERVICE_RESULT") == "success":
        return
    with locked("undo of " + owner):
        if mine or pending is None:
            end_half_done(owner, "the switch died")
        if pending_of(owner) is None:
            run(["systemctl", "stop", "kafka-natmap-undo-%s.timer" % owner])


def sweep(owner):
    """Take away what a program that was killed had begun to write."""
    home, etc = os.path.join(LIB, owner), os.path.join(ETC, owner)
    begun = [os.path.join(folder, ".kafka-natmap*") for folder in (home, etc, LIB, ETC, UNITS, os.path.dirname(HOSTS))]
    for pattern in begun + [os.path.join(LIBEXEC, ".*")]:
        for path in glob.glob(pattern):
            unlink(path)
    for folder in (home, etc, ETC):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    if not owners():
        shutil.rmtree(LIBEXEC, ignore_errors=True)


def undo(owner):
    """What the timer calls: end a switch that was not confirmed in its window."""
    pending = pending_of(owner)
    if pending is None:
        return
    if pending.get("unit"):
        run(["systemctl", "kill", "--signal=KILL", pending["unit"]])
    with locked("undo of " + owner):
        end_half_done(owner, "the window was over")


def what_is_left(request, how):
    """The answer for a switch that died without one: what the node holds, now that its unit has ended.

    :param how: how its process ended
    """
    bundle = request["bundle"]
    deadline = time.monotonic() + PATIENCE
    while pending_of(bundle["owner"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    held = read_json(os.path.join(LIB, bundle["owner"], "generation.json"))
    answer = {"changed": False, "digest": bundle["digest"], "steps": [], "diff": [], "proof": None}
    failed = "the switch was ended from outside (%s)" % how
    if pending_of(bundle["owner"]):
        return dict(answer, state="unknown", failed=[failed + ", and its undo has not ended"], clean=False)
    if held and bundle["digest"] and held["digest"] == bundle["digest"]:
        return dict(answer, state="confirmed", changed=True)
    if bundle.get("remove") or bundle.get("back"):
        return dict(answer, state="unknown", failed=[failed])
    return dict(answer, state="undone", clean=True, failed=[failed])
