"""Classes of the driver's JVM."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any


@cache
def java(jvm: Any, name: str) -> Any:
    """A class by its full name. Kept: for each part of the name py4j has the JVM look through all its jars."""
    return attrgetter(name)(jvm)
