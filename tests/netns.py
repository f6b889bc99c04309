"""A network namespace for tests that load real rules. It belongs to this process and ends with it, however that ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

_CLONE_NEWNET = 0x40000000  # linux/sched.h
_LIBC = ctypes.CDLL(None, use_errno=True)


def _call(done: int) -> None:
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{os.strerror(code)}: these tests load rules, and need root")


class Namespace:
    """A namespace with loopback and a default route that leads nowhere. Enter it by ``with namespace.entered():``.

    The main thread enters, and the programs that it starts then live there; :raises OSError: without CAP_SYS_ADMIN
    """

    def __init__(self) -> None:
        outside = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            _call(_LIBC.unshare(_CLONE_NEWNET))
            self._inside = os.open("/proc/self/ns/net", os.O_RDONLY)
            try:
                self._furnish()
            finally:
                _call(_LIBC.setns(outside, _CLONE_NEWNET))
        finally:
            os.close(outside)

    @staticmethod
    def _furnish() -> None:
        for command in (
            "link set lo up",
            "link add left type veth peer name right",
            "address add 198.18.254.1/30 dev left",
            "link set left up",
            "link set right up",
            "route add default via 198.18.254.2 dev left",
        ):
            subprocess.run(["ip", *command.split()], check=True, capture_output=True, text=True)
        Path("/proc/sys/net/ipv4/ip_nonlocal_bind").write_text("1\n")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be in the namespace, then back where the process was."""
        outside = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            _call(_LIBC.setns(self._inside, _CLONE_NEWNET))
            yield
        finally:
            _call(_LIBC.setns(outside, _CLONE_NEWNET))
            os.close(outside)

    def close(self) -> None:
        """Let the namespace go, with all that is in it."""
        os.close(self._inside)
