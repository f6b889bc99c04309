"""The controller's face of the core: the same answers, Ansible's errors."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
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
    assert filters.map_problems(GOOD) == []
    assert len(filters.map_problems(BAD)) == 2
    assert all("Mend: " in problem for problem in filters.map_problems(BAD))


@pytest.mark.parametrize("use", [filters.questions, filters.sample_plan, filters.secrets])
def test_a_bad_map_is_one_clear_message(use: Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"(?s)the NAT map cannot be used:\nnat_map.owner: .*loopback"):
        use(BAD)


def test_inspect_is_asked_what_the_map_needs() -> None:
    asked = filters.questions(
        cluster_map(
            broker("kafka-1:9092", id=1), scope={"users": ["yarn"], "groups": ["hadoop"]}, mechanism="nginx_stream"
        ),
        "NFT",
        "IPT",
    )
    assert (asked["users"], asked["groups"], asked["names"]) == (["yarn"], ["hadoop"], ["kafka-1"])
    assert asked["samples"] == {"nftables": "NFT", "iptables": "IPT"}
    assert asked["nginx_asked"]
    assert not asked["iptables_asked"]
    assert "203.0.113.21" in asked["addresses"]
    assert not filters.questions(GOOD)["nginx_asked"]
    assert filters.questions(cluster_map(broker(), mechanism="iptables"))["iptables_asked"]


@pytest.mark.parametrize(("groups", "pairs"), [(["yarn_nodes"], 1), (["nat_gateways"], 0), (["spark_edge"], 0)])
def test_a_host_s_part_follows_its_groups(groups: list[str], pairs: int) -> None:
    plan = filters.node_plan(GOOD, answer(), "nm1", groups)
    assert plan["problems"] == []
    assert sum(len(rules["pairs"]) for rules in plan["rules"]) == pairs


def test_a_plan_s_problems_are_data() -> None:
    plan = filters.node_plan(GOOD, answer(users={"yarn": None}), "nm1", ["yarn_nodes"])
    assert plan["problems"] == [
        "nat_map.clusters.hq.scope: user yarn does not exist here. Mend: create the user, or take it out of the scope."
    ]


def test_a_bundle_holds_only_texts_that_are_there() -> None:
    texts = {"nftables": "T", "iptables": "", "hosts": ""}
    made = filters.node_bundle(GOOD, answer(), "nm1", ["yarn_nodes"], texts, {"main": "U", "nginx": ""})
    assert made["texts"] == {"nftables": "T"}
    assert made["units"] == {"kafka-natmap-default.service": "U"}
    assert made["names"]["python"] == "/usr/bin/python3"
    json.dumps(made)


def test_secrets_are_apart() -> None:
    data = cluster_map(broker(), hq={"security": {"protocol": "SASL_SSL", "mechanism": "PLAIN", "password": "hidden"}})
    assert filters.secrets(data) == {"hq": {"password": "hidden"}}
    assert "hidden" not in json.dumps(filters.probe_requests(data, answer(), "nm1", ["yarn_nodes"]))


class VaultText:
    """A Vault text as ansible-core before 2.19 hands it over."""

    __ENCRYPTED__ = True

    def __str__(self) -> str:
        return "hidden"


def test_vault_texts_are_read() -> None:
    data = cluster_map(
        broker(), hq={"security": {"protocol": "SASL_SSL", "mechanism": "PLAIN", "password": VaultText()}}
    )
    assert filters.map_problems(data) == []
    assert filters.secrets(data) == {"hq": {"password": "hidden"}}


@pytest.mark.parametrize(
    ("route", "line"),
    [
        ({"address": "10.0.0.1", "device": "eth0", "via": None}, "10.0.0.1 dev eth0\n"),
        ({"address": "10.0.0.1", "device": "eth0", "via": "10.9.9.1"}, "10.0.0.1 dev eth0 via 10.9.9.1\n"),
    ],
)
def test_routes_are_lines_of_ip_route(route: Any, line: str) -> None:
    assert filters.route_lines([route]) == line


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
    assert filters.node_plan(GOOD, answer(), "nm1", ["yarn_nodes"]) == {**plan.as_dict(), "problems": []}
    assert printed(plan)
