"""While a neighbour acts, our rules stay or are back within 2 s, open connections go on, and theirs are untouched.

What was seen is written to build/faults/coexist.json.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from neighbours import HERE, PEER, PROGRAMS, on, theirs

BOUND = 2.0
FOLDER = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
ROWS = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / "build/faults/coexist.json"
ACTS = [(host, number) for host, program in PROGRAMS.items() for number in range(len(program["acts"]))]
QUESTION = {"advertised": ["198.18.32.21", 9092], "peer": PEER}
Seen = dict[str, Any]


def witness(host: str) -> list[Seen]:
    """What was seen on a host during each act of its program."""
    seen: list[Seen] = []
    script = (HERE / "witness.py").read_text()
    for act in PROGRAMS[host]["acts"]:
        mechanism = "iptables" if PROGRAMS[host]["mechanism"] == "iptables" else "nftables"
        on(host, "tee", "/run/question.json", given=json.dumps({**QUESTION, "mechanism": mechanism, "action": act}))
        seen.append(json.loads(on(host, "python3", "-", "/run/question.json", given=script)))
    return seen


@pytest.fixture(scope="module")
def applied() -> dict[str, list[str]]:
    """The rules of the others after our apply, before they act."""
    return {host: theirs(host) for host in PROGRAMS}


@pytest.fixture(scope="module")
def seen(applied: dict[str, list[str]]) -> dict[str, list[Seen]]:
    """Two hosts act at a time, each one act after the other."""
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(PROGRAMS, pool.map(witness, PROGRAMS), strict=True))
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    rows = [row(host, number, found[host][number]) for host, number in ACTS]
    ROWS.write_text(json.dumps(rows, indent=1) + "\n")
    return found


def row(host: str, number: int, one: Seen) -> dict[str, Any]:
    beside = {
        "job's new connections": one["dials"],
        "job's open connection": one["carried"],
        "another user's open connection": one["others"],
        "the act": one["action"],
    }
    case = f"{host}: {' '.join(PROGRAMS[host]['acts'][number])}"
    holds = one["rules"] is not None and one["rules"] <= BOUND
    return {"case": case, "value": one["rules"], "unit": "s", "beside": beside, "bar": BOUND, "holds": holds}


@pytest.mark.parametrize("host", PROGRAMS)
def test_our_apply_left_theirs_alone(host: str, applied: dict[str, list[str]]) -> None:
    assert applied[host] == (FOLDER / f"{host}.theirs").read_text().splitlines()


@pytest.mark.parametrize(("host", "number"), ACTS)
def test_a_neighbour_acts(host: str, number: int, seen: dict[str, list[Seen]]) -> None:
    one = seen[host][number]
    assert one["ready"], "the rules, the job's user or the other user were not well before it acted"
    assert one["code"] == 0, one["said"]
    # Without our rules, an answer to an open connection of the job may be refused by the kernel, which ends it.
    for what in ("rules", "dials", "others") if one["rules"] else ("rules", "dials", "carried", "others"):
        assert one[what] is not None, f"{what} did not come back: {one}"
        # What a firewall holds up while it loads is its own: `ufw reload` stops all traffic for a moment.
        bound = BOUND if what == "rules" else BOUND + one["action"]
        assert one[what] <= bound, f"{what} came back late: {one}"


@pytest.mark.parametrize("host", PROGRAMS)
def test_our_repairs_left_theirs_alone(host: str, seen: dict[str, list[Seen]]) -> None:
    now = theirs(host)
    if PROGRAMS[host].get("same"):
        assert now == (FOLDER / f"{host}.theirs").read_text().splitlines()
    (FOLDER / f"{host}.theirs").write_text("\n".join(now))
