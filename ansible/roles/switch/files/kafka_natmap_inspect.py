"""What the planner must know of a node. Nothing is changed, and no program is asked that would change something."""

import grp
import os
import platform
import pwd
import re
import socket
import sys
import threading
import time

from kafka_natmap_owners import held
from kafka_natmap_ruleset import foreign_tables
from kafka_natmap_surroundings import surroundings
from kafka_natmap_system import (
    HOSTS,
    LIBEXEC,
    PROGRAM,
    digest_of,
    first_lines,
    read_text,
    run,
    which,
)
from kafka_natmap_tracking import tracking

# Before this kernel the NAT of nftables and that of iptables exclude each other.
NFT_WITH_IPTABLES = [4, 18]
_RESOLVE_SECONDS = 10.0
_RESOLVERS = 8
_OUR_BLOCKS = re.compile(r"# BEGIN kafka-natmap (\S+)[^\n]*\n.*?# END kafka-natmap \1\n", re.DOTALL)


def inspect(request):
    """Answer the questions of the controller (module_utils/facts.py names them)."""
    samples = request["samples"]
    nftables = nft_backend(samples.get("nftables"))
    iptables = {"usable": False, "reason": "not asked, since nft is usable"}
    if request.get("iptables_asked") or not nftables["usable"] or kernel() < NFT_WITH_IPTABLES:
        iptables = iptables_backend(samples.get("iptables"))
    known = resolves(request["names"])
    ways = sorted(set(request["addresses"]).union(*known.values()))
    found = discovered(request)
    users = {name: account_of(name) for name in sorted(set(request["users"]).union(found["users"] if found else ()))}
    groups = {name: group_of(name) for name in request["groups"]}
    tables = foreign_tables()
    return {
        "python": platform.python_version(),
        "interpreter": sys.executable,
        "kernel": kernel(),
        "users": users,
        "groups": groups,
        "nftables": nftables,
        "iptables": iptables,
        "nginx": nginx() if request.get("nginx_asked") else unasked_nginx(),
        "routes": grouped(routes(ways)),
        "resolves": known,
        "addresses": own_addresses(),
        "programs": {
            "program": digest_of(PROGRAM),
            "kafka_python": digest_of(os.path.join(LIBEXEC, "kafka-python.zip")),
        },
        "others": held(request["owner"]),
        "conntrack": dict(tracking(tables), exempt=nft_backend(samples.get("notrack"))),
        "discovered": found,
        "surroundings": surroundings(dict(request, uid_ranges=_uid_ranges(request, found)), users, groups, tables),
    }


def discovered(request):
    """Whose processes the containers of this node's YARN are, or None where the map does not ask."""
    if not request.get("discover"):
        return None
    from kafka_natmap_yarn import discovered as by_yarn

    return by_yarn()


def _uid_ranges(request, found):
    return list(request.get("uid_ranges", ())) + (found["uid_ranges"] if found else [])


def kernel():
    """The kernel's version as [major, minor]."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return [int(found.group(1)), int(found.group(2))] if found else [0, 0]


def account_of(name):
    """The numbers of a user, or None."""
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        return None
    groups = sorted(set(os.getgrouplist(name, account.pw_gid)))
    return {"uid": account.pw_uid, "gid": account.pw_gid, "groups": groups}


def group_of(name):
    """The number of a group, or None."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def nft_backend(sample):
    """Whether nft and this kernel take the very kind of text that we would load."""
    if not which("nft"):
        return {"usable": False, "reason": "nft is not installed"}
    code, _, err = run([which("nft"), "-c", "-f", "-"], sample)
    return {"usable": code == 0, "reason": "" if code == 0 else "nft refuses the rules: " + first_lines(err)}


def iptables_backend(sample):
    """The same for iptables-restore."""
    if not which("iptables-restore"):
        return {"usable": False, "reason": "iptables-restore is not installed"}
    code, _, err = run([which("iptables-restore"), "--test", "--noflush", "-w", "5"], sample)
    return {
        "usable": code == 0,
        "reason": "" if code == 0 else "iptables-restore refuses the rules: " + first_lines(err),
    }


def unasked_nginx():
    """The answer where no part of the map needs nginx."""
    return {"usable": False, "reason": "not asked", "module": None, "path": None, "user": None}


def nginx():
    """Where nginx is, and what must be loaded for its stream module."""
    answer = unasked_nginx()
    path = which("nginx")
    if not path:
        answer["reason"] = "nginx is not installed"
        return answer
    _, _, said = run([path, "-V"])
    answer.update(path=path, user=nginx_user())
    if re.search(r"--with-stream(\s|$)", said):
        answer.update(usable=True, reason="")
        return answer
    found = re.search(r"--modules-path=(\S+)", said)
    folders = [found.group(1)] if found else []
    for folder in folders + ["/usr/lib/nginx/modules", "/usr/lib64/nginx/modules"]:
        module = os.path.join(folder, "ngx_stream_module.so")
        if os.path.exists(module):
            answer.update(usable=True, reason="", module=module)
            return answer
    answer["reason"] = "its stream module is not installed (Debian: libnginx-mod-stream, RHEL: nginx-mod-stream)"
    return answer


def nginx_user():
    """The user and group that the host's nginx package brings."""
    for name in ("www-data", "nginx", "nobody"):
        try:
            account = pwd.getpwnam(name)
            return "%s %s" % (name, grp.getgrgid(account.pw_gid).gr_name)
        except KeyError:
            continue
    return "root root"


def routes(addresses):
    """The kernel's way to each address: one process, whatever their number."""
    commands = "".join("route get %s\n" % address for address in addresses)
    _, out, err = run(["ip", "-4", "-force", "-batch", "-"], commands)
    found = {}
    for line in out.splitlines():
        words = line.split()
        if not words or line.startswith(" "):
            continue
        kind = words.pop(0) if words[0] in ("local", "broadcast", "multicast", "blackhole") else ""
        pairs = dict(zip(words[1:], words[2:]))
        answer = {"source": pairs.get("src"), "device": pairs.get("dev"), "via": pairs.get("via"), "error": ""}
        if kind in ("broadcast", "multicast", "blackhole"):
            answer["error"] = "it is a %s address here" % kind
        found[words[0]] = answer
    said = first_lines(err, 1) or "no answer from ip route get"
    nothing = {"source": None, "device": None, "via": None, "error": said.replace("RTNETLINK answers: ", "")}
    return {address: found.get(address, nothing) for address in addresses}


def grouped(found):
    """The ways by what is the same: a map may hold thousands of addresses, and a node few ways."""
    ways = {}
    for address, route in found.items():
        ways.setdefault(tuple(sorted(route.items())), []).append(address)
    return [{"route": dict(route), "addresses": " ".join(addresses)} for route, addresses in ways.items()]


def own_addresses():
    """The node's own IPv4 addresses."""
    _, out, _ = run(["ip", "-4", "-o", "address", "show"])
    return sorted(set(re.findall(r"inet ([\d.]+)", out)))


def known_as():
    """By what others may know this node: its own name and addresses."""
    return sorted({socket.gethostname(), *own_addresses()})


def resolves(names):
    """What each name means on this node when our own lines are left out: /etc/hosts, then DNS within bounded time."""
    foreign = hosts_lines(_OUR_BLOCKS.sub("", read_text(HOSTS) or ""))
    answers = {name: foreign.get(name, []) for name in names}
    waiting = [name for name in names if not answers[name]]
    deadline = time.monotonic() + _RESOLVE_SECONDS

    def work():
        while waiting and time.monotonic() < deadline:
            try:
                name = waiting.pop()
            except IndexError:
                return
            code, out, _ = run(["getent", "-s", "dns", "ahostsv4", name], timeout=max(1.0, deadline - time.monotonic()))
            if code == 0:
                answers[name] = sorted({line.split()[0] for line in out.splitlines() if line.strip()})

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_RESOLVERS, len(waiting)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_RESOLVE_SECONDS + 2)
    return answers


def hosts_lines(text):
    """The names of a hosts file with their IPv4 addresses."""
    found = {}
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        for name in words[1:]:
            if re.match(r"[\d.]+$", words[0]):
                found.setdefault(name.lower(), []).append(words[0])
    return found
