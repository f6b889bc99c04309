"""The probe's request: defaults, and one message for whatever is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kafka_natmap_request import Refused, parse_request

BROKER = {"id": 1, "advertised": "192.0.2.21:9092", "reachable": "203.0.113.21:9092"}


def cluster(**more: Any) -> dict[str, Any]:
    return {"name": "hq", "brokers": [BROKER]} | more


def request(**more: Any) -> bytes:
    return json.dumps({"path": "reachable", "clusters": [cluster()]} | more).encode()


def login(**more: Any) -> dict[str, Any]:
    return {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "etl", "password": "s3cret"} | more


def net(**more: Any) -> dict[str, Any]:
    return {"advertised": "192.0.2.0/24", "reachable": "203.0.113.0/24", "ports": [9092]} | more


def test_defaults() -> None:
    asked = parse_request(request())
    assert (asked["connect_timeout"], asked["request_timeout"], asked["deadline"]) == (3.0, 5.0, 20.0)
    assert (asked["concurrency"], asked["identity"], asked["outsider"]) == (8, None, None)
    assert asked["clusters"] == [
        {"name": "hq", "cluster_id": None, "bootstrap": [], "brokers": [BROKER], "networks": []}
        | {"security": {"protocol": "PLAINTEXT"}}
    ]


def test_identity_without_label_has_one() -> None:
    asked = parse_request(request(identity={"uid": 12001, "gid": 12001}))
    assert asked["identity"] == {"uid": 12001, "gid": 12001, "groups": [], "label": "uid 12001"}


WRONG: list[tuple[bytes, str]] = [
    (b"", "not JSON"),
    (b"\xff\xfe", "not JSON"),
    (b"[" * 100000, "not JSON"),
    (b"[]", "the request"),
    (request(path="sideways"), "path"),
    (request(clusters="hq"), "clusters"),
    (request(clusters=[7]), "clusters[0]"),
    (request(clusters=[{"name": "hq"}]), "clusters[0]"),
    (request(clusters=[cluster(bootstrap=["hq"])]), "clusters[0].bootstrap[0]"),
    (request(clusters=[cluster(bootstrap=[7])]), "clusters[0].bootstrap[0]"),
    (request(clusters=[cluster(brokers=[BROKER, BROKER | {"reachable": None}])]), "clusters[0].brokers[1].reachable"),
    (request(clusters=[cluster(brokers=[BROKER | {"id": "1"}])]), "clusters[0].brokers[0].id"),
    (request(clusters=[cluster(networks=[net(reachable="203.0.113.0/25")])]), "clusters[0].networks[0]"),
    (request(clusters=[cluster(networks=[net(advertised="192.0.2.1/24")])]), "clusters[0].networks[0].advertised"),
    (request(clusters=[cluster(networks=[net(ports=["x"])])]), "clusters[0].networks[0].ports"),
    (request(clusters=[cluster(cluster_id=7)]), "clusters[0].cluster_id"),
    (request(clusters=[cluster(security={"protocol": "HTTP"})]), "clusters[0].security.protocol"),
    (request(clusters=[cluster(security=login(mechanism="MAGIC"))]), "clusters[0].security.mechanism"),
    (request(clusters=[cluster(security=login(password=None))]), "clusters[0].security.password"),
    (request(clusters=[cluster(security=login(username=7))]), "clusters[0].security.username"),
    (request(identity={"uid": -1, "gid": 0}), "identity.uid"),
    (request(identity={"uid": 1, "gid": True}), "identity.gid"),
    (request(outsider={"uid": 1, "gid": 1, "groups": ["x"]}), "outsider.groups"),
    (request(deadline=0), "deadline"),
    (request(connect_timeout="3"), "connect_timeout"),
    (request(request_timeout=True), "request_timeout"),
    (request(concurrency=0), "concurrency"),
    (request(concurrency=1000), "concurrency"),
]


@pytest.mark.parametrize(("data", "where"), WRONG, ids=[f"{n} {case[1]}" for n, case in enumerate(WRONG)])
def test_wrong_requests_are_refused_by_name(data: bytes, where: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_request(data)
    assert where in caught.value.cause
    assert caught.value.mend
    assert "s3cret" not in caught.value.cause + caught.value.mend
