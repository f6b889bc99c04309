"""The other programs' rules on the hosts of this scenario, and how these programs begin.

`python neighbours.py begin FOLDER` starts them and writes down what they hold, before the map comes.
"""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
PROGRAMS: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "vars/programs.yml").read_text())["programs"]
OURS = ("kafka_natmap_", "kafka_notrack_")
# The first host that the scenario adds: no map names it, it gives back what it is sent.
PEER = ("198.18.33.100", 7777)
_ECHO = """
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
socketserver.ThreadingTCPServer(("", 7777), Echo).serve_forever()
"""


def on(host: str, *command: str, given: str | None = None) -> str:
    """Run a command on a host as root, return its output."""
    run = ["podman", "exec", "-i", f"mol-{host}", *command]
    done = subprocess.run(run, input=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{host}: {' '.join(command)}: {done.stderr or done.stdout}"
    return done.stdout


def theirs(host: str) -> list[str]:
    """Every rule and chain that is not ours, without counters and handles; rules in the order in which they are asked."""
    items = [next(iter(item.items())) for item in json.loads(on(host, "nft", "-j", "list", "ruleset"))["nftables"]]
    items = [(kind, content) for kind, content in items if kind != "metainfo" and not is_ours(kind, content)]
    # A base chain that only accepts, and a table of such chains, do nothing: our chain in iptables' nat table brings them.
    busy = {place(content)[:3] for kind, content in items if kind != "table" and not is_idle(kind, content)}
    busy |= {one[:2] for one in busy}
    kept = [(kind, content) for kind, content in items if place(content)[: 2 if kind == "table" else 3] in busy]
    kept.sort(key=lambda item: (place(item[1]), item[0] == "rule"))
    return [f"{kind} {json.dumps(bare(content), sort_keys=True)}" for kind, content in kept] + saved(host)


def saved(host: str) -> list[str]:
    """The same as iptables-save has it, since nft does not show what a match of iptables says."""
    table, found = "", []
    for line in on(host, "iptables-save").splitlines():
        table = line[1:] if line.startswith("*") else table
        idle = line.startswith(("#", "*")) or line == "COMMIT" or re.match(r":\w+ ACCEPT ", line)
        if not idle and "KNM-" not in line:
            found.append(f"{table} {re.sub(r' .[0-9]+:[0-9]+.$', '', line)}")
    return found


def place(content: dict[str, Any]) -> tuple[str, ...]:
    """Where an item of nft's JSON stands: family, table, and what in it."""
    table = content.get("table", content.get("name", ""))
    return content["family"], table, content.get("chain", content.get("name", ""))


def is_ours(kind: str, content: dict[str, Any]) -> bool:
    """Whether it is a table of ours or in one, a chain of ours in iptables' table, or a jump to it."""
    return place(content)[1].startswith(OURS) or (kind != "table" and '"KNM-' in json.dumps(content))


def is_idle(kind: str, content: dict[str, Any]) -> bool:
    return kind == "chain" and content.get("policy") == "accept"


def bare(value: Any) -> Any:
    """Without counts and handles."""
    if isinstance(value, list):
        return [bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: None if key == "counter" else bare(one) for key, one in value.items() if key != "handle"}


def begin(host: str, folder: Path) -> None:
    """Let the host's program make its rules, and write them down."""
    for name in ("nftables.conf", "netavark.json"):
        on(host, "tee", f"/etc/{name}", given=(HERE / name).read_text())
    for command in PROGRAMS[host]["begin"]:
        on(host, *command)
    (folder / f"{host}.theirs").write_text("\n".join(theirs(host)))


if __name__ == "__main__":
    on("peer", "systemd-run", "--quiet", "--unit=echo", "python3", "-c", _ECHO)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda host: begin(host, Path(sys.argv[2])), PROGRAMS))
