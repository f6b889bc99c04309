"""What cannot be done is refused before anything is touched, with cause and mend, and leaves the host as it was."""

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from spoiled import HOSTS, RUNS, add, inventory, state, take_away

ROOT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
MAP = Path(__file__).with_name("map.yml")


def play(folder: Path, playbook: str, run: str) -> str:
    """Run a playbook on the hosts of a run; it has to fail. Returns what it prints."""
    hosts = folder / f"{run}.json"
    hosts.write_text(json.dumps(inventory(run)))
    variables = {"natmap_records": str(folder / run), "natmap_serial": "100%", "refusals_mechanism": RUNS[run]}
    command = ["ansible-playbook", "-i", str(hosts), "-e", f"@{MAP}", "-e", json.dumps(variables), playbook]
    plain = os.environ | {"ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the hosts hold before and after a plan and an apply, and what these say."""
    folder = tmp_path_factory.mktemp("refusals")
    add()
    try:
        with ThreadPoolExecutor(4) as pool:
            before = dict(zip(HOSTS, pool.map(state, HOSTS), strict=True))
            list(pool.map(lambda run: play(folder, "kafka.natmap.plan", run), RUNS))
            plans = [json.loads((folder / run / "plan.json").read_text()) for run in RUNS]
            said = "".join(pool.map(lambda run: play(folder, "apply", run), RUNS))
            after = dict(zip(HOSTS, pool.map(state, HOSTS), strict=True))
        nodes = {node["host"]: node for plan in plans for node in plan["nodes"]}
        yield {"before": before, "after": after, "planned": nodes, "said": said}
    finally:
        take_away()


@pytest.mark.parametrize("host", HOSTS)
def test_the_plan_refuses_it_with_cause_and_mend(host: str, seen: dict[str, Any]) -> None:
    node = seen["planned"][host]
    assert node["state"] == "refused", node
    said = [(refusal["cause"], refusal["mend"]) for refusal in node["refusals"]]
    assert any(HOSTS[host].cause in cause and HOSTS[host].mend in mend for cause, mend in said), said


@pytest.mark.parametrize("host", HOSTS)
def test_apply_refuses_it_with_cause_and_mend(host: str, seen: dict[str, Any]) -> None:
    lines = [line for line in seen["said"].splitlines() if line.split()[:1] == [host] or f"{host}: " in line]
    assert any(HOSTS[host].cause in line and HOSTS[host].mend in line for line in lines), lines


@pytest.mark.parametrize("host", HOSTS)
def test_nothing_was_changed(host: str, seen: dict[str, Any]) -> None:
    assert seen["after"][host] == seen["before"][host]
