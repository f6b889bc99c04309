"""What the sink is written with."""

from __future__ import annotations

from typing import Any

import pytest
from tagdata import settings as s
from tagdata.stream import sink_options


def settings(**options: str) -> s.Settings:
    data: dict[str, Any] = {
        "name": "x",
        "source": {"bootstrap": ["a:1"], "topics": ["t"]},
        "sink": {"bootstrap": ["b:1"], "options": options},
        "state_dir": "hdfs:///x",
    }
    return s.parse(data)


@pytest.mark.parametrize(
    ("limits", "given", "size"),
    [
        ([1_048_588], {}, "262144"),
        ([1_048_588, 10_000], {}, "10000"),
        ([1_048_588], {"kafka.batch.size": "524288"}, "524288"),
        ([100_000], {"kafka.batch.size": "524288"}, "100000"),
    ],
)
def test_no_batch_is_so_large_that_a_topic_would_have_it_split_and_reordered(
    limits: list[int], given: dict[str, str], size: str
) -> None:
    assert sink_options(settings(**given), limits)["kafka.batch.size"] == size


def test_requests_and_memory_fit_the_largest_record() -> None:
    options = sink_options(settings(), [1_000, 20_000_000])
    assert (options["kafka.max.request.size"], options["kafka.buffer.memory"]) == ("20001024", "80000000")
    assert options["kafka.acks"] == "all"
