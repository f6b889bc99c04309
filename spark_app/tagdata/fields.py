"""Typed reading of a mapping that people wrote: every problem is kept, with its path and how to mend it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ADDRESS = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:([0-9]{1,5})")
TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True)
class Problem:
    """What is wrong at a path of the settings, and what to do about it."""

    path: str
    wrong: str
    mend: str

    def __str__(self) -> str:
        return f"{self.path}: {self.wrong}; {self.mend}"


class SettingsError(ValueError):
    """All that is wrong with the settings."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class Fields:
    """Takes keys out of one mapping; what is left over in the end is unknown."""

    def __init__(self, data: object, path: str, problems: list[Problem]) -> None:
        self.path, self.problems = path, problems
        self.data: dict[Any, Any] = {}
        self.asked: list[str] = []
        if isinstance(data, Mapping):
            self.data = dict(data)
        elif data is not None:
            self.problem("", f"{data!r} is no mapping", "give keys and values")

    def at(self, key: str) -> str:
        return ".".join(part for part in (self.path, key) if part)

    def problem(self, key: str, wrong: str, mend: str) -> None:
        self.problems.append(Problem(self.at(key) or "the settings", wrong, mend))

    def section(self, key: str) -> Fields:
        return Fields(self._take(key), self.at(key), self.problems)

    def _take(self, key: str) -> Any:
        self.asked.append(key)
        return self.data.pop(key, None)

    def text(self, key: str, default: str = "", pattern: str = "", form: str = "", required: bool = False) -> str:
        """A string, matched whole by `pattern`; `form` says in words what it has to look like."""
        value = self._take(key)
        if value is None:
            if required:
                self.problem(key, "is missing", f"set it: {form or 'a text'}")
            return default
        if not isinstance(value, str) or (pattern and not re.fullmatch(pattern, value)):
            self.problem(key, f"{value!r} will not do", f"give {form or 'a text'}")
            return default
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """One of the choices; the first is the default."""
        return self.text(key, choices[0], "|".join(choices), f"one of {', '.join(choices)}")

    def flag(self, key: str, default: bool) -> bool:
        value = self._take(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.problem(key, f"{value!r} is neither true nor false", "give true or false")
        return default

    def number(self, key: str, default: float | None, least: float, most: float, whole: bool = False) -> Any:
        """A number from `least` to `most`; null is the default."""
        value = self._take(key)
        if value is None:
            return default
        fits = isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
        if fits and not (whole and value != int(value)):
            return int(value) if whole else value
        self.problem(key, f"{value!r} will not do", f"give a{' whole' if whole else ''} number from {least} to {most}")
        return default

    def texts(self, key: str, pattern: re.Pattern[str], form: str, required: bool = False) -> tuple[str, ...]:
        """A list of strings of one form, without doubles."""
        value = self._take(key)
        if value is None:
            if required:
                self.problem(key, "is missing", f"list at least one: {form}")
            return ()
        if not isinstance(value, (list, tuple)) or not value:
            self.problem(key, f"{value!r} is no list with something in it", f"list at least one: {form}")
            return ()
        for index, item in enumerate(value):
            if not isinstance(item, str) or not pattern.fullmatch(item):
                self.problem(f"{key}[{index}]", f"{item!r} will not do", f"give {form}")
            elif item in value[:index]:
                self.problem(f"{key}[{index}]", f"{item!r} is there twice", "leave one out")
        return tuple(item for item in value if isinstance(item, str))

    def pairs(self, key: str) -> dict[str, str]:
        """A mapping of texts; numbers and booleans are taken as Kafka writes them."""
        fields = self.section(key)
        pairs = {}
        for name, value in fields.data.items():
            if not isinstance(name, str) or not isinstance(value, (str, int, float, bool)):
                fields.problem(str(name), "is no plain text", "give a text, a number, true or false")
                continue
            pairs[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return pairs

    def done(self) -> None:
        """Say what was not asked for."""
        for key in self.data:
            close = difflib.get_close_matches(str(key), self.asked, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(self.asked)}"
            self.problem(str(key), "is unknown", hint)
