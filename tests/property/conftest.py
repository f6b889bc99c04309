"""One namespace for all, and examples that are the same on every run; `HYPOTHESIS_PROFILE=explore` looks further."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from netns import Namespace

# A loaded machine is slow; a program that is started takes longer than Hypothesis expects of a function.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}
settings.register_profile("same", derandomize=True, database=None, max_examples=100, **_COMMON)  # type: ignore[arg-type]
settings.register_profile("explore", max_examples=500, **_COMMON)  # type: ignore[arg-type]
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(scope="session")
def namespace() -> Iterator[Namespace]:
    """The session's own."""
    made = Namespace()
    yield made
    made.close()


@pytest.fixture
def inside(namespace: Namespace) -> Iterator[None]:
    """In the namespace; what was loaded goes when the test ends."""
    with namespace.entered():
        yield
        subprocess.run(["nft", "flush", "ruleset"], check=True)
