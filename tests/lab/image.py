"""The image of every lab host: a small Debian or Ubuntu with systemd, from the host's own package sources."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.podman import podman
from lab.progress import StepFailed, run_logged
from lab.topology import BUILD

REPOSITORY = "localhost/kafka-natmap-node"
PACKAGES = (
    "ca-certificates",
    "conntrack",
    "dbus",
    "e2fsprogs",
    "iproute2",
    "iptables",
    "iputils-ping",
    "kcat",
    "libnginx-mod-stream",
    "nftables",
    "nginx",
    "openjdk-17-jre-headless",
    "procps",
    "python3",
    "sudo",
    "systemd",
    "systemd-sysv",
)
CUSTOMISE = Path(__file__).with_name("customise.sh")
CUSTOMISE_EXTRA = Path(__file__).with_name("customise_extra.sh")


def os_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {k: v.strip('"') for k, _, v in (line.partition("=") for line in lines)}


def sources() -> Path:
    """The host's own list of its distribution's packages; other lists on the host are none of the lab's business."""
    name = os_release().get("ID", "")
    for path in (f"/etc/apt/sources.list.d/{name}.sources", "/etc/apt/sources.list"):
        if Path(path).is_file() and Path(path).read_text().strip():
            return Path(path)
    raise StepFailed(
        "no apt sources of this distribution",
        f"looked for /etc/apt/sources.list.d/{name}.sources and /etc/apt/sources.list; "
        "the node image needs a Debian 12 or Ubuntu 24.04 host",
    )


def tag(extra: Sequence[str] = ()) -> str:
    """The image's name. It carries a digest of all that the image is made of."""
    hooks = CUSTOMISE.read_text() + (CUSTOMISE_EXTRA.read_text() if extra else "")
    what = "\n".join((*PACKAGES, *sorted(extra), hooks, os_release()["VERSION_CODENAME"], sources().read_text()))
    return f"{REPOSITORY}:{hashlib.sha256(what.encode()).hexdigest()[:12]}"


def exists(name: str) -> bool:
    return bool(podman("images", "-q", name).strip())


def build(extra: Sequence[str] = ()) -> str:
    """Build the image unless it is there; `extra` are more packages, whose services stay off. Returns its name."""
    name = tag(extra)
    if exists(name):
        return name
    if not shutil.which("mmdebstrap"):
        raise StepFailed("mmdebstrap is not installed", "run `make setup`")
    tar = BUILD / "image" / f"{name.rpartition(':')[2]}.tar"
    tar.parent.mkdir(parents=True, exist_ok=True)
    try:
        run_logged(
            "image",
            [
                "mmdebstrap",
                "--mode=root",
                "--variant=apt",
                "--format=tar",
                f"--include={','.join((*PACKAGES, *extra))}",
                f"--customize-hook={CUSTOMISE}",
                *([f'--customize-hook={CUSTOMISE_EXTRA} "$1" {shlex.join(extra)}'] if extra else []),
                "--dpkgopt=path-exclude=/usr/share/doc/*",
                "--dpkgopt=path-exclude=/usr/share/locale/*",
                os_release()["VERSION_CODENAME"],
                str(tar),
                str(sources()),
            ],
            "see that `apt-get update` works here, then run it again",
        )
        podman(
            "import",
            "-q",
            "--change",
            'CMD ["/lib/systemd/systemd"]',
            "--change",
            "STOPSIGNAL SIGRTMIN+3",
            str(tar),
            name,
            timeout=600,
        )
    finally:
        tar.unlink(missing_ok=True)
    return name


def remove_unused() -> None:
    """Remove images of former definitions that no container uses."""
    current = tag()
    names = podman("images", "--format", "{{.Repository}}:{{.Tag}}", REPOSITORY).split()
    for name in names:
        if name != current and not podman("ps", "-aq", "--filter", f"ancestor={name}").strip():
            subprocess.run(["podman", "rmi", name], capture_output=True, check=False)
