"""All that the project needs on a fresh Debian or Ubuntu, step by step. A step whose inputs have not changed is skipped."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import image
from lab.progress import StepFailed, run_logged
from lab.topology import BUILD, ROOT

APT_PACKAGES = (
    "conntrack",
    "git",
    "iproute2",
    "iptables",
    "libnginx-mod-stream",
    "make",
    "maven",
    "mmdebstrap",
    "netavark",
    "nftables",
    "nginx",
    "openjdk-17-jre-headless",
    "podman",
    "python3-venv",
    "runc",
    "shellcheck",
)
_ONLINE = "see that this machine reaches its package registries, then run it again: what has arrived is kept"
_POLICY = Path("/usr/sbin/policy-rc.d")


@dataclass(frozen=True)
class Step:
    """One thing to install: told as `what`, left out when `is_done`."""

    what: str
    is_done: Callable[[], bool]
    run: Callable[[], None]


def run(names: Sequence[str], quiet: bool = False) -> int:
    """Run these steps, or all usual ones, in order; `quiet` tells only of those that do something. Raises StepFailed."""
    for name in names or USUAL:
        if name not in STEPS:
            raise StepFailed(f"no step {name}", f"there are: {', '.join(STEPS)}")
        step, start = STEPS[name], time.monotonic()
        if step.is_done():
            if not quiet:
                print(f"setup {name}: {step.what}: is there", flush=True)
            continue
        print(f"setup {name}: {step.what} …", flush=True)
        step.run()
        print(f"setup {name}: done in {time.monotonic() - start:.0f} s", flush=True)
    return 0


def _digest(*files: str, more: str = "") -> str:
    content = b"".join((ROOT / f).read_bytes() for f in files)
    return hashlib.sha256(content + more.encode()).hexdigest()


def _stamped(folder: Path, digest: str) -> bool:
    stamp = folder / ".stamp"
    return stamp.is_file() and stamp.read_text() == digest


def missing_packages() -> list[str]:
    """Packages of APT_PACKAGES that dpkg does not have."""
    if not shutil.which("dpkg-query"):
        raise StepFailed("this is no Debian or Ubuntu", f"install by hand: {', '.join(APT_PACKAGES)}")
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n", *APT_PACKAGES],
        capture_output=True,
        text=True,
        check=False,
    )
    there = {line.split()[0] for line in done.stdout.splitlines() if line.split()[1:] == ["ii"]}
    return [p for p in APT_PACKAGES if p not in there]


def _install_packages() -> None:
    _apt_install(missing_packages())


def _apt_install(missing: Sequence[str]) -> None:
    print(f"  installing {' '.join(missing)}", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    # The programs are wanted, not a web server that starts on this machine.
    ours = not _POLICY.exists()
    if ours:
        _POLICY.write_text("#!/bin/sh\nexit 101\n")
        _POLICY.chmod(0o755)
    try:
        try:
            run_logged("apt-update", ["apt-get", "update", "-q"], _ONLINE, environment)
        except StepFailed as error:
            # One source of several may be out of reach that none of the packages come from.
            print(f"  going on with the package lists there are: {error.cause.splitlines()[-1]}", flush=True)
        run_logged(
            "apt-install",
            ["apt-get", "install", "-qy", "--no-install-recommends", "-o", "Acquire::Retries=3", *missing],
            _ONLINE,
            environment,
        )
        if "nginx" in missing and shutil.which("systemctl"):
            subprocess.run(["systemctl", "disable", "-q", "nginx"], capture_output=True, check=False)
    finally:
        if ours:
            _POLICY.unlink()


def _venv_digest(requirements: str) -> str:
    return _digest(requirements, more=f"{sys.version_info[:3]} {ROOT}")


def _make_venv(folder: Path, requirements: str) -> None:
    if sys.version_info < (3, 11):
        raise StepFailed(f"Python {sys.version.split()[0]} is too old", "use Python 3.11 or newer: make PYTHON=…")
    if importlib.util.find_spec("ensurepip") is None:
        raise StepFailed(f"{sys.executable} cannot make virtual environments", "apt-get install python3-venv")
    # The interpreter behind an activated environment, which may be the very one to make anew.
    run_logged(
        "venv", [os.path.realpath(sys.executable), "-m", "venv", "--clear", str(folder)], "see that the disk has room"
    )
    run_logged(
        "pip",
        [
            str(folder / "bin/pip"),
            "install",
            "--retries",
            "5",
            "--require-hashes",
            "--progress-bar",
            "off",
            "-r",
            str(ROOT / requirements),
        ],
        _ONLINE,
    )
    (folder / ".stamp").write_text(_venv_digest(requirements))


def _venv(folder: str, requirements: str) -> Step:
    path = ROOT / folder
    return Step(
        f"{folder} from {requirements}, checked by hash",
        lambda: _stamped(path, _venv_digest(requirements)),
        lambda: _make_venv(path, requirements),
    )


def _copy_jars(profile: str) -> None:
    folder = BUILD / "jars" / profile
    fresh = folder.with_name(f"{profile}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    run_logged(
        f"jars-{profile}",
        [
            "mvn",
            "-B",
            "-ntp",
            "-Dstyle.color=never",
            "-f",
            str(ROOT / "spark_app/pom.xml"),
            "-P",
            profile,
            "dependency:copy-dependencies",
            f"-DoutputDirectory={fresh}",
        ],
        _ONLINE,
    )
    folder.mkdir(parents=True, exist_ok=True)
    # The folder itself stays: lab hosts have it mounted.
    for old in folder.iterdir():
        old.unlink()
    for jar in fresh.iterdir():
        jar.rename(folder / jar.name)
    fresh.rmdir()
    (folder / ".stamp").write_text(_digest("spark_app/pom.xml"))


def _jars(profile: str, what: str) -> Step:
    return Step(
        f"{what} to build/jars/{profile}, as spark_app/pom.xml pins them",
        lambda: _stamped(BUILD / "jars" / profile, _digest("spark_app/pom.xml")),
        lambda: _copy_jars(profile),
    )


def _build_image() -> None:
    image.build()
    image.remove_unused()


def _has_browser() -> bool:
    return any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))


def _install_browser() -> None:
    """Debian has the package; Ubuntu has only a snap, which needs a hand."""
    _apt_install(["chromium"])
    if not _has_browser():
        raise StepFailed("there is no Chromium, in which the report is tested", "snap install chromium")


STEPS: dict[str, Step] = {
    "packages": Step("system packages", lambda: not missing_packages(), _install_packages),
    "browser": Step("a Chromium, in which the report is tested", _has_browser, _install_browser),
    "venv": _venv(".venv", "requirements.txt"),
    "connector": _jars("connector", "the job's Kafka connector"),
    "kafka": _jars("kafka", "the lab's brokers"),
    "hadoop": _jars("hadoop", "the lab's YARN and HDFS"),
    "image": Step("the lab's node image", lambda: image.exists(image.tag()), _build_image),
    "core216": _venv(".venv-core216", "requirements-core216.txt"),
}
# The other controller and the browser are for those who test.
USUAL = tuple(name for name in STEPS if name not in ("core216", "browser"))
