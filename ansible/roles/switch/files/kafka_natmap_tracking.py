"""Connection tracking: who makes this kernel track, how full its table is, and whether there is room for a change.

Loading any NAT rule makes the kernel track every connection of its network namespace. Where nobody else does, the
plan's own table exempts all but the mapped destinations (nft(8), `notrack`).
"""

import os

from kafka_natmap_ruleset import foreign_tables
from kafka_natmap_system import Refusal, read_text

SETTINGS = "/proc/sys/net/netfilter"
# A table this full has no room for a change that may track more.
FULL = 0.9


def tracking(tables=None):
    """{"in_use": [who and why], "count": entries, "max": entries or None, "sockets": TCP sockets}."""
    tables = foreign_tables() if tables is None else tables
    users = ["%s: %s" % (table.name, table.tracks) for table in tables if table.tracks]
    if len((read_text("/proc/net/ip_vs") or "").splitlines()) > 3:
        users.append("IPVS balances connections here")
    if os.path.isdir("/sys/class/net/ovs-system"):
        users.append("Open vSwitch")
    return {
        "in_use": users,
        "count": _number(os.path.join(SETTINGS, "nf_conntrack_count")),
        "max": _number(os.path.join(SETTINGS, "nf_conntrack_max")),
        "sockets": _sockets(),
    }


def refuse_if_full(held, exempt):
    """A table without room drops new connections of everybody.

    :param exempt: whether the change keeps all but the mapped connections out of the table
    """
    most = held["max"]
    if not most:
        return
    then = held["count"] or 0
    if not exempt and not held["in_use"]:
        then = max(then, held["sockets"])
    if then > FULL * most:
        raise Refusal(
            "the conntrack table would hold %d of %d entries: full, it drops connections of everybody" % (then, most),
            "raise it (sysctl net.netfilter.nf_conntrack_max=%d), then run again" % (2 * most),
        )


def _number(path):
    text = read_text(path)
    return int(text) if text and text.strip().isdigit() else None


def _sockets():
    """TCP sockets of this namespace, those that wait for their end included (proc(5), /proc/net/sockstat)."""
    words = next(
        (line.split() for line in (read_text("/proc/net/sockstat") or "").splitlines() if line[:4] == "TCP:"), []
    )
    pairs = dict(zip(words[1::2], words[2::2]))
    return int(pairs.get("inuse", 0)) + int(pairs.get("tw", 0))
