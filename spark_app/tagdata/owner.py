"""Who may write from a state directory: one attempt, and another only after YARN says that it has ended."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from tagdata.files import StateDir
from tagdata.trouble import NotOwner, Transient

FILE = re.compile(r"owner\.(\d{6})\.json")
KEPT = 20


class Owner:
    """A claim on the state directory, numbered: the highest number owns. Creating the next one is the take-over."""

    def __init__(
        self, files: StateDir, application: str, attempt: int, has_ended: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        self.files, self.has_ended = files, has_ended
        self.claim = {
            "application": application,
            "attempt": attempt,
            "host": os.uname().nodename,
            "pid": os.getpid(),
            "time": time.time(),
        }
        self.number = 0

    def take(self) -> dict[str, Any] | None:
        """Own the directory; returns the claim before, if there was one. NotOwner while its attempt lives."""
        while not self.number:
            numbers = self._numbers()
            last = numbers[-1] if numbers else 0
            before = self.files.load(_name(last)) if last else None
            if before and not self.has_ended(before):
                raise NotOwner("NOT_OWNER", f"{_who(before)} writes from {self.files.uri}", "stop it, or let it run")
            if self.files.create(_name(last + 1), self.claim):
                self.number = last + 1
                for number in numbers[:-KEPT]:
                    self.files.delete(_name(number))
                return before
        return None

    def check(self) -> None:
        """Raises NotOwner when somebody has taken over: YARN took this attempt for dead."""
        numbers = self._numbers()
        if not numbers:
            raise Transient(f"the owner files in {self.files.uri} cannot be seen")
        if numbers[-1] != self.number:
            by = _who(self.files.load(_name(numbers[-1])) or {})
            raise NotOwner("NOT_OWNER", f"{by} has taken over {self.files.uri}", "none is needed: that one goes on")

    def _numbers(self) -> list[int]:
        found = filter(None, map(FILE.fullmatch, self.files.names()))
        return sorted(int(match[1]) for match in found)


def _name(number: int) -> str:
    return f"owner.{number:06}.json"


def _who(claim: Mapping[str, Any]) -> str:
    return f"{claim.get('application', 'another')}, attempt {claim.get('attempt', '?')}, on {claim.get('host', '?')},"
