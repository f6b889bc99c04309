"""`make bench-doctor`: the doctor of many nodes against one task that does nothing there; exit code 1 over its bar."""

from __future__ import annotations

import argparse
import sys

from bench import maps
from bench.parts import in_turn, median, playbook, ratio
from bench.rows import Row, finish, row
from faults.node import Node
from lab import lifecycle
from lab.borrow import borrowed
from lab.cli import main as lab_command
from lab.topology import Lab

HOSTS = ("hq", "router", "nodes")
MANY, ROUNDS, BAR = 20, 3, 6.0


def measure(lab: Lab) -> Row:
    """Three brokers from twenty nodes that hold their map: the whole playbook, interleaved with one task `true`."""
    extra = [f"many{number:02}" for number in range(MANY - 2)]
    there = lifecycle.extra_nodes(lab.name)
    missing = [name for name in extra if name not in there]
    if missing and lab_command(["node", "add", *missing, "--name", lab.name]):
        raise RuntimeError("the lab did not take more nodes")
    try:
        nodes = [Node(lab, name) for name in ("nm1", "nm2", *extra)]
        limit, given = ",".join(node.name for node in nodes), {"nat_map": maps.hq(nodes[0])}
        playbook(lab, "apply", limit, given)
        doctor_s, true_s = in_turn(
            ROUNDS,
            lambda: playbook(lab, "kafka.natmap.doctor", limit, given),
            lambda: playbook(lab, "tests/bench/true.yml", limit, {}),
        )
    finally:
        lab_command(["node", "rm", *missing, "--name", lab.name])
    return row(
        f"doctor : one task `true`, on {MANY} nodes, 3 brokers",
        value := ratio(doctor_s, true_s),
        "ratio",
        BAR,
        value <= BAR,
        **{"doctor, s": median(doctor_s), "true, s": median(true_s)},
    )


def main() -> int:
    """Measure, on a lab of its own unless another is named."""
    parser = argparse.ArgumentParser(prog="python -m bench.doctor", description=__doc__)
    parser.add_argument("--lab", default="bench", help="the lab's name (default: %(default)s); brought up if need be")
    args = parser.parse_args()
    with borrowed(args.lab, HOSTS) as lab:
        for name in ("nm1", "nm2"):
            node = Node(lab, name)
            node.place_program()
            for owner in (maps.OWNER, "faults"):
                node.remove(owner)
        node.await_brokers()
        rows = [measure(lab)]
        for name in ("nm1", "nm2"):
            Node(lab, name).remove(maps.OWNER)
    return finish("bench", "doctor", rows, ("case", "value", "unit", "beside", "bar", "holds"))


if __name__ == "__main__":
    sys.exit(main())
