"""What the watch does about a change: compare, then put our own layers back or only tell; each is one line in the journal
and one in the audit record."""

import json
import os
import sys
import time

from kafka_natmap_drift import differences, files_of
from kafka_natmap_flows import forget_unrewritten
from kafka_natmap_layers import LAYERS
from kafka_natmap_switch import Switch, lift_if_tracked
from kafka_natmap_system import ETC, LIB, RUN, UNITS, Refusal, audit, now, read_json, read_text, run, write_text

MOST, PERIOD = 3, 600.0
ARMED = 0.5
AGAIN = 5.0


class Limit:
    """Repairs are bounded: after three in ten minutes there are none, until for ten minutes nobody changed anything.

    Somebody who changes the same thing again and again means it: two programs that take turns help nobody.
    """

    def __init__(self, times=(), paused=None):
        self.times = list(times)
        self.paused = paused

    def disturbed(self, at):
        """Somebody changed something: the quiet begins anew."""
        if self.paused is not None:
            self.paused = at

    def allows(self, at):
        """Whether a repair may be made now."""
        if self.paused is not None and at - self.paused >= PERIOD:
            self.times, self.paused = [], None
        self.times = [one for one in self.times if at - one < PERIOD]
        if self.paused is None and len(self.times) >= MOST:
            self.paused = at
        return self.paused is None

    def repaired(self, at):
        """Count one."""
        self.times.append(at)

    def ends(self):
        """When the pause ends if nothing else happens; None where there is none."""
        return None if self.paused is None else self.paused + PERIOD


class Guard:
    """One owner's generation, and what of it stands otherwise."""

    def __init__(self, owner):
        self.owner = owner
        self.home = os.path.join(LIB, owner)
        self.state_file = os.path.join(RUN, "watch-%s.json" % owner)
        self.generation = read_json(os.path.join(self.home, "generation.json"))
        self.standing = {}
        self.repairs, self.last = 0, None
        self.limit = Limit()
        self._remember()

    def _remember(self):
        """Go on where a watch before this one ended, unless the plan is a newer one."""
        said = read_json(self.state_file)
        if said and self.generation and said.get("of") == self.generation["since"]:
            self.repairs, self.last = said["repairs"], said["last"]
            self.limit = Limit(said["times"], said["paused"])
            self.standing = {one["what"]: one for one in said["drift"]}

    def texts(self):
        """The layers of the plan, by name."""
        return (self.generation or {}).get("texts", {})

    def policy(self):
        """repair or report."""
        return (self.generation or {}).get("drift", "repair")

    def tables(self):
        """Our own tables, as "family name"."""
        names = (self.generation or {}).get("names", {})
        return {"ip " + names[key] for key in ("nft_table", "notrack_table") if key in names}

    def layers_in(self, tables):
        """The layers of ours that live in one of these tables."""
        names = (self.generation or {}).get("names", {})
        places = {"nftables": names.get("nft_table"), "notrack": names.get("notrack_table"), "iptables": "nat"}
        return [name for name, table in sorted(places.items()) if name in self.texts() and "ip %s" % table in tables]

    def paths(self):
        """Every file of ours."""
        if not self.generation:
            return set()
        folder = os.path.join(ETC, self.owner)
        return {path for path, _ in files_of(self.generation)} | {
            os.path.join(folder, name) for name in ("nginx.conf", "routes")
        }

    def pause_ends(self):
        """When repairs begin anew if nobody changes anything until then, or None."""
        return self.limit.ends()

    def pause_is_over(self, at):
        """Whether repairs have just begun anew; then all is to be looked at."""
        ends = self.pause_ends()
        return ends is not None and at >= ends and self.limit.allows(at)

    # ------------------------------------------------------------ looking

    def begin(self):
        """Say that the watch has begun."""
        self.say("watching, policy %s" % self.policy(), 6)
        self._write_state()

    def lift(self):
        """Take the exemption from conntrack away if others track by now. The caller holds the lock."""
        if os.path.exists(os.path.join(self.home, "pending.json")):
            raise Refusal("a switch is not confirmed yet", "wait")
        begun = time.monotonic()
        kept = lift_if_tracked(read_json(os.path.join(self.home, "generation.json")))
        if kept and "notrack" in self.texts() and "notrack" not in kept["texts"]:
            self.standing.pop("notrack", None)
            self.say(
                "withdrew the exemption from connection tracking in %.3f s: others track by now (%s)"
                % (time.monotonic() - begun, kept.get("lifted")),
                5,
            )
        self.generation = kept or self.generation
        self._write_state()

    def look(self, suspects, noticed):
        """Compare and act; the caller holds the lock.

        :param suspects: the layers to look at, each with who changed it or None
        :param noticed: when the change was noticed (time.monotonic)
        :returns: seconds after which to look again, or None
        """
        if os.path.exists(os.path.join(self.home, "pending.json")):
            return ARMED
        self.lift()
        if self.generation is None:
            return None
        only = None if set(suspects) >= set(LAYERS) else set(suspects)
        found = {one["what"]: dict(one, by=self._author(one["what"], suspects)) for one in self._differences(only)}
        fresh = {what: one for what, one in found.items() if self._unlike(what, one)}
        for what in list(self.standing):
            if what not in found and (only is None or what in only or ("files" in only and "/" in what)):
                del self.standing[what]
        self.standing.update(fresh)
        if fresh:
            self.limit.disturbed(time.monotonic())
        return self._act(fresh, noticed)

    def _differences(self, only):
        place = os.path.join(self.home, "generation.json")
        found = differences(self.generation, only)
        if read_text(place) is None and not os.path.exists(self.home + "/pending.json"):
            found.append({"what": place, "before": "digest " + self.generation["digest"], "now": "nothing at all"})
        return found

    def _unlike(self, what, one):
        stands = self.standing.get(what)
        return stands is None or (stands["before"], stands["now"]) != (one["before"], one["now"])

    @staticmethod
    def _author(what, suspects):
        by = suspects.get("files" if "/" in what else what)
        return shown(by) if by else None

    # ------------------------------------------------------------ acting

    def _act(self, fresh, noticed):
        at, again = time.monotonic(), None
        paused = self.limit.paused is not None
        if self.standing and self.policy() == "repair" and self.limit.allows(at):
            again = self._repair(noticed)
        elif fresh:
            why = "policy report" if self.policy() != "repair" else self._pausing(paused)
            self._record("drift", sorted(fresh), fresh, why)
        self._write_state()
        return again

    def _pausing(self, already):
        if already:
            return "only reporting, until ten quiet minutes are over"
        return "%d repairs in ten minutes: from now on only reporting, until ten quiet minutes are over" % MOST

    def _repair(self, noticed):
        begun = time.monotonic()
        names, differing = sorted(self.standing), dict(self.standing)
        self.limit.repaired(begun)
        try:
            put_back(self.generation, names)
            left = [one["what"] for one in self._differences({layer_of(name) for name in names})]
            trouble = "still differs: %s" % ", ".join(left) if left else None
        except (Refusal, OSError) as error:
            trouble = str(error)
        ended = time.monotonic()
        if trouble:
            self._record("repair failed", names, differing, trouble)
            return AGAIN
        self.standing = {}
        self.repairs += 1
        self.last = {"time": now(), "what": names, "by": _authors(differing)}
        self._record("repaired", names, differing, "in %.2f s" % (ended - (begun if noticed is None else noticed)))
        return None

    def _record(self, result, names, differing, why):
        by = _authors(differing)
        said = [
            "%s (%s; now %s)" % (name, _brief(differing[name]["before"]), _brief(differing[name]["now"]))
            for name in names
        ]
        self.say(
            "%s: %s, by %s; %s" % (result, "; ".join(said), by or "unknown", why), 5 if result == "repaired" else 4
        )
        record = {"owner": self.owner, "result": result, "digest": self.generation["digest"], "by": by, "why": [why]}
        record["what"] = [{key: differing[name][key] for key in ("what", "before", "now")} for name in names]
        audit(record)

    @staticmethod
    def say(text, level):
        """One line for the journal, with its level (sd-daemon(3))."""
        sys.stdout.write("<%d>%s\n" % (level, text.replace("\n", " | ")))
        sys.stdout.flush()

    def _write_state(self):
        state = "watching" if self.policy() == "repair" else "reporting"
        state = "paused" if self.limit.paused is not None else state
        told = {
            "state": state,
            "policy": self.policy(),
            "repairs": self.repairs,
            "last": self.last,
            "drift": [self.standing[name] for name in sorted(self.standing)],
            "times": self.limit.times,
            "paused": self.limit.paused,
            "of": (self.generation or {}).get("since"),
            "pid": os.getpid(),
        }
        text = json.dumps(told, sort_keys=True)
        if read_text(self.state_file) != text:
            write_text(self.state_file, text, 0o600)


def put_back(generation, names):
    """Load again what is ours of these layers and files; nothing else is touched."""
    this = Switch(generation)
    layers = {name for name in names if name in LAYERS}
    state = dict(generation["state"])
    for name, layer in this.layers:
        if name in layers:
            layer.load(generation["texts"][name], state)
    place = this.path("generation.json")
    if state != generation["state"] or place in names:
        generation["state"] = state
        write_text(place, json.dumps(generation), 0o600)
    changed = [(path, text) for path, text in files_of(generation) if path in names]
    for path, text in changed:
        write_text(path, text)
    if any(path.startswith(UNITS) for path, _ in changed):
        run(["systemctl", "daemon-reload"])
        run(["systemctl", "enable", "--quiet"] + sorted(generation["units"]))
    if layers & {"nftables", "iptables"}:
        forget_unrewritten(generation)


def layer_of(what):
    """The layer that a difference belongs to; units and files are one."""
    return what if what in LAYERS else "files"


def shown(by):
    """A process in words."""
    if "command" not in by:
        return "%(name)s (pid %(pid)d)" % by
    unit = ", " + by["unit"] if by.get("unit") else ""
    return "%s (pid %d, user %s%s)" % (by["command"], by["pid"], by["user"], unit)


def _authors(differing):
    return ", ".join(sorted({one["by"] for one in differing.values() if one.get("by")})) or None


def _brief(text):
    lines = text.splitlines()
    return lines[0] + (" and %d more lines" % (len(lines) - 1) if lines[1:] else "") if lines else "nothing more"
