"""From what was seen to findings: the code, the hop, and what is left out because it only follows."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_doctor_around import Rules
from kafka_doctor_diagnosis import Diagnosis
from kafka_doctor_findings import CODES, DETAILS, RANK, finding, ordered, verdict

ADVERTISED = {1: "192.0.2.21:9092", 2: "192.0.2.22:9092", 3: "kafka-3:9092"}
REACHABLE = {1: "203.0.113.21:9092", 2: "203.0.113.22:9092", 3: "203.0.113.23:9092"}
WHO = {"uid": 991, "gid": 990, "groups": [], "label": "yarn"}
GENERATION = {
    "pairs": [["192.0.2.21", 9092, "203.0.113.21", 9092], ["192.0.2.22", 9092, "203.0.113.22", 9092]],
    "prefixes": [],
    "who": [["uid", 991, 991]],
    "names": {},
}


class Kept(Rules):
    """Rules of a generation of which these addresses are loaded."""

    def __init__(self, generation: Any, loaded: Any = ("192.0.2.21", "192.0.2.22"), foreign: str | None = None) -> None:
        super().__init__({"data-platform": generation} if generation else {})
        self.there, self.taker = loaded, foreign

    def loaded(self, address: Any) -> bool:
        return address[0] in self.there

    def foreign(self, address: Any, identity: Any) -> str | None:
        return self.taker


def row(node: int, code: str | None = None, hop: str = "tcp", role: str = "broker", **more: Any) -> dict[str, Any]:
    """One walked way; a broken one ends at `hop`."""
    asked = more.pop("asked", ADVERTISED[node] if role != "bootstrap" else REACHABLE[node])
    hops = {
        "name": said("ok"),
        "tcp": said("ok"),
        "api": said("ok"),
        "metadata": said("ok"),
        "size": said("ok"),
        "identity": said("ok"),
    }
    if code:
        names = list(hops)
        hops = {name: hops[name] for name in names[: names.index(hop)]} if hop in names else {"name": said("ok")}
        hops[hop] = said("broken", "seen " + code)
    found = {
        "role": role, "of": None, "asked": asked, "code": code, "detail": "", "evidence": "seen " + (code or "it"),
        "hops": hops, "latency_ms": None if code else 1.0, "address": asked, "addresses": [asked.rpartition(":")[0]], "dead": [],
        "flow": ["198.51.100.5", 40000 + node, asked.rpartition(":")[0], 9092],
    }  # fmt: skip
    return found | more


def said(state: str, text: str = "") -> dict[str, Any]:
    return {"state": state, "ms": 1.0, "said": text}


def exam(walks: list[Any], **more: Any) -> dict[str, Any]:
    found = {
        "name": "hq", "cluster_id": "C", "protocol": "PLAINTEXT", "views": [[REACHABLE[1], "C", {str(n): a for n, a in ADVERTISED.items()}]],
        "owners": [[address, node] for node, address in ADVERTISED.items()], "held": [1, 2, 3], "in_sync": [1, 2, 3], "hidden": [],
        "gone": [], "references": [], "walks": walks,
    }  # fmt: skip
    return found | more


def diagnose(
    found: dict[str, Any],
    rewritten: dict[int, str | None] | None = None,
    rules: Rules | None = None,
    pairs: Any = (1, 2),
    hosts: Any = None,
    ids: Any = None,
    **request: Any,
) -> Diagnosis:
    rewritten = {1: REACHABLE[1], 2: REACHABLE[2], 3: None} if rewritten is None else rewritten
    asked = {
        "bootstrap": [REACHABLE[n] for n in (1, 2)],
        "networks": [],
        "brokers": [
            {"id": (ids or {}).get(n, n), "advertised": ADVERTISED[n], "reachable": REACHABLE[n]} for n in pairs
        ],
    }
    flows = {tuple(one["flow"]): {"to": rewritten.get(one["flow"][1] - 40000)} for one in found["walks"] if one["flow"]}
    view = {"rules": rules or Kept(GENERATION), "hosts": hosts or {}, "routes": {}, "rewritten": flows}
    asked_of = {"node": "nm1", "map": True, "owner": "data-platform", "path": "advertised"} | request
    made = Diagnosis(found, asked, asked_of, WHO, view)
    made.examine()
    return made


def told(made: Diagnosis) -> list[tuple[str, str, str | None, str]]:
    return [(one["code"], one["hop"]["name"], one["advertised"], one["severity"]) for one in ordered(made.findings)]


GOOD = [row(1), row(2)]


def test_good_ways_are_no_findings() -> None:
    assert told(diagnose(exam([row(1), row(2), row(3)]))) == []


@pytest.mark.parametrize("code", ["TCP_REFUSED", "TCP_TIMEOUT"])
def test_a_mapped_broker_that_is_not_reached(code: str) -> None:
    made = diagnose(exam([row(1, code), row(2)]))
    assert told(made) == [(code, "tcp", ADVERTISED[1], "error")]
    assert made.findings[0]["hop"]["address"] == "203.0.113.21", (
        "the address behind the rule is the one that does not answer"
    )
    states = [hop["state"] for hop in made.walks[0]["hops"]]
    assert states[states.index("broken") + 1 :] == ["not reached"] * (len(states) - states.index("broken") - 1)


def test_a_broker_outside_the_map_is_unmapped_only_where_it_cannot_be_reached() -> None:
    made = diagnose(exam([*GOOD, row(3, "TCP_TIMEOUT")]))
    assert told(made) == [("UNMAPPED_BROKER", "tcp", ADVERTISED[3], "error")]
    assert "{id: 3, advertised: 'kafka-3:9092'" in made.findings[0]["mend"]
    without = diagnose(exam([row(3, "TCP_TIMEOUT")]), pairs=(), map=False)
    assert [(one["code"], one["detail"]) for one in without.findings] == [("TCP_TIMEOUT", "unmapped_free")]


RULES = [
    ("not applied", Kept(None), "NOT_REWRITTEN", "not_applied"),
    ("another scope", Kept({**GENERATION, "who": [["uid", 5, 9]]}), "SCOPE_WRONG", "old_scope"),
    ("the rule is gone", Kept(GENERATION, loaded=()), "NOT_REWRITTEN", "missing_rule"),
    ("passed by", Kept(GENERATION), "NOT_REWRITTEN", "counter_still"),
]


@pytest.mark.parametrize(("rules", "code", "detail"), [case[1:] for case in RULES], ids=[case[0] for case in RULES])
def test_why_a_connection_was_not_rewritten(rules: Rules, code: str, detail: str) -> None:
    made = diagnose(exam([row(1, "TCP_TIMEOUT"), row(2)]), {1: None, 2: REACHABLE[2]}, rules)
    assert told(made) == [(code, "rule", ADVERTISED[1], "error")]
    assert made.findings[0]["detail"] == detail
    assert [hop["state"] for hop in made.walks[0]["hops"]][-5:] == ["not reached"] * 5


def test_a_connection_that_needs_no_rule_is_a_note() -> None:
    assert told(diagnose(exam([row(1)]), {1: None}, pairs=(1,))) == [("NOT_REWRITTEN", "rule", ADVERTISED[1], "note")]


def test_a_foreign_rule_is_named() -> None:
    made = diagnose(
        exam([row(1, "TCP_REFUSED"), row(2)]),
        {1: "10.0.0.9:1", 2: REACHABLE[2]},
        Kept(GENERATION, foreign="docker: dnat"),
    )
    assert told(made) == [("FOREIGN_RULE", "rule", ADVERTISED[1], "error")]
    assert "10.0.0.9:1" in made.findings[0]["evidence"]
    assert "docker: dnat" in made.findings[0]["evidence"]


def test_who_answers_outweighs_who_rewrote() -> None:
    made = diagnose(exam([row(1, "WRONG_BROKER", "identity"), row(2)]), {1: "10.0.0.9:1", 2: REACHABLE[2]})
    assert told(made) == [("WRONG_BROKER", "identity", ADVERTISED[1], "error")]


def test_an_older_plan_is_told() -> None:
    made = diagnose(exam(GOOD), {1: REACHABLE[1], 2: REACHABLE[2]}, pairs=(1,))
    assert told(made) == [("UNMAPPED_BROKER", "rule", ADVERTISED[2], "warning")]


def test_an_nginx_of_ours_is_no_older_plan() -> None:
    conf = "stream { server { listen 127.70.1.2:9092; proxy_pass 203.0.113.21:9092; } }"
    pair = ["192.0.2.21", 9092, "127.70.1.2", 9092]
    rules = Kept({**GENERATION, "pairs": [pair], "texts": {"nginx": conf}})
    assert told(diagnose(exam([row(1)]), {1: "127.70.1.2:9092"}, rules, pairs=(1,))) == []


def test_several_brokers_behind_one_address_are_balanced() -> None:
    made = diagnose(
        exam([row(1), row(2, "WRONG_BROKER", "identity", latency_ms=1.0)]), {1: REACHABLE[1], 2: REACHABLE[1]}
    )
    assert ("PROXY_BALANCED", "identity", ADVERTISED[2], "error") in told(made)


def test_a_wrong_line_in_hosts_is_blamed_and_ours_is_not() -> None:
    broken = row(3, "TCP_TIMEOUT", address="10.0.0.7:9092", addresses=["10.0.0.7"])
    found = exam([*GOOD, broken])
    made = diagnose(found, pairs=(1, 2, 3), hosts={"kafka-3": [(7, "10.0.0.7", None)]})
    assert told(made) == [("DNS", "name", ADVERTISED[3], "error")]
    assert "line 7 of /etc/hosts" in made.findings[0]["evidence"]
    ours = diagnose(exam([*GOOD, dict(broken)]), pairs=(1, 2, 3), hosts={"kafka-3": [(7, "10.0.0.7", "data-platform")]})
    assert told(ours) != told(made)


def test_bootstrap_alone() -> None:
    dead = exam(
        [row(1, "TCP_TIMEOUT", role="bootstrap"), row(2, "TCP_REFUSED", role="bootstrap")],
        views=[],
        owners=[],
        held=[],
        in_sync=[],
    )
    assert told(diagnose(dead)) == [("BOOTSTRAP_UNREACHABLE", "tcp", None, "error")]
    one = exam([row(1, "TCP_TIMEOUT", role="bootstrap"), row(2, role="bootstrap"), *GOOD])
    assert told(diagnose(one, pairs=(2,))) == [
        ("UNMAPPED_BROKER", "rule", ADVERTISED[1], "warning"),
        ("TCP_TIMEOUT", "tcp", REACHABLE[1], "warning"),
    ]
    login = exam(
        [row(1, "SASL", "sasl", role="bootstrap", detail="login")],
        views=[],
        owners=[],
        held=[],
        in_sync=[],
        protocol="SASL_PLAINTEXT",
    )
    assert told(diagnose(login, pairs=())) == [("SASL", "sasl", REACHABLE[1], "error")]


def test_a_bootstrap_address_whose_broker_has_a_finding_is_not_told_twice() -> None:
    found = exam([row(1, "TCP_TIMEOUT", role="bootstrap"), row(2, role="bootstrap"), row(1, "TCP_TIMEOUT"), row(2)])
    assert told(diagnose(found)) == [("TCP_TIMEOUT", "tcp", ADVERTISED[1], "error")]


def test_bootstrap_addresses_that_differ_are_mixed() -> None:
    views = [[REACHABLE[1], "C", {"1": ADVERTISED[1]}], [REACHABLE[2], "C", {"1": "internal:9092"}]]
    made = diagnose(exam(GOOD, views=views))
    assert told(made) == [("MIXED_LISTENERS", "metadata", None, "error")]
    assert "internal:9092" in made.findings[0]["evidence"]
    assert told(diagnose(exam(GOOD, views=[views[0], [REACHABLE[2], *views[0][1:]]]))) == []


def test_another_cluster_behind_an_address_is_told_once() -> None:
    views = [[REACHABLE[1], "C", {"1": ADVERTISED[1]}], [REACHABLE[2], "D", {"9": "other:9092"}]]
    made = diagnose(exam([row(1), row(2, "WRONG_CLUSTER", "identity", latency_ms=1.0)], views=views))
    assert told(made) == [("WRONG_CLUSTER", "identity", ADVERTISED[2], "error")]


def test_a_mapped_broker_that_nobody_names() -> None:
    owners = [[ADVERTISED[1], 1]]
    assert told(diagnose(exam([row(1)], owners=owners, held=[1, 2], in_sync=[1]))) == [
        ("DOWN_AT_HQ", "metadata", ADVERTISED[2], "warning")
    ]
    gone = exam([row(1)], owners=owners, held=[1], in_sync=[1])
    assert told(diagnose(gone)) == [("STALE_ENTRY", "map", ADVERTISED[2], "warning")]
    hidden = exam([row(1)], owners=owners, held=[1, 2], in_sync=[1, 2], hidden=[["orders", 0]])
    made = diagnose(hidden)
    assert told(made) == [("LISTENER_MISSING", "metadata", ADVERTISED[2], "error")]
    assert "LISTENER_NOT_FOUND at orders-0" in made.findings[0]["evidence"]


def test_a_broker_that_died_meanwhile_is_down() -> None:
    assert told(diagnose(exam([row(1, "TCP_REFUSED"), row(2)], gone=[1]))) == [
        ("DOWN_AT_HQ", "tcp", ADVERTISED[1], "warning")
    ]


def test_an_id_that_differs_from_the_map_s_is_a_warning() -> None:
    assert told(diagnose(exam(GOOD), ids={1: 7})) == [("WRONG_BROKER", "map", ADVERTISED[1], "warning")]


def test_coordinators_and_leaders_follow_their_broker() -> None:
    references = [
        {"role": "coordinator", "of": "group etl", "id": 1, "address": ADVERTISED[1], "error": 0},
        {"role": "leader", "of": "topic orders", "id": 2, "address": ADVERTISED[2], "error": 0},
        {"role": "leader", "of": "topic none", "id": None, "address": None, "error": 3},
    ]
    made = diagnose(exam([row(1, "TCP_TIMEOUT"), row(2)], references=references))
    assert told(made) == [
        ("TCP_TIMEOUT", "tcp", ADVERTISED[1], "error"),
        ("COORDINATOR_UNREACHABLE", "tcp", ADVERTISED[1], "error"),
        ("LEADER_UNREACHABLE", "metadata", None, "error"),
    ]


def test_a_group_without_coordinator_and_a_topic_without_leader() -> None:
    references = [
        {"role": "coordinator", "of": "group etl", "id": -1, "address": None, "error": 15},
        {"role": "leader", "of": "topic orders", "id": -1, "address": None, "error": 72},
    ]
    made = diagnose(exam(GOOD, references=references))
    assert [one["detail"] for one in made.findings] == ["no_coordinator", "no_leader"]


# ------------------------------------------------------------ findings themselves


@pytest.mark.parametrize("code", CODES)
def test_every_code_reads_without_gaps(code: str) -> None:
    about = {
        "node": "nm1", "cluster": "hq", "user": "yarn", "broker": 1, "advertised": "kafka-1:9092", "reachable": "203.0.113.21:9092",
        "address": "203.0.113.21:9092", "of": "group etl", "bootstrap": "203.0.113.21:9092", "source": "198.51.100.5", "source_port": 40000,
    }  # fmt: skip
    for detail in ("", *DETAILS):
        one = finding(code, "tcp", "seen", about, detail)
        assert "?" not in one["cause"] + one["mend"]
        assert not one["cause"].endswith(".")
        assert not one["mend"].endswith(".")


def test_unknown_parts_do_not_stop_a_report() -> None:
    assert finding("WRONG_BROKER", "identity", "seen", {"node": "nm1"})["hop"]["port"] is None


def test_order_and_verdict() -> None:
    codes = ["STALE_ENTRY", "COORDINATOR_UNREACHABLE", "TCP_TIMEOUT", "TCP_TIMEOUT"]
    found = ordered([finding(code, "tcp", "seen", {"node": "nm1", "advertised": "a:1"}) for code in codes])
    assert [one["code"] for one in found] == ["TCP_TIMEOUT", "COORDINATOR_UNREACHABLE", "STALE_ENTRY"]
    assert verdict(found, [])["code"] == "TCP_TIMEOUT"
    note = [finding("NOT_REWRITTEN", "rule", "seen", {}, severity="note")]
    assert verdict(note, [])["state"] == "healthy"
    assert len(RANK) == len(CODES)
