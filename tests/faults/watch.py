"""`make faults-watch`: foreign changes on a node, and when the watch has answered them; exit code 1 where it is too late."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ansible_collections.kafka.natmap.plugins.filter import natmap as filters
from bench.rows import Row, finish, row
from faults.node import HERE, JINJA, TEXTS, Map, Node
from lab.borrow import borrowed
from lab.topology import ROOT
from yaml import safe_load

OWNER = "watched"
NFT, CHAIN = "kafka_natmap_watched", "KNM-watched"
HOSTS = ("hq", "router", "nm1")
COLUMNS = ("case", "plan", "value", "unit", "bar", "holds", "beside")
BAR, LONGEST = 2.0, 10.0
UNIT = f"kafka-natmap-watch-{OWNER}.service"
NGINX = f"kafka-natmap-nginx-{OWNER}"
STATE = f"/run/kafka-natmap/watch-{OWNER}.json"
FIREWALL = "table inet others { chain in { type filter hook input priority 0; ct state established accept; }; }"


@dataclass(frozen=True)
class Case:
    """A foreign change, by a shell on the node, and what the watch has to make of it: back, lifted or told."""

    name: str
    command: str
    end: str = "back"


FILES = (
    Case("sed -i in our lines of /etc/hosts", "sed -i 's/kafka-dr-1/kafka-dr-9/' /etc/hosts"),
    Case(
        "our lines deleted, a foreign one appended",
        "sed -i '/BEGIN kafka-natmap/,/END kafka-natmap/d' /etc/hosts; echo 10.0.0.9 foreign >> /etc/hosts",
    ),
    Case("/etc/hosts overwritten", "echo 127.0.0.1 localhost > /etc/hosts"),
    Case("our files deleted", f"rm -r /etc/kafka-natmap/{OWNER}"),
    Case("our unit edited", f"echo '#' >> /etc/systemd/system/kafka-natmap-{OWNER}.service"),
    Case("the generation deleted", f"rm /var/lib/kafka-natmap/{OWNER}/generation.json"),
)
RULE = f"nft -a list chain ip {NFT} rewrite_hq | grep -o 'handle [0-9]*$' | tail -1"
NFTABLES = (
    Case("nft delete our table", f"nft delete table ip {NFT}"),
    Case("nft delete one rule", f"{RULE} | xargs nft delete rule ip {NFT} rewrite_hq"),
    Case("nft flush one map", f"nft flush map ip {NFT} pairs_hq"),
    Case("nft add a rule to our chain", f"nft insert rule ip {NFT} output accept"),
    Case("nft flush ruleset", "nft flush ruleset"),
    *FILES,
    Case("a firewall begins to track", f"nft '{FIREWALL}'", "lifted"),
)
IPTABLES = (
    Case("iptables -F of our chain", f"iptables -t nat -F {CHAIN}"),
    Case("iptables -F OUTPUT", "iptables -t nat -F OUTPUT"),
    Case("iptables -F and -X of nat", "iptables -t nat -F; iptables -t nat -X"),
)
LISTENERS = (
    Case("nginx stopped", f"systemctl stop {NGINX}"),
    Case("nginx killed", f"kill -9 $(cat /run/{NGINX}.pid)"),
)


class Watched(Node):
    """A node with the units of the watch and of nginx, as the roles install them."""

    drift = "repair"
    groups: tuple[str, ...] = ("yarn_nodes",)

    def request(self, nat_map: Map, window: int = 60, probe: bool = False) -> str:
        """What the switch is asked for this map."""
        groups, facts = list(self.groups), self.inspect(nat_map)
        plan = filters.node_plan(nat_map, facts, self.name, groups)
        if plan["problems"]:
            raise ValueError("; ".join(plan["problems"]))
        whole = json.loads(plan["text"])
        settings = safe_load((ROOT / "ansible/roles/nginx_stream/defaults/main.yml").read_text())
        settings |= {"plan": whole, "python": facts["interpreter"], "drift": self.drift}
        texts = {**TEXTS, "nginx": ("nginx.conf.j2", "listeners")}
        printed = {kind: JINJA.get_template(file).render(settings) for kind, (file, key) in texts.items() if whole[key]}
        units = {"main": "kafka-natmap", "watch": "kafka-natmap-watch"}
        units |= {"nginx": "kafka-natmap-nginx"} if whole["listeners"] else {}
        files = {kind: JINJA.get_template(f"{name}.service.j2").render(settings) for kind, name in units.items()}
        made = filters.node_bundle(nat_map, facts, self.name, groups, printed, files, self.drift)
        return filters.switch_request(made, probe, window, "faults")

    def nat_map(self, mechanism: str, spare: int = 0) -> Map:
        """Three brokers by address, one by name, and such that nobody advertises yet."""
        made = self.map([(1, "hq-1"), (2, "hq-2"), (3, "hq-3")], OWNER) | {"mechanism": mechanism}
        made["clusters"]["hq"]["brokers"] += [
            {
                "id": 1000 + number,
                "advertised": f"198.19.128.1:{20000 + number}",
                "reachable": f"198.19.129.1:{20000 + number}",
            }
            for number in range(spare)
        ]
        named = {"id": 11, "advertised": "kafka-dr-1:9092", "reachable": f"{self.lab.nat_ip('dr-1')}:19092"}
        made["clusters"]["hq-dr"] = {"brokers": [named]}
        return made

    def confirm(self, mechanism: str, drift: str = "repair", spare: int = 0) -> None:
        """Take the node to a plan of this mechanism. :raises RuntimeError: where the switch did not confirm it"""
        self.drift = drift
        # Another iptables, or a firewall that came or went, changes what a node answers.
        self._facts.clear()
        answer = self.ask("switch", self.request(self.nat_map(mechanism, spare)))
        if answer.get("state") not in ("confirmed", "unchanged"):
            raise RuntimeError(f"{mechanism} on {self.name}: {json.dumps(answer)[:500]}")
        self.fresh()

    def fresh(self) -> None:
        """A watch that has repaired nothing yet, and has begun."""
        self.shell(f"systemctl stop {UNIT}; rm -f {STATE}; systemctl start {UNIT}; systemctl is-active {UNIT}")
        self.await_look()

    def await_look(self) -> None:
        """Until its first look is over."""
        self.shell(
            f"until [ $(($(date +%s%N) - $(stat -c %.9Y {STATE} | tr -d .))) -gt 700000000 ]; do sleep 0.05; done"
        )

    def shell(self, text: str) -> str:
        """Run a shell's text there."""
        return self.run("sh", "-c", text)

    def foreign(self, case: Case, longest: float = LONGEST) -> dict[str, Any]:
        """Make a change, and see what came of it."""
        code = (HERE / "foreign.py").read_bytes()
        told = self.run("python3", "-I", "-", OWNER, str(longest), case.end, case.command, stdin=code)
        found: dict[str, Any] = json.loads(told)
        return found


def answered(node: Watched, plan: str, cases: tuple[Case, ...]) -> Iterator[Row]:
    """One row for each change: the seconds until the watch had answered it, of which the command itself takes a part."""
    for case in cases:
        node.fresh()
        found = node.foreign(case)
        by = (found["watch"].get("last") or {}).get("by")
        holds = found["changed"] and found["reached"] and found["seconds"] <= BAR
        yield row(case.name, found["seconds"], "s", BAR, holds, by=by or "-") | {"plan": plan}


def bounded(node: Watched) -> Iterator[Row]:
    """Three repairs, then reports; and the policy that only reports."""
    node.fresh()
    delete = NFTABLES[0]
    reached = [node.foreign(delete, 3.0)["reached"] for _ in range(4)]
    state = json.loads(node.run("cat", STATE))
    held = reached == [True, True, True, False] and state["state"] == "paused"
    repairs = float(state["repairs"])
    yield row("four repairs wanted in ten minutes", repairs, "repairs", 3, held) | {"plan": "nftables"}
    node.confirm("nftables", "report")
    told = node.foreign(Case("", delete.command, "told"))
    left = NFT not in node.run("nft", "list", "tables")
    holds = told["reached"] and left and told["seconds"] <= BAR
    yield row("policy report: told, left as it is", told["seconds"], "s", BAR, holds) | {"plan": "nftables"}
    node.confirm("nftables")


def cost(node: Watched) -> Iterator[Row]:
    """Memory and CPU: at rest, and while somebody else changes rules of his own without end."""
    ticks = f"P=$(systemctl show -p MainPID --value {UNIT}); awk '{{print $14+$15+$16+$17}}' /proc/$P/stat"
    busy = "for i in $(seq 100); do nft add table ip busy; nft add chain ip busy c; nft delete table ip busy; done"
    node.fresh()
    memory = float(
        node.shell(f"P=$(systemctl show -p MainPID --value {UNIT}); awk '/VmRSS/ {{print $2}}' /proc/$P/status")
    )
    yield row("memory at rest", memory / 1024, "MB", 40, memory / 1024 <= 40) | {"plan": "nftables"}
    for name, work, bar in (("CPU at rest", "sleep 20", 0.5), ("CPU beside 300 foreign changes", busy, 50.0)):
        begun, before = time.monotonic(), int(node.shell(ticks))
        node.shell(work)
        took, used = time.monotonic() - begun, (int(node.shell(ticks)) - before) / 100
        share = 100 * used / took
        repairs = json.loads(node.run("cat", STATE))["repairs"]
        holds = share <= bar and repairs == 0
        yield row(name, share, "% of a core", bar, holds, seconds=used, repairs=repairs) | {"plan": "nftables"}


def restarted(node: Watched) -> Row:
    """The power is cut; the plan and its watch are back."""
    begun = node.restart()
    look = f"systemctl is-active --quiet {UNIT} && nft list table ip {NFT} > /dev/null"
    node.shell(f"until {look}; do sleep 0.05; done")
    took = time.monotonic() - begun
    node.place_program()
    status = node.ask("status", json.dumps({"owner": OWNER}))
    holds = not status["drift"] and status["reboot_safe"]["safe"] and status["watch"]["state"] == "watching"
    return row("power cut: plan and watch are back", took, "s", 60, holds) | {"plan": "nftables"}


def measure(node: Watched) -> Iterator[Row]:
    """All rows."""
    node.place_program()
    node.confirm("nftables")
    yield from cost(node)
    yield from answered(node, "nftables", NFTABLES)
    node.shell("nft delete table inet others")
    node.remove(OWNER)
    node.confirm("nftables")
    yield from bounded(node)
    yield restarted(node)
    node.confirm("nftables", spare=996)
    yield from answered(node, "nftables, 1,000 mappings", NFTABLES[:3])
    node.confirm("nginx_stream")
    yield from answered(node, "nginx_stream", LISTENERS)
    for kind in ("nft", "legacy"):
        node.remove(OWNER)
        node.shell(f"update-alternatives --set iptables /usr/sbin/iptables-{kind}")
        node.confirm("iptables")
        yield from answered(node, f"iptables-{kind}", IPTABLES)
    node.remove(OWNER)
    node.shell("update-alternatives --auto iptables; sed -i /foreign/d /etc/hosts")


def main() -> int:
    """Play all, on a lab of its own unless another is named."""
    parser = argparse.ArgumentParser(prog="python -m faults.watch", description=__doc__)
    parser.add_argument("--lab", default="watch", help="the lab's name (default: %(default)s); brought up if need be")
    args = parser.parse_args()
    rows = []
    with borrowed(args.lab, HOSTS) as lab:
        for one in measure(Watched(lab, "nm1")):
            print(
                f"{one['value']:8.2f} {one['unit']:12} {'' if one['holds'] else 'MISSED  '}{one['plan']}: {one['case']}",
                flush=True,
            )
            rows.append(one)
    return finish("faults", "watch", rows, COLUMNS)


if __name__ == "__main__":
    sys.exit(main())
