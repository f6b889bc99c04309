"""What else lives on the node: the processes that a map concerns, and the programs that could touch its rules."""

import os

from kafka_natmap_system import run, which

UNIT_FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/etc/init.d",
)
_BACK = "the watcher puts them back within 2 s (with drift: report it only says so), new connections in between are not rewritten"
_BESIDE = "its chains stand beside ours, and a restart makes only its own anew"


class Neighbour:
    """A program that writes firewall rules: how to find it, and what it can do to ours."""

    def __init__(self, name, effect, units=(), programs=(), chains=()):
        self.name = name
        self.effect = effect
        self.units = units
        self.programs = programs
        self.chains = chains


NEIGHBOURS = (
    Neighbour(
        "firewalld",
        "a reload or restart replaces its own table and leaves our nftables table alone; with its backend iptables, or"
        " with direct rules, it empties the iptables tables, our chains with them: " + _BACK,
        units=("firewalld.service",),
        chains=("filter_INPUT_ZONES", "INPUT_ZONES"),
    ),
    Neighbour(
        "nftables.service",
        "a start, restart or stop runs `flush ruleset`, which removes every table, ours too: " + _BACK,
        units=("nftables.service",),
    ),
    Neighbour(
        "iptables-persistent",
        "a start or restart loads its file over the iptables tables and removes our chains there: "
        + _BACK
        + "; `netfilter-persistent save` copies our chains into its file, so save again after our removal;"
        " an nftables table of ours is left alone, except by a file rules.nft with `flush ruleset`",
        units=("netfilter-persistent.service", "iptables.service"),
    ),
    Neighbour(
        "ufw",
        "enable, reload and disable change the filter table and leave our nat rules alone; `ufw-init flush-all` empties"
        " the iptables tables, our chains with them: " + _BACK,
        units=("ufw.service",),
        chains=("ufw-before-output", "ufw-user-output"),
    ),
    Neighbour(
        "ferm",
        "a start or reload loads whole iptables tables and removes our chains from those it manages;"
        " our nftables table is left alone: " + _BACK,
        units=("ferm.service",),
    ),
    Neighbour(
        "shorewall",
        "a start, reload or restart loads whole iptables tables and removes our chains;"
        " our nftables table is left alone: " + _BACK,
        units=("shorewall.service",),
        chains=("shorewall",),
    ),
    Neighbour(
        "docker",
        _BESIDE + "; containers with a network of their own do not pass our rules",
        units=("docker.service",),
        chains=("DOCKER", "DOCKER-USER"),
    ),
    Neighbour(
        "podman",
        _BESIDE + " (netavark or CNI); containers with a network of their own do not pass our rules",
        programs=("podman",),
        chains=("NETAVARK", "CNI-"),
    ),
    Neighbour(
        "kube-proxy",
        _BESIDE + "; pods with a network of their own do not pass our rules",
        chains=("KUBE-SERVICES", "cali-"),
    ),
)


def surroundings(request, accounts, groups, tables):
    """{"processes": {label: how many run now}, "neighbours": [{"name", "active", "effect"}]}.

    :param request: may hold `uid_ranges`, a list of [lowest, highest]
    :param accounts: what `inspect` found for each user of the scope, groups likewise
    :param tables: kafka_natmap_ruleset.foreign_tables()
    """
    wanted = [("user " + name, "uid", one["uid"], one["uid"]) for name, one in accounts.items() if one]
    wanted += [("group " + name, "gid", gid, gid) for name, gid in groups.items() if gid is not None]
    wanted += [("uids %d to %d" % (low, high), "uid", low, high) for low, high in request.get("uid_ranges", ())]
    return {"processes": count(wanted), "neighbours": neighbours(tables)}


def count(wanted, proc="/proc"):
    """How many processes run under each label, by real uid or gid; `wanted` holds (label, uid or gid, low, high)."""
    found = {label: 0 for label, _, _, _ in wanted}
    for uid, gid in processes(proc) if wanted else ():
        for label, kind, low, high in wanted:
            if low <= (uid if kind == "uid" else gid) <= high:
                found[label] += 1
    return found


def processes(proc="/proc"):
    """The real uid and gid of each process that has memory of its own: threads of the kernel have none (proc(5))."""
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            with open(os.path.join(proc, name, "status"), "rb") as stream:
                status = stream.read()
        except OSError:
            continue
        if b"\nVmSize:" in status:
            yield _first_number(status, b"\nUid:"), _first_number(status, b"\nGid:")


def _first_number(status, key):
    return int(status[status.index(key) + len(key) :].split(None, 1)[0])


def neighbours(tables, folders=UNIT_FOLDERS):
    """Each program that is installed here or has chains here; active where its unit is, or its chains are."""
    chains = {chain for table in tables for chain in table.chains}
    units = [unit for one in NEIGHBOURS for unit in one.units if installed(unit, folders)]
    running = active(units)
    found = []
    for one in NEIGHBOURS:
        present = any(unit in units for unit in one.units) or any(which(program) for program in one.programs)
        live = any(unit in running for unit in one.units)
        live = live or any(chain.startswith(one.chains) for chain in chains if one.chains)
        if present or live:
            found.append({"name": one.name, "active": live, "effect": one.effect})
    return found


def installed(unit, folders=UNIT_FOLDERS):
    """Whether a unit's file, or its script of System V, is there; a masked unit (a link to /dev/null) is not."""
    names = (unit, unit.rpartition(".")[0])
    first = next((path for f in folders for n in names for path in [os.path.join(f, n)] if os.path.lexists(path)), None)
    return first is not None and os.path.realpath(first) != "/dev/null"


def active(units):
    """Those of the units that systemd holds active."""
    if not units or not which("systemctl"):
        return set()
    _, out, _ = run(["systemctl", "show", "--property=Id,ActiveState"] + units, timeout=5.0)
    records = [dict(line.split("=", 1) for line in part.splitlines() if "=" in line) for part in out.split("\n\n")]
    return {one["Id"] for one in records if one.get("ActiveState") in ("active", "activating", "reloading")}
