"""What the report's HTML page prints: everything is decided here, so that the template only prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils import report_findings, report_matrix, report_picture
from ansible_collections.kafka.natmap.plugins.module_utils.report_findings import MOST_FINDINGS, Finding, some
from ansible_collections.kafka.natmap.plugins.module_utils.report_matrix import Matrix, Report, Row
from ansible_collections.kafka.natmap.plugins.module_utils.report_picture import Picture

_SHORT = 12


@dataclass(frozen=True)
class PageCell:
    """A cell of the matrix; ``finding`` is the number of the finding that explains it, or 0."""

    state: str
    text: str
    finding: int


@dataclass(frozen=True)
class PageRow:
    """A row of the matrix."""

    host: str
    asked_as: str
    kind: str
    cells: tuple[PageCell, ...]


@dataclass(frozen=True)
class Span:
    """A cluster over its brokers' columns."""

    cluster: str
    width: int


@dataclass(frozen=True)
class Bootstrap:
    """What one bootstrap address gave, over all hosts."""

    cluster: str
    address: str
    state: str
    answered: str
    latency: str
    said: str


@dataclass(frozen=True)
class Host:
    """A host's verdict, and the plan that it holds."""

    name: str
    kind: str
    asked_as: str
    state: str
    said: str
    plan: str
    seconds: str


@dataclass(frozen=True)
class Page:
    """All that the template prints."""

    owner: str
    at: str
    state: str
    verdict: str
    digest: str
    asked: str
    picture: Picture
    spans: tuple[Span, ...]
    columns: tuple[report_matrix.Column, ...]
    rows: tuple[PageRow, ...]
    bootstrap: tuple[Bootstrap, ...]
    findings: tuple[Finding, ...]
    more_findings: int
    hosts: tuple[Host, ...]


def view(
    reports: Sequence[Report],
    plans: Mapping[str, Mapping[str, Any] | None],
    owner: str,
    at: str,
    fleet_digest: str = "",
) -> Page:
    """The page.

    :param reports: what the doctor said, one report a host
    :param plans: what the verb ``status`` said of each host, or None where it said nothing
    :param at: the time, as it is to be printed
    :param fleet_digest: that of the last change plan; empty where there is none
    """
    matrix = report_matrix.make(reports)
    findings, numbers = report_findings.grouped(reports)
    state = _state(reports)
    return Page(
        owner=owner,
        at=at,
        state=state,
        verdict=_verdict(reports, matrix, state),
        digest=_digest(plans, fleet_digest),
        asked=_asked(reports),
        picture=report_picture.draw(matrix, {str(a): str(r["node"]) for r in reports for a in _gateway_addresses(r)}),
        spans=tuple(Span(name, len(list(own))) for name, own in groupby(column.cluster for column in matrix.columns)),
        columns=matrix.columns,
        rows=tuple(_row(row, matrix, numbers) for row in sorted(matrix.rows, key=_trouble)),
        bootstrap=_bootstrap(reports),
        findings=findings[:MOST_FINDINGS],
        more_findings=max(0, len(findings) - MOST_FINDINGS),
        hosts=tuple(_host(report, plans.get(str(report["node"]))) for report in _worst_first(reports)),
    )


def _gateway_addresses(report: Report) -> Sequence[Any]:
    return report.get("addresses") or () if "gateway" in report["kind"] else ()


def _state(reports: Sequence[Report]) -> str:
    states = [report["verdict"]["state"] for report in reports] or ["blind"]
    return next((state for state in ("findings", "blind") if state in states), "healthy")


def _verdict(reports: Sequence[Report], matrix: Matrix, state: str) -> str:
    if not reports:
        return "No host was asked."
    cells = [cell for row in matrix.rows for cell in row.cells if cell.state != "none"]
    well = sum(cell.state == "ok" for cell in cells)
    ways = f"{well} of {len(cells)} ways to brokers are well, each answered by the very broker"
    if state == "healthy":
        return f"Healthy: {ways}."
    bad = [report["node"] for report in reports if report["verdict"]["state"] == "findings"]
    blind = [report["node"] for report in reports if report["verdict"]["state"] == "blind"]
    parts = [f"findings on {counted(len(bad), 'host')} ({some(bad, 3)})"] if bad else []
    parts += [f"{counted(len(blind), 'host')} could not look ({some(blind, 3)})"] if blind else []
    text = "; ".join(parts) + f"; {ways}."
    return text[0].upper() + text[1:]


def counted(number: int, what: str) -> str:
    """A number of things in words."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _digest(plans: Mapping[str, Mapping[str, Any] | None], fleet: str) -> str:
    held: dict[str, int] = {}
    for plan in plans.values():
        digest = str((plan or {}).get("digest") or "")
        if digest:
            held[digest] = held.get(digest, 0) + 1
    hosts = ", ".join(f"{digest[:_SHORT]} on {count}" for digest, count in sorted(held.items(), key=lambda it: -it[1]))
    parts = [f"last change plan {fleet}"] if fleet else []
    parts += [f"hosts hold {hosts}"] if hosts else ["no host holds a plan"]
    return "; ".join(parts)


def _asked(reports: Sequence[Report]) -> str:
    gateways = sum("gateway" in report["kind"] for report in reports)
    users = sorted({user for report in reports for user in report["asked_as"]})
    seconds = max((report["seconds"] for report in reports), default=0.0)
    hosts = f"{counted(len(reports) - gateways, 'node')}, {counted(gateways, 'gateway')}"
    return f"{hosts}, as {some(users) or 'nobody'}; the slowest took {seconds:.1f} s"


def _trouble(row: Row) -> tuple[bool, int, int]:
    """Rows with the most trouble come first; others stay in order."""
    states = [cell.state for cell in row.cells]
    return not row.blind, -states.count("broken"), -states.count("unproven")


def _row(row: Row, matrix: Matrix, numbers: Mapping[tuple[Any, ...], int]) -> PageRow:
    cells = tuple(
        PageCell(
            cell.state,
            cell.text,
            0
            if cell.state in ("ok", "none")
            else numbers.get((row.host, row.asked_as, column.cluster, column.advertised), 0),
        )
        for cell, column in zip(row.cells, matrix.columns, strict=True)
    )
    return PageRow(row.host, row.asked_as, "gateway" if row.gateway else "node", cells)


def _bootstrap(reports: Sequence[Report]) -> tuple[Bootstrap, ...]:
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for report in reports:
        for walk in report["walks"]:
            if walk["role"] == "bootstrap":
                found.setdefault((walk["cluster"], str(walk["advertised"])), []).append(walk)
    made = []
    for (cluster, address), walks in sorted(found.items(), key=lambda item: report_matrix.natural(" ".join(item[0]))):
        well = [walk for walk in walks if walk["state"] == "ok"]
        times = [walk["latency_ms"] for walk in well if walk["latency_ms"] is not None]
        latency = f"{median(times):.1f} ms" if times else "-"
        state = report_matrix.worst([walk["state"] for walk in walks])
        said = some(sorted({walk["code"] or walk["state"] for walk in walks if walk["state"] != "ok"})) or "ok"
        made.append(Bootstrap(cluster, address, state, f"{len(well)} of {len(walks)}", latency, said))
    return tuple(made)


def _worst_first(reports: Sequence[Report]) -> list[Report]:
    order = ("findings", "blind", "healthy")
    return sorted(
        reports, key=lambda one: (order.index(one["verdict"]["state"]), report_matrix.natural(str(one["node"])))
    )


def _host(report: Report, plan: Mapping[str, Any] | None) -> Host:
    digest = str((plan or {}).get("digest") or "")
    held = f"{digest[:_SHORT]} ({(plan or {}).get('state')})" if digest else "none" if plan else "not known"
    return Host(
        name=str(report["node"]),
        kind=", ".join(report["kind"]) or "-",
        asked_as=", ".join(report["asked_as"]) or "-",
        state=report["verdict"]["state"],
        said=report["verdict"]["text"],
        plan=held,
        seconds=f"{report['seconds']:.1f}",
    )
