"""Stop a program on a node where it opens a certain file, for as long as a test needs (fanotify(7), FAN_OPEN_PERM).

The kernel asks us before each open on the node's root mount, and lets the program wait for the answer. Nothing is changed
in the program or on the node. If this process dies, the kernel answers for it.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_CLASS_CONTENT, _CLOEXEC, _NONBLOCK = 4, 1, 2  # linux/fanotify.h
_ADD, _MOUNT, _FLUSH = 0x1, 0x10, 0x80
_OPEN_PERM, _ON_DIRECTORY, _ALLOW = 0x10000, 0x40000000, 1
_HERE = -100  # AT_FDCWD
_EVENT = struct.Struct("=IBBHQii")
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fanotify_mark.argtypes = [ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p]
_UNIT = re.compile(r"kafka-natmap-switch-\d+\.service")


@dataclass
class Opening:
    """A program of a switch is about to open `path`."""

    path: str
    pid: int
    arguments: tuple[str, ...]
    at: float = field(default_factory=time.monotonic)


@dataclass
class Stop:
    """Where to stop: the first opening that `matches`. `reached` is set there; `release` lets the program go on."""

    matches: Callable[[Opening], bool]
    reached: threading.Event = field(default_factory=threading.Event)
    opening: Opening | None = None
    released: bool = False
    _answer: Callable[[], None] | None = None

    def await_reached(self, seconds: float) -> Opening:
        """The opening at which the program waits. :raises TimeoutError: when it does not come there"""
        if not self.reached.wait(seconds) or self.opening is None:
            raise TimeoutError(f"the switch did not come to this point within {seconds:g} s")
        return self.opening

    def release(self) -> None:
        """Let the program go on, now or when it comes there."""
        self.released = True
        if self._answer:
            self._answer()
            self._answer = None


class Gate:
    """Answers the kernel for one node, as long as the context lasts, and keeps what the switch opened in order."""

    def __init__(self, process: int) -> None:
        self._root = f"/proc/{process}/root/"
        self._stops: list[Stop] = []
        self._end = threading.Event()
        self.seen: list[Opening] = []

    def stop(self, matches: Callable[[Opening], bool]) -> Stop:
        """Stop a program of a switch at the next opening that matches."""
        made = Stop(matches)
        self._stops.append(made)
        return made

    @contextmanager
    def watching(self) -> Iterator[Gate]:
        """Watch; at the end every program goes on."""
        self._group = _checked(_LIBC.fanotify_init(_CLASS_CONTENT | _CLOEXEC | _NONBLOCK, os.O_RDONLY | os.O_CLOEXEC))
        mask = _OPEN_PERM | _ON_DIRECTORY
        _checked(_LIBC.fanotify_mark(self._group, _ADD | _MOUNT, mask, _HERE, self._root.encode()))
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            for one in self._stops:
                one.release()
            self._end.set()
            thread.join()
            os.close(self._group)

    def _serve(self) -> None:
        while not self._end.is_set():
            if select.select([self._group], [], [], 0.05)[0]:
                data, offset = os.read(self._group, 1 << 16), 0
                while offset < len(data):
                    length, _, _, _, _, descriptor, pid = _EVENT.unpack_from(data, offset)
                    offset += length
                    self._handle(descriptor, pid)

    def _handle(self, descriptor: int, pid: int) -> None:
        def allow() -> None:
            os.write(self._group, struct.pack("=iI", descriptor, _ALLOW))
            os.close(descriptor)

        opening = self._opening(descriptor, pid)
        # Every stop sees every opening: it may count them.
        due = [stop for stop in self._stops if opening and stop.matches(opening)]
        if not due or due[0].released:
            allow()
            return
        due[0].opening, due[0]._answer = opening, allow
        due[0].reached.set()

    def _opening(self, descriptor: int, pid: int) -> Opening | None:
        """What is opened, if a switch does it: its transient unit tells its programs from all others."""
        try:
            with open(f"/proc/{pid}/cgroup") as stream:
                if not _UNIT.search(stream.read()):
                    return None
            with open(f"/proc/{pid}/cmdline") as stream:
                arguments = tuple(stream.read().split("\0")[:-1])
            opening = Opening(os.readlink(f"/proc/self/fd/{descriptor}"), pid, arguments)
        except (FileNotFoundError, ProcessLookupError):
            return None
        self.seen.append(opening)
        return opening


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{os.strerror(code)}: faults are timed by fanotify, which needs root")
    return result
