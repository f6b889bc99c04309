"""The controller's face of the core: filters that read a map, plan a node, and print tables."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
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
    if isinstance(nat_map, str):
        return _parse(nat_map)
    try:
        return _parse(json.dumps(_plain(nat_map)))
    except (MapError, TypeError) as error:
        raise AnsibleFilterError(f"the NAT map cannot be used:\n{error}") from None


def read_map(nat_map: Any) -> dict[str, Any]:
    """A map read once for all hosts: its problems, itself as one text without its secrets, and its sample plan.

    Ansible looks through every value of a mapping again wherever the mapping is named; a text is passed on as it is.
    """
    plain = json.loads(json.dumps(_plain(nat_map)))
    try:
        natmap = map_parser.parse(plain)
    except MapError as error:
        return {"problems": [str(problem) for problem in error.problems]}
    for cluster in natmap.clusters:
        security = plain["clusters"][cluster.name].get("security") or {}
        security.update({key: "***" for key, _ in cluster.security.secrets})
    return {"problems": [], "text": json.dumps(plain), "sample": json.dumps(planner.sample(natmap).as_dict())}


def questions(nat_map: Any, nftables: str = "", iptables: str = "", notrack: str = "") -> str:
    """What `inspect` is asked, as JSON; the texts are samples that the node's own programs judge."""
    natmap = _read(nat_map)
    mechanisms = {cluster.mechanism for cluster in natmap.clusters}
    through_gateway = any(cluster.gateway for cluster in natmap.clusters)
    asked = {
        **facts.questions(natmap),
        "owner": natmap.owner,
        "samples": {"nftables": nftables, "iptables": iptables, "notrack": notrack},
        "iptables_asked": "iptables" in mechanisms,
        "nginx_asked": "nginx_stream" in mechanisms or through_gateway,
    }
    return json.dumps(asked)


def _node(answer: Mapping[str, Any], name: str, groups: list[str]) -> facts.NodeFacts:
    return facts.NodeFacts.read(answer, name, "yarn_nodes" in groups, "nat_gateways" in groups)


def node_plan(nat_map: Any, answer: Mapping[str, Any], name: str, groups: list[str]) -> dict[str, Any]:
    """The plan of one node, or its problems: ``text`` is the whole of it as JSON for the templates."""
    try:
        whole = planner.plan_node(_read(nat_map), _node(answer, name, groups)).as_dict()
    except plan.PlanError as error:
        return {"problems": [str(problem) for problem in error.problems]}
    kinds = [kind for kind in ("nftables", "iptables", "hosts", "listeners") if whole[kind]]
    light = {key: whole[key] for key in ("owner", "empty", "exempt", "nginx")}
    return {**light, "kinds": kinds, "text": json.dumps(whole), "problems": []}


def node_bundle(
    nat_map: Any,
    answer: Mapping[str, Any],
    name: str,
    groups: list[str],
    texts: Mapping[str, str],
    units: Mapping[str, str],
    drift: str = "repair",
) -> dict[str, Any]:
    """What is carried over to one node: its digest, and all of it as JSON."""
    if drift not in ("repair", "report"):
        raise AnsibleFilterError(f"switch_drift is {drift!r}. Mend: set it to repair or report.")
    natmap, node = _read(nat_map), _node(answer, name, groups)
    planned = planner.plan_node(natmap, node)
    routes = "".join(f"{r.address} dev {r.device}{f' via {r.via}' if r.via else ''}\n" for r in planned.routes)
    printed = {key: str(text) for key, text in {**texts, "routes": routes}.items() if text}
    named = {bundle.unit_name(natmap.owner, kind): str(text) for kind, text in units.items() if text}
    python = str(answer["interpreter"])
    made = bundle.make_bundle(natmap, planned, node, printed, named, python, drift)
    return {"digest": made["digest"], "text": json.dumps(made)}


@lru_cache(maxsize=16)
def _template(path: str) -> jinja2.Template:
    """As Ansible's own template lookup sets Jinja2 up; the lookup itself looks through every value of a plan."""
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(Path(path).read_text(encoding="utf-8"))


def printed(planned: str, template: str, **variables: Any) -> str:
    """A plan, as JSON, through one of the templates."""
    try:
        return _template(template).render(plan=json.loads(planned), **variables)
    except (jinja2.TemplateError, OSError) as error:
        raise AnsibleFilterError(f"{template} cannot be printed: {error}") from None


def switch_request(made: Mapping[str, Any], probe: bool, window: int, who: str) -> str:
    """What the switch of one node is asked, as JSON: a text is carried over as it is."""
    asked = json.loads(made["text"])
    return json.dumps({"bundle": asked if probe else {**asked, "probe": []}, "window": window, "who": who})


def removal(owner: str) -> dict[str, Any]:
    """The bundle that takes an owner off a node; it needs no map."""
    return bundle.removal(owner)


def way_back(owner: str, digest: str) -> dict[str, Any]:
    """The bundle that brings the generation before this one back."""
    return bundle.way_back(owner, digest)


def switch_problems(result: Mapping[str, Any]) -> list[str]:
    """Why a host's switch did not end as asked; empty where it did."""
    answer = result.get("answer") or {}
    if answer.get("state") == "refused":
        return ["{cause}. Mend: {mend}.".format(**answer["refusal"])]
    if answer.get("state") == "undone":
        return ["The probe failed, and this node has undone its change.", *answer["failed"]]
    return ["The connection was lost while the switch ran. Mend: make status."] if result.get("unreachable") else []


def stopped(hosts: list[str], hostvars: Mapping[str, Any]) -> list[str]:
    """The hosts that stop a roll-out: their switch was refused, undone, or lost from sight."""
    return [host for host in hosts if switch_problems(hostvars[host].get("switch_result") or {})]


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
            "read_map": read_map,
            "questions": questions,
            "node_plan": node_plan,
            "node_bundle": node_bundle,
            "probe_requests": probe_requests,
            "secrets": secrets,
            "removal": removal,
            "way_back": way_back,
            "switch_problems": switch_problems,
            "stopped": stopped,
            "switch_request": switch_request,
            "collect": collect,
            "verify_problems": tables.verify_problems,
            "printed": printed,
            "program": program,
            "kafka_python": kafka_python,
            "proof_lines": tables.proof_lines,
        }
