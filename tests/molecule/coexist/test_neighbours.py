"""While a neighbour acts, our rules stay or are back within 2 s, another user's connection goes on, and theirs are untouched."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from neighbours import HERE, PROGRAMS, on, theirs

BOUND = 2.0
FOLDER = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
ACTS = [(host, number) for host, program in PROGRAMS.items() for number in range(len(program["acts"]))]
QUESTION = {"advertised": ["198.18.32.21", 9092], "reachable": ["198.18.35.21", 9092]}


def witness(host: str, act: list[str]) -> dict[str, Any]:
    """What was seen on the host while the program acted."""
    mechanism = "iptables" if PROGRAMS[host]["mechanism"] == "iptables" else "nftables"
    question = json.dumps({**QUESTION, "mechanism": mechanism, "action": act})
    on(host, "tee", "/run/question.json", given=question)
    script = (HERE / "witness.py").read_text()
    answer: dict[str, Any] = json.loads(on(host, "python3", "-", "/run/question.json", given=script))
    return answer


@pytest.mark.parametrize("host", PROGRAMS)
def test_our_apply_left_theirs_alone(host: str) -> None:
    before = (FOLDER / f"{host}.theirs").read_text().splitlines()
    assert theirs(host) == before


@pytest.mark.parametrize(("host", "number"), ACTS)
def test_a_neighbour_acts(host: str, number: int) -> None:
    act = PROGRAMS[host]["acts"][number]
    seen = witness(host, act)
    print(f"\nSEEN {host:10} {' '.join(act)[:60]:60} {seen}")
    assert seen["code"] == 0, seen["said"]
    assert seen["ready"]
    for what in ("rules", "scoped", "others"):
        assert seen[what] is not None, f"{what} did not come back: {seen}"
        assert seen[what] <= BOUND, f"{what} came back late: {seen}"


@pytest.mark.parametrize("host", PROGRAMS)
def test_our_repairs_left_theirs_alone(host: str) -> None:
    now = theirs(host)
    if PROGRAMS[host].get("same"):
        assert now == (FOLDER / f"{host}.theirs").read_text().splitlines()
    (FOLDER / f"{host}.theirs").write_text("\n".join(now))
