"""What the report's page prints: the matrix, the findings, the groups, and a picture in which nothing overlaps."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.filter import report_page as filters
from ansible_collections.kafka.natmap.plugins.module_utils import report_matrix, report_page, report_picture
from ansible_collections.kafka.natmap.plugins.module_utils.report_page import Page
from ansible_collections.kafka.natmap.plugins.module_utils.report_picture import Box, Picture
from hypothesis import given, settings
from hypothesis import strategies as st
from unit import seen_reports as seen
from unit.nodes import ROOT

TEMPLATE = str(ROOT / "templates" / "report.html.j2")


def page(reports: list[dict[str, Any]], **plans: Any) -> Page:
    return report_page.view(reports, plans, "data-platform", seen.AT)


def test_each_cell_says_what_that_host_saw() -> None:
    rows = {row.host: [(cell.state, cell.text) for cell in row.cells] for row in page(seen.small()).rows}
    assert rows == {
        "nm1": [("ok", "ok 0.4 ms"), ("broken", "NOT_REWRITTEN"), ("ok", "ok 0.4 ms"), ("ok", "ok 0.4 ms")],
        "nm2": [("ok", "ok 0.4 ms"), ("ok", "ok 0.4 ms"), ("unproven", "UNPROVEN"), ("ok", "ok 0.4 ms")],
        "nm3": [("none", "not asked")] * 4,
        "gateway": [("none", "not asked")] * 3 + [("ok", "ok 0.4 ms")],
    }


def test_a_cell_leads_to_its_finding_and_errors_come_first() -> None:
    made = page(seen.small())
    assert [(f.number, f.code, f.severity) for f in made.findings] == [
        (1, "NOT_REWRITTEN", "error"),
        (2, "UNPROVEN", "warning"),
    ]
    linked = {(row.host, cell.text): cell.finding for row in made.rows for cell in row.cells if cell.finding}
    assert linked == {("nm1", "NOT_REWRITTEN"): 1, ("nm2", "UNPROVEN"): 2}
    assert [hop.state for hop in made.findings[0].way][:4] == ["ok", "ok", "broken", "not reached"]


def test_alike_findings_stand_once_with_one_mend_for_all() -> None:
    made = page([seen.report(f"nm{n}", [seen.walk(1, "NOT_REWRITTEN")]) for n in range(1, 21)])
    (found,) = made.findings
    assert found.hosts.endswith("nm12 and 8 more")
    assert found.mend.endswith("--limit " + ",".join(f"nm{n}" for n in range(1, 21)))
    assert all(cell.finding == 1 for row in made.rows for cell in row.cells)


@pytest.mark.parametrize(
    ("reports", "state", "said"),
    [
        ([seen.report("nm1", [seen.walk(1)])], "healthy", "Healthy: 1 of 1 ways to brokers are well"),
        (seen.small(), "findings", "Findings on 2 hosts (nm1, nm2); 1 host could not look (nm3); 7 of 9 ways"),
        ([seen.blind("nm1")], "blind", "1 host could not look (nm1); 0 of 0 ways"),
        ([], "blind", "No host was asked."),
    ],
    ids=["healthy", "findings", "blind", "nobody"],
)
def test_the_verdict_comes_first(reports: list[dict[str, Any]], state: str, said: str) -> None:
    made = page(reports)
    assert made.state == state
    assert made.verdict.startswith(said)


def test_the_digest_is_that_of_the_hosts_and_of_the_last_plan(tmp_path: Path) -> None:
    held = {"digest": "5b51608aceb7fdff", "state": "confirmed"}
    made = page(
        [seen.report("nm1", [seen.walk(1)]), seen.report("nm2", [])], nm1=held, nm2={"digest": None, "state": "absent"}
    )
    assert made.digest == "hosts hold 5b51608aceb7 on 1"
    assert [(host.name, host.plan) for host in made.hosts] == [("nm1", "5b51608aceb7 (confirmed)"), ("nm2", "none")]
    for text, expected in (
        ('{"owner": "a", "digest": "c04c0f456dccfd41"}', "c04c0f456dcc"),
        ('{"owner": "b", "digest": "c"}', ""),
        ("{", ""),
    ):
        (tmp_path / "plan.json").write_text(text)
        assert filters._fleet_digest(tmp_path / "plan.json", "a") == expected


def test_one_host_as_several_users_has_a_row_for_each() -> None:
    both = seen.report("nm1", [seen.walk(1), seen.walk(1, "TCP_TIMEOUT", **{"as": "etl"})], asked_as=["etl", "yarn"])
    assert [(row.asked_as, row.cells[0].text) for row in page([both]).rows] == [
        ("etl", "TCP_TIMEOUT"),
        ("yarn", "ok 0.4 ms"),
    ]


def test_several_ways_to_one_broker_count_as_the_worst() -> None:
    both = seen.report("nm1", [seen.walk(1), seen.walk(1, "TCP_TIMEOUT", role="coordinator", of="group g")])
    assert [cell.text for cell in page([both]).rows[0].cells] == ["TCP_TIMEOUT"]


def test_bootstrap_addresses_are_summed_up() -> None:
    slow = seen.report(
        "nm2",
        [seen.bootstrap(1, latency_ms=1.4), seen.bootstrap(2, state="broken", code="TCP_REFUSED", latency_ms=None)],
    )
    made = page([seen.report("nm1", [seen.bootstrap(1), seen.bootstrap(2)]), slow])
    assert [(b.address, b.state, b.answered, b.latency, b.said) for b in made.bootstrap] == [
        ("203.0.113.21:9092", "ok", "2 of 2", "0.9 ms", "ok"),
        ("203.0.113.22:9092", "broken", "1 of 2", "0.4 ms", "TCP_REFUSED"),
    ]


def test_what_hosts_and_peers_say_is_text_and_nothing_else() -> None:
    evil = "<script>alert(1)</script>\"'&{{ 77*77 }}"
    report = seen.report(evil, [seen.walk(1, "TCP_TIMEOUT", dialled=evil, advertised=f"{evil}:9092")])
    text = filters.doctor_page([report], {evil: {}}, evil, seen.AT, "/", TEMPLATE)
    assert "<script" not in text
    assert "5929" not in text
    assert "&lt;script&gt;" in text


def test_the_page_holds_nothing_that_is_loaded() -> None:
    reports = seen.small()
    text = filters.doctor_page(reports, {one["node"]: {} for one in reports}, "o", seen.AT, "/", TEMPLATE)
    assert not [word for word in ("http:", "https:", "<script", "@import", "url(", " src=") if word in text]


# ------------------------------------------------------------ the picture


def drawn(reports: list[dict[str, Any]]) -> Picture:
    return page(reports).picture


def named(picture: Picture, kind: str) -> list[str]:
    return [box.name for box in picture.boxes if box.kind == kind]


def test_a_small_site_is_drawn_one_by_one() -> None:
    picture = drawn(seen.small())
    assert named(picture, "node") == ["nm1", "nm2", "nm3"]
    assert named(picture, "gateway") == ["gateway"]
    assert named(picture, "nat") == [
        "203.0.113.21:9092",
        "203.0.113.22:9092",
        "203.0.113.23:9092",
        "203.0.113.20:19092",
    ]
    assert [frame.name for frame in picture.frames] == ["Your site", "NAT", "Kafka hq", "Kafka hq-dr"]
    assert picture.described == (
        "nm1 to hq broker 2: NOT_REWRITTEN.",
        "nm2 to hq broker 3: UNPROVEN.",
    )


def test_a_way_through_a_gateway_is_drawn_through_it() -> None:
    picture = drawn(seen.small())
    gateway = next(box for box in picture.boxes if box.kind == "gateway")
    ends = [line for line in picture.lines if line.path.endswith(f" {gateway.x} {gateway.y + gateway.height // 2}")]
    assert len(ends) == 2, "one from each node"
    starts = [line for line in picture.lines if line.path.startswith(f"M{gateway.x + gateway.width} ")]
    assert len(starts) == 1, "to the second cluster alone"


def test_a_large_fleet_is_drawn_in_groups() -> None:
    picture = drawn(seen.large())
    assert named(picture, "node") == ["worker-1 … worker-199", "worker-10 … worker-200"]
    assert named(picture, "broker") == ["28 brokers, 1 … 30", "broker 7", "broker 12"]
    assert picture.height < 400


def test_what_is_dark_for_one_is_that_one_s_way_and_not_the_broker() -> None:
    picture = drawn([seen.report("nm1", [seen.walk(1, "TCP_TIMEOUT")]), seen.report("nm2", [seen.walk(1)])])
    assert [(box.name, box.state) for box in picture.boxes if box.kind in ("node", "broker")] == [
        ("nm1", "broken"), ("nm2", "ok"), ("broker 1", "ok"),
    ]  # fmt: skip


codes = st.sampled_from([None, None, None, "TCP_TIMEOUT", "NOT_REWRITTEN", "WRONG_BROKER", "UNPROVEN"])


@settings(max_examples=60, deadline=None)
@given(data=st.data(), nodes=st.integers(0, 14), brokers=st.integers(0, 20), gateways=st.integers(0, 6))
def test_nothing_overlaps_and_nothing_leaves_the_picture(
    data: st.DataObject, nodes: int, brokers: int, gateways: int
) -> None:
    def walks() -> list[dict[str, Any]]:
        clusters = data.draw(st.lists(st.sampled_from(["hq", "dr"]), min_size=brokers, max_size=brokers))
        return [seen.walk(n, data.draw(codes), cluster=cluster) for n, cluster in enumerate(clusters)]

    reports = [seen.report(f"n{n}", walks()) for n in range(nodes)]
    reports += [seen.report(f"g{n}", walks(), "gateway", (f"198.51.100.{n}",)) for n in range(gateways)]
    picture = drawn(reports)
    assert all(
        min(b.x, b.y) >= 0 and b.x + b.width <= picture.width and b.y + b.height <= picture.height
        for b in picture.boxes
    )
    assert not [pair for pair in combinations(picture.boxes, 2) if overlap(*pair)]
    assert all(len(box.name) <= 24 and len(box.more) <= 26 for box in picture.boxes)
    assert len(picture.boxes) <= 8 + 4 + 2 * 12
    asked = {cell.state for row in report_matrix.make(reports).rows for cell in row.cells}
    assert ("broken" in {line.state for line in picture.lines}) == ("broken" in asked)


def overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("nm1", "nm1"), ("203.0.113.21:9092 … 203.0.113.50:9092", "203.0.113.21:9092 …"), ("a" * 40, "a" * 23 + "…")],
)
def test_long_names_are_cut(text: str, expected: str) -> None:
    assert report_picture.short(text) == expected


def test_the_page_is_made_of_json_as_the_doctor_writes_it() -> None:
    reports = json.loads(json.dumps(seen.small()))
    assert len(page(reports).rows) == 4
