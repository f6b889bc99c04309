"""`make bench-relay`: what the relay costs, side by side in one run; exit code 1 where a figure does not keep to its bar."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from bench import maps
from bench.relay_copiers import HOST
from bench.relay_cost import cost
from bench.relay_job import HOSTS
from bench.relay_lab import Clusters, rooms
from bench.relay_nat import nat, switch
from bench.relay_share import share
from bench.relay_start import start
from bench.rows import Row, finish
from faults.node import Node
from lab import lifecycle
from lab.cli import main as lab_command
from lab.topology import Lab, expand

PARTS = {"cost": cost, "nat": nat, "start": start, "share": share}


def measure(lab: Lab, parts: list[str]) -> list[Row]:
    """The figures of these parts, from a node of the lab that holds its NAT map."""
    found = []
    if HOST not in lifecycle.extra_nodes(lab.name) and lab_command(["node", "add", HOST, "--name", lab.name]):
        raise RuntimeError("the lab did not take one more node")
    try:
        node = Node(lab, HOST)
        node.place_program()
        switch(node, node.request(maps.hq(node), probe=False))
        with rooms(lab) as (hq, site):
            clusters = Clusters(lab, hq, site)
            for name in parts or PARTS:
                print(f"{name}: {PARTS[name].__doc__}", flush=True)
                for one in PARTS[name](clusters):
                    found.append(one)
                    print(f"  {one['case']}: {one['value']} {one['unit']} (bar {one['bar']})", flush=True)
    finally:
        lab_command(["node", "rm", HOST, "--name", lab.name])
    return found


def main() -> int:
    """Measure, on a lab of its own unless another is named."""
    parser = argparse.ArgumentParser(prog="python -m bench.relay", description=__doc__)
    parser.add_argument("--lab", default="bench", help="the lab's name (default: %(default)s); brought up if need be")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=f"only these: {', '.join(PARTS)}")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it started ends with it
    begun, stands = time.monotonic(), lifecycle.standing(args.lab)
    # A lab that has all of it is left as it is: a soak may be going on there.
    ready = stands is not None and stands.has(*expand(HOSTS))
    if not ready and lab_command(["up", "--name", args.lab, "--only", *HOSTS]):
        return 1
    try:
        rows = measure(lifecycle.standing(args.lab) or Lab(args.lab), args.parts)
    finally:
        if stands is None:
            lab_command(["down", "--name", args.lab])
    code = finish("bench", "relay", rows, ("case", "value", "unit", "beside", "bar", "holds"))
    print(f"took {time.monotonic() - begun:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
