"""The change plan: what is signed, what is shown, and what each kind of host looks like in it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.filter import reports
from ansible_collections.kafka.natmap.plugins.module_utils import change_plan
from unit.fleet import UNREACHABLE, facts, fleet
from unit.nodes import ROOT

TEMPLATE = str(ROOT / "templates" / "plan.html.j2")


def made(hostvars: dict[str, Any], **others: Any) -> dict[str, Any]:
    arguments = {"owner": "team", "made_at": "2026-01-02T03:04:05Z", "made_by": "ann", "window": 60, **others}
    plan = reports.make_change_plan(list(hostvars), hostvars, **arguments, template=TEMPLATE)
    return json.loads(plan["files"]["plan.json"])  # type: ignore[no-any-return]


def test_the_exact_lines_of_each_layer_are_told() -> None:
    [change] = made({"nm1": facts()})["changes"].values()
    assert change["layers"] == [
        {"what": "hosts", "added": 1, "removed": 1, "diff": ["@@ -1,2 +1,2 @@", " one", "-old", "+new"]}
    ]
    assert change["entries"][0]["reason"] == "the broker advertises an address"
    assert change["conntrack"] == "tracks only the mapped"


def test_hosts_with_the_same_change_share_it() -> None:
    plan = made(fleet(5))
    assert len(plan["changes"]) == 1
    assert len({node["change"] for node in plan["nodes"]}) == 1


def test_the_digest_is_of_what_is_and_what_will_be_not_of_counts_or_times() -> None:
    first = made({"nm1": facts()})
    later = made({"nm1": facts(processes={"user yarn": 99})}, made_at="2027-01-01T00:00:00Z", made_by="bob")
    assert first["digest"] == later["digest"]
    assert first["checksum"] != later["checksum"]
    for other in (facts(digest="b" * 64), facts(before_digest="c" * 64)):
        assert made({"nm1": other})["digest"] != first["digest"]
    assert made({"nm2": facts()})["digest"] != first["digest"]
    assert made({"nm1": facts()}, owner="other")["digest"] != first["digest"]


@pytest.mark.parametrize(
    ("hostvars", "state", "said"),
    [
        (facts(), "change", ""),
        (facts(changes=[]), "same", ""),
        (facts(refusal={"cause": "no systemd", "mend": "use a host with it"}), "refused", "no systemd"),
        ({"plan_inspected": {"answer": {}}, "plan_result": {"problems": ["a: b. Mend: c."]}}, "refused", "a: b"),
        ({"plan_inspected": {"failed": True, "msg": "not root. Mend: become."}}, "refused", "not root"),
        ({"plan_inspected": UNREACHABLE}, "unreached", "it was not asked"),
        ({}, "unreached", "it was not asked"),
        ({**facts(), "switch_preview": UNREACHABLE}, "unreached", "could not be asked"),
        ({**facts(), "switch_preview": {"failed": True, "msg": "boom"}}, "refused", "boom"),
    ],
)
def test_every_end_of_a_host_has_its_state(hostvars: dict[str, Any], state: str, said: str) -> None:
    plan = made({"nm1": hostvars})
    [node] = plan["nodes"]
    assert node["state"] == state
    assert said in " ".join(refusal["cause"] for refusal in node["refusals"])
    assert all(refusal["mend"] for refusal in node["refusals"])
    assert plan["counts"][state] == 1
    assert (node["digest"] is None) == (state in ("refused", "unreached"))


def test_the_terminal_names_what_stands_in_the_way_and_who_is_beside_us() -> None:
    found = [{"name": "firewalld", "active": True, "effect": "leaves other tables alone"}]
    hostvars = {**fleet(2, neighbours=found), "nm9": {"plan_inspected": UNREACHABLE}}
    text = "\n".join(change_plan.plan_lines(made(hostvars)))
    assert text.startswith("Not complete: of 3 hosts 1 not reached, 2 will change.")
    assert "nm9: it was not asked. Mend: make it reachable" in text
    assert "firewalld on nm1, nm2: leaves other tables alone" in text
    assert "note for nm1, nm2: a notice" in text


class Page(HTMLParser):
    """Which elements are open, which point elsewhere, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append(tag)
        self.ids.add(named.get("id") or "")
        self.links += [value for key, value in attrs if key in ("href", "src") and value]
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_alone_and_escapes_what_hosts_say() -> None:
    evil = [{"what": "hosts", "before": "", "after": "<script>alert(1)</script> & co\n"}]
    plan = made({"nm<1>": facts(changes=evil), "nm2": {"plan_inspected": UNREACHABLE}})
    page = Page(reports.change_plan_page(plan, TEMPLATE))
    assert page.open == []
    assert "script" not in page.tags
    assert "+<script>alert(1)</script> & co" in page.text
    assert "nm<1>" in page.text
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert plan["digest"] in page.text
    assert page.tags.count("main") == page.tags.count("h1") == 1


def test_long_changes_are_folded_and_none_is_left_out() -> None:
    long = [{"what": "nftables", "before": "", "after": "".join(f"rule {n}\n" for n in range(100))}]
    text = reports.change_plan_page(made({"nm1": facts(changes=long)}), TEMPLATE)
    assert "<details><summary>" in text
    assert all(f"+rule {n}<" in text for n in range(100))


def test_a_line_end_that_is_missing_is_a_difference() -> None:
    assert change_plan.diff("a\n", "a") == ("@@ -1 +1 @@", "-a", "+a (no line end)")
