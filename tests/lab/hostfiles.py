"""What lands on a host's disk before its first start: `files/ROLE/` with its `{{ name }}` filled in."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from pathlib import Path

from lab.topology import Host

FILES = Path(__file__).with_name("files")
_PLACE = re.compile(r"\{\{ (\w+) \}\}")
_UNITS = "etc/systemd/system/"


def render(text: str, values: dict[str, str], where: str) -> str:
    """Fill in a file's places. Raises ValueError, naming file and place, when a value is missing."""

    def value(match: re.Match[str]) -> str:
        try:
            return values[match[1]]
        except KeyError:
            raise ValueError(f"{where}: nothing to put for {{{{ {match[1]} }}}}") from None

    return _PLACE.sub(value, text)


def archive(host: Host) -> bytes:
    """The files of a host's roles as a tar, relative to /; units with an [Install] section are enabled."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for role in host.roles:
            for path in sorted(p for p in (FILES / role).rglob("*") if p.is_file()):
                name = path.relative_to(FILES / role).as_posix()
                text = render(path.read_text(), host.values, f"files/{role}/{name}")
                _add_file(tar, name, text.encode(), path.stat().st_mode & 0o100)
                if name.startswith(_UNITS) and "[Install]" in text:
                    _add_link(tar, f"{_UNITS}multi-user.target.wants/{path.name}", f"/{name}")
        if "router" in host.roles:
            _add_link(tar, f"{_UNITS}sysinit.target.wants/nftables.service", "/lib/systemd/system/nftables.service")
    return out.getvalue()


def digest(host: Host, image: str) -> str:
    """Changes whenever a container of this host would have to be made anew."""
    # A mount keeps to the folder it was made with, so one that was made anew under the same name counts.
    mounts = [(target, path, path.stat().st_ino) for target, path in sorted(host.mounts.items()) if path.exists()]
    parts = [image, repr(host.address), repr(mounts), repr(sorted(host.volumes.items()))]
    return hashlib.sha256("\n".join(parts).encode() + archive(host)).hexdigest()[:16]


def _add_file(tar: tarfile.TarFile, name: str, content: bytes, executable: int) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.mode = 0o755 if executable else 0o644
    tar.addfile(info, io.BytesIO(content))


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    info = tarfile.TarInfo(name)
    info.type = tarfile.SYMTYPE
    info.linkname = target
    tar.addfile(info)
