"""The draft: a valid map of proven pairs only, with its reasons, compared with the map that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.kafka.natmap.plugins.filter import discover as filters
from ansible_collections.kafka.natmap.plugins.module_utils import map_draft, map_parser

AT = "2025-01-01T00:00:00Z"
SECRET = "pass-word-19"


def row(node: int, how: str = "guess", **changed: Any) -> dict[str, Any]:
    return {
        "id": node, "advertised": f"192.0.2.{20 + node}:9092", "reachable": f"203.0.113.{20 + node}:9092", "how": how,
        "rule": "the last number kept, 192.0.2.x to 203.0.113.x, the same port", "proof": f"answers as broker {node}", "tried": [], **changed,
    }  # fmt: skip


def lost(node: int, **changed: Any) -> dict[str, Any]:
    tried = {
        "address": "203.0.113.24:9092",
        "rule": "the last number kept",
        "code": "TCP_TIMEOUT",
        "said": "no answer in 1.5 s",
    }
    return row(node, "", reachable=None, tried=[tried], **changed)


def answer(*rows: dict[str, Any], networks: Any = (), **changed: Any) -> dict[str, Any]:
    first = {"address": "203.0.113.21:9092", "ip": "203.0.113.21:9092", "code": "", "said": "answers", "broker": 1}
    return {"cluster_id": "abc", "bootstrap": [first], "brokers": list(rows), "networks": list(networks), "may_guess": True, "seconds": 0.4, **changed}  # fmt: skip


PREFIX = {"advertised": "192.0.2.20/30", "reachable": "203.0.113.20/30", "ports": [9092], "filled": 3, "size": 4}
PRESENT = {
    "owner": "data-platform",
    "scope": {"users": ["etl"]},
    "clusters": {
        "site": {"brokers": [{"id": 9, "advertised": "k:9092", "reachable": "203.0.113.9:9092"}]},
        "old": {
            "mechanism": "iptables",
            "brokers": [
                {"id": 1, "advertised": "192.0.2.21:9092", "reachable": "203.0.113.21:9092"},
                {"id": 2, "advertised": "192.0.2.22:9092", "reachable": "203.0.113.99:9092"},
                {"id": 4, "advertised": "192.0.2.24:9092", "reachable": "203.0.113.24:9092"},
                {"id": 7, "advertised": "192.0.2.27:9092", "reachable": "203.0.113.27:9092"},
            ],
        },
    },
}


def made(said: dict[str, Any], **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    draft = filters.discover_draft(said, "nm1", AT, **more)
    return draft, yaml.safe_load(draft["text"])["nat_map"] if draft["text"] else {}


def test_a_draft_is_a_valid_map_with_its_reasons() -> None:
    draft, data = made(answer(row(1, "named"), row(2), row(3), lost(4), networks=[PREFIX]))
    natmap = map_parser.parse(data)
    assert [(str(b.advertised), str(b.reachable), b.id) for _, b in natmap.brokers()] == [
        (f"192.0.2.{20 + n}:9092", f"203.0.113.{20 + n}:9092", n) for n in (1, 2, 3)
    ]
    assert natmap.clusters[0].cluster_id == "abc"
    assert draft["text"].splitlines()[1].startswith(map_draft.MARK)
    assert "# guess, verified: the last number kept" in draft["text"]
    assert "broker 4 at 192.0.2.24:9092: tried 203.0.113.24:9092 (the last number kept): TCP_TIMEOUT" in draft["text"]
    assert "3 of 4 brokers have a proven way" in draft["lines"][0]


def test_a_proposed_prefix_is_a_comment_that_can_be_taken_in() -> None:
    draft, data = made(answer(row(1, "named"), row(2), row(3), networks=[PREFIX]))
    assert "networks" not in data["clusters"]["hq"]
    taken = draft["text"].replace("# networks:", "networks:").replace("#   - {adv", "  - {adv")
    (network,) = map_parser.parse(yaml.safe_load(taken)["nat_map"]).clusters[0].networks
    assert str(network.advertised) == "192.0.2.20/30"


def test_a_prefix_that_the_parser_would_refuse_is_not_proposed() -> None:
    bad = {**PREFIX, "reachable": "127.0.0.0/30"}
    draft, _ = made(answer(row(1, "named"), row(2), networks=[bad]))
    assert draft["text"]
    assert "networks" not in draft["text"]


def test_nothing_proven_is_nothing_written() -> None:
    draft, data = made(answer(lost(1), lost(2)))
    assert (draft["text"], data) == ("", {})
    assert draft["problems"][0].startswith("Nothing is written")
    failed = {"address": "a:1", "ip": None, "code": "TCP_TIMEOUT", "said": "no answer", "broker": None}
    draft, _ = made(answer(bootstrap=[failed]))
    assert "a:1: TCP_TIMEOUT, no answer. Mend: ask from a host that has a way there (FROM=nm1)" in draft["problems"][0]


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "a,b}", "x\n  evil", "169.254.1.1", "a b", "${x}", "{{ 1 }}", "-"]
)
def test_what_a_broker_says_of_itself_cannot_leave_its_place(host: str) -> None:
    draft, data = made(answer(row(1, "named"), row(2, advertised=f"{host}:9092")))
    assert [pair["id"] for pair in data["clusters"]["hq"]["brokers"]] == [1]
    assert set(data) == {"scope", "clusters"}
    assert all(line.isprintable() for line in draft["lines"])


def test_what_peers_say_stays_in_its_comment() -> None:
    evil = "x\n    evil: {brokers: []}\r\x1b[2J"
    _, data = made(
        answer(
            row(1, "named", rule=evil),
            {**lost(2), "tried": [{"address": "a:1", "rule": "r", "code": "TLS", "said": evil}]},
        )
    )
    assert list(data["clusters"]) == ["hq"]


def test_secrets_become_the_names_of_variables() -> None:
    security = {
        "protocol": "SASL_PLAINTEXT",
        "mechanism": "PLAIN",
        "username": "etl",
        "password": SECRET,
        "cafile": None,
    }
    draft, data = made(answer(row(1, "named")), security=security, cluster="hq-dr")
    assert SECRET not in str(draft)
    assert data["clusters"]["hq-dr"]["security"] == {
        "protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "etl", "password": "{{ vault_hq_dr_password }}",
    }  # fmt: skip


def test_with_tls_the_bootstrap_goes_by_advertised_names() -> None:
    _, data = made(answer(row(1, "named"), row(2)), security={"protocol": "SSL", "cafile": "/etc/hq.pem"})
    assert data["clusters"]["hq"]["bootstrap"] == ["192.0.2.21:9092"]
    _, data = made(answer(row(1, "named"), row(2)))
    assert data["clusters"]["hq"]["bootstrap"] == ["203.0.113.21:9092"]


def test_the_present_map_gives_names_and_is_compared() -> None:
    draft, data = made(answer(row(1, "named"), row(2), row(3), lost(4)), present=PRESENT)
    assert (data["owner"], data["scope"], list(data["clusters"])) == ("data-platform", {"users": ["etl"]}, ["old"])
    assert data["clusters"]["old"]["mechanism"] == "iptables"
    lines = draft["lines"][draft["lines"].index("Cluster old, the present map and the draft") :]
    assert lines[1:] == [
        "  {id: 1, advertised: 192.0.2.21:9092, reachable: 203.0.113.21:9092}",
        "- {id: 2, advertised: 192.0.2.22:9092, reachable: 203.0.113.99:9092}",
        "+ {id: 2, advertised: 192.0.2.22:9092, reachable: 203.0.113.22:9092}",
        "- {id: 4, advertised: 192.0.2.24:9092, reachable: 203.0.113.24:9092} # not proven now",
        "- {id: 7, advertised: 192.0.2.27:9092, reachable: 203.0.113.27:9092} # no broker advertises it",
        "+ {id: 3, advertised: 192.0.2.23:9092, reachable: 203.0.113.23:9092}",
    ]


def test_the_same_map_is_no_difference() -> None:
    body = {"brokers": [{"advertised": "192.0.2.21:9092", "reachable": "203.0.113.21:9092"}]}
    draft, _ = made(answer(row(1, "named")), present={"clusters": {"hq": body}})
    assert "Cluster hq, the present map and the draft: no difference" in draft["lines"]
    draft, _ = made(answer(row(1, "named")), present={"clusters": {"hq": body}}, cluster="new")
    assert "The present map has no cluster new: all of it is new." in draft["lines"]


def test_a_guess_that_was_not_made_says_why() -> None:
    draft, _ = made(answer(row(1, "named"), row(2, reachable=None), may_guess=False))
    assert "the password would go there in clear" in draft["text"]


def test_only_a_draft_is_written_over(tmp_path: Path) -> None:
    place = tmp_path / "nat_map.yml"
    assert filters.draft_place(str(place)) == {"folder": str(tmp_path), "name": "nat_map.yml"}
    place.write_text("---\nnat_map: {}\n")
    with pytest.raises(AnsibleFilterError, match="is no draft"):
        filters.draft_place(str(place))
    place.write_text(f"---\n{map_draft.MARK}, yesterday\n")
    filters.draft_place(str(place))
