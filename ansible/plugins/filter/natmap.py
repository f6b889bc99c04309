"""The controller's face of the core: filters that read a map, plan a node, and print tables."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.kafka.natmap.plugins.module_utils import bundle, facts, map_parser, plan, planner, tables
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import MapError, NatMap


@lru_cache(maxsize=8)
def _parse(text: str) -> NatMap:
    return map_parser.parse(json.loads(text))


def _plain(value: Any) -> Any:
    """Vault texts as texts: ansible-core before 2.19 decrypts them only when they are asked for."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if getattr(value, "__ENCRYPTED__", False) else value


def _read(nat_map: Any) -> NatMap:
    try:
        return _parse(json.dumps(_plain(nat_map)))
    except (MapError, TypeError) as error:
        raise AnsibleFilterError(f"the NAT map cannot be used:\n{error}") from None


def map_problems(nat_map: Any) -> list[str]:
    """Every problem of a map, one text each; an empty list where it can be used."""
    try:
        map_parser.parse(_plain(nat_map))
    except MapError as error:
        return [str(problem) for problem in error.problems]
    return []


def questions(nat_map: Any, nftables: str = "", iptables: str = "", notrack: str = "") -> dict[str, Any]:
    """What `inspect` is asked; the texts are samples that the node's own programs judge."""
    natmap = _read(nat_map)
    mechanisms = {cluster.mechanism for cluster in natmap.clusters}
    through_gateway = any(cluster.gateway for cluster in natmap.clusters)
    return {
        **facts.questions(natmap),
        "owner": natmap.owner,
        "samples": {"nftables": nftables, "iptables": iptables, "notrack": notrack},
        "iptables_asked": "iptables" in mechanisms,
        "nginx_asked": "nginx_stream" in mechanisms or through_gateway,
    }


def sample_plan(nat_map: Any) -> dict[str, Any]:
    """A small plan with every kind of rule that this map needs, for the node's programs to judge."""
    return planner.sample(_read(nat_map)).as_dict()


def _node(answer: Mapping[str, Any], name: str, groups: list[str]) -> facts.NodeFacts:
    return facts.NodeFacts.read(answer, name, "yarn_nodes" in groups, "nat_gateways" in groups)


def node_plan(nat_map: Any, answer: Mapping[str, Any], name: str, groups: list[str]) -> dict[str, Any]:
    """The plan of one node for the templates, or its problems."""
    try:
        return {**planner.plan_node(_read(nat_map), _node(answer, name, groups)).as_dict(), "problems": []}
    except plan.PlanError as error:
        return {"problems": [str(problem) for problem in error.problems]}


def node_bundle(
    nat_map: Any,
    answer: Mapping[str, Any],
    name: str,
    groups: list[str],
    texts: Mapping[str, str],
    units: Mapping[str, str],
) -> dict[str, Any]:
    """What is carried over to one node."""
    natmap, node = _read(nat_map), _node(answer, name, groups)
    printed = {key: str(text) for key, text in texts.items() if text}
    named = {bundle.unit_name(natmap.owner, kind): str(text) for kind, text in units.items() if text}
    python = str(answer["interpreter"])
    return bundle.make_bundle(natmap, planner.plan_node(natmap, node), node, printed, named, python)


def removal(owner: str) -> dict[str, Any]:
    """The bundle that takes an owner off a node; it needs no map."""
    return bundle.removal(owner)


def route_lines(routes: list[Mapping[str, Any]]) -> str:
    """A plan's routes as lines for `ip route replace`."""
    return "".join(
        f"{r['address']} dev {r['device']}" + (f" via {r['via']}" if r["via"] else "") + "\n" for r in routes
    )


def collect(
    hosts: list[str], hostvars: Mapping[str, Any], key: str | None = None, register: str = "switch_result"
) -> dict[str, Any]:
    """Each host's answer, or one key of it; None where the host gave none."""
    found = {}
    for host in hosts:
        answer = hostvars[host].get(register, {}).get("answer")
        found[host] = answer.get(key) if answer and key else answer
    return found


def probe_requests(nat_map: Any, answer: Mapping[str, Any], name: str, groups: list[str]) -> list[dict[str, Any]]:
    """The probe's questions for one node."""
    return list(bundle.probe_requests(_read(nat_map), _node(answer, name, groups)))


def secrets(nat_map: Any) -> dict[str, dict[str, str]]:
    """The probe's secrets by cluster."""
    return bundle.secrets_of(_read(nat_map))


@lru_cache(maxsize=4)
def program(folder: str) -> str:
    """The node program as a zipapp, in Base64."""
    sources = {path.name: path.read_bytes() for path in Path(folder).glob("kafka_natmap_*.py")}
    if not sources:
        raise AnsibleFilterError(f"{folder} holds no node program")
    sources["__main__.py"] = b"import sys\nfrom kafka_natmap_node import main\nsys.exit(main(sys.argv))\n"
    return base64.b64encode(bundle.pack(sources)).decode()


@lru_cache(maxsize=4)
def kafka_python(known: str | None) -> str | None:
    """The controller's package kafka as a zip in Base64, or None where the node has this very one."""
    content = _kafka_python()
    return None if bundle.sha256(content).hexdigest() == known else base64.b64encode(content).decode()


@lru_cache(maxsize=1)
def _kafka_python() -> bytes:
    try:
        import kafka
    except ImportError:
        raise AnsibleFilterError(
            "kafka-python is not installed beside Ansible. Mend: make setup, or pip install kafka-python==2.3.*"
        ) from None
    root = Path(kafka.__file__).parent
    files = {str(path.relative_to(root.parent)): path.read_bytes() for path in root.rglob("*.py")}
    return bundle.pack(files)


class FilterModule:
    """Ansible's way to find them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {
            "map_problems": map_problems,
            "questions": questions,
            "sample_plan": sample_plan,
            "node_plan": node_plan,
            "node_bundle": node_bundle,
            "probe_requests": probe_requests,
            "secrets": secrets,
            "removal": removal,
            "route_lines": route_lines,
            "collect": collect,
            "verify_problems": tables.verify_problems,
            "program": program,
            "kafka_python": kafka_python,
            "plan_lines": tables.plan_lines,
            "proof_lines": tables.proof_lines,
            "summary_lines": tables.summary_lines,
        }
