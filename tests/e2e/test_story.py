"""The story of the demo, once, with fewer events."""

import os

from e2e.story import Story, stand
from lab.topology import DEFAULT_NAME


def test_an_unmodified_job_works_only_with_the_map_and_leaves_no_trace() -> None:
    Story(stand(os.environ.get("KAFKA_NATMAP_LAB", DEFAULT_NAME)), records=20_000).tell()
