"""Bringing a lab up, healing it, taking it down. Every step asks podman what is there and does what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab import hostfiles, inventory, network
from lab.podman import LABEL, PodmanError, containers, execute, is_alive, labelled, podman, remove
from lab.progress import Clock, StepFailed
from lab.topology import BUILD, Host, Lab, extra_node, hosts

CAPABILITIES = "NET_ADMIN,NET_RAW,SYS_ADMIN,SYS_PTRACE,LINUX_IMMUTABLE"
Container = dict[str, Any]
_EXTRA = "kafka-natmap.extra"
_DIGEST = "kafka-natmap.digest"


def create(lab: Lab, clock: Clock, node_image: str) -> None:
    """All hosts of the lab running; those that died or are out of date are made anew, volumes kept."""
    there = containers(lab.name)
    wanted = {lab.container(h.name): h for h in hosts(lab)} | _added(lab, there)
    with ThreadPoolExecutor(4) as pool:
        known = [name for name in wanted if name in there]
        verdicts = pool.map(lambda n: _is_stale(there[n], wanted[n], node_image), known)
        stale = [n for n, is_stale in zip(known, verdicts, strict=True) if is_stale]
        if stale:
            clock.say(f"  making anew: {', '.join(stale)}")
            remove(stale)
        missing = [n for n in wanted if n not in there or n in stale]
        stopped = [n for n in known if n not in stale and there[n]["State"]["Status"] != "running"]
        list(pool.map(lambda n: _run(lab, wanted[n], _image(there.get(n), node_image), _index(there.get(n))), missing))
        list(pool.map(lambda n: podman("start", n), stopped))
    clock.say(f"  {len(missing)} hosts made, {len(stopped)} started, {len(known) - len(stopped) - len(stale)} ran")
    inventory.write(lab, [wanted[n].name for n in wanted if n in there and _index(there[n]) is not None])


def down(name: str) -> list[str]:
    """Remove all that the lab put on this machine; returns what was removed."""
    gone = list(containers(name))
    remove(gone)
    volumes = labelled("volume", name)
    if volumes:
        podman("volume", "rm", "-f", *volumes)
    shutil.rmtree(BUILD / "lab" / name, ignore_errors=True)
    return [*gone, *volumes, *network.release(name)]


def add_nodes(lab: Lab, names: Sequence[str], node_image: str) -> dict[str, str]:
    """Start plain hosts on the site's network; returns their addresses by name."""
    there = containers(lab.name)
    taken = [n for n in names if lab.container(n) in there]
    if taken:
        raise StepFailed(f"lab {lab.name} has {', '.join(taken)}", "take other names, or `node rm` them first")
    used = {index for node in there.values() if (index := _index(node)) is not None}
    free = (i for i in range(len(used) + len(names)) if str(i) not in used)
    nodes = {i: extra_node(lab, name, i) for name, i in zip(names, free, strict=False)}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: _run(lab, nodes[i], node_image, str(i)), nodes))
    inventory.write(lab, extra_nodes(lab.name))
    return {host.name: host.address["site"] for host in nodes.values()}


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
    return [c.removeprefix(f"{name}-") for c, node in containers(name).items() if _index(node) is not None]


def standing(name: str) -> Lab | None:
    """The lab of that name as it stands on this machine, or None."""
    number, there = network.number_of(name), containers(name)
    if number is None:
        return None
    return Lab(name, number, tuple(h for h in Lab().only if f"{name}-{h}" in there))


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
        arguments += ["--network", f"{lab.name}-{net}:ip={address},mac={_mac(address)},interface_name={device}"]
    if "router" in host.roles:
        arguments += ["--sysctl", "net.ipv4.ip_forward=1"]
    if "nodemanager" in host.roles:
        # Kafka's client reports an unreachable node when the kernel gives up: here after 3 s, not after 127.
        arguments += ["--sysctl", "net.ipv4.tcp_syn_retries=1"]
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


def _mac(address: str) -> str:
    """Of the address, so that neighbours find a host that was made anew at once."""
    return "02:00:" + ":".join(f"{int(part):02x}" for part in address.split("."))


def _is_stale(node: Container, host: Host, node_image: str) -> bool:
    wanted = hostfiles.digest(host, _image(node, node_image))
    return node["Config"]["Labels"].get(_DIGEST) != wanted or _is_dead(node)


def _is_dead(node: Container) -> bool:
    """Neither running nor cleanly stopped: nothing can be started there again."""
    if node["State"]["Status"] != "running":
        return bool(node["State"]["Status"] != "exited")
    try:
        return not is_alive(node) or bool(execute(node["Name"], "true", timeout=20))
    except PodmanError:
        return True


def _added(lab: Lab, there: dict[str, Container]) -> dict[str, Host]:
    """The added nodes among the lab's containers."""
    indexes = {name: _index(node) for name, node in there.items()}
    return {n: extra_node(lab, n.removeprefix(f"{lab.name}-"), int(i)) for n, i in indexes.items() if i is not None}


def _index(node: Container | None) -> str | None:
    """The number of an added node, None for the lab's own hosts."""
    return node["Config"]["Labels"].get(_EXTRA) if node else None


def _image(node: Container | None, node_image: str) -> str:
    """An added node keeps the image it was added with."""
    return str(node["ImageName"]) if node and _index(node) is not None else node_image
