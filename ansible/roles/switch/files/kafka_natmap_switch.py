"""The switch: takes a node from one generation of a plan to the next, proves it, and keeps it or undoes it.

prepare and arm change nothing; load is one transaction a layer; probe decides between confirm and undo.
A generation is what was loaded for one owner: texts, names, and what the node held right after (snapshots).
"""

import contextlib
import json
import os
import re
import shutil
import time

from kafka_natmap_flows import carried_flows, end_flows, forget_unrewritten
from kafka_natmap_foreign import takers
from kafka_natmap_inspect import own_addresses
from kafka_natmap_layers import FILES, LAYERS, layers_of
from kafka_natmap_owners import refuse_held
from kafka_natmap_proof import prove, refuse_if_hopeless
from kafka_natmap_ruleset import foreign_tables
from kafka_natmap_system import (
    ETC,
    LIB,
    LIBEXEC,
    PROGRAM,
    RUN,
    UNITS,
    Refusal,
    audit,
    digest_of_texts,
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
from kafka_natmap_tracking import refuse_if_full, tracking

# Seconds between the latest end of the probe and the undo.
MARGIN = 5


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
        self.foreign = []

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

    def prepare(self, probe, window=0):
        """Everything that can be known before a change. Returns the differences and the brokers that answer.

        :param window: seconds until the undo, 0 where none is started
        :raises Refusal: with the first reason why the node must stay as it is
        """
        with self.step("prepare") as entry:
            self._may_write()
            changes = self.changes()
            self._refuse_short_window(probe if changes else None, window)
            if changes:
                self._look_around()
            for name, layer in self.layers:
                if changes.get(name, ("", ""))[1]:
                    layer.check(changes[name][1])
            proof = prove(probe, "reachable", self.stage) if probe and changes else None
            if proof:
                refuse_if_hopeless(proof)
            entry["said"] = "%d to change" % len(changes) if changes else "nothing to change"
        return changes, proof

    @staticmethod
    def _refuse_short_window(probe, window):
        longest = sum(request["deadline"] for request in probe or ()) + MARGIN
        if probe and window and window < longest:
            raise Refusal(
                "the window of %d s is shorter than the probe may take (%d s)" % (window, longest),
                "set switch_window to %d or more" % longest,
            )

    def _look_around(self):
        """Refuse where somebody else takes a mapped pair, or where conntrack has no room."""
        if not self.bundle["pairs"] and not self.bundle.get("prefixes"):
            return
        refuse_held(self.bundle)
        tables = foreign_tables()
        self.foreign = takers(tables, self.bundle, own_addresses())
        if self.foreign:
            first = self.foreign[0]
            raise Refusal(
                "%s is taken by another rule already: %s%s"
                % (
                    first["pair"],
                    first["rule"],
                    " (and %d more)" % (len(self.foreign) - 1) if self.foreign[1:] else "",
                ),
                "let one of the two own it: remove that rule, or take the pair out of the map",
            )
        held = tracking(tables)
        if self.bundle.get("exempt") and held["in_use"]:
            raise Refusal(
                "since this node was planned, connections are tracked here (%s)" % held["in_use"][0], "run again"
            )
        refuse_if_full(held, self.bundle.get("exempt"))

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
            # Saved too: whoever undoes this, if not we, must know it.
            state = self.bundle["state"] = dict((self.old or {}).get("state", {}))
            for name, layer in self.layers:
                if name in ("iptables", "hosts") and self.bundle["texts"].get(name):
                    layer.remember(state)
            pending = {"old": self.old, "bundle": plain(self.bundle), "since": now(), "unit": own_unit()}
            write_text(self.path("pending.json"), json.dumps(pending), 0o600)
            self._put_units(self.bundle["units"])
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

    def _put_units(self, units):
        changed = [unit for unit, text in units.items() if read_text(os.path.join(UNITS, unit)) != text]
        for unit in changed:
            write_text(os.path.join(UNITS, unit), units[unit])
        wanted = os.path.join(UNITS, "multi-user.target.wants")
        disabled = [unit for unit in sorted(units) if not os.path.exists(os.path.join(wanted, unit))]
        # Both make systemd read all units of the node again, which may take seconds.
        if changed:
            must(["systemctl", "daemon-reload"])
        if disabled:
            run(["systemctl", "enable", "--quiet"] + disabled)

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
            old = self.old or {"texts": {}, "snapshots": {}}
            state = self.bundle.setdefault("state", dict(old.get("state", {})))
            self.put(self.bundle["texts"], old["texts"], old["snapshots"], state, set(old["texts"]))
            forget_unrewritten(self.bundle)

    def put(self, texts, old_texts, old_snapshots, state, held=LAYERS):
        """Load each layer that differs in order, then clear those that are no longer wanted in reverse.

        :param held: the layers that may be there; to look for one costs a program or two
        """
        for name, layer in self.layers:
            wanted = texts.get(name)
            if wanted is None:
                continue
            live = layer.snapshot()
            if live is None or live != old_snapshots.get(name) or wanted != old_texts.get(name):
                write_text(os.path.join(ETC, self.owner, FILES[name]), wanted)
                layer.load(wanted, state)
        for name, layer in reversed(self.layers):
            if texts.get(name) is None and name in held and layer.listing() is not None:
                layer.clear(state)
            if texts.get(name) is None:
                unlink(os.path.join(ETC, self.owner, FILES[name]))

    def confirm(self, who):
        """Keep what is loaded: write the generation, stop the undo."""
        with self.step("confirm"):
            generation = dict(plain(self.bundle), since=now(), by=who)
            generation["snapshots"] = {
                name: layer.snapshot() for name, layer in self.layers if self.bundle["texts"].get(name)
            }
            # The point of no return: whoever finds this one beside pending.json ends the confirmation.
            write_text(self.path("generation.json"), json.dumps(generation), 0o600)
            self.conclude(generation, self.old)

    def conclude(self, generation, before):
        """What follows a generation that is written; doing it again changes nothing."""
        plan = json.dumps(generation["plan"], indent=1, sort_keys=True) + "\n"
        write_text(os.path.join(ETC, self.owner, "plan.json"), plan)
        if before:
            write_text(self.path("previous.json"), json.dumps(before), 0o600)
        else:
            unlink(self.path("previous.json"))
        for unit in sorted(set((before or {}).get("units", {})) - set(generation["units"])):
            remove_unit(unit)
        self._disarm()
        # Active, the unit takes part in restarts of nftables.service; it waits for our lock, so we do not wait for it.
        run(["systemctl", "start", "--no-block", "kafka-natmap-%s.service" % self.owner])
        watch = "kafka-natmap-watch-%s.service" % self.owner
        if watch in generation["units"]:
            run(["systemctl", "restart", "--no-block", watch])

    def _disarm(self):
        unlink(self.path("pending.json"))
        run(["systemctl", "stop", "kafka-natmap-undo-%s.timer" % self.owner])

    def undo(self):
        """Go back to the old generation, and say whether the node now holds what it held."""
        with self.step("undo") as entry:
            old = self.old or {"texts": {}, "snapshots": {}, "units": {}, "state": {}}
            state = dict(self.bundle.get("state", {}))
            held = set(old["texts"]) | set(self.bundle["texts"])
            self.put(old["texts"], {}, {}, state, held)
            self._settle(old)
            layers = [(name, layer) for name, layer in self.layers if name in held]
            differing = [
                name for name, layer in layers if name in old["texts"] and layer.snapshot() != old["snapshots"][name]
            ]
            left = [name for name, layer in layers if name not in old["texts"] and layer.listing() is not None]
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

    def lift_exemption(self, why):
        """Take the exemption from conntrack away: somebody else here has begun to rely on tracked connections."""
        dict(self.layers)["notrack"].clear({})
        unlink(os.path.join(ETC, self.owner, FILES["notrack"]))
        texts = {name: text for name, text in self.old["texts"].items() if name != "notrack"}
        snapshots = {name: text for name, text in self.old["snapshots"].items() if name != "notrack"}
        content = {"owner": self.owner, "texts": texts, "units": self.old["units"]}
        kept = dict(
            self.old, texts=texts, snapshots=snapshots, exempt=False, digest=digest_of_texts(content), lifted=why
        )
        write_text(self.path("generation.json"), json.dumps(kept), 0o600)
        audit({"owner": self.owner, "result": "exemption lifted", "digest": kept["digest"], "why": [why]})

    def leave(self):
        """Take every file of this owner away, and the programs with the last one."""
        for unit in set(self.bundle["units"]) | set((self.old or {}).get("units", {})):
            remove_unit(unit)
        self._disarm()
        shutil.rmtree(os.path.join(ETC, self.owner), ignore_errors=True)
        shutil.rmtree(self.home, ignore_errors=True)
        unlink(os.path.join(RUN, "watch-%s.json" % self.owner))
        with contextlib.suppress(OSError):
            os.rmdir(ETC)
        if not owners():
            shutil.rmtree(LIBEXEC, ignore_errors=True)

    def remove(self):
        """Take all of this owner off the node, and end the flows that its rules carried."""
        with self.step("remove"):
            carried = carried_flows(self.old) if self.old else []
            state = dict((self.old or {}).get("state", {}))
            self.put({}, {}, {}, state)
            end_flows(carried)
            self.leave()


def lift_if_tracked(generation):
    """Lift an owner's exemption from conntrack where others track by now; the generation that is confirmed then.

    A stateful firewall takes an untracked packet for one that belongs to no connection, and drops it.
    """
    if not generation or "notrack" not in generation["texts"]:
        return generation
    users = tracking()["in_use"]
    if not users:
        return generation
    this = Switch(generation)
    this.lift_exemption(users[0])
    return read_json(this.path("generation.json"))


def remove_unit(unit):
    """Disable a unit and take its file away."""
    path = os.path.join(UNITS, unit)
    if os.path.exists(path):
        # Not by the unit itself: at boot it would end the very process that goes back.
        ours = "/%s\n" % unit in (read_text("/proc/self/cgroup") or "")
        run(["systemctl", "disable", "--quiet"] + ([] if ours else ["--now"]) + [unit])
        unlink(path)
        run(["systemctl", "daemon-reload"])


def plain(bundle):
    """A bundle as it may be kept: without what only the probe may know."""
    return {key: value for key, value in bundle.items() if key != "probe"}


def own_unit():
    """The transient unit that this process runs in, or None."""
    found = re.search(r"(kafka-natmap-switch-\d+)\.service", read_text("/proc/self/cgroup") or "")
    return found.group(1) + ".service" if found else None
