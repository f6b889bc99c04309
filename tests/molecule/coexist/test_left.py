"""After the removal: the other programs' rules to the last one, and nothing of ours."""

import os
from pathlib import Path

import pytest
from neighbours import PROGRAMS, on, theirs

FOLDER = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])


@pytest.mark.parametrize("host", PROGRAMS)
def test_theirs_are_untouched_and_ours_are_gone(host: str) -> None:
    assert theirs(host) == (FOLDER / f"{host}.theirs").read_text().splitlines()
    live = on(host, "nft", "list", "ruleset") + on(host, "iptables-save")
    assert not [line for line in live.splitlines() if "kafka_n" in line or "KNM-" in line]


@pytest.mark.parametrize("host", PROGRAMS)
def test_another_user_still_talks(host: str) -> None:
    on(
        host,
        "runuser",
        "-u",
        "alice",
        "--",
        "timeout",
        "10",
        "kcat",
        "-b",
        "198.18.35.21:9092",
        "-L",
        "-t",
        "heartbeat",
    )
