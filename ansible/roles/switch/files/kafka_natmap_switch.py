"""The switch: takes a node from one generation of a plan to the next, proves it, and keeps it or undoes it.

prepare and arm change nothing; load is one transaction a layer; probe decides between confirm and undo.
A generation is what was loaded for one owner: texts, names, and what the node held right after (snapshots).
"""

import contextlib
import ipaddress
import json
import os
import re
import shutil
import time

import kafka_natmap_conntrack as conntrack
from kafka_natmap_layers import layers_of
from kafka_natmap_proof import alive, failures, prove
from kafka_natmap_system import (
    ETC,
    LIB,
    LIBEXEC,
    PROGRAM,
    UNITS,
    Refusal,
    audit,
    first_lines,
    must,
    now,
    owners,
    read_json,
    read_text,
    run,
    unlink,
    writable,
    write_text,
)

FILES = {
    "nftables": "nftables.nft",
    "iptables": "iptables.rules",
    "nginx": "nginx.conf",
    "hosts": "hosts",
    "routes": "routes",
}


class Switch:
    """One owner's way from what is on the node to what a bundle says."""

    def __init__(self, bundle, stage=None):
        self.bundle = bundle
        self.owner = bundle["owner"]
        self.stage = stage
        self.home = os.path.join(LIB, self.owner)
        self.old = read_json(self.path("generation.json"))
        self.layers = layers_of(dict(bundle["names"], owner=self.owner))
        self.steps = []

    def path(self, name):
        """A file of this owner's state."""
        return os.path.join(self.home, name)

    @contextlib.contextmanager
    def step(self, name):
        """Time a step for the result."""
        begun = time.monotonic()
        entry = {"step": name, "result": "failed"}
        self.steps.append(entry)
        try:
            yield entry
            entry["result"] = entry.get("said", "done")
        finally:
            entry["seconds"] = round(time.monotonic() - begun, 3)

    # ------------------------------------------------------------ what would change

    def changes(self):
        """The layers that differ: name to (text before, text after); what someone else changed shows as it is."""
        texts = self.bundle["texts"]
        old = self.old or {"texts": {}, "snapshots": {}}
        found = {}
        for name, layer in self.layers:
            wanted = texts.get(name)
            touched = wanted is not None or old["texts"].get(name) is not None
            live = layer.snapshot() if touched else None
            as_left = live is not None and live == old["snapshots"].get(name)
            if (wanted is None and live is None) or (as_left and wanted == old["texts"].get(name)):
                continue
            before = old["texts"].get(name) if as_left else layer.listing()
            found[name] = (before or "", wanted or "")
        for unit, text in self.bundle["units"].items():
            before = read_text(os.path.join(UNITS, unit))
            if before != text:
                found[unit] = (before or "", text)
        for unit in sorted(set(old.get("units", {})) - set(self.bundle["units"])):
            found[unit] = (old["units"][unit], "")
        return found

    def prepare(self, probe):
        """Everything that can be known before a change. Returns the differences and the brokers that answer.

        :raises Refusal: with the first reason why the node must stay as it is
        """
        with self.step("prepare") as entry:
            self._may_write()
            changes = self.changes()
            for name, layer in self.layers:
                if changes.get(name, ("", ""))[1]:
                    layer.check(changes[name][1])
            proof = prove(probe, "reachable", self.stage) if probe and changes else None
            if proof:
                refuse_if_hopeless(proof)
            entry["said"] = "%d to change" % len(changes) if changes else "nothing to change"
        return changes, proof

    def _may_write(self):
        if os.geteuid() != 0:
            raise Refusal("not root", "let Ansible become root (become: true)")
        if not os.path.isdir("/run/systemd/system"):
            raise Refusal("this node does not run systemd", "manage only nodes with systemd: the undo timer needs it")
        for folder in (ETC, LIB, LIBEXEC, UNITS):
            if not writable(folder):
                raise Refusal("%s cannot be written" % folder, "remount it read-write, or free disk space")

    # ------------------------------------------------------------ the change

    def arm(self, window):
        """Install the program, save where we come from, and start the undo: it needs neither us nor the controller."""
        with self.step("arm"):
            self._install()
            pending = {"old": self.old, "bundle": plain(self.bundle), "since": now(), "unit": own_unit()}
            write_text(self.path("pending.json"), json.dumps(pending), 0o600)
            if window:
                self._start_timer(window)

    def _install(self):
        if self.stage:
            os.makedirs(LIBEXEC, mode=0o755, exist_ok=True)
            for name in ("kafka-natmap.pyz", "kafka-python.zip"):
                staged = os.path.join(self.stage, name)
                if os.path.exists(staged):
                    shutil.copyfile(staged, os.path.join(LIBEXEC, "." + name))
                    os.chmod(os.path.join(LIBEXEC, "." + name), 0o755)
                    os.rename(os.path.join(LIBEXEC, "." + name), os.path.join(LIBEXEC, name))
        self._put_units(self.bundle["units"])

    def _put_units(self, units):
        for unit, text in units.items():
            if read_text(os.path.join(UNITS, unit)) != text:
                write_text(os.path.join(UNITS, unit), text)
        if units:
            must(["systemctl", "daemon-reload"])
            run(["systemctl", "enable", "--quiet"] + sorted(units))

    def _start_timer(self, window):
        unit = "kafka-natmap-undo-" + self.owner
        run(["systemctl", "stop", unit + ".timer"])
        command = ["systemd-run", "--quiet", "--collect", "--unit", unit, "--on-active", "%ds" % int(window)]
        command += [
            "--timer-property",
            "AccuracySec=100ms",
            self.bundle["names"]["python"],
            "-I",
            PROGRAM,
            "undo",
            self.owner,
        ]
        must(command, mend="systemctl status %s.timer" % unit)

    def load(self):
        """Put the new texts on the node, in place."""
        with self.step("load"):
            state = dict((self.old or {}).get("state", {}))
            self.put(
                self.bundle["texts"], (self.old or {}).get("texts", {}), (self.old or {}).get("snapshots", {}), state
            )
            self.bundle["state"] = state
            self._forget_unrewritten()

    def put(self, texts, old_texts, old_snapshots, state):
        """Load each layer that differs in order, then clear those that are no longer wanted in reverse."""
        for name, layer in self.layers:
            wanted = texts.get(name)
            if wanted is None:
                continue
            live = layer.snapshot()
            if live is None or live != old_snapshots.get(name) or wanted != old_texts.get(name):
                write_text(os.path.join(ETC, self.owner, FILES[name]), wanted)
                layer.load(wanted, state)
        for name, layer in reversed(self.layers):
            if texts.get(name) is None and layer.listing() is not None:
                layer.clear(state)
            if texts.get(name) is None:
                unlink(os.path.join(ETC, self.owner, FILES[name]))

    def _forget_unrewritten(self):
        """Entries of mapped pairs that were tracked before the rule would carry the next connection from that port past it."""
        mapped = targets_of(self.bundle)
        for entry in list(conntrack.ct_dump()) if self.bundle["pairs"] or self.bundle.get("prefixes") else ():
            if mapped(entry.dialled) and not entry.rewritten and entry.state != "ESTABLISHED":
                conntrack.ct_delete(entry)

    def confirm(self, who):
        """Keep what is loaded: write the generation, stop the undo."""
        with self.step("confirm"):
            generation = dict(plain(self.bundle), since=now(), who=who)
            generation["snapshots"] = {
                name: layer.snapshot() for name, layer in self.layers if self.bundle["texts"].get(name)
            }
            write_text(
                os.path.join(ETC, self.owner, "plan.json"),
                json.dumps(generation["plan"], indent=1, sort_keys=True) + "\n",
            )
            write_text(self.path("generation.json"), json.dumps(generation), 0o600)
            self._disarm()
            # Active, the unit takes part in restarts of nftables.service; it waits for our lock, so we do not wait for it.
            run(["systemctl", "start", "--no-block", "kafka-natmap-%s.service" % self.owner])

    def _disarm(self):
        unlink(self.path("pending.json"))
        run(["systemctl", "stop", "kafka-natmap-undo-%s.timer" % self.owner])

    def undo(self):
        """Go back to the old generation, and say whether the node now holds what it held."""
        with self.step("undo") as entry:
            old = self.old or {"texts": {}, "snapshots": {}, "units": {}, "state": {}}
            state = dict(self.bundle.get("state", {}))
            self.put(old["texts"], {}, {}, state)
            self._settle(old)
            differing = [name for name, layer in self.layers if layer.snapshot() != old["snapshots"].get(name)]
            differing = [name for name in differing if old["texts"].get(name) is not None]
            left = [
                name for name, layer in self.layers if old["texts"].get(name) is None and layer.listing() is not None
            ]
            self._disarm()
            if differing or left:
                entry["said"] = "differs from before: %s" % ", ".join(differing + left)
            else:
                entry["said"] = "as before"
        return not (differing or left)

    def _settle(self, old):
        """Units and files of the generation that stays; where none stays, only the audit record does."""
        for unit in sorted(set(self.bundle["units"]) - set(old.get("units", {}))):
            remove_unit(unit)
        if self.old:
            self._put_units(old["units"])
        else:
            self.leave()

    def leave(self):
        """Take every file of this owner away, and the programs with the last one."""
        for unit in set(self.bundle["units"]) | set((self.old or {}).get("units", {})):
            remove_unit(unit)
        self._disarm()
        shutil.rmtree(os.path.join(ETC, self.owner), ignore_errors=True)
        shutil.rmtree(self.home, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(ETC)
        if not owners():
            shutil.rmtree(LIBEXEC, ignore_errors=True)

    def remove(self):
        """Take all of this owner off the node, and end the flows that its rules carried."""
        with self.step("remove"):
            carried = self._carried()
            state = dict((self.old or {}).get("state", {}))
            self.put({}, {}, {}, state)
            end_flows(carried)
            self.leave()

    def _carried(self):
        mapped = targets_of(self.old) if self.old else None
        return [e for e in conntrack.ct_dump() if e.rewritten and mapped(e.dialled)] if mapped else []


def targets_of(generation):
    """Where a generation sends a destination: a function of (address, port), None where it leaves it alone."""
    pairs = {(address, port): (to, to_port) for address, port, to, to_port in generation["pairs"]}
    networks = [
        (ipaddress.ip_network(network), set(ports), ipaddress.ip_network(to))
        for network, ports, to in generation.get("prefixes", ())
    ]

    def target(dialled):
        address, port = dialled
        if dialled in pairs:
            return pairs[dialled]
        for network, ports, to in networks:
            host = ipaddress.ip_address(address)
            if port in ports and host in network:
                return str(to[int(host) - int(network.network_address)]), port
        return None

    return target


def end_flows(entries):
    """End connections whose rewrite is gone, so that their clients learn it at once (SOCK_DESTROY, ss(8))."""
    for entry in entries:
        source, port, destination, destination_port = entry.orig
        run(["ss", "-K", "-t", "src", "%s:%d" % (source, port), "dst", "%s:%d" % (destination, destination_port)])
        conntrack.ct_delete(entry)


def remove_unit(unit):
    """Disable a unit and take its file away."""
    path = os.path.join(UNITS, unit)
    if os.path.exists(path):
        run(["systemctl", "disable", "--now", "--quiet", unit])
        unlink(path)
        run(["systemctl", "daemon-reload"])


def refuse_if_hopeless(proof):
    """Before anything is changed: a wrong broker behind an address, or no broker at all, ends the run."""
    if proof.get("error"):
        raise Refusal(proof["error"]["cause"], proof["error"]["mend"])
    wrong = [row for row in proof["brokers"] if row["verdict"] in ("WRONG_BROKER", "WRONG_CLUSTER")]
    if wrong:
        said = "; ".join("%s %s: %s" % (row["verdict"], row["advertised"], row["evidence"]) for row in wrong)
        raise Refusal(
            "the map leads to the wrong broker: " + first_lines(said), "correct the reachable addresses in the map"
        )
    if not any(alive(row) for row in proof["brokers"]):
        said = [row["evidence"] for row in proof["brokers"]] or [
            r["evidence"] for c in proof["clusters"] for r in c["bootstrap"]
        ]
        raise Refusal(
            "no broker answers: " + "; ".join(said[:3]), "check the reachable addresses and HQ's NAT from this node"
        )


def plain(bundle):
    """A bundle as it may be kept: without what only the probe may know."""
    return {key: value for key, value in bundle.items() if key != "probe"}


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


def own_unit():
    """The transient unit that this process runs in, or None."""
    found = re.search(r"(kafka-natmap-switch-\d+)\.service", read_text("/proc/self/cgroup") or "")
    return found.group(1) + ".service" if found else None


def diff_of(changes):
    """What `ansible-playbook --diff` prints."""
    return [
        {"before_header": name, "after_header": name, "before": before, "after": after}
        for name, (before, after) in sorted(changes.items())
    ]
