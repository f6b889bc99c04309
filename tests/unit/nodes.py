"""Facts of nodes, plans and their texts, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils import planner
from ansible_collections.kafka.natmap.plugins.module_utils.facts import NodeFacts
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import NatMap, Problem
from ansible_collections.kafka.natmap.plugins.module_utils.plan import Plan, PlanError
from jinja2 import Environment, FileSystemLoader, StrictUndefined

ROOT = Path(__file__).parents[2]
# Ansible's template module trims blocks; nothing else of Ansible is needed to print a text.
JINJA = Environment(
    loader=FileSystemLoader(ROOT / "templates"), trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
)
NGINX_DEFAULTS = {
    "nginx_stream_workers": "auto",
    "nginx_stream_connections": 4096,
    "nginx_stream_shutdown_timeout": "1h",
    "nginx_stream_connect_timeout": "8s",
    "nginx_stream_idle_timeout": "24h",
}


def no(reason: str) -> dict[str, Any]:
    """A program that cannot be used."""
    return {"usable": False, "reason": reason}


OLD_NGINX = {"usable": True, "reason": "", "path": "/usr/sbin/nginx", "module": None, "user": "www-data www-data"}


def answer(**changed: Any) -> dict[str, Any]:
    """What ``inspect`` says of an ordinary node."""
    said: dict[str, Any] = {
        "kernel": [6, 1],
        "users": {"yarn": {"uid": 991, "gid": 990, "groups": [990]}, "etl": {"uid": 1500, "gid": 1500, "groups": []}},
        "groups": {"hadoop": 989},
        "nftables": {"usable": True, "reason": ""},
        "iptables": {"usable": True, "reason": ""},
        "nginx": OLD_NGINX,
        "routes": {},
        "resolves": {},
        "addresses": ["198.51.100.5"],
        "others": {},
        "conntrack": {"in_use": ["docker"], "count": 10, "max": 1000, "sockets": 5, "exempt": no("not asked")},
        "interpreter": "/usr/bin/python3",
        "programs": {"program": None, "kafka_python": None},
    }
    said |= changed
    said["routes"] = [{"route": route, "addresses": address} for address, route in said["routes"].items()]
    return said


def held(*pairs: list[Any], **more: Any) -> dict[str, Any]:
    """What ``inspect`` says that another owner holds: pairs of address, port and their target."""
    return {"pairs": list(pairs), "prefixes": [], "names": {}, "backends": ["nftables"], "take_over": []} | more


def node(name: str = "nm1", is_node: bool = True, is_gateway: bool = False, **changed: Any) -> NodeFacts:
    """One node, ordinary but for what is named."""
    return NodeFacts.read(answer(**changed), name, is_node, is_gateway)


def planned(natmap: NatMap, facts: NodeFacts | None = None) -> Plan:
    """A node's plan."""
    return planner.plan_node(natmap, facts or node())


def refusals(natmap: NatMap, facts: NodeFacts) -> list[Problem]:
    """Why a map cannot be put on a node; empty where it can."""
    try:
        planner.plan_node(natmap, facts)
    except PlanError as error:
        return error.problems
    return []


def printed(plan: Plan) -> dict[str, str]:
    """The texts of a plan by the name of their template; only those that the roles would print."""
    data = plan.as_dict()
    wanted = {
        "nftables.nft": bool(data["nftables"]),
        "iptables.rules": bool(data["iptables"]),
        "hosts": bool(data["hosts"]),
        "nginx.conf": bool(data["listeners"]),
        "kafka-natmap-nginx.service": bool(data["listeners"]),
        "kafka-natmap.service": not data["empty"],
    }
    return {name: render(name, data) for name, there in wanted.items() if there}


def render(name: str, plan: dict[str, Any]) -> str:
    """One template."""
    return JINJA.get_template(f"{name}.j2").render(plan=plan, python="/usr/bin/python3", **NGINX_DEFAULTS)
