"""The controller's face of the report: one HTML page of what the doctor saw, self-contained."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from ansible_collections.kafka.natmap.plugins.filter.doctor import doctor_json
from ansible_collections.kafka.natmap.plugins.module_utils import report_page


def doctor_page(
    reports: Sequence[Mapping[str, Any]], hostvars: Mapping[str, Any], owner: str, at: str, records: str, template: str
) -> str:
    """The page, printed by the template; no script, nothing from elsewhere.

    :param hostvars: each host's ``report_held`` is what the node program's verb status said
    :param records: the folder that may hold the last ``plan.json`` of this owner
    """
    plans = {one["node"]: hostvars[one["node"]].get("report_held", {}).get("answer") for one in reports}
    seen = report_page.view(reports, plans, owner, at, _fleet_digest(Path(records) / "plan.json", owner))
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    printed = environment.from_string(Path(template).read_text(encoding="utf-8"))
    return printed.render(vars(seen)) + "\n"


def doctor_records(
    reports: Sequence[Mapping[str, Any]], hostvars: Mapping[str, Any], owner: str, at: str, records: str, template: str
) -> dict[str, str]:
    """The page and its data, by file name. Alone, a text of JSON becomes data again before ansible-core 2.19."""
    page = doctor_page(reports, hostvars, owner, at, records, template)
    return {"report.json": doctor_json(list(map(dict, reports))), "report.html": page}


def _fleet_digest(path: Path, owner: str) -> str:
    """The digest of the last change plan; empty where there is none that can be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return str(document["digest"])[:12] if document["owner"] == owner else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


class FilterModule:
    """Ansible's way to find them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {"doctor_page": doctor_page, "doctor_records": doctor_records}
