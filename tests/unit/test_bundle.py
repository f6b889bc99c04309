"""What travels to a node: the digest, the names, the probe's questions."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.module_utils import bundle
from ansible_collections.kafka.natmap.plugins.module_utils.facts import NodeFacts
from ansible_collections.kafka.natmap.plugins.module_utils.map_parser import parse
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import NatMap
from unit.maps import broker, cluster_map, network, parsed
from unit.nodes import node, planned, printed

SECURITY = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "probe", "password": "hidden"}


def bundled(natmap: NatMap, facts: NodeFacts | None = None) -> dict[str, Any]:
    facts = facts or node()
    plan = planned(natmap, facts)
    return bundle.make_bundle(
        natmap, plan, facts, printed(plan), {"kafka-natmap-a.service": "[Unit]\n"}, "/usr/bin/python3"
    )


def two(*order: int) -> NatMap:
    brokers = [broker(id=1), broker("kafka-2:9092", "203.0.113.22:9092", id=2)]
    data = cluster_map(*[brokers[index] for index in order])
    dr = {"brokers": [broker("192.0.2.9:9092", "203.0.113.9:9092")]}
    data["clusters"] = {"dr": dr, **data["clusters"]} if order[0] else {**data["clusters"], "dr": dr}
    return parse(data)


def test_the_digest_does_not_depend_on_the_order_of_the_map() -> None:
    assert bundled(two(0, 1))["digest"] == bundled(two(1, 0))["digest"]


@pytest.mark.parametrize(
    "changed",
    [
        {"kernel": [6, 8]},
        {"addresses": ["198.51.100.6"]},
        {"routes": {"192.0.2.21": {"source": "10.1.1.5", "device": "eth1"}}},
        {"programs": {"program": "abc", "kafka_python": "def"}},
    ],
)
def test_the_digest_leaves_out_volatile_facts(changed: Any) -> None:
    assert bundled(two(0, 1), node(**changed))["digest"] == bundled(two(0, 1))["digest"]


@pytest.mark.parametrize(
    ("natmap", "facts"),
    [
        (parsed(broker(reachable="203.0.113.99:9092")), {}),
        (parsed(broker(), owner="other"), {}),
        (parsed(broker(), scope={"users": ["etl"]}), {}),
        (parsed(broker()), {"users": {"yarn": {"uid": 7, "gid": 7}}}),
    ],
)
def test_the_digest_follows_what_the_node_will_hold(natmap: NatMap, facts: Any) -> None:
    assert bundled(natmap, node(**facts))["digest"] != bundled(parsed(broker()))["digest"]


def test_a_bundle_is_plain_data_without_secrets() -> None:
    natmap = parsed(broker(id=1), hq={"security": SECURITY})
    text = json.dumps(bundled(natmap))
    assert "hidden" not in text
    assert bundle.secrets_of(natmap) == {"hq": {"password": "hidden"}}


def test_names_are_those_of_the_texts() -> None:
    made = bundled(parsed(broker(id=1), networks=[network("10.0.0.0/24", "20.0.0.0/24")], owner="a-b"))
    assert made["names"]["nft_table"] == "kafka_natmap_a_b"
    for kind, name in made["names"]["nft_objects"]:
        assert f"{kind} {name} {{" in made["texts"]["nftables.nft"]
    assert made["pairs"] == [["192.0.2.21", 9092, "203.0.113.21", 9092]]
    assert made["prefixes"] == [["10.0.0.0/24", [9092], "20.0.0.0/24"]]


def test_chains_are_those_of_the_text() -> None:
    made = bundled(parsed(broker(id=1), networks=[network("10.0.0.0/24", "20.0.0.0/24")], mechanism="iptables"))
    declared = [line[1:].split()[0] for line in made["texts"]["iptables.rules"].splitlines() if line.startswith(":")]
    assert sorted(made["names"]["ipt_chains"]) == sorted(declared)


def test_one_probe_an_identity() -> None:
    scope = {"users": ["yarn", "etl"], "groups": ["hadoop"], "uid_range": [2000, 2999]}
    natmap = parsed(broker(id=1), scope=scope)
    probes = bundled(natmap)["probe"]
    assert [probe["identity"]["label"] for probe in probes] == ["yarn", "etl", "group hadoop", "uid 2000"]
    assert probes[0]["identity"] == {"uid": 991, "gid": 990, "groups": [990], "label": "yarn"}
    (cluster,) = probes[0]["clusters"]
    assert cluster["bootstrap"] == ["203.0.113.21:9092"]
    assert cluster["brokers"] == [{"id": 1, "advertised": "192.0.2.21:9092", "reachable": "203.0.113.21:9092"}]


def test_the_outsider_is_in_no_scope() -> None:
    facts = node(users={"nobody": {"uid": 65534, "gid": 65534}}, groups={"nogroup": 65534})
    (probe, *_) = bundled(parsed(broker(id=1), scope={"users": ["nobody"], "groups": ["nogroup"]}), facts)["probe"]
    assert (probe["outsider"]["uid"], probe["outsider"]["gid"]) == (65533, 65533)


@pytest.mark.parametrize("first", ["dr", "hq"])
def test_hosts_beside_a_scoped_cluster_still_asks_the_outsider(first: str) -> None:
    bodies = {
        "hq": {"brokers": [broker(id=1)]},
        "dr": {"brokers": [broker("kafka:9092", "203.0.113.9:9092")], "mechanism": "hosts"},
    }
    natmap = parse({"scope": {"users": ["yarn"]}, "clusters": dict(sorted(bodies.items(), reverse=first == "hq"))})
    (probe,) = bundled(natmap)["probe"]
    assert probe["outsider"]
    only_hosts = parse({"scope": {"users": ["yarn"]}, "clusters": {"dr": bodies["dr"]}})
    assert bundled(only_hosts)["probe"][0]["outsider"] is None


def test_gateways_ask_no_broker() -> None:
    natmap = parsed(broker(id=1), hq={"gateway": {"addresses": ["198.51.100.9"], "first_port": 19000}})
    assert bundled(natmap, node("gw", False, True, addresses=["198.51.100.9"]))["probe"] == []
    (probe,) = bundled(natmap)["probe"]
    assert probe["clusters"][0]["brokers"][0]["reachable"] == "198.51.100.9:19001"


def test_removal_needs_no_map() -> None:
    made = bundle.removal("a-b")
    assert made["remove"]
    assert made["names"] == {
        "nft_table": "kafka_natmap_a_b",
        "notrack_table": "kafka_notrack_a_b",
        "ipt_chain": planned(parsed(broker(), owner="a-b")).chain,
    }
    kinds = ("", "nginx-", "watch-")
    assert set(made["units"]) == {f"kafka-natmap-{kind}a-b.service" for kind in kinds}


def test_a_pack_has_the_same_bytes_for_the_same_files() -> None:
    files = {"b.py": b"2", "a.py": b"1"}
    packed = bundle.pack(files)
    assert packed == bundle.pack(dict(sorted(files.items())))
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == files
