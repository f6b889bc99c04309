"""What the templates print, compared with golden texts; plain Jinja2 prints the same as Ansible.

`python tests/unit/test_texts.py` writes the golden texts anew; read the difference before you commit it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.module_utils import planner
from ansible_collections.kafka.natmap.plugins.module_utils.map_parser import parse
from unit.maps import broker, cluster_map, network, parsed
from unit.nodes import no, node, planned, printed, render

GOLDEN = Path(__file__).parent / "golden"
MIXED = parse(
    cluster_map(
        broker(id=1),
        broker("kafka-hq-2:9092", "203.0.113.20:19092", id=2),
        networks=[network("10.0.0.0/24", "20.0.0.0/24", [9092, 9093])],
        owner="data-platform",
        scope={"users": ["yarn"], "groups": ["hadoop"], "uid_range": [2000, 2999]},
    )
)
ANOTHER_SOURCE = {
    "192.0.2.21": {"source": "10.1.1.5"},
    "203.0.113.21": {"source": "10.2.2.5"},
    "10.0.0.1": {"source": "10.1.1.5"},
    "20.0.0.1": {"source": "10.2.2.5"},
}
MODULE = {"usable": True, "reason": "", "path": "/usr/sbin/nginx", "module": "/m/stream.so", "user": "nginx nginx"}
PLANS: dict[str, Any] = {
    "mixed": lambda: planned(MIXED),
    "mixed-iptables": lambda: planned(MIXED, node(nftables=no("nft is not installed"))),
    "masqueraded": lambda: planned(MIXED, node(routes=ANOTHER_SOURCE)),
    "masqueraded-iptables": lambda: planned(MIXED, node(routes=ANOTHER_SOURCE, nftables=no("not installed"))),
    "hosts": lambda: planned(parsed(broker("kafka-1:9092", id=1), mechanism="hosts")),
    "nginx": lambda: planned(parsed(broker(id=1), mechanism="nginx_stream"), node(nginx=MODULE)),
    "nothing": lambda: planned(parsed(broker("192.0.2.1:9092", "192.0.2.1:9092"))),
}


def texts(name: str) -> dict[str, str]:
    """A plan's texts by file name."""
    return {f"{name}.{kind}": text for kind, text in printed(PLANS[name]()).items()}


@pytest.mark.parametrize("name", PLANS)
def test_texts_are_golden(name: str) -> None:
    found = texts(name)
    assert sorted(found) == sorted(path.name for path in GOLDEN.glob(f"{name}.*"))
    for file, text in found.items():
        assert text == (GOLDEN / file).read_text(), file


def test_nothing_is_printed_for_a_plan_that_is_empty() -> None:
    assert texts("nothing") == {}


@pytest.mark.parametrize("template", ["nftables.nft", "iptables.rules"])
def test_the_sample_has_every_kind_of_rule(template: str) -> None:
    text = render(template, planner.sample(MIXED).as_dict())
    for part in (
        ("skuid", "skgid", "prefix to", "masquerade") if "nft" in template else ("uid-", "gid-", "NETMAP", "MASQ")
    ):
        assert part in text
    assert "NETMAP" not in render("iptables.rules", planner.sample(parsed(broker())).as_dict())


def main() -> int:
    """Write the golden texts anew."""
    for old in GOLDEN.glob("*"):
        old.unlink()
    for name in PLANS:
        for file, text in texts(name).items():
            (GOLDEN / file).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
