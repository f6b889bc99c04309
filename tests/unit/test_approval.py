"""An approved plan: a file that was not signed is refused; a host that it does not fit is left out and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.filter import reports
from unit.fleet import UNREACHABLE, facts, fleet
from unit.nodes import ROOT

OWNER = "team"
TEMPLATE = str(ROOT / "templates" / "plan.html.j2")


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    """The plan of nm1 and nm2."""
    path = tmp_path / "plan.json"
    path.write_text(written(fleet(2)))
    return path


def written(hostvars: dict[str, Any], owner: str = OWNER) -> str:
    made = reports.make_change_plan(list(hostvars), hostvars, owner, "2026-01-02T03:04:05Z", "ann", 60, TEMPLATE)
    return str(made["files"]["plan.json"])


def gate(path: Path | str, hostvars: dict[str, Any], **others: Any) -> dict[str, Any]:
    return reports.gate(list(hostvars), hostvars, OWNER, str(path), **others)


def test_the_plan_goes_where_it_fits(signed: Path) -> None:
    decided = gate(signed, fleet(2))
    assert decided["go"] == ["nm1", "nm2"]
    assert decided["skip"] == {}
    assert decided["problems"] == []


def test_a_host_that_holds_the_plan_already_may_be_asked_again(signed: Path) -> None:
    assert gate(signed, fleet(2, changes=[], before_digest="a" * 64))["go"] == ["nm1", "nm2"]


OTHER = [{"what": "hosts", "before": "one\nold\n", "after": "one\nelse\n"}]


@pytest.mark.parametrize(
    ("host", "hostvars", "said"),
    [
        ("nm2", facts(digest="b" * 64, changes=OTHER), "not approved: '+else'"),
        ("nm2", facts(digest="b" * 64, changes=OTHER), "no longer to be done: '+new'"),
        ("nm2", facts(before_digest="9" * 64), "changed since; what it holds now is not what it held then"),
        ("nm2", facts(refusal={"cause": "disk full", "mend": "free it"}), "refused now; disk full. Mend: free it."),
        ("nm2", {"plan_inspected": UNREACHABLE}, "missing: not reached"),
        ("nm3", facts(), "new: not in the approved plan"),
        ("nm3", {"plan_inspected": UNREACHABLE}, "new and not reached"),
    ],
)
def test_other_hosts_are_left_out_and_named(signed: Path, host: str, hostvars: dict[str, Any], said: str) -> None:
    decided = gate(signed, {**fleet(2), host: hostvars})
    assert said in decided["skip"][host]
    assert host not in decided["go"]
    assert "nm1" in decided["go"]
    assert decided["problems"] == []
    strict = gate(signed, {**fleet(2), host: hostvars}, strict=True)
    assert strict["go"] == []
    assert any(problem.startswith(f"{host}: ") and "Mend: " in problem for problem in strict["problems"])


def test_a_host_that_left_the_inventory_is_named(signed: Path) -> None:
    assert gate(signed, fleet(1))["skip"] == {"nm2": "missing: not in the inventory"}


def test_a_host_that_the_run_leaves_out_is_named(signed: Path) -> None:
    decided = reports.gate(["nm1"], fleet(2), OWNER, str(signed))
    assert decided["skip"] == {"nm2": "left out of this run"}


def test_what_was_refused_when_it_was_signed_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(written({**fleet(1), "nm2": {"plan_inspected": UNREACHABLE}}))
    decided = gate(path, fleet(2))
    assert decided["go"] == ["nm1"]
    assert decided["skip"] == {"nm2": "the approved plan holds nothing for it: it was not reached"}


def edited(text: str, **others: Any) -> str:
    return json.dumps({**json.loads(text), **others})


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[: len(text) // 2], "not whole"),
        (lambda text: "", "not whole"),
        (lambda text: text.replace('"+new"', '"+evil"'), "changed after it was made"),
        (lambda text: edited(text, window=0), "changed after it was made"),
        (lambda text: "[1]", "no change plan"),
        (lambda text: edited(text, schema=99), "schema 99"),
        (lambda text: written(fleet(2), "other"), "for the owner 'other'"),
        (lambda text: written({"elsewhere": facts()}), "none of the approved plan's hosts is in this inventory"),
    ],
)
def test_a_file_that_was_not_signed_touches_nothing(signed: Path, damage: Any, said: str) -> None:
    signed.write_text(damage(signed.read_text()))
    decided = gate(signed, fleet(2))
    assert decided["go"] == []
    assert said in decided["problems"][0]
    assert "Mend: " in decided["problems"][0]


def test_a_file_that_is_no_text_is_named(signed: Path) -> None:
    signed.write_bytes(b"\xff\xfe\x00")
    assert "it is no text" in gate(signed, fleet(2))["problems"][0]


def test_another_digest_than_the_signed_one_is_refused(signed: Path) -> None:
    digest = json.loads(signed.read_text())["digest"]
    assert gate(signed, fleet(2), approved_digest=digest)["go"] == ["nm1", "nm2"]
    assert "was signed" in gate(signed, fleet(2), approved_digest="f" * 64)["problems"][0]
    assert "no approved_plan" in gate("", fleet(2), approved_digest=digest)["problems"][0]


def planned(number: int) -> dict[str, Any]:
    """Hosts as `apply` sees them without an approved plan: nobody has asked for a preview."""
    return {
        host: {key: fact for key, fact in one.items() if key != "switch_preview"} for host, one in fleet(number).items()
    }


def test_without_an_approved_plan_one_host_that_refuses_stops_all() -> None:
    bad = {"plan_inspected": {"answer": {}}, "plan_result": {"problems": ["nm3: no nft. Mend: install it."]}}
    decided = gate("", {**planned(2), "nm3": bad})
    assert decided["go"] == []
    assert decided["problems"] == ["nm3: nm3: no nft. Mend: install it."]


def test_without_an_approved_plan_hosts_that_are_away_are_left_out() -> None:
    away = {**planned(2), "nm3": {"plan_inspected": UNREACHABLE}}
    assert gate("", away)["go"] == ["nm1", "nm2"]
    assert "not asked" in gate("", away)["skip"]["nm3"]
    assert gate("", away, all_or_none=True)["go"] == []
