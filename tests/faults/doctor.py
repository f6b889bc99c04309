"""`make faults-doctor`: what the doctor says of faults and of healthy nodes, and how soon; exit code 1 where it errs."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.rows import Row, finish, row
from faults import doctor_hq as hq
from faults.doctor_beside import beside
from faults.doctor_cases import Fault, faults
from faults.doctor_healthy import Answer, Ward
from faults.doctor_node import OWNER, Patient, Report, finding_told, told, whole
from faults.node import Node
from lab import podman
from lab.borrow import borrowed
from lab.topology import Lab

HOSTS = ("hq", "dr", "router", "nodes", "gateway")
COLUMNS = ("case", "expected", "said", "value", "bar", "holds", "beside")
BAR = 5.0


@contextmanager
def injected(lab: Lab, fault: Fault) -> Iterator[None]:
    """The fault is there; afterwards it is put back."""
    container = lab.container(fault.on)
    try:
        if fault.do:
            podman.execute(container, "sh", "-c", fault.do)
        yield
    finally:
        if fault.undo:
            podman.execute(container, "sh", "-c", fault.undo)


def play(node: Patient, fault: Fault) -> Row:
    """One row: the fault, what the doctor said of it, and the seconds until it had."""
    question = node.question(fault.map, fault.options, bootstrap=fault.bootstrap)

    def once() -> Answer:
        with injected(node.lab, fault):
            return node.examine(question)

    expected = fault.expected + (f" {fault.at}" if fault.at else "")
    return asked(fault.name, once, lambda report: names(report, fault), expected)


def asked(case: str, once: Callable[[], Answer], right: Callable[[Report], bool], expected: str) -> Row:
    """One row. What a busy machine made too late is asked once more, and the row says so."""
    made: Row = {}
    for tries in (1, 2):
        report, seconds = once()
        made = row(case, seconds, "s", BAR, right(report) and seconds <= BAR, tries=tries)
        made |= {"expected": expected, "said": told(report)}
        if made["holds"]:
            break
    return made


def names(report: Report, fault: Fault) -> bool:
    """Whether the first finding is the fault, at its hop and address, and the others that have to be are there."""
    first, *others = fault.expected.split()
    bad = [one for one in report["findings"] if one["severity"] != "note"]
    if not bad or finding_told(bad[0]) != first:
        return False
    at = {str(bad[0]["advertised"]), "{host}:{port}".format(**bad[0]["hop"])}
    codes = {one["code"] for one in bad}
    return (not fault.at or fault.at in at) and all(other[1:] in codes for other in others)


def is_healthy(report: Report) -> bool:
    """Every broker was proven, and not even a note is left."""
    return bool(report["walks"]) and report["verdict"]["state"] == "healthy" and not report["findings"]


def furnish(lab: Lab) -> Patient:
    """HQ with all its listeners, and a node that holds a map of them."""
    made, node = hq.furnish(lab), Patient(lab, "nm1")
    node.prepare()
    node.remove(OWNER)
    hq.trust(lab, node.name, made)
    Node(lab, node.name).await_brokers(120)
    hq.enrol(lab)
    node.take(whole(lab))
    return node


def measure(lab: Lab, wanted: str = "") -> Iterator[Row]:
    """All rows."""
    node = furnish(lab)
    ward = Ward(lab, node)
    for name, once in ward.variants():
        if wanted in name:
            yield asked("healthy: " + name, once, is_healthy, "healthy")
    ward.clear()
    for fault in faults(lab):
        if wanted in fault.name:
            yield play(node, fault)
    node.remove(OWNER)
    if wanted in "beside":
        hq.trust(lab, ward.changing.name, hq.furnish(lab))
        yield from beside(lab, ward.changing)


def main() -> int:
    """Play all, on a lab of its own unless another is named."""
    parser = argparse.ArgumentParser(prog="python -m faults.doctor", description=__doc__)
    parser.add_argument("--lab", default="doctor", help="the lab's name (default: %(default)s); brought up if need be")
    parser.add_argument("wanted", nargs="?", default="", help="only rows whose name holds this")
    args = parser.parse_args()
    begun, rows = time.monotonic(), []
    with borrowed(args.lab, HOSTS) as lab:
        for one in measure(lab, args.wanted):
            missed = "" if one["holds"] else f"  MISSED: {one['said']}, expected {one['expected']}"
            print(f"{one['value']:6.2f} s  {one['case']}{missed}", flush=True)
            rows.append(one)
    code = finish("faults", "doctor", rows, COLUMNS)
    print(f"took {time.monotonic() - begun:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
