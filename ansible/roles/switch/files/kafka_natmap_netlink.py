"""The kernel's reports of changed rules and routes, and who changed them (nfnetlink and rtnetlink multicast).

Layout: linux/netfilter/nf_tables.h, nfnetlink.h, rtnetlink.h. Python 3.6, standard library only.
"""

import contextlib
import errno
import os
import pwd
import socket
import struct

import kafka_natmap_conntrack as conntrack

NFTABLES = 10
GROUP_NFTABLES = 7
NEW_CHAIN, NEW_RULE, NEW_GENERATION = 3, 6, 15
# Attributes: the first one of every nf_tables message but the generation's is the table.
TABLE, GENERATION_PID, GENERATION_NAME = 1, 2, 3
FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}
GROUP_IPV4_ROUTE = 7
# A bound, not a reservation: a transaction on ten thousand elements has to fit, or its author is lost.
BUFFER = 1 << 24
_SO_RCVBUFFORCE = 33
_LONGEST_COMMAND = 120
_NO_LOGIN = (1 << 32) - 1


class Change:
    """One transaction on the ruleset: the tables that it touched as "family name", what it added, and whose it was."""

    def __init__(self):
        self.tables = set()
        self.added = set()
        self.by = None


def changes(datagrams):
    """The transactions in what was received; one whose end was not received has no author.

    :param datagrams: the bytes of each datagram, in order
    """
    open_one, found = None, []
    for data in datagrams:
        for kind, sender, payload in _messages(data):
            if kind >> 8 != NFTABLES or len(payload) < 4:
                continue
            open_one = open_one or Change()
            attributes = conntrack.attributes(payload[4:])
            if kind & 0xFF == NEW_GENERATION:
                open_one.by = _author(sender, attributes)
                found.append(open_one)
                open_one = None
                continue
            table = "%s %s" % (FAMILIES.get(payload[0], payload[0]), _text(attributes.get(TABLE)))
            open_one.tables.add(table)
            if kind & 0xFF in (NEW_CHAIN, NEW_RULE):
                open_one.added.add(table)
    return found + ([open_one] if open_one else [])


def _messages(data):
    """(type, port of the sender, payload) of each netlink message in a datagram; a malformed tail is dropped."""
    offset = 0
    while offset + 16 <= len(data):
        length, kind, _, _, sender = struct.unpack_from("=IHHII", data, offset)
        if length < 16 or offset + length > len(data):
            break
        yield kind, sender, data[offset + 16 : offset + length]
        offset += length + (-length % 4)


def _text(value):
    return (value or b"").split(b"\0")[0].decode("utf-8", "replace")


def _author(sender, attributes):
    """Who made a transaction: {"name", "pid"} and, while it lives, its command, user and unit.

    The message's own pid counts in the first PID namespace. The sender's port is the pid in its own one, where the
    program let the kernel choose; its name tells whether it is the same process.
    """
    name = _text(attributes.get(GENERATION_NAME))
    outer = int.from_bytes(attributes.get(GENERATION_PID, b""), "big")
    for pid in (sender, outer):
        seen = _process(pid, name)
        if seen:
            return seen
    return {"name": name or "unknown", "pid": sender if 0 < sender < 1 << 22 else outer}


def _process(pid, name):
    """What is known of a process, if it lives and bears this name."""
    place = "/proc/%d" % pid
    try:
        with open(place + "/comm") as stream:
            if not name or stream.read().rstrip("\n") != name:
                return None
        # Empty where it is about to end.
        with open(place + "/cmdline", "rb") as stream:
            command = stream.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        with open(place + "/cgroup") as stream:
            units = [part for part in stream.read().replace("\n", "/").split("/") if part.endswith(".service")]
        found = {"name": name, "pid": pid, "command": command[:_LONGEST_COMMAND] or name, "user": _user(place)}
    except OSError:
        return None
    return dict(found, unit=units[-1]) if units else found


def _user(place):
    """Who logged in and began it, also where sudo made it root; else as whom it runs (proc(5), loginuid)."""
    number = os.stat(place).st_uid
    with contextlib.suppress(OSError, ValueError), open(place + "/loginuid") as stream:
        login = int(stream.read())
        number = login if login != _NO_LOGIN else number
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return "uid %d" % number


class Reports:
    """A multicast socket. :raises OSError: without CAP_NET_ADMIN."""

    def __init__(self, protocol, group):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER)
        self.socket.bind((0, 1 << group - 1))
        self.socket.setblocking(False)

    def fileno(self):
        """For poll(2)."""
        return self.socket.fileno()

    def read(self):
        """(datagrams, lost): what has come, and whether the kernel had to drop some."""
        datagrams, lost = [], False
        while True:
            try:
                datagrams.append(self.socket.recv(1 << 17))
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    lost = True
                elif error.errno != errno.EINTR:
                    return datagrams, lost

    def close(self):
        """Hear no more."""
        self.socket.close()


def ruleset_reports():
    """Every change of nftables, those of iptables-nft among them; None where the kernel has no nfnetlink."""
    try:
        return Reports(conntrack.NETLINK_NETFILTER, GROUP_NFTABLES)
    except OSError as error:
        if error.errno != errno.EPROTONOSUPPORT:
            raise
        return None


def route_reports():
    """Every change of IPv4 routes."""
    return Reports(socket.NETLINK_ROUTE, GROUP_IPV4_ROUTE)
