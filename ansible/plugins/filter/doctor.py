"""The controller's face of the doctor: its program, its questions, and its answers as lines."""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.kafka.natmap.plugins.filter import natmap
from ansible_collections.kafka.natmap.plugins.module_utils import bundle, doctor, map_parser, yarn_nodes

ROLES = Path(__file__).parents[2] / "roles"
_KAFKA = ("protocol", "sasl", "vendor")
_KAFKA_FILES = ("errors.py", "util.py", "version.py", "future.py")
_LONGEST = 240
_MAIN = b"import sys\nfrom kafka_doctor import main\nsys.exit(main(sys.argv))\n"


@lru_cache(maxsize=1)
def doctor_program(roles: str = str(ROLES)) -> str:
    """The doctor as a zipapp in Base64: the node program's modules, its own, and what it needs of kafka-python."""
    folders = [
        (Path(roles) / "switch" / "files", "kafka_natmap_*.py"),
        (Path(roles) / "doctor" / "files", "kafka_doctor*.py"),
    ]
    sources = {path.name: path.read_bytes() for folder, names in folders for path in folder.glob(names)}
    return base64.b64encode(bundle.pack({**_kafka_python(), **sources, "__main__.py": _MAIN})).decode()


def _kafka_python() -> dict[str, bytes]:
    # Found and not imported: the package would load every client.
    found = PathFinder.find_spec("kafka")
    if found is None or not found.submodule_search_locations:
        raise AnsibleFilterError(
            "kafka-python is not installed beside Ansible. Mend: make setup, or pip install kafka-python==2.3.*"
        )
    root = Path(found.submodule_search_locations[0])
    paths = [path for name in _KAFKA for path in (root / name).rglob("*.py")]
    paths += [root / name for name in _KAFKA_FILES if (root / name).exists()]
    # The package's own __init__ imports every client, none of which is carried over.
    return {"kafka/__init__.py": b"", **{str(path.relative_to(root.parent)): path.read_bytes() for path in paths}}


def doctor_request(
    text: str | None,
    host: str,
    groups: list[str],
    options: Mapping[str, Any],
    bootstrap: str = "",
    security: Mapping[str, Any] | None = None,
    user: str = "",
) -> str:
    """What the doctor of one host is asked, as JSON.

    :param text: the map as ``read_map`` gives it, or empty where ``bootstrap`` stands alone
    :param options: groups, topics, deadline, connect_timeout, request_timeout in seconds, most_idle_ms, nginx
    """
    if bootstrap:
        asked = doctor.request_without_map(bootstrap, security, user or None)
    elif text:
        asked = doctor.request_for(map_parser.parse(json.loads(text)), host, "yarn_nodes" in groups, user or None)
    else:
        raise AnsibleFilterError(
            "There is no map and no bootstrap address. Mend: -e bootstrap=HOST:PORT, or define nat_map."
        )
    return json.dumps({**asked, "node": host, **{key: _number(value) for key, value in options.items()}})


def _number(value: Any) -> Any:
    """ansible-core before 2.19 hands numbers and truth values on as texts."""
    if not isinstance(value, str):
        return value
    read = yaml.safe_load(value)
    return read if isinstance(read, (bool, int, float)) else value


def doctor_secrets(nat_map: Any, bootstrap: str = "", security: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The secrets of whoever is asked, by cluster."""
    if bootstrap:
        return doctor.secrets_without_map(natmap._plain(security))
    return natmap.secrets(nat_map)


def doctor_reports(hosts: list[str], hostvars: Mapping[str, Any], managed: list[str]) -> list[dict[str, Any]]:
    """Every host's report; a host that gave none is told as one that could not look.

    :param managed: the inventory's YARN nodes, whether asked in this run or not
    """
    reports = [_report(host, hostvars[host].get("doctor_result") or {}) for host in hosts]
    addresses = {one["node"]: one.get("addresses", []) for one in reports}
    inventory = {host: [hostvars[host].get("ansible_host", host), *addresses.get(host, [])] for host in managed}
    for report in reports:
        listed = (report.get("yarn") or {}).get("nodes", [])
        missing = yarn_nodes.unmanaged(listed, inventory)
        if missing:
            _tell_unmanaged(report, missing)
    return reports


def _tell_unmanaged(report: dict[str, Any], missing: list[str]) -> None:
    said = f"{report['yarn']['resource_manager']} lists {', '.join(missing)}"
    told = _module("kafka_doctor_findings")
    added = told.finding("NODE_UNMANAGED", "yarn", said, {"node": report["node"]})
    report["findings"] = told.ordered([*report["findings"], added])
    if report["verdict"]["state"] != "blind":
        report["verdict"] = told.verdict(report["findings"], report["walks"])


def _report(host: str, result: Mapping[str, Any]) -> dict[str, Any]:
    answer = result.get("answer")
    if answer and "verdict" in answer:
        return dict(answer)
    cause = str(result.get("msg") or "it was not asked").strip().splitlines()[0][:_LONGEST].rstrip(". ")
    if result.get("unreachable"):
        cause, mend = "the node cannot be reached: " + cause, f"ansible -m ansible.builtin.ping {host}"
    else:
        mend = "see the message"
    text = f"could not look: {cause}. Mend: {mend}"
    return {
        "format": 1, "node": host, "kind": [], "time": "", "seconds": 0.0, "asked_as": [], "clusters": [], "walks": [],
        "findings": [], "blind": {"cause": cause, "mend": mend}, "verdict": {"state": "blind", "code": None, "text": text},
    }  # fmt: skip


@lru_cache(maxsize=4)
def _module(name: str) -> ModuleType:
    """A module of the node's own, so that both say the same."""
    spec = importlib.util.spec_from_file_location(name, ROLES / "doctor" / "files" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def doctor_lines(reports: list[dict[str, Any]]) -> list[str]:
    """First the verdict, then the findings, then the ways."""
    return list(_module("kafka_doctor_told").lines(reports))


def doctor_state(reports: list[dict[str, Any]]) -> str:
    """healthy, findings or blind, over all nodes."""
    return str(_module("kafka_doctor_told").state_of(reports))


def doctor_json(reports: list[dict[str, Any]]) -> str:
    """All reports as one JSON text."""
    return json.dumps({"format": 1, "state": doctor_state(reports), "reports": reports}, indent=2) + "\n"


class FilterModule:
    """Ansible's way to find them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {
            "doctor_program": doctor_program,
            "doctor_request": doctor_request,
            "doctor_secrets": doctor_secrets,
            "doctor_reports": doctor_reports,
            "doctor_lines": doctor_lines,
            "doctor_state": doctor_state,
            "doctor_json": doctor_json,
        }
