"""The protocol of a switch: prepare, arm, load, probe, and confirm or undo; or the removal of all of it; or the way back."""

import contextlib

from kafka_natmap_proof import brief, failures, prove
from kafka_natmap_recovery import end_half_done
from kafka_natmap_switch import Switch
from kafka_natmap_system import Refusal, audit, digest_of_texts, read_json
from kafka_natmap_tracking import tracking


def switch(request, stage):
    """The whole protocol. Returns the result that Ansible and the audit record show."""
    this = Switch(request["bundle"], stage)
    if not request.get("check"):
        end_half_done(this.owner, "before the next one")
        this = Switch(this.bundle, stage)
    if request["bundle"].get("back"):
        this = _previous(this, request)
        if this is None:
            return {"changed": False, "digest": None, "steps": [], "diff": [], "state": "unchanged", "proof": None}
    if this.bundle.get("remove"):
        return _remove(this, request)
    return _forward(this, request, stage)


def _forward(this, request, stage):
    bundle, probe = this.bundle, this.bundle.get("probe")
    record = {"owner": this.owner, "who": request.get("who"), "digest": bundle["digest"]}
    result = {"changed": False, "digest": bundle["digest"], "steps": this.steps, "diff": [], "proof": None}
    try:
        changes, before = this.prepare(probe, request.get("window", 60))
    except Refusal as refusal:
        # A disk without room is refused, and cannot take the record of it.
        with contextlib.suppress(OSError):
            audit(dict(record, result="refused", why=[refusal.cause]))
        return dict(result, state="refused", refusal={"cause": refusal.cause, "mend": refusal.mend})
    result.update(changed=bool(changes), diff=diff_of(changes))
    if request.get("check") or not changes:
        return dict(result, state="unchanged" if not changes else "would change", proof=brief(before))
    after, failed = None, []
    try:
        this.arm(request.get("window", 60))
        this.load()
        if probe:
            with this.step("probe") as entry:
                after = prove(probe, "advertised", stage)
                failed = failures(before, after, bundle["pairs"])
                entry["said"] = "%d failed" % len(failed) if failed else "every broker that is up answers"
    except Exception as error:  # whatever it was, the node goes back to what it was
        failed = [str(error) or type(error).__name__]
    if not failed:
        this.confirm(request.get("who"))
        audit(dict(record, result="confirmed"))
        return dict(result, state="confirmed", proof=brief(after))
    clean = this.undo()
    audit(dict(record, result="undone" if clean else "undo differs", why=failed[:5]))
    return dict(result, state="undone", clean=clean, failed=failed, proof=brief(after))


def preview(request, stage):
    """What `switch` would do, and why it would refuse: the part of the change plan that only the node knows."""
    this = Switch(request["bundle"], stage)
    refusal, proof, changes = None, None, {}
    try:
        changes = this.changes()
        changes, proof = this.prepare(request["bundle"].get("probe"), request.get("window", 60))
    except Refusal as refused:
        refusal = {"cause": refused.cause, "mend": refused.mend}
    return {
        "digest": this.bundle["digest"],
        "before_digest": digest_of_texts({name: layer.snapshot() for name, layer in this.layers}),
        "changes": [
            {"what": name, "before": before, "after": after} for name, (before, after) in sorted(changes.items())
        ],
        "refusal": refusal,
        "foreign": this.foreign,
        "conntrack": dict(tracking(), effect=this.bundle["plan"]["conntrack"]),
        "half_done": read_json(this.path("pending.json")) is not None,
        "proof": brief(proof),
    }


def _previous(this, request):
    """The way back to the generation before the confirmed one; None where that one is not this run's."""
    if not this.old or this.old["digest"] != request["bundle"]["back"]:
        return None
    before = read_json(this.path("previous.json"))
    bundle = before or dict(this.bundle, remove=True, names=this.old["names"], units=this.old["units"])
    return Switch(bundle, this.stage)


def _remove(this, request):
    held = {name: layer.listing() or "" for name, layer in this.layers}
    changes = {name: (text, "") for name, text in held.items() if text}
    changed = bool(changes) or this.old is not None
    result = {"changed": changed, "digest": None, "steps": this.steps, "diff": diff_of(changes), "proof": None}
    if request.get("check") or not changed:
        return dict(result, state="would change" if changed else "unchanged")
    this.remove()
    audit({"owner": this.owner, "who": request.get("who"), "result": "removed"})
    return dict(result, state="removed")


def diff_of(changes):
    """What `ansible-playbook --diff` prints."""
    return [
        {"before_header": name, "after_header": name, "before": before, "after": after}
        for name, (before, after) in sorted(changes.items())
    ]
