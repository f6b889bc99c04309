"""The controller's face of `discover`: its program, its question, and the draft of a map from its answer."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.kafka.natmap.plugins.filter.doctor import doctor_program
from ansible_collections.kafka.natmap.plugins.filter.natmap import _plain
from ansible_collections.kafka.natmap.plugins.module_utils import bundle, map_draft, map_parser
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import MapError

ROLES = Path(__file__).parents[2] / "roles"
_MAIN = b"import sys\nfrom kafka_discover import main\nsys.exit(main(sys.argv))\n"
_SECRETS = {"password": "password", "keyfile_password": "keypassword"}
_NAMES = {"kerberos_service_name": "service_name"}
NAME = "kafka"
"""The cluster's name while it is asked."""


@lru_cache(maxsize=1)
def discover_program(_: object = None) -> str:
    """The doctor's program with `discover` in its place, as a zipapp in Base64. A filter is given something."""
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(doctor_program()))) as doctor:
        files = {name: doctor.read(name) for name in doctor.namelist()}
    files.update((path.name, path.read_bytes()) for path in (ROLES / "discover" / "files").glob("kafka_discover*.py"))
    return base64.b64encode(bundle.pack({**files, "__main__.py": _MAIN})).decode()


def _security(security: Any, present: Any, cluster: str) -> dict[str, Any]:
    """What was given; else what the present map says of the cluster that is named."""
    given = _plain(security or {})
    body = ((_plain(present or {}).get("clusters") or {}).get(cluster) or {}) if cluster else {}
    return dict(given or body.get("security") or {"protocol": "PLAINTEXT"})


def discover_request(
    bootstrap: str,
    options: Mapping[str, Any],
    security: Any = None,
    present: Any = None,
    cluster: str = "",
    user: str = "",
) -> str:
    """What is asked, as JSON, without secrets. The present map's pairs are tried before any guess."""
    addresses = [part.strip() for part in bootstrap.split(",") if part.strip()]
    if not addresses:
        raise AnsibleFilterError("There is no bootstrap address. Mend: -e bootstrap=HOST:PORT[,HOST:PORT].")
    settings = _security(security, present, cluster)
    pairs = [
        {"advertised": str(pair["advertised"]), "reachable": str(pair["reachable"])}
        for body in ((present or {}).get("clusters") or {}).values()
        for pair in body.get("brokers") or ()
    ]
    asked = {
        "name": NAME,
        "bootstrap": addresses,
        "brokers": pairs,
        # The probe wants a password to be there; the true one is joined to it on the node.
        "security": {_NAMES.get(key, key): value for key, value in settings.items() if key not in _SECRETS},
    }
    return json.dumps({**_numbers(options), "probe": [{"clusters": [asked], "user": user or None}]})


def _numbers(options: Mapping[str, Any]) -> dict[str, Any]:
    """Controllers before ansible-core 2.19 hand on what a template gave as texts."""
    return {key: boolean(value) if key == "trust_guesses" else float(value) for key, value in options.items()}


def discover_secrets(security: Any = None, present: Any = None, cluster: str = "") -> dict[str, dict[str, str]]:
    """The secrets, which travel apart from the question."""
    settings = _security(security, present, cluster)
    found = {_SECRETS[key]: str(value) for key, value in settings.items() if key in _SECRETS}
    return {NAME: found} if found else {}


def discover_draft(
    answer: Mapping[str, Any],
    asked_on: str,
    at: str,
    cluster: str = "",
    present: Any = None,
    security: Any = None,
    user: str = "",
) -> dict[str, Any]:
    """The draft, read once more by the map's own parser: ``text``, ``lines`` for a terminal, and ``problems``."""
    known = None if present is None else _plain(present)
    settings = _security(security, present, cluster)
    draft = map_draft.make(answer, asked_on, at, cluster, known, settings, user)
    if draft.networks and _problems(_data(draft, proposed=True)):
        # Never propose what the parser would refuse.
        draft = map_draft.make({**answer, "networks": []}, asked_on, at, cluster, known, settings, user)
    problems = [*draft.problems, *(_problems(_data(draft)) if draft.text else ())]
    return {"text": "" if problems else draft.text, "lines": list(draft.lines), "problems": problems}


def _data(draft: map_draft.Draft, proposed: bool = False) -> dict[str, Any]:
    """The draft as its reader will have it, on wish with what it proposes in comments."""
    data: dict[str, Any] = yaml.safe_load(draft.text)["nat_map"]
    if proposed:
        (body,) = data["clusters"].values()
        body["networks"] = [{key: one[key] for key in ("advertised", "reachable", "ports")} for one in draft.networks]
    return data


def _problems(data: Mapping[str, Any]) -> list[str]:
    try:
        map_parser.parse(data)
    except MapError as error:
        return [f"The draft is no valid map: {problem}" for problem in error.problems]
    return []


def draft_place(path: str) -> dict[str, str]:
    """Folder and file name of a draft. Refuses a file that is no draft: the user's map is never written over."""
    place = Path(path)
    if place.exists() and map_draft.MARK not in place.read_text(encoding="utf-8", errors="replace")[:200]:
        raise AnsibleFilterError(f"{path} is there, and is no draft. Mend: give another file, -e discover_draft=FILE.")
    return {"folder": str(place.parent), "name": place.name}


class FilterModule:
    """Ansible's way to find them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {
            "discover_program": discover_program,
            "discover_request": discover_request,
            "discover_secrets": discover_secrets,
            "discover_draft": discover_draft,
            "draft_place": draft_place,
        }
