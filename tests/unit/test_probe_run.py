"""The whole program against scripted brokers: what comes in, what comes out."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import kafka_natmap_probe
import pytest
from kafka_natmap_identity import show
from probe_peers import Site, closed_port, keeps_silent, listening

pytestmark = pytest.mark.usefixtures("kafka_python")

SECRET = "pass-word-17"
TOPICS = {"orders": [(1, [1, 2]), (2, [2, 3]), (3, [3, 1])]}


@pytest.fixture(scope="module")
def kafka_zip(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("probe") / "kafka.zip"
    package = Path(sys.modules["kafka"].__path__[0])
    with zipfile.ZipFile(file, "w") as archive:
        for source in sorted(package.rglob("*.py")):
            archive.write(source, Path("kafka") / source.relative_to(package))
    return str(file)


@contextmanager
def cluster(cluster_id: str = "C", dead: tuple[int, ...] = (), **more: Any) -> Iterator[tuple[Site, dict[str, Any]]]:
    """Three brokers on loopback, and their entry in a request; the dead are replicas that nobody names."""
    advertised = {node: (f"192.0.2.2{node}", 9092) for node in (1, 2, 3)}
    topics = {"orders": [part for part in TOPICS["orders"] if part[0] not in dead]}
    site = Site(cluster_id, {n: a for n, a in advertised.items() if n not in dead}, topics, **more)
    with ExitStack() as open_:
        there = {n: closed_port() if n in dead else open_.enter_context(listening(site.broker(n))) for n in advertised}
        pairs = [{"id": node, "advertised": show(advertised[node]), "reachable": show(there[node])} for node in there]
        yield site, {"name": "hq", "brokers": pairs}


def run(clusters: list[Any], *options: str, path: str = "reachable", **more: Any) -> dict[str, Any]:
    asked = {"path": path, "clusters": clusters, "connect_timeout": 1, "request_timeout": 1, "deadline": 6} | more
    return start(json.dumps(asked).encode(), *options)


def start(request: bytes, *options: str) -> dict[str, Any]:
    program = kafka_natmap_probe.__file__
    done = subprocess.run([sys.executable, "-I", program, *options], input=request, capture_output=True, timeout=30)
    assert done.stderr == b"", done.stderr.decode()
    assert SECRET.encode() not in done.stdout
    result: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (1 if result["error"] else 0)
    return result


def verdicts(result: dict[str, Any]) -> list[str]:
    return [row["verdict"] for row in result["brokers"]]


def test_three_healthy_brokers(kafka_zip: str) -> None:
    with cluster() as (site, asked):
        result = run([asked], "--kafka-python", kafka_zip)
    assert verdicts(result) == ["OK", "OK", "OK"]
    assert [row["id"] for row in result["brokers"]] == [1, 2, 3]
    first = result["brokers"][0]
    assert first["dialled"] == first["reachable"] == asked["brokers"][0]["reachable"]
    assert first["rewritten_to"] is None
    assert first["evidence"].endswith("answers for orders-0, which broker 1 leads")
    assert set(first) == {
        "cluster", "id", "advertised", "reachable", "dialled", "verdict", "evidence", "latency_ms", "rewritten_to",
        "api_versions",
    }  # fmt: skip
    assert [row["verdict"] for row in result["clusters"][0]["bootstrap"]] == ["OK"] * 3
    assert result["clusters"][0]["bootstrap"][0]["brokers"]["2"] == "192.0.2.22:9092"
    # Each address is dialled once, and all topics are asked for once in the cluster.
    assert len([1 for _, request in site.asked if type(request).__name__.startswith("ApiVersions")]) == 3
    assert len([1 for _, request in site.asked if getattr(request, "topics", ()) is None]) == 1


def test_swapped_brokers() -> None:
    with cluster() as (_, asked):
        one, two = asked["brokers"][:2]
        one["reachable"], two["reachable"] = two["reachable"], one["reachable"]
        result = run([asked])
    assert verdicts(result) == ["WRONG_BROKER", "WRONG_BROKER", "OK"]
    assert "is broker 2" in result["brokers"][0]["evidence"]


def test_an_id_that_the_map_gives_to_another() -> None:
    with cluster() as (_, asked):
        asked["brokers"][0]["id"] = 9
        result = run([asked])
    assert verdicts(result) == ["WRONG_BROKER", "OK", "OK"]
    assert "the map calls it broker 9" in result["brokers"][0]["evidence"]


def test_a_pair_that_leads_to_another_cluster() -> None:
    with cluster() as (_, asked), cluster("OTHER") as (_, other):
        asked["brokers"][2]["reachable"] = other["brokers"][2]["reachable"]
        result = run([asked])
    assert verdicts(result) == ["OK", "OK", "WRONG_CLUSTER"]
    assert [row["verdict"] for row in result["clusters"][0]["bootstrap"]] == ["OK", "OK", "WRONG_CLUSTER"]


def test_a_pinned_cluster_id_that_nobody_has() -> None:
    with cluster() as (_, asked):
        result = run([asked | {"cluster_id": "PINNED"}])
    assert verdicts(result) == ["WRONG_CLUSTER"] * 3


def test_a_broker_that_is_down() -> None:
    with cluster(dead=(3,)) as (_, asked):
        result = run([asked])
    assert verdicts(result) == ["OK", "OK", "DOWN_AT_HQ"]
    assert [row["verdict"] for row in result["clusters"][0]["bootstrap"]] == ["OK", "OK", "TCP_REFUSED"]


def test_nobody_answers() -> None:
    refused = show(closed_port())
    pair = {"id": 1, "advertised": "192.0.2.21:9092", "reachable": refused}
    result = run([{"name": "hq", "brokers": [pair]}])
    assert verdicts(result) == ["TCP_REFUSED"]
    assert result["error"] is None


def test_a_dead_bootstrap_does_not_hide_the_brokers() -> None:
    with cluster() as (_, asked):
        result = run([asked | {"bootstrap": [show(closed_port())]}])
    assert [row["verdict"] for row in result["clusters"][0]["bootstrap"]] == ["TCP_REFUSED"]
    assert verdicts(result) == ["OK"] * 3


def test_an_old_broker_is_named() -> None:
    with cluster(apis={3: (0, 2), 2: (0, 0), 18: (0, 0)}) as (_, asked):
        result = run([asked])
    assert verdicts(result) == ["UNPROVEN"] * 3
    assert "does not take ListOffsets v1" in result["brokers"][0]["evidence"]


@pytest.mark.parametrize(("password", "verdict"), [(SECRET, "OK"), (SECRET + "x", "SASL")])
def test_secrets_are_never_repeated(password: str, verdict: str) -> None:
    security = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "etl", "password": password}
    with cluster(login=("etl", SECRET)) as (_, asked):
        result = run([asked | {"security": security}])
    assert verdicts(result) == [verdict] * 3


def test_a_listener_that_is_no_broker_is_named() -> None:
    with cluster(apis={3: (0, 12), 18: (0, 4), 52: (0, 1)}) as (_, asked):
        result = run([asked])
    assert verdicts(result) == ["NOT_KAFKA"] * 3
    assert "it does not know ListOffsets" in result["brokers"][0]["evidence"]


def test_silence_ends_with_the_deadline() -> None:
    began = time.monotonic()
    with ExitStack() as open_:
        there = [open_.enter_context(listening(keeps_silent)) for _ in range(12)]
        result = run([{"name": "hq", "bootstrap": [show(address) for address in there]}], deadline=2, concurrency=2)
    told = result["clusters"][0]["bootstrap"]
    assert {row["verdict"] for row in told} == {"NOT_KAFKA", "UNPROVEN"}
    assert told[-1]["evidence"] == "the probe's time was over before this was asked"
    assert time.monotonic() - began < 6


def test_bad_input_is_an_error_in_the_result() -> None:
    assert "not JSON" in start(b"{")["error"]["cause"]
    assert start(b"")["error"]["mend"]


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    empty = tmp_path / "empty.zip"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("kafka/__init__.py", "")
    with cluster() as (_, asked):
        assert "kafka-python cannot be loaded" in run([asked], "--kafka-python", str(empty))["error"]["cause"]
        security = {"protocol": "SSL", "cafile": str(tmp_path / "none.pem")}
        assert "certificates cannot be read" in run([asked | {"security": security}])["error"]["cause"]


def test_the_user_is_taken() -> None:
    with cluster() as (_, asked):
        assert verdicts(run([asked], identity={"uid": 12001, "gid": 12001, "groups": [12001]})) == ["OK"] * 3
