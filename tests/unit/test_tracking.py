"""What a plan does to connection tracking, and the table that exempts everybody else."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.module_utils import bundle
from netns import Namespace
from unit.maps import broker, network, parsed
from unit.nodes import JINJA, no, node, planned

FREE: dict[str, Any] = {"in_use": [], "count": 0, "max": 100, "sockets": 1, "exempt": {"usable": True, "reason": ""}}


@pytest.mark.parametrize(
    ("changed", "exempt", "said"),
    [
        ({"conntrack": FREE}, True, "only connections to and from the mapped addresses will be tracked"),
        ({"conntrack": {**FREE, "in_use": ["docker"]}}, False, "tracked here already (docker)"),
        ({"conntrack": {**FREE, "exempt": no("too old")}}, False, "will be tracked: too old"),
        ({"conntrack": FREE, "nftables": no("none")}, False, "since iptables does the NAT"),
    ],
)
def test_others_are_exempted_where_nobody_tracks(changed: dict[str, Any], exempt: bool, said: str) -> None:
    plan = planned(parsed(broker()), node(**changed))
    assert plan.exempt == exempt
    assert said in plan.conntrack


def test_a_gateway_s_plan_has_no_rule_and_tracks_nothing() -> None:
    plan = planned(parsed(broker()), node(is_node=False, is_gateway=True, conntrack=FREE))
    assert (plan.exempt, plan.conntrack) == (False, "none: this node gets no NAT rule")


@pytest.mark.parametrize("networks", [(), (network(),)])
def test_nft_takes_the_exemption_in_place(namespace: Namespace, networks: Any) -> None:
    plan = planned(parsed(broker(), networks=list(networks)), node(conntrack=FREE))
    text = JINJA.get_template("notrack.nft.j2").render(plan=plan.as_dict())
    with namespace.entered():
        for _ in range(2):
            subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
        listed = subprocess.run(
            ["nft", "list", "table", "ip", f"kafka_notrack_{plan.ident}"], check=True, capture_output=True, text=True
        ).stdout
        subprocess.run(["nft", "flush", "ruleset"], check=True)
    assert listed.count("notrack\n") == 2
    assert listed.count("192.0.2.21 . 9092") == 1
    assert listed.count("203.0.113.21 . 9092") == 1


def test_no_name_of_an_owner_makes_two_tables_meet() -> None:
    tables = [bundle.removal(owner)["names"] for owner in ("a", "notrack-a", "a-notrack")]
    names = [one[key] for one in tables for key in ("nft_table", "notrack_table")]
    assert len(set(names)) == len(names)
