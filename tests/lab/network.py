"""A lab's networks, and the two kernel settings of this machine that labs need; both go with the last lab."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.podman import LABEL, labelled, networks, podman
from lab.progress import StepFailed
from lab.topology import DEFAULT_NAME, Lab

NETWORKS = ("hq", "site")
_NUMBER = "kafka-natmap.number"
_BEFORE = "kafka-natmap.before."
# Setting: least value. Podman switches forwarding on for its bridges; a host's systemd takes five inotify instances.
_SETTINGS = {"net.ipv4.ip_forward": 0, "fs.inotify.max_user_instances": 2048}
_LOCKS = Path("/run/lock")
_NAMESPACES = Path("/run/netns")


@contextmanager
def locked(name: str = "") -> Iterator[None]:
    """One command at a time on lab `name`, or ("") on what labs share; another one waits."""
    with (_LOCKS / f"kafka-natmap{name and '-'}{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if name:
                print(f"lab {name}: waiting for another command on this lab to end", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def mend_namespaces() -> None:
    """Give podman's network namespaces that lost their mount an empty one; with only one such file it refuses all work.

    A restart of a machine that keeps /run on its disk leaves them. The containers are then found dead and made anew.
    """
    alive = Path("/proc/self/ns/net").stat().st_dev
    for file in _NAMESPACES.glob("netns-*"):
        if file.stat().st_dev != alive:
            subprocess.run(["unshare", f"--net={file}", "true"], check=False)


def number_of(name: str) -> int | None:
    """The subnet number of a lab that has networks, else None."""
    return next((int(labels[_NUMBER]) for labels in networks().values() if labels.get(LABEL) == name), None)


def claim(name: str, wanted: int | None) -> int:
    """Make the lab's networks if need be; returns its subnet number.

    A lab that stands keeps its own. Otherwise it is the wanted one, or the first free; the default lab has 0.
    """
    with locked():
        own = number_of(name)
        if own is not None and wanted not in (None, own):
            raise StepFailed(f"lab {name} stands on subnet number {own}, not {wanted}", "take it down first")
        number = _free(name, wanted) if own is None else own
        _create(Lab(name, number))
        return number


def release(name: str) -> list[str]:
    """Remove the lab's networks, and with the last lab's put the machine's settings back; returns what was removed."""
    with locked():
        before = {k: v for labels in networks().values() if labels.get(LABEL) == name for k, v in labels.items()}
        gone = labelled("network", name)
        if gone:
            podman("network", "rm", "-f", *gone)
        if not networks() and not podman("ps", "-q").strip():
            for setting in _SETTINGS:
                _write(setting, before.get(_BEFORE + setting, ""))
        return gone


def _free(name: str, wanted: int | None) -> int:
    taken = {int(labels[_NUMBER]) for labels in networks().values()}
    if wanted is None:
        wanted = 0 if name == DEFAULT_NAME else next(n for n in range(1, 128) if n not in taken)
    if wanted in taken:
        raise StepFailed(f"subnet number {wanted} belongs to another lab", "name another with --number, 0 to 127")
    return wanted


def _create(lab: Lab) -> None:
    known = networks()
    labels = {LABEL: lab.name, _NUMBER: str(lab.number)}
    for setting, least in _SETTINGS.items():
        # A lab that stands already knows what was there before any lab.
        found = {n[_BEFORE + setting] for n in known.values() if _BEFORE + setting in n}
        labels[_BEFORE + setting] = next(iter(found), _path(setting).read_text().strip())
        if int(_path(setting).read_text()) < least:
            _write(setting, str(least))
    for net in NETWORKS:
        name = f"{lab.name}-{net}"
        if name not in known:
            flags = [flag for key, value in labels.items() for flag in ("--label", f"{key}={value}")]
            subnet = f"{lab.prefix(net)}.0/24"
            podman("network", "create", "--internal", "--disable-dns", "--subnet", subnet, *flags, name)


def _path(setting: str) -> Path:
    return Path("/proc/sys") / setting.replace(".", "/")


def _write(setting: str, value: str) -> None:
    if value and _path(setting).read_text().strip() != value:
        _path(setting).write_text(value)
