"""`make bench-switch`: what a switch costs, side by side in one run; exit code 1 where a figure does not keep to its bar."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from bench import maps
from bench.parts import Helper, in_turn, listening, median, playbook, ratio
from bench.rows import Row, finish, row
from faults.node import Node
from lab.borrow import borrowed
from lab.cli import main as lab_command
from lab.topology import Lab

HOSTS = ("hq", "router", "nodes")
CONNECTIONS = 10_000
SWITCHES = 100
MANY = 20
# The port at which the neighbour's connections end.
NEIGHBOUR = 7300
SHORT = "1.5"


def load(lab: Lab) -> Iterator[Row]:
    """Re-applies under new connections of the job's user; the same load beside it on another node, without any."""
    node, other = _nodes(lab)
    plans = [
        [one.request(maps.local(one, peer, more), probe=False) for more in (False, True)]
        for one, peer in ((node, other.name), (other, node.name))
    ]
    for one, (plan, _) in zip((node, other), plans, strict=True):
        _confirmed(one, plan)
    begun = time.monotonic()
    for number in range(4):
        _confirmed(node, plans[0][1 - number % 2])
    rate = min(300.0, CONNECTIONS / ((time.monotonic() - begun) / 4 * SWITCHES * 1.1))
    ports = {port: said for one, two in maps.LOCAL for port, said in ((one, "W"), (two, "R"))}
    with listening(node, ports), listening(other, ports):
        dials = [_dial(one, peer, rate) for one, peer in ((node, other), (other, node))]
        begun = time.monotonic()
        number = 0
        while number < SWITCHES or not all(dial.has_said() for dial in dials):
            number += 1
            _confirmed(node, plans[0][number % 2])
            if number % 10 == 0:
                _confirmed(node, plans[0][number % 2])
                print(f"  {number} re-applies in {time.monotonic() - begun:.0f} s", flush=True)
        for dial in dials:
            dial.line()
        found, control = (dial.answer() for dial in dials)
    for what in ("failed", "unrewritten"):
        yield row(
            f"{number} changing and {number // 10} identical re-applies under {found['made']} new connections: {what}",
            found[what],
            "connections",
            0,
            found[what] == 0,
            **{
                f"{what} without re-applies, of {control['made']}": control[what],
                "p99 ms": found["p99"],
                "p99 ms without": control["p99"],
            },
        )


def _dial(node: Node, peer: Node, rate: float) -> Helper:
    addresses = [f"{node.lab.ip(peer.name)}:{advertised}" for advertised, _ in maps.LOCAL]
    asked = {"addresses": addresses, "connections": CONNECTIONS, "rate": rate}
    return Helper(node, "dial.py", json.dumps(asked), user="yarn")


def neighbour(lab: Lab) -> Iterator[Row]:
    """Another user of a node that did not use conntrack, without and with the map."""
    node, peer = _nodes(lab)
    plan = node.request(maps.hq(node))
    told: dict[bool, list[dict[str, float]]] = {False: [], True: []}

    def measure(applied: bool) -> Callable[[], float]:
        def once() -> float:
            _confirmed(node, plan) if applied else node.remove(maps.OWNER)
            arguments = (lab.ip(peer.name), str(NEIGHBOUR), SHORT)
            helper = Helper(node, "neighbour.py", *arguments, user="nobody")
            told[applied].append({**json.loads(helper.line()), "entries": _tracked(node)})
            helper.end()
            return 0.0

        return once

    with listening(peer, {NEIGHBOUR: "R"}):
        in_turn(9, measure(False), measure(True))
    for what, unit in (("connections", "new connections a second"), ("megabytes", "MB a second")):
        before, after = ([one[what] for one in told[applied]] for applied in (False, True))
        yield row(
            f"another user's {unit}, with the map : without",
            value := ratio(after, before),
            "ratio",
            0.9,
            value >= 0.9,
            without=median(before),
            **{"with": median(after)},
        )
    most = {applied: max(one["entries"] for one in told[applied]) for applied in told}
    yield row(
        "conntrack entries of another user's 100 open connections",
        most[True],
        "entries",
        most[False],
        most[True] <= most[False],
        without=most[False],
    )


def _tracked(node: Node) -> int:
    """Entries of conntrack that the neighbour's connections have."""
    return sum(
        line.startswith("tcp")
        for line in node.run("conntrack", "-L", "-p", "tcp", "--dport", str(NEIGHBOUR)).splitlines()
    )


def size(lab: Lab) -> Iterator[Row]:
    """One mapping against a thousand, and the load step of ten thousand."""
    node, _ = _nodes(lab)
    small, large = in_turn(
        5, *(_apply(lab, [node], maps.hq(node, brokers, spare)) for brokers, spare in ((1, 0), (3, 997)))
    )
    yield row(
        "apply of 1,000 mappings (997 spare) : of 1",
        value := ratio(large, small),
        "ratio",
        1.3,
        value <= 1.3,
        **{"1 mapping, s": median(small), "1,000 mappings, s": median(large)},
    )
    plan, took = node.request(maps.hq(node, 3, 9_997), probe=False), []
    for _ in range(5):
        node.remove(maps.OWNER)
        steps = _confirmed(node, plan)
        took.append(steps["load"])
    yield row("load step of 10,000 mappings", value := median(took), "s", 0.5, value <= 0.5, most=max(took))


def cost(lab: Lab) -> Iterator[Row]:
    """apply against one task that does nothing, on one node and on many, and against a loop over iptables."""
    node, _ = _nodes(lab)
    yield _against_true(lab, [node], 5)
    yield _loop(lab, node)
    extra = [f"many{number:02}" for number in range(MANY - 2)]
    if lab_command(["node", "add", *extra, "--name", lab.name]):
        raise RuntimeError("the lab did not take more nodes")
    try:
        yield _against_true(lab, [Node(lab, name) for name in ("nm1", "nm2", *extra)], 3)
    finally:
        lab_command(["node", "rm", *extra, "--name", lab.name])


def _against_true(lab: Lab, nodes: Sequence[Node], rounds: int) -> Row:
    limit = ",".join(node.name for node in nodes)
    apply = _apply(lab, nodes, maps.hq(nodes[0]))
    true = lambda: playbook(lab, "tests/bench/true.yml", limit, {})  # noqa: E731
    apply_s, true_s = in_turn(rounds, apply, true)
    where = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    return row(
        f"apply : one task `true`, on {where}",
        value := ratio(apply_s, true_s),
        "ratio",
        8,
        value <= 8,
        **{"apply, s": median(apply_s), "true, s": median(true_s)},
    )


def _loop(lab: Lab, node: Node) -> Row:
    nat_map = maps.hq(node, 3, 197)
    ours = _apply(lab, [node], nat_map)()
    node.remove(maps.OWNER)
    theirs = playbook(lab, "tests/bench/iptables.yml", node.name, {"nat_map": nat_map, "bench_state": "present"})
    node.run("iptables", "-t", "nat", "-F", "OUTPUT")
    return row(
        "ansible.builtin.iptables in a loop over 200 mappings : apply of them",
        round(theirs / ours, 2),
        "ratio",
        None,
        True,
        **{"loop, s": round(theirs, 1), "apply, s": round(ours, 1)},
    )


def _apply(lab: Lab, nodes: Sequence[Node], nat_map: maps.Map) -> Callable[[], float]:
    """The playbook on nodes that hold nothing; taking it off again is not timed."""

    def once() -> float:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(_bare, nodes))
        return playbook(lab, "apply", ",".join(node.name for node in nodes), {"nat_map": nat_map})

    return once


def _bare(node: Node) -> None:
    if node.run("ls", "/run/kafka-natmap").find("stage-faults") < 0:
        node.place_program()
    node.remove(maps.OWNER)


def _confirmed(node: Node, plan: str) -> dict[str, float]:
    """Switch; seconds by step."""
    said = node.ask("switch", plan)
    if said.get("state") not in ("confirmed", "unchanged"):
        raise RuntimeError(f"{node.name} did not take its map: {json.dumps(said)[:600]}")
    return {step["step"]: step["seconds"] for step in said["steps"]}


def _nodes(lab: Lab) -> tuple[Node, Node]:
    made = Node(lab, "nm1"), Node(lab, "nm2")
    for node in made:
        node.place_program()
        for owner in (maps.OWNER, "faults"):
            node.remove(owner)
    return made


PARTS = {"load": load, "neighbour": neighbour, "size": size, "cost": cost}


def main() -> int:
    """Measure, on a lab of its own unless another is named."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--lab", default="bench", help="the lab's name (default: %(default)s); brought up if need be")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=f"only these: {', '.join(PARTS)}")
    args = parser.parse_args()
    begun, rows = time.monotonic(), []
    with borrowed(args.lab, HOSTS) as lab:
        for node in _nodes(lab):
            node.await_brokers()
        for name in args.parts or PARTS:
            print(f"{name}: {PARTS[name].__doc__}", flush=True)
            for one in PARTS[name](lab):
                rows.append(one)
                print(f"  {one['case']}: {one['value']} {one['unit']} (bar {one['bar']})", flush=True)
        for node in _nodes(lab):
            node.remove(maps.OWNER)
    code = finish("bench", "switch", rows, ("case", "value", "unit", "beside", "bar", "holds"))
    print(f"took {time.monotonic() - begun:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
