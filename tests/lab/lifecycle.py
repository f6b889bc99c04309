"""Bringing a lab up, healing it, taking it down. Every step asks podman what is there and does what is missing."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab import hostfiles, inventory
from lab.podman import LABEL, PodmanError, containers, execute, is_alive, labelled, networks, podman, remove
from lab.progress import Clock, StepFailed
from lab.topology import BUILD, DEFAULT_NAME, Host, Lab, extra_node, hosts

CAPABILITIES = "NET_ADMIN,NET_RAW,SYS_ADMIN,SYS_PTRACE,LINUX_IMMUTABLE"
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
_NUMBER = "kafka-natmap.number"
_FORWARD_BEFORE = "kafka-natmap.ip-forward"
_EXTRA = "kafka-natmap.extra"
_DIGEST = "kafka-natmap.digest"


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One command at a time on a lab; another one waits."""
    path = BUILD / "lab" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"lab {name}: waiting for another command on this lab to end", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def number_of(name: str) -> int | None:
    """The subnet number of a lab that has networks, else None."""
    for labels in networks().values():
        if labels.get(LABEL) == name:
            return int(labels[_NUMBER])
    return None


def choose_number(name: str, wanted: int | None) -> int:
    """The lab's own number if it stands, else the wanted one, else the first free; the default lab has 0."""
    own = number_of(name)
    if own is not None:
        if wanted not in (None, own):
            raise StepFailed(f"lab {name} stands on subnet number {own}, not {wanted}", "take it down first")
        return own
    taken = {int(labels[_NUMBER]) for labels in networks().values()}
    if wanted is None:
        wanted = 0 if name == DEFAULT_NAME else next(n for n in range(1, 128) if n not in taken)
    if wanted in taken:
        raise StepFailed(f"subnet number {wanted} belongs to another lab", "name another with --number, 0 to 127")
    return wanted


def create(lab: Lab, clock: Clock, node_image: str) -> None:
    """Networks and containers of the lab, all running; those that died or are out of date are made anew."""
    _networks(lab)
    there = containers(lab.name)
    wanted = hosts(lab)
    stale = [lab.container(h.name) for h in wanted if _is_stale(there.get(lab.container(h.name)), h, node_image)]
    extra = {c: node for c, node in there.items() if _EXTRA in node["Config"]["Labels"]}
    dead = [c for c, node in extra.items() if _is_dead(node)]
    if stale or dead:
        clock.say(f"  making anew: {', '.join((*stale, *dead))}")
        remove((*stale, *dead))
    there = containers(lab.name)
    missing = [h for h in wanted if lab.container(h.name) not in there]
    missing += [_extra_host(lab, c, extra[c]) for c in dead]
    stopped = [c for c, node in there.items() if node["State"]["Status"] != "running"]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda h: _run(lab, h, node_image, _label(extra, lab, h)), missing))
        list(pool.map(lambda name: podman("start", name), stopped))
    clock.say(f"  {len(missing)} hosts made, {len(stopped)} started, {len(there) - len(stopped)} were running")
    inventory.write(lab, [c.removeprefix(f"{lab.name}-") for c in extra])


def down(name: str) -> list[str]:
    """Remove all that the lab put on this machine; returns what was removed."""
    gone = list(containers(name))
    remove(gone)
    volumes, nets = labelled("volume", name), labelled("network", name)
    forward = {labels[_FORWARD_BEFORE] for labels in networks().values() if labels.get(LABEL) == name}
    if volumes:
        podman("volume", "rm", "-f", *volumes)
    if nets:
        podman("network", "rm", "-f", *nets)
    if forward == {"0"} and not networks() and not podman("ps", "-q").strip():
        # netavark switched it on for our bridges; it was off before the first lab.
        _FORWARD.write_text("0")
    shutil.rmtree(BUILD / "lab" / name, ignore_errors=True)
    return [*gone, *volumes, *nets]


def add_node(lab: Lab, name: str, node_image: str) -> str:
    """Start a plain host on the site's network; returns its address."""
    there = containers(lab.name)
    if lab.container(name) in there:
        raise StepFailed(f"lab {lab.name} has a host {name}", "take another name, or `node rm` it first")
    used = {int(c["Config"]["Labels"].get(_EXTRA, -1)) for c in there.values()}
    index = next(i for i in range(len(used) + 1) if i not in used)
    host = extra_node(lab, name, index)
    _run(lab, host, node_image, str(index))
    inventory.write(lab, extra_nodes(lab.name))
    return host.address["site"]


def remove_nodes(lab: Lab, names: Iterable[str]) -> None:
    """Remove added nodes. Raises StepFailed for a name that is none."""
    ours = extra_nodes(lab.name)
    wrong = [n for n in names if n not in ours]
    if wrong:
        raise StepFailed(f"no added node: {', '.join(wrong)}", f"lab {lab.name} has {', '.join(ours) or 'none'}")
    remove([lab.container(n) for n in names])
    inventory.write(lab, extra_nodes(lab.name))


def extra_nodes(name: str) -> list[str]:
    """Names of the nodes that were added to a lab."""
    return [c.removeprefix(f"{name}-") for c, node in containers(name).items() if _EXTRA in node["Config"]["Labels"]]


def standing(name: str) -> Lab | None:
    """The lab of that name as it stands on this machine, or None."""
    number, there = number_of(name), containers(name)
    if number is None:
        return None
    return Lab(name, number, tuple(h for h in Lab().only if f"{name}-{h}" in there))


def _networks(lab: Lab) -> None:
    known = networks()
    before = "0" if "0" in {n[_FORWARD_BEFORE] for n in known.values()} else _FORWARD.read_text().strip()
    for net in ("hq", "site"):
        name = f"{lab.name}-{net}"
        if name not in known:
            podman(
                "network",
                "create",
                "--internal",
                "--disable-dns",
                "--subnet",
                f"{lab.prefix(net)}.0/24",
                "--label",
                f"{LABEL}={lab.name}",
                "--label",
                f"{_NUMBER}={lab.number}",
                "--label",
                f"{_FORWARD_BEFORE}={before}",
                name,
            )


def _run(lab: Lab, host: Host, node_image: str, extra: str | None = None) -> None:
    """Create a container, put its files in place, start it."""
    name = lab.container(host.name)
    for path in host.mounts.values():
        if not path.is_dir():
            raise StepFailed(f"{path} is not there", "run `make setup`")
    arguments = [
        "--name",
        name,
        "--hostname",
        host.name,
        "--systemd=always",
        "--no-hosts",
        "--dns=none",
        "--cap-add",
        CAPABILITIES,
        "--label",
        f"{LABEL}={lab.name}",
        "--label",
        f"{_DIGEST}={hostfiles.digest(host, node_image)}",
    ]
    arguments += ["--label", f"{_EXTRA}={extra}"] if extra is not None else []
    for net, address in host.address.items():
        device = net if len(host.address) > 1 else "eth0"
        arguments += ["--network", f"{lab.name}-{net}:ip={address},interface_name={device}"]
    if "router" in host.roles:
        arguments += ["--sysctl", "net.ipv4.ip_forward=1"]
    for target, path in host.mounts.items():
        arguments += ["--volume", f"{path}:{target}:ro"]
    for suffix, target in host.volumes.items():
        volume = f"{name}-{suffix}"
        if volume not in labelled("volume", lab.name):
            podman("volume", "create", "--label", f"{LABEL}={lab.name}", volume)
        arguments += ["--volume", f"{volume}:{target}"]
    podman("create", *arguments, node_image)
    podman("cp", "-", f"{name}:/", stdin=hostfiles.archive(host))
    podman("start", name)


def _is_stale(node: dict[str, Any] | None, host: Host, node_image: str) -> bool:
    if node is None:
        return False
    return _is_dead(node) or node["Config"]["Labels"].get(_DIGEST) != hostfiles.digest(host, node_image)


def _is_dead(node: dict[str, Any]) -> bool:
    """Neither running nor cleanly stopped: nothing can be started there again."""
    if node["State"]["Status"] == "running":
        return not is_alive(node) or not _answers(node["Name"])
    return node["State"]["Status"] not in ("exited", "created", "configured")


def _answers(container: str) -> bool:
    try:
        execute(container, "true", timeout=20)
    except PodmanError:
        return False
    return True


def _label(extra: dict[str, dict[str, Any]], lab: Lab, host: Host) -> str | None:
    node = extra.get(lab.container(host.name))
    return str(node["Config"]["Labels"][_EXTRA]) if node else None


def _extra_host(lab: Lab, container: str, node: dict[str, Any]) -> Host:
    return extra_node(lab, container.removeprefix(f"{lab.name}-"), int(node["Config"]["Labels"][_EXTRA]))
