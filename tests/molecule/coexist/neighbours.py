"""The other programs' rules on the hosts of this scenario, and how these programs begin.

`python neighbours.py begin FOLDER` starts them and writes down what they hold, before the map comes.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
PROGRAMS: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "programs.yml").read_text())["programs"]
OURS = ("kafka_natmap_", "kafka_notrack_")


def on(host: str, *command: str, given: str | None = None) -> str:
    """Run a command on a host as root, return its output."""
    run = ["podman", "exec", "-i", f"mol-{host}", *command]
    done = subprocess.run(run, input=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{host}: {' '.join(command)}: {done.stderr or done.stdout}"
    return done.stdout


def theirs(host: str) -> list[str]:
    """Every rule that is not ours, without counters and handles, in the kernel's order."""
    items = json.loads(on(host, "nft", "-j", "list", "ruleset"))["nftables"]
    lines = [json.dumps(bare(item), sort_keys=True) for item in items if "metainfo" not in item and not is_ours(item)]
    saved = re.sub(r"\[\d+:\d+\]", "", on(host, "iptables-save")).splitlines()
    return lines + [line for line in saved if not line.startswith("#") and "KNM-" not in line]


def is_ours(item: dict[str, Any]) -> bool:
    """Whether an item of nft's JSON is a table of ours or in one, or a chain of ours in iptables' table or a jump to it."""
    kind, content = next(iter(item.items()))
    table = content["name"] if kind == "table" else content.get("table", "")
    return table.startswith(OURS) or '"KNM-' in json.dumps(content)


def bare(value: Any) -> Any:
    if isinstance(value, list):
        return [bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: None if key == "counter" else bare(one) for key, one in value.items() if key != "handle"}


def without_empty_nat(lines: Sequence[str]) -> list[str]:
    """The same without iptables' nat table where it holds nothing: our first chain there makes the table, too."""
    if any(line.startswith("-A") for line in _section(lines)):
        return list(lines)
    nat = re.compile(r'\{"(table|chain)": \{.*"family": "ip", .*("table|"name): "nat"')
    section = set(_section(lines))
    return [line for line in lines if not nat.match(line) and not (line in section and line != "COMMIT")]


def _section(lines: Sequence[str]) -> list[str]:
    if "*nat" not in lines:
        return []
    begin = list(lines).index("*nat")
    return list(lines[begin : list(lines).index("COMMIT", begin) + 1])


def begin(host: str, folder: Path) -> None:
    """Let the host's program make its rules, and write them down."""
    for name in ("nftables.conf", "netavark.json"):
        on(host, "tee", f"/etc/{name}", given=(HERE / name).read_text())
    for command in PROGRAMS[host]["begin"]:
        on(host, *command)
    (folder / f"{host}.theirs").write_text("\n".join(theirs(host)))


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda host: begin(host, Path(sys.argv[2])), PROGRAMS))
