"""Hosts that must be refused: how each is spoiled, and what its refusal has to name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import image, lifecycle
from lab.podman import LABEL, execute, podman, remove

NAME = "mol"
STATE = (Path(__file__).parent.parent / "shared/state.sh").read_bytes()
_FILL = """
from pathlib import Path
most = int(Path("/proc/sys/net/netfilter/nf_conntrack_max").read_text())
line = "-A -p tcp -s 10.%d.%d.%d -d 203.0.113.9 --sport 1000 --dport 80 --state SYN_SENT -t 3600\\n"
with open("/run/flows", "w") as flows:
    flows.writelines(line % (i >> 16, i >> 8 & 255, i & 255) for i in range(most * 23 // 25))
"""
_FOREIGN = "table ip site { chain out { type nat hook output priority -100; ip daddr 198.18.32.22 tcp dport 9092 dnat to 203.0.113.9; }; }"

_TAKER = "-d 198.18.32.23 -p tcp --dport 9092 -j DNAT --to-destination 203.0.113.9"
# The mechanism of each run's map. What cannot even be planned ends an apply before another host is asked: it runs alone.
RUNS = {"together": "auto", "alone": "auto", "nginx": "nginx_stream"}


@dataclass(frozen=True)
class Spoiled:
    """A host: commands that spoil it, what the refusal names, and what it is told to do about it."""

    cause: str
    mend: str
    commands: tuple[tuple[str, ...], ...] = ()
    variables: dict[str, Any] = field(default_factory=dict)
    run: str = "together"


HOSTS = {
    "window": Spoiled(
        "the window of 3 s is shorter than the probe may take", "set switch_window to", variables={"switch_window": 3}
    ),
    "disk": Spoiled(
        "/var/lib/kafka-natmap cannot be written",
        "free disk space",
        (
            ("mkdir", "-p", "/var/lib/kafka-natmap"),
            ("mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", "/var/lib/kafka-natmap"),
            ("sh", "-c", "! cat /dev/zero >/var/lib/kafka-natmap/full"),
        ),
    ),
    "readonly": Spoiled(
        "/etc/kafka-natmap cannot be written",
        "remount it read-write",
        (("mount", "--bind", "/etc", "/etc"), ("mount", "-o", "remount,ro,bind", "/etc")),
    ),
    "bare": Spoiled(
        "nft is not installed",
        "install nftables",
        (("sh", "-c", "mkdir /opt/away; mv /usr/sbin/nft /usr/sbin/iptables* /usr/sbin/xtables* /opt/away"),),
        run="alone",
    ),
    "plain": Spoiled("does not run systemd", "manage only nodes with systemd"),
    "crowded": Spoiled(
        "the conntrack table would hold",
        "nf_conntrack_max",
        (("python3", "-c", _FILL), ("conntrack", "-R", "/run/flows")),
    ),
    "foreign": Spoiled(
        "198.18.32.22:9092 is taken by another rule already: nft table ip site, chain out",
        "let one of the two own it",
        (("nft", _FOREIGN),),
    ),
    "foreign-ipt": Spoiled(
        "198.18.32.23:9092 is taken by another rule already: iptables -t nat: -A OUTPUT -d 198.18.32.23/32",
        "let one of the two own it",
        (("sh", "-c", f"iptables -t nat -A OUTPUT {_TAKER}"),),
    ),
    "taken": Spoiled(
        "nginx cannot listen at",
        "ss -ltnp",
        (("systemd-run", "--quiet", "--unit=taken", "--socket-property=ListenStream=0.0.0.0:9092", "/bin/true"),),
        run="nginx",
    ),
}


def add() -> None:
    """Start every host on the site's network of the lab, and spoil it."""
    lab = lifecycle.standing(NAME)
    assert lab, f"lab {NAME} is down"
    take_away()
    lifecycle.add_nodes(lab, [name for name in HOSTS if name != "plain"], image.build())
    network = f"{NAME}-site:ip={lab.prefix('site')}.99"
    run = ("run", "-d", "--name", f"{NAME}-plain", "--label", f"{LABEL}={NAME}", "--network", network, "--cap-add")
    podman(*run, "NET_ADMIN", "--dns=none", "--no-hosts", image.tag(), "sleep", "infinity")
    execute(f"{NAME}-plain", "ip", "route", "replace", "default", "via", lab.ip("router"))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(_spoil, HOSTS))


def _spoil(name: str) -> None:
    execute(f"{NAME}-{name}", "sh", "-c", "! test -d /run/systemd/system || systemctl is-system-running --wait")
    for command in HOSTS[name].commands:
        execute(f"{NAME}-{name}", *command)


def take_away() -> None:
    """Remove them."""
    lab = lifecycle.standing(NAME)
    if lab:
        lifecycle.remove_nodes(lab, [name for name in lifecycle.extra_nodes(NAME) if name in HOSTS])
        remove([f"{NAME}-plain"] if podman("ps", "-aq", "--filter", f"name=^{NAME}-plain$").strip() else [])


def state(name: str) -> str:
    """All that a map could change on a host; the program to ask with may have been moved away, and systemd be missing."""
    return execute(f"{NAME}-{name}", "sh", "-c", "PATH=$PATH:/opt/away sh -s || :", stdin=STATE)


def inventory(run: str) -> dict[str, Any]:
    """An inventory of the hosts of a run."""
    hosts = {name: {"ansible_host": f"{NAME}-{name}", **one.variables} for name, one in HOSTS.items() if one.run == run}
    shared = {"ansible_connection": "containers.podman.podman", "ansible_python_interpreter": "/usr/bin/python3"}
    return {"all": {"vars": shared, "children": {"yarn_nodes": {"hosts": hosts}, "nat_gateways": {"hosts": {}}}}}
