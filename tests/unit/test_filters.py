"""The controller's face of the core: the same answers, Ansible's errors."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.kafka.natmap.plugins.filter import natmap as filters
from ansible_collections.kafka.natmap.plugins.module_utils import planner
from unit.maps import broker, cluster_map
from unit.nodes import answer, printed

GOOD = cluster_map(broker(id=1))
BAD = cluster_map(broker("127.0.0.1:1"), owner="NO")


def test_problems_are_texts() -> None:
    assert filters.read_map(GOOD)["problems"] == []
    problems = filters.read_map(BAD)["problems"]
    assert len(problems) == 2
    assert all("Mend: " in problem for problem in problems)


def test_a_map_that_was_read_is_the_same_map_as_text() -> None:
    assert filters.node_plan(filters.read_map(GOOD)["text"], answer(), "nm1", ["yarn_nodes"]) == filters.node_plan(
        GOOD, answer(), "nm1", ["yarn_nodes"]
    )


@pytest.mark.parametrize("use", [filters.questions, filters.secrets])
def test_a_bad_map_is_one_clear_message(use: Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"(?s)the NAT map cannot be used:\nnat_map.owner: .*loopback"):
        use(BAD)


def test_inspect_is_asked_what_the_map_needs() -> None:
    asked = json.loads(
        filters.questions(
            cluster_map(
                broker("kafka-1:9092", id=1), scope={"users": ["yarn"], "groups": ["hadoop"]}, mechanism="nginx_stream"
            ),
            "NFT",
            "IPT",
            "NOTRACK",
        )
    )
    assert (asked["users"], asked["groups"], asked["names"]) == (["yarn"], ["hadoop"], ["kafka-1"])
    assert asked["samples"] == {"nftables": "NFT", "iptables": "IPT", "notrack": "NOTRACK"}
    assert asked["nginx_asked"]
    assert not asked["iptables_asked"]
    assert "203.0.113.21" in asked["addresses"]
    assert not json.loads(filters.questions(GOOD))["nginx_asked"]
    assert json.loads(filters.questions(cluster_map(broker(), mechanism="iptables")))["iptables_asked"]


@pytest.mark.parametrize(("groups", "pairs"), [(["yarn_nodes"], 1), (["nat_gateways"], 0), (["spark_edge"], 0)])
def test_a_host_s_part_follows_its_groups(groups: list[str], pairs: int) -> None:
    plan = filters.node_plan(GOOD, answer(), "nm1", groups)
    assert plan["problems"] == []
    assert sum(len(rules["pairs"]) for rules in json.loads(plan["text"])["rules"]) == pairs


def test_a_plan_s_problems_are_data() -> None:
    plan = filters.node_plan(GOOD, answer(users={"yarn": None}), "nm1", ["yarn_nodes"])
    assert plan["problems"] == [
        "nat_map.clusters.hq.scope: user yarn does not exist here. Mend: create the user, or take it out of the scope."
    ]


def test_a_bundle_holds_only_texts_that_are_there() -> None:
    texts = {"nftables": "T", "iptables": "", "hosts": ""}
    light = filters.node_bundle(GOOD, answer(), "nm1", ["yarn_nodes"], texts, {"main": "U", "nginx": ""})
    made = json.loads(light["text"])
    assert made["digest"] == light["digest"]
    assert made["texts"] == {"nftables": "T"}
    assert made["units"] == {"kafka-natmap-default.service": "U"}
    assert made["names"]["python"] == "/usr/bin/python3"


def test_a_switch_without_a_probe_asks_nobody() -> None:
    made = filters.node_bundle(GOOD, answer(), "nm1", ["yarn_nodes"], {"nftables": "T"}, {})
    asked = json.loads(filters.switch_request(made, False, 30, "ops"))
    assert (asked["bundle"]["probe"], asked["window"], asked["who"]) == ([], 30, "ops")
    assert json.loads(filters.switch_request(made, True, 30, "ops"))["bundle"]["probe"]


@pytest.mark.parametrize(
    ("result", "problems"),
    [
        ({"answer": {"state": "confirmed"}}, []),
        ({}, []),
        ({"answer": {"state": "refused", "refusal": {"cause": "full", "mend": "empty it"}}}, ["full. Mend: empty it."]),
        (
            {"answer": {"state": "undone", "failed": ["broker 1"]}},
            ["The probe failed, and this node has undone its change.", "broker 1"],
        ),
        ({"unreachable": True}, ["The connection was lost while the switch ran. Mend: make status."]),
    ],
)
def test_what_stops_a_roll_out(result: Any, problems: list[str]) -> None:
    assert filters.switch_problems(result) == problems
    assert filters.stopped(["a", "b"], {"a": {"switch_result": result}, "b": {}}) == (["a"] if problems else [])


def test_secrets_are_apart() -> None:
    data = cluster_map(broker(), hq={"security": {"protocol": "SASL_SSL", "mechanism": "PLAIN", "password": "hidden"}})
    assert filters.secrets(data) == {"hq": {"password": "hidden"}}
    assert "hidden" not in json.dumps(filters.probe_requests(data, answer(), "nm1", ["yarn_nodes"]))
    assert "hidden" not in json.dumps(filters.read_map(data))


class VaultText:
    """A Vault text as ansible-core before 2.19 hands it over."""

    __ENCRYPTED__ = True

    def __str__(self) -> str:
        return "hidden"


def test_vault_texts_are_read() -> None:
    data = cluster_map(
        broker(), hq={"security": {"protocol": "SASL_SSL", "mechanism": "PLAIN", "password": VaultText()}}
    )
    assert filters.read_map(data)["problems"] == []
    assert filters.secrets(data) == {"hq": {"password": "hidden"}}


@pytest.mark.parametrize(("via", "end"), [(None, ""), ("10.9.9.1", " via 10.9.9.1")])
def test_routes_are_lines_of_ip_route(via: str | None, end: str) -> None:
    routes = {
        "192.0.2.21": {"source": None, "error": "Network is unreachable"},
        "203.0.113.21": {"source": "10.1.1.5", "device": "eth0", "via": via},
    }
    data = cluster_map(broker(id=1), add_routes=True)
    made = filters.node_bundle(data, answer(routes=routes), "nm1", ["yarn_nodes"], {}, {})
    assert json.loads(made["text"])["texts"]["routes"] == f"192.0.2.21 dev eth0{end}\n"


def test_answers_are_collected_by_host() -> None:
    hostvars: dict[str, Any] = {"a": {"switch_result": {"answer": {"proof": 1}}}, "b": {}, "c": {"switch_result": {}}}
    assert filters.collect(["a", "b", "c"], hostvars, "proof") == {"a": 1, "b": None, "c": None}
    assert filters.collect(["a"], hostvars) == {"a": {"proof": 1}}


def test_kafka_python_is_sent_only_where_it_is_missing() -> None:
    content = base64.b64decode(filters.kafka_python(None) or "")
    assert filters.kafka_python(hashlib.sha256(content).hexdigest()) is None
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert "kafka/__init__.py" in archive.namelist()


def test_a_folder_without_the_program_is_refused(tmp_path: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="holds no node program"):
        filters.program(str(tmp_path))


def test_ansible_finds_every_filter() -> None:
    assert all(callable(one) for one in filters.FilterModule().filters().values())


def test_a_plan_s_plain_data_is_what_the_templates_take() -> None:
    natmap = filters._read(GOOD)
    plan = planner.plan_node(natmap, filters._node(answer(), "nm1", ["yarn_nodes"]))
    assert filters.node_plan(GOOD, answer(), "nm1", ["yarn_nodes"])["text"] == json.dumps(plan.as_dict())
    assert printed(plan)


def test_a_plan_is_printed_and_a_template_without_its_values_is_named(tmp_path: Path) -> None:
    template = tmp_path / "one.j2"
    template.write_text("{% for pair in plan.pairs %}\n{{ pair }} {{ more }}\n{% endfor %}\n")
    assert filters.printed('{"pairs": ["a", "b"]}', str(template), more=1) == "a 1\nb 1\n"
    with pytest.raises(AnsibleFilterError, match=r"one\.j2 cannot be printed: 'more' is undefined"):
        filters.printed('{"pairs": ["a"]}', str(template))
    with pytest.raises(AnsibleFilterError, match=r"two\.j2"):
        filters.printed("{}", str(tmp_path / "two.j2"))
