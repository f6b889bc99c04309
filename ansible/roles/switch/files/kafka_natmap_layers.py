"""The layers of a plan. Each can list what is ours, check a text, load it, and take it away."""

import contextlib
import os
import re
import socket
import tempfile
import time

from kafka_natmap_dnat import Iptables, Nftables, Notrack
from kafka_natmap_system import (
    ETC,
    HOSTS,
    Refusal,
    immutable,
    must,
    read_text,
    run,
    unlink,
    writable,
    write_text,
)

LAYERS = ("routes", "notrack", "nginx", "nftables", "iptables", "hosts")
ROUTE_PROTOCOL = "217"
# The file under /etc that shows the text of each.
FILES = {
    "notrack": "notrack.nft",
    "nftables": "nftables.nft",
    "iptables": "iptables.rules",
    "nginx": "nginx.conf",
    "hosts": "hosts",
    "routes": "routes",
}


class Hosts:
    """One marked block of /etc/hosts (hosts(5)); every other byte of the file stays."""

    def __init__(self, names):
        self.owner = names["owner"]
        marker = re.escape(self.owner)
        self.block = re.compile(
            r"# BEGIN kafka-natmap %s:[^\n]*\n.*?# END kafka-natmap %s\n" % (marker, marker), re.DOTALL
        )

    def listing(self):
        """The block, or None."""
        found = self.block.search(read_text(HOSTS) or "")
        return found.group(0) if found else None

    snapshot = listing

    def check(self, _text):
        """Whether the file can be replaced as a whole."""
        if os.path.islink(HOSTS):
            raise Refusal(
                "%s is a link to %s" % (HOSTS, os.readlink(HOSTS)), "make it a file, or use DNAT on addresses only"
            )
        mounts = [line.split()[4] for line in (read_text("/proc/self/mountinfo") or "").splitlines()]
        if HOSTS in mounts:
            raise Refusal(
                "%s is a mount of its own and cannot be replaced" % HOSTS, "start the container with --no-hosts"
            )
        if immutable(HOSTS) or immutable(os.path.dirname(HOSTS)):
            raise Refusal("%s is immutable" % HOSTS, "chattr -i %s" % HOSTS)
        if not writable(os.path.dirname(HOSTS)):
            raise Refusal("%s cannot be written" % os.path.dirname(HOSTS), "remount it read-write, or free disk space")

    def remember(self, state):
        """Keep what taking the block out must know, as long as it is not there."""
        old = read_text(HOSTS) or ""
        if not self.block.search(old):
            state["hosts_newline"] = bool(old) and not old.endswith("\n")

    def load(self, text, state):
        """Put the block where it stood, or at the end."""
        old = read_text(HOSTS) or ""
        if self.block.search(old):
            new = self.block.sub(lambda _: text, old, count=1)
        else:
            self.remember(state)
            new = old + ("\n" if state["hosts_newline"] else "") + text
        if new != old:
            write_text(HOSTS, new, like=HOSTS if os.path.exists(HOSTS) else None)

    def clear(self, state):
        """Take the block out, and the line end that we had to add before it."""
        old = read_text(HOSTS) or ""
        found = self.block.search(old)
        if not found:
            return
        before, after = old[: found.start()], old[found.end() :]
        if state.pop("hosts_newline", False) and not after:
            before = before[:-1] if before.endswith("\n") else before
        write_text(HOSTS, before + after, like=HOSTS)


class Nginx:
    """nginx with a configuration and a unit of its own, never the host's (ngx_stream_core_module)."""

    def __init__(self, names):
        self.owner = names["owner"]
        self.unit = "kafka-natmap-nginx-%s.service" % self.owner
        self.conf = os.path.join(ETC, self.owner, "nginx.conf")
        self.path = names.get("nginx_path") or "nginx"
        self.listeners = [tuple(item) for item in names.get("listeners", ())]

    def listing(self):
        """The configuration, while the unit runs."""
        return read_text(self.conf) if run(["systemctl", "is-active", "--quiet", self.unit])[0] == 0 else None

    snapshot = listing

    def check(self, text):
        """`nginx -t` and the binds themselves: -t is green on a taken port."""
        handle, path = tempfile.mkstemp(prefix="kafka-natmap-", suffix=".conf")
        with os.fdopen(handle, "w") as stream:
            # nginx -t would create the pid file, though nothing runs.
            stream.write(re.sub(r"(?m)^pid .*;$", "pid %s.pid;" % path, text))
        try:
            must([self.path, "-t", "-q", "-c", path], mend="see the line that nginx names")
        finally:
            unlink(path)
            unlink(path + ".pid")
        held = set(re.findall(r"listen ([\d.]+:\d+)", self.listing() or ""))
        for address, port in self.listeners:
            if "%s:%d" % (address, port) not in held:
                try_bind(address, port)

    def load(self, text, _state):
        """Start, or reload; done when every listener answers."""
        write_text(self.conf, text)
        must(["systemctl", "daemon-reload"])
        running = run(["systemctl", "is-active", "--quiet", self.unit])[0] == 0
        must(["systemctl", "reload" if running else "restart", self.unit], mend="journalctl -u %s" % self.unit)
        deadline = time.monotonic() + 5
        waiting = list(self.listeners)
        while waiting and time.monotonic() < deadline:
            waiting = [one for one in waiting if not answers(*one)]
            if waiting:
                time.sleep(0.02)
        if waiting:
            raise Refusal("nginx does not listen at %s:%d" % waiting[0], "journalctl -u %s" % self.unit)

    def clear(self, _state):
        """Stop it; its connections end with it."""
        run(["systemctl", "disable", "--now", "--quiet", self.unit])


def try_bind(address, port):
    """Refuse where the listener's port is taken."""
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise Refusal(
                "nginx cannot listen at %s:%d: %s" % (address, port, error.strerror),
                "free the port (ss -ltnp sport = :%d), or give the gateway another port" % port,
            ) from None


def answers(address, port):
    """Whether something listens there."""
    with contextlib.closing(socket.socket()) as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0


class Routes:
    """/32 routes to advertised addresses, marked by a protocol number of their own (ip-route(8))."""

    def __init__(self, names):
        self.owner = names["owner"]

    def listing(self):
        """Our routes, or None; other owners' are left out by the file that holds ours."""
        mine = set((read_text(os.path.join(ETC, self.owner, "routes")) or "").split())
        _, out, _ = run(["ip", "-4", "route", "show", "proto", ROUTE_PROTOCOL])
        lines = sorted(line.strip() for line in out.splitlines() if line.split()[0] in mine)
        return "\n".join(lines) + "\n" if lines else None

    snapshot = listing

    def check(self, _text):
        """Routes were computed from the kernel's own answer: nothing to test."""

    def load(self, text, _state):
        """Set each route; `replace` leaves an equal one alone."""
        write_text(os.path.join(ETC, self.owner, "routes"), text)
        for line in text.splitlines():
            must(["ip", "-4", "route", "replace"] + line.split() + ["proto", ROUTE_PROTOCOL])

    def clear(self, _state):
        """Take ours away."""
        for line in (self.listing() or "").splitlines():
            run(["ip", "-4", "route", "del", line.split()[0], "proto", ROUTE_PROTOCOL])


def layers_of(names):
    """The layers, in the order in which they are loaded; they are cleared in the reverse one."""
    made = {
        "routes": Routes,
        "notrack": Notrack,
        "nginx": Nginx,
        "nftables": Nftables,
        "iptables": Iptables,
        "hosts": Hosts,
    }
    return [(name, made[name](names)) for name in LAYERS]
