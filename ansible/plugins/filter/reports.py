"""The controller's face of the reports: the change plan, its approval, the roll-out's summary and the status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from ansible_collections.kafka.natmap.plugins.module_utils import (
    approval,
    change_plan,
    plan_page,
    rollout,
    status_report,
)
from ansible_collections.kafka.natmap.plugins.module_utils.host_view import HostView
from ansible_collections.kafka.natmap.plugins.module_utils.yarn_nodes import unmanaged

Facts = Mapping[str, Mapping[str, Any]]


def _views(hosts: Sequence[str], hostvars: Facts) -> list[HostView]:
    return [HostView.read(host, hostvars[host]) for host in hosts]


def make_change_plan(
    hosts: Sequence[str], hostvars: Facts, owner: str, made_at: str, made_by: str, window: int, template: str
) -> dict[str, Any]:
    """The fleet's change plan: the ``files`` to be written, the ``lines`` for the terminal, and whether it is ``whole``.

    JSON travels inside of a mapping: ansible-core before 2.19 would take it for data where it stands alone.
    """
    document = change_plan.make(_views(hosts, hostvars), owner, made_at, made_by, int(window))
    page = change_plan_page(document, template)
    return {
        "files": {"plan.json": change_plan.written(document), "plan.html": page},
        "lines": change_plan.plan_lines(document),
        "whole": change_plan.is_whole(document),
    }


def change_plan_page(document: Mapping[str, Any], template: str) -> str:
    """The change plan as one HTML page: no script, nothing from elsewhere, readable in print."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    printed = environment.from_string(Path(template).read_text(encoding="utf-8"))
    return printed.render(plan_page.view(document)) + "\n"


def gate(
    hosts: Sequence[str],
    hostvars: Facts,
    owner: str,
    approved_plan: str = "",
    approved_digest: str = "",
    strict: bool = False,
    all_or_none: bool = False,
) -> dict[str, Any]:
    """Which hosts may be switched, which are left out and why, and why nothing at all may be touched."""
    views = _views(hosts, hostvars)
    digest = None
    if approved_plan:
        document, problems = approval.read_file(approved_plan, owner, hosts, approved_digest)
        decisions = [] if problems else approval.compare(document, views, hostvars)
        digest = document.get("digest")
    else:
        decisions, problems = approval.without_plan(views), []
        if approved_digest:
            problems = [approval.DIGEST_ALONE]
    problems = problems or approval.refused(decisions, approved_plan != "", strict, all_or_none)
    return {
        "go": [] if problems else [decision.host for decision in decisions if decision.go],
        "skip": {decision.host: str(decision) for decision in decisions if not decision.go},
        "problems": list(map(str, problems)),
        "digest": digest,
    }


def rollout_summary(hosts: Sequence[str], hostvars: Facts, skip: Mapping[str, str] | None = None) -> dict[str, Any]:
    """How every host ended."""
    skipped = skip or {}
    ends = [rollout.end_of(view, hostvars[view.host], skipped.get(view.host)) for view in _views(hosts, hostvars)]
    ends += [rollout.End(host, "old", why) for host, why in skipped.items() if host not in hosts]
    return rollout.summary(ends)


def removal_summary(hosts: Sequence[str], hostvars: Facts) -> dict[str, Any]:
    """How every host ended after a removal."""
    return rollout.summary(rollout.end_of_removal(host, hostvars[host]) for host in hosts)


def switched(hosts: Sequence[str], hostvars: Facts) -> list[str]:
    """The hosts on which a switch has changed something that stands now."""
    return [host for host in hosts if rollout.state(hostvars[host].get("switch_result")) in ("confirmed", "removed")]


def first_answering(hosts: Sequence[str], hostvars: Facts, register: str) -> str:
    """The first host that has answered; empty where none has."""
    return next((host for host in hosts if hostvars[host].get(register, {}).get("answer")), "")


def status(
    hosts: Sequence[str], hostvars: Facts, groups: Mapping[str, Sequence[str]], owner: str, now: str, records: str
) -> dict[str, Any]:
    """Every host's status in three forms, and what is not as it should be."""
    audit = Path(records) / "audit.jsonl"
    known = status_report.last_known(audit.read_text("utf-8") if audit.exists() else "", owner)
    seen = [
        status_report.read(
            host, hostvars[host].get("report_status"), _needed(hostvars[host], groups, host), known.get(host)
        )
        for host in hosts
    ]
    yarn = next((found for host in hosts if (found := hostvars[host].get("report_yarn", {}).get("answer"))), {})
    managed = {host: _known_as(hostvars[host]) for host in groups.get("yarn_nodes", ())}
    strangers = unmanaged(yarn.get("nodes") or (), managed)
    return status_report.report(seen, owner, now, strangers, yarn.get("problem"))


def _known_as(facts: Mapping[str, Any]) -> list[str]:
    """Other names and the addresses of a host: Ansible's, and its own where it has answered."""
    answer = facts.get("report_status", {}).get("answer") or {}
    return [str(facts.get("ansible_host") or ""), *answer.get("known_as", ())]


def _needed(facts: Mapping[str, Any], groups: Mapping[str, Sequence[str]], host: str) -> bool:
    """Whether the map wants anything on a host: on every node, and on a gateway where a cluster goes through one."""
    clusters = (facts.get("nat_map") or {}).get("clusters") or {}
    return host in groups.get("yarn_nodes", ()) or any("gateway" in cluster for cluster in clusters.values())


class FilterModule:
    """Ansible's way to find them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {
            "change_plan": make_change_plan,
            "gate": gate,
            "rollout_summary": rollout_summary,
            "removal_summary": removal_summary,
            "rollout_lines": rollout.lines,
            "retry_list": rollout.retry_list,
            "audit_record": rollout.audit_record,
            "switched": switched,
            "first_answering": first_answering,
            "status_report": status,
        }
