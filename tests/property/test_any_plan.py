"""Any map is refused with reasons, or becomes what the real programs take; and what they hold is what the map says."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import kafka_natmap_inspect
import pytest
from ansible_collections.kafka.natmap.plugins.module_utils import map_parser, planner
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import MapError, Problem
from ansible_collections.kafka.natmap.plugins.module_utils.plan import Plan, PlanError, Rules
from hypothesis import event, given
from hypothesis import strategies as st
from property.maps import facts, maps, mended
from unit.nodes import node, printed

NGINX = kafka_natmap_inspect.nginx()
COMMANDS = {
    "nftables.nft": ["nft", "-c", "-f", "-"],
    "iptables.rules": ["iptables-restore", "--test", "--noflush", "-w", "5"],
}


def plan_or_reasons(data: Any, said: dict[str, Any]) -> Plan | list[Problem]:
    """What the controller makes of a map and a node's facts."""
    try:
        return planner.plan_node(map_parser.parse(data), node(**said))
    except (MapError, PlanError) as error:
        return error.problems


def program(command: list[str], text: str | None = None) -> str:
    """Run it; fail with its message and the text."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{text}"
    return done.stdout


def judge(plan: Plan, folder: Path) -> None:
    """Hand each text of a plan to the program that it is for."""
    for kind, text in printed(plan).items():
        if kind in COMMANDS:
            program(COMMANDS[kind], text)
        elif kind == "nginx.conf":
            conf = folder / "nginx.conf"
            conf.write_text(re.sub(r"^pid .*;$", f"pid {folder}/pid;", text, flags=re.MULTILINE))
            program([str(NGINX["path"]), "-t", "-q", "-c", str(conf)])


@pytest.mark.usefixtures("inside")
@given(data=st.one_of(maps(), maps(broken=False).map(mended)), said=facts(nginx=NGINX))
def test_any_map_is_refused_with_reasons_or_rendered(tmp_path: Path, data: Any, said: dict[str, Any]) -> None:
    answer = plan_or_reasons(data, said)
    event("planned" if isinstance(answer, Plan) else "refused")
    if isinstance(answer, Plan):
        judge(answer, tmp_path)
    else:
        assert answer
        assert all(p.path.startswith("nat_map") and p.reason and p.mend and str(p).isprintable() for p in answer)


def test_generated_maps_are_of_both_kinds() -> None:
    seen: Counter[str] = Counter()

    @given(data=maps(broken=False).map(mended), said=facts(nginx=NGINX, routes={}, resolves={}))
    def count(data: Any, said: dict[str, Any]) -> None:
        answer = plan_or_reasons(data, said)
        seen[type(answer).__name__] += 1
        seen.update(rules.backend for rules in answer.rules) if isinstance(answer, Plan) else None

    count()
    assert min(seen[kind] for kind in ("Plan", "list", "nftables", "iptables")) > 5, seen


# ------------------------------------------------------------ render, load, list, parse: the pairs of the plan

Held = tuple[set[tuple[str, int, str, int]], set[tuple[str, int, str]]]


def held_by_nft(table: str, rules: Rules) -> Held:
    """The pairs and prefixes that nft lists for a cluster."""
    items = json.loads(program(["nft", "-j", "list", "table", "ip", table]))["nftables"]
    (pairs,) = [
        item["map"].get("elem", []) for item in items if item.get("map", {}).get("name") == f"pairs_{rules.ident}"
    ]
    chain = f"prefixes_{rules.ident}"
    lines = program(["nft", "list", "chain", "ip", table, chain]).splitlines() if rules.prefixes else []
    found = [prefix_of_nft(line) for line in lines if " dnat " in line]
    return {(*key["concat"], *value["concat"]) for key, value in pairs}, {one for ports in found for one in ports}


def prefix_of_nft(line: str) -> list[tuple[str, int, str]]:
    """One rule of a prefix as nft prints it, by port."""
    ports = re.search(r"dport (?:\{ )?([\d, ]+)", line)
    way = re.search(r"map \{ (\S+) : (\S+) \}", line)
    assert ports
    assert way
    network, to = (side if "/" in side else f"{side}/32" for side in way.groups())
    return [(network, int(port), to) for port in ports.group(1).split(",") if port.strip()]


def held_by_iptables(rules: Rules) -> Held:
    """The same for iptables."""
    saved = program(["iptables-save", "-t", "nat"])
    pair = rf"-A {rules.chain} -d (\S+)/32 -p tcp -m tcp --dport (\d+) .*-j DNAT --to-destination (\S+):(\d+)"
    prefix = rf"-A {rules.chain}-P -d (\S+) -p tcp -m tcp --dport (\d+) .*-j NETMAP --to (\S+)"
    pairs = {(a, int(p), to, int(to_port)) for a, p, to, to_port in re.findall(pair, saved)}
    return pairs, {(network, int(port), to) for network, port, to in re.findall(prefix, saved)}


@pytest.mark.usefixtures("inside")
@given(data=maps(broken=False).map(mended), said=facts(nginx=NGINX, resolves={}))
def test_what_is_loaded_is_the_plan(data: Any, said: dict[str, Any]) -> None:
    plan = plan_or_reasons(data, said)
    if not isinstance(plan, Plan):
        return
    texts = printed(plan)
    for kind, command in (("nftables.nft", ["nft", "-f", "-"]), ("iptables.rules", ["iptables-restore", "--noflush"])):
        if kind in texts:
            program(command, texts[kind])
    for rules in plan.rules:
        pairs, prefixes = (
            held_by_nft(f"kafka_natmap_{plan.ident}", rules) if rules.backend == "nftables" else held_by_iptables(rules)
        )
        assert pairs == {(p.address, p.port, p.to_address, p.to_port) for p in rules.pairs}
        assert prefixes == {(p.network, port, p.to_network) for p in rules.prefixes for port in p.ports}
    program(["nft", "flush", "ruleset"])


# ------------------------------------------------------------ order


@given(data=maps(broken=False).map(mended), said=facts(nginx=NGINX), random=st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_the_map(data: Any, said: dict[str, Any], random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shuffled(item) for key, item in random.sample(sorted(value.items()), len(value))}
        is_range = isinstance(value, list) and len(value) == 2 and isinstance(value[1], int) and value[1] > 65535
        if isinstance(value, list) and not is_range and value != [1, 1] and value != [1000, 60000]:
            return random.sample([shuffled(item) for item in value], len(value))
        return value

    there, back = plan_or_reasons(data, said), plan_or_reasons(shuffled(data), said)
    assert type(there) is type(back)
    if isinstance(there, Plan):
        assert there == back
