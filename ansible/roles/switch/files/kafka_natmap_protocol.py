"""The protocol of a switch: prepare, arm, load, probe, and confirm or undo; or the removal of all of it."""

from kafka_natmap_proof import failures, prove
from kafka_natmap_switch import Switch
from kafka_natmap_system import audit, read_json


def switch(request, stage):
    """The whole protocol. Returns the result that Ansible and the audit record show."""
    bundle, probe = request["bundle"], request["bundle"].get("probe")
    this = Switch(bundle, stage)
    this = finish_half_done(this)
    if bundle.get("remove"):
        return _remove(this, request)
    changes, before = this.prepare(probe)
    result = {"changed": bool(changes), "digest": bundle["digest"], "steps": this.steps, "diff": diff_of(changes)}
    if request.get("check") or not changes:
        return dict(result, state="unchanged" if not changes else "would change", proof=before)
    record = {"owner": this.owner, "who": request.get("who"), "digest": bundle["digest"]}
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
        return dict(result, state="confirmed", proof=after)
    clean = this.undo()
    audit(dict(record, result="undone" if clean else "undo differs", why=failed[:5]))
    return dict(result, state="undone", clean=clean, failed=failed, proof=after)


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


def finish_half_done(this):
    """A switch that died before it confirmed is undone before the next one begins."""
    pending = read_json(this.path("pending.json"))
    if not pending:
        return this
    clean = Switch(pending["bundle"]).undo()
    audit(
        {
            "owner": this.owner,
            "result": "undone, half done" if clean else "undo differs",
            "digest": pending["bundle"]["digest"],
        }
    )
    return Switch(this.bundle, this.stage)


def diff_of(changes):
    """What `ansible-playbook --diff` prints."""
    return [
        {"before_header": name, "after_header": name, "before": before, "after": after}
        for name, (before, after) in sorted(changes.items())
    ]
