"""The watch: notices within 2 s that somebody changed what is ours, names who did, and puts it back or only tells.

nftables, iptables-nft and routes by the kernel's reports, files by inotify; iptables-legacy and nginx are looked at
every second or more often. It never acts while a switch holds the node, nor while one is unconfirmed.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time

from kafka_natmap_guard import Guard
from kafka_natmap_inotify import Files
from kafka_natmap_netlink import changes, route_reports, ruleset_reports
from kafka_natmap_system import ETC, HOSTS, LIB, UNITS, Refusal, locked, read_text, run

# Seconds: a burst is over when this long nothing came, and is looked at after the second one whatever comes.
CALM, LATEST = 0.2, 0.7
POLL, POLL_BY_PROGRAM = 0.5, 1.0
BUSY = 0.2
AGAIN = 5.0
_ALIVE = 20.0
EVERYTHING = frozenset(("routes", "notrack", "nginx", "nftables", "iptables", "hosts", "files"))


class Watch:
    """Waits for changes, gathers a burst, then lets the guard look at what may differ."""

    def __init__(self, owner, guard=None):
        self.owner = owner
        self.guard = guard or Guard(owner)
        self.suspects = {}
        self.first = self.last = None
        self.held_until = 0.0
        self.rules, self.routes, self.files = ruleset_reports(), route_reports(), Files()
        self.poller = select.poll()
        for source in (self.rules, self.routes, self.files):
            if source:
                self.poller.register(source.fileno(), select.POLLIN)
        self.polled = self.asked = 0.0
        self.trackers = None
        self.silent = self._silent()
        self._watch_files()

    def _silent(self):
        """The layers of rules whose changes no kernel reports: iptables-legacy; all, where there is no nfnetlink."""
        found = {"iptables"} if self.rules else {"iptables", "nftables", "notrack"}
        found &= set(self.guard.texts())
        if self.rules and found and "nf_tables" in run(["iptables", "-V"])[1]:
            return []
        return sorted(found)

    def _watch_files(self):
        for folder in ("/etc", ETC, os.path.join(ETC, self.owner), os.path.join(LIB, self.owner), UNITS):
            self.files.add(folder)

    # ------------------------------------------------------------ what came

    def suspect(self, names, by=None, at=None):
        """Something may differ: look soon."""
        at = time.monotonic() if at is None else at
        for name in names:
            self.suspects[name] = by or self.suspects.get(name)
        self.first, self.last = at if self.first is None else self.first, at

    def due(self):
        """When the next look is due, or None; a burst is waited for."""
        if self.first is None:
            return None
        return max(min(self.last + CALM, self.first + LATEST), self.held_until)

    def take_in(self):
        """Read every source. Others who begin to track connections are answered at once, before the burst is over."""
        datagrams, lost = self.rules.read() if self.rules else ([], False)
        may_track = lost
        for change in changes(datagrams):
            touched = self.guard.layers_in(change.tables)
            if touched:
                self.suspect(touched, change.by)
            may_track = may_track or bool(change.added - self.guard.tables())
        routes, routes_lost = self.routes.read()
        if (routes or routes_lost) and "routes" in self.guard.texts():
            self.suspect(["routes"])
        paths, files_lost = self.files.read()
        self._files_changed(paths)
        if lost or files_lost:
            self.suspect(EVERYTHING)
        if may_track and "notrack" in self.guard.texts():
            self._lift()

    def _files_changed(self, paths):
        ours = self.guard.paths()
        for path in paths:
            if path == HOSTS:
                self.suspect(["hosts"])
            elif path in ours:
                self.suspect([{"nginx.conf": "nginx", "routes": "routes"}.get(os.path.basename(path), "files")])
            elif path in (os.path.join(LIB, self.owner), os.path.join(ETC, self.owner), ETC):
                self.suspect(["files"])
            elif path == os.path.join(LIB, self.owner, "generation.json"):
                self.suspect(EVERYTHING)

    def poll_others(self, at):
        """What reports nothing by itself."""
        self.polled = at
        if self.silent and at >= self.asked + POLL_BY_PROGRAM:
            self.asked = at
            self.suspect(self.silent)
        if "nginx" in self.guard.texts() and not self._nginx_lives():
            self.suspect(["nginx"])
        if "notrack" in self.guard.texts():
            seen = [read_text("/proc/net/ip_tables_names"), read_text("/proc/net/ip_vs")]
            seen.append(os.path.isdir("/sys/class/net/ovs-system"))
            if seen != self.trackers or seen[0]:
                self.trackers = seen
                self._lift()

    def _nginx_lives(self):
        pid = (read_text("/run/kafka-natmap-nginx-%s.pid" % self.owner) or "").strip()
        return pid.isdigit() and os.path.isdir("/proc/" + pid)

    def must_poll(self):
        """Whether anything of this owner's has to be polled."""
        return bool(self.silent) or bool({"nginx", "notrack"} & set(self.guard.texts()))

    # ------------------------------------------------------------ what is done

    def _lift(self):
        """Others track connections by now: our exemption would cut them off."""
        with contextlib.suppress(Refusal), locked("the watch of " + self.owner, 0):
            self.guard.lift()
            return
        self.suspect(["notrack"])

    def look(self):
        """Compare what is suspected, and act on it, unless somebody else is at work here."""
        begun = time.monotonic()
        suspects, noticed, self.suspects = self.suspects, self.first, {}
        self.first = self.last = None
        try:
            with locked("the watch of " + self.owner, 0):
                again = self.guard.look(suspects, noticed)
        except Refusal:
            again = BUSY
        except (OSError, ValueError) as error:
            self.guard.say("cannot look: %s" % error, 3)
            again = AGAIN
        ended = time.monotonic()
        # A look takes at most a quarter of the time, however often others change their rules.
        self.held_until = ended + min(3 * (ended - begun), 1.0)
        if again:
            for name, by in suspects.items():
                self.suspects.setdefault(name, by)
            self.first = self.last = noticed
            self.held_until = ended + again
        self.silent = self.silent if again else self._silent()
        self._watch_files()
        give_back_memory()

    def run(self):
        """Until SIGTERM."""
        stop, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGTERM, lambda *_: None)
        self.serve(stop)

    def serve(self, stop):
        """Until something can be read from this descriptor."""
        self.poller.register(stop, select.POLLIN)
        self.suspect(EVERYTHING)
        self.guard.begin()
        tell("READY=1")
        while True:
            ready = self.poller.poll(1000 * self._wait(time.monotonic()))
            tell("WATCHDOG=1")
            if any(descriptor == stop for descriptor, _ in ready):
                return
            self.take_in()
            at = time.monotonic()
            if self.must_poll() and at >= self.polled + POLL:
                self.poll_others(at)
            if self.guard.pause_is_over(at):
                self.suspect(EVERYTHING)
            due = self.due()
            if due is not None and due <= time.monotonic():
                self.look()

    def _wait(self, at):
        ends = [at + _ALIVE, self.guard.pause_ends()]
        ends += [self.due(), self.polled + POLL if self.must_poll() else None]
        return max(0.0, min(end for end in ends if end is not None) - at)


def give_back_memory():
    """A look at ten thousand entries takes tens of megabytes for a moment: the allocator need not keep them (glibc)."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def tell(text):
    """A word to systemd (sd_notify(3)), where it listens."""
    place = os.environ.get("NOTIFY_SOCKET")
    if not place:
        return
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as notify, contextlib.suppress(OSError):
        notify.sendto(text.encode(), "\0" + place[1:] if place.startswith("@") else place)


def watch(owner):
    """The verb: run until stopped."""
    sys.stdout.reconfigure(line_buffering=True) if hasattr(sys.stdout, "reconfigure") else None
    Watch(owner).run()
