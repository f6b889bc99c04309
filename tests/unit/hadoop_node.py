"""A node with Hadoop on it, as files: a /proc with daemons, and their settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"


def site(values: Mapping[str, str], more: str = "", final: tuple[str, ...] = ()) -> str:
    """A file of settings."""
    marks = {name: "<final>true</final>" if name in final else "" for name in values}
    rows = [f"<property><name>{k}</name><value>{v}</value>{marks[k]}</property>" for k, v in values.items()]
    return f'<?xml version="1.0"?>\n<configuration>{"".join(rows)}{more}</configuration>\n'


class FakeProc:
    """A folder in the form of /proc (proc(5))."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "self/ns").mkdir(parents=True)
        (folder / "stat").write_text("cpu 1 2 3\nbtime 1000000000\n")
        for kind in ("net", "mnt"):
            (folder / "self/ns" / kind).symlink_to(f"{kind}:[1]")

    def __str__(self) -> str:
        return str(self.folder)

    def add(
        self,
        pid: int,
        *arguments: str,
        uid: int = 0,
        environment: Mapping[str, str] | None = None,
        namespaces: Mapping[str, int] | None = None,
        place: str = "/",
    ) -> Path:
        """One process; its folder."""
        home = self.folder / str(pid)
        (home / "ns").mkdir(parents=True)
        (home / "cmdline").write_bytes("\0".join((*arguments, "")).encode())
        words = [f"{key}={value}" for key, value in (environment or {}).items()]
        (home / "environ").write_bytes("\0".join((*words, "")).encode())
        (home / "status").write_text(f"Name:\tjava\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        ticks = 100 * os.sysconf("SC_CLK_TCK")
        (home / "stat").write_text(f"{pid} (java (x) y) S {' '.join(['0'] * 18)} {ticks} 0 0\n")
        for kind in ("net", "mnt"):
            (home / "ns" / kind).symlink_to(f"{kind}:[{(namespaces or {}).get(kind, 1)}]")
        (home / "cwd").symlink_to(place)
        return home
