"""The whole program as one file: its exit codes, its report, its bounds; and what the controller makes of reports."""

from __future__ import annotations

import base64
import json
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.kafka.natmap.plugins.filter import doctor as filters
from ansible_collections.kafka.natmap.plugins.filter import natmap as map_filters
from doctor_peers import running
from kafka_natmap_identity import show
from probe_peers import Handler, hangs_up, keeps_silent, listening, says
from unit.nodes import ROOT

pytestmark = pytest.mark.usefixtures("kafka_python")
SECRET = "pass-word-17"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("doctor") / "kafka-natmap-doctor.pyz"
    path.write_bytes(base64.b64decode(filters.doctor_program()))
    return str(path)


def start(program: str, *arguments: str, text: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
    # -S: nothing but the standard library and the file itself is there.
    command = [sys.executable, "-I", "-S", program, *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=30, **more)
    assert SECRET not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def by_hand(program: str, *addresses: Any, more: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
    done = start(program, "--bootstrap", ",".join(map(show, addresses)), "--json", *more)
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def codes(report: dict[str, Any]) -> list[str]:
    return [one["code"] for one in report["findings"]]


def test_healthy_is_0(program: str) -> None:
    with running() as (_, there):
        code, report = by_hand(program, *there.values())
    assert (code, report["verdict"]["state"], report["findings"]) == (0, "healthy", [])
    assert {walk["role"] for walk in report["walks"]} == {"bootstrap", "broker"}
    assert report["clusters"][0]["brokers"] == {str(node): show(at) for node, at in there.items()}


def test_findings_are_1_and_the_verdict_comes_first(program: str) -> None:
    with running(dead=(2,)) as (_, there):
        done = start(program, "--bootstrap", show(there[1]))
    assert done.returncode == 1
    first, *rest = done.stdout.splitlines()
    assert first.startswith(f"FINDINGS: TCP_REFUSED at {show(there[2])}")
    assert any(line.startswith("    mend   ") for line in rest)
    assert any(show(there[3]) in line and line.endswith("ok") for line in rest)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bootstrap", "127.0.0.1:1", "--as", "no-such-user"],
        ["--bootstrap", "127.0.0.1"],
        ["--bootstrap", "a:1", "--protocol", "SASL_SSL"],
        [],
    ],
)
def test_what_cannot_be_asked_is_2(program: str, arguments: list[str]) -> None:
    done = start(program, *arguments)
    assert done.returncode == 2
    assert "no-such-user" in done.stdout or "usage: doctor" in done.stderr


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "{}", '{"probe": 1}', '{"probe": [{"clusters": [{}]}]}', '{"probe": [7]}']
)
def test_a_bad_request_is_a_report_too(program: str, text: str) -> None:
    done = start(program, "doctor", text=text)
    assert (done.returncode, json.loads(done.stdout)["verdict"]["state"]) == (2, "blind")


BAD = [
    ("silence", keeps_silent, "NOT_KAFKA"),
    ("hanging up", hangs_up, "NOT_KAFKA"),
    ("HTTP", says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "NOT_KAFKA"),
    ("two gigabytes", says(struct.pack(">i", 2**31 - 1) + b"x" * 64), "NOT_KAFKA"),
    ("a frame of a gigabyte of topics", says(struct.pack(">iihi", 10, 1, 0, 2**31 - 1)), "NOT_KAFKA"),
]


@pytest.mark.parametrize(("peer", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bootstrap_that_is_no_kafka_is_named_in_bounded_time_and_memory(
    program: str, peer: Handler, expected: str
) -> None:
    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    began = time.monotonic()
    with listening(peer) as address:
        done = start(program, "--bootstrap", show(address) or "", "--json", preexec_fn=bounded)
    assert (done.returncode, codes(json.loads(done.stdout))) == (1, [expected])
    assert time.monotonic() - began < 8


def test_secrets_come_by_standard_input_and_are_told_to_nobody(program: str) -> None:
    """The peer refuses with the password in its message."""
    with running(login=("etl", "another")) as (_, there):
        login = ["--protocol", "SASL_PLAINTEXT", "--mechanism", "PLAIN", "--username", "etl"]
        done = start(program, "--bootstrap", show(there[1]) or "", "--json", *login, text=SECRET + "\n")
    (found,) = json.loads(done.stdout)["findings"]
    assert (found["code"], found["detail"], found["hop"]["name"]) == ("SASL", "login", "sasl")
    assert "***" in found["evidence"]


def test_a_report_holds_what_its_schema_says(program: str) -> None:
    with running(dead=(3,)) as (_, there):
        _, report = by_hand(program, there[1])
    assert {
        "format",
        "node",
        "kind",
        "time",
        "seconds",
        "asked_as",
        "verdict",
        "clusters",
        "walks",
        "findings",
        "blind",
    } <= set(report)
    for one in report["findings"]:
        assert {
            "code",
            "detail",
            "severity",
            "node",
            "cluster",
            "as",
            "hop",
            "broker",
            "advertised",
            "evidence",
            "cause",
            "mend",
        } == set(one)
        assert set(one["hop"]) == {"name", "address", "host", "port"}
    for walk in report["walks"]:
        assert walk["state"] in ("ok", "broken", "unproven")
        assert all(set(hop) == {"name", "state", "ms", "said"} for hop in walk["hops"])


# ------------------------------------------------------------ the controller's side

MAP = {
    "owner": "data-platform",
    "scope": {"users": ["yarn"]},
    "clusters": {
        "hq": {
            "brokers": [{"id": 1, "advertised": "192.0.2.21:9092", "reachable": "203.0.113.21:9092"}],
            "security": {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "etl", "password": SECRET},
        },
        "dr": {
            "scope": {"users": ["etl"]},
            "brokers": [{"id": 2, "advertised": "kafka:9092", "reachable": "203.0.113.22:9092"}],
        },
    },
}


def request(groups: list[str], **more: Any) -> dict[str, Any]:
    text = map_filters.read_map(MAP)["text"]
    asked: dict[str, Any] = json.loads(filters.doctor_request(text, "nm1", groups, {"topics": ["orders"]}, **more))
    return asked


def test_a_node_is_asked_by_scope_and_without_secrets() -> None:
    asked = request(["yarn_nodes"])
    assert [probe["scope"]["users"] for probe in asked["probe"]] == [["yarn"], ["etl"]]
    assert (asked["path"], asked["map"], asked["owner"], asked["topics"]) == (
        "advertised",
        True,
        "data-platform",
        ["orders"],
    )
    assert asked["probe"][0]["clusters"][0]["bootstrap"] == ["203.0.113.21:9092"]
    assert SECRET not in json.dumps(asked)


def test_a_gateway_is_asked_for_the_reachable_side() -> None:
    asked = request(["nat_gateways"])
    assert (asked["path"], [probe["scope"] for probe in asked["probe"]]) == ("reachable", [None, None])


def test_a_bootstrap_address_needs_no_map() -> None:
    asked = json.loads(filters.doctor_request("", "nm1", [], {}, "a:1, b:2", None, "etl"))
    assert (asked["map"], asked["probe"][0]["user"]) == (False, "etl")
    assert asked["probe"][0]["clusters"][0]["bootstrap"] == ["a:1", "b:2"]
    with pytest.raises(AnsibleFilterError, match="no map"):
        filters.doctor_request("", "nm1", [], {})


def test_secrets_of_a_cluster_without_map_travel_apart() -> None:
    security = {
        "protocol": "SASL_SSL",
        "mechanism": "PLAIN",
        "username": "etl",
        "password": SECRET,
        "keyfile_password": SECRET,
    }
    asked = filters.doctor_request("", "nm1", [], {}, "a:1", security)
    assert SECRET not in asked
    assert json.loads(asked)["probe"][0]["clusters"][0]["security"]["username"] == "etl"
    assert filters.doctor_secrets({}, "a:1", security) == {"kafka": {"password": SECRET, "keypassword": SECRET}}
    assert filters.doctor_secrets(MAP) == {"hq": {"password": SECRET}}


def test_the_same_sources_give_the_same_program() -> None:
    first = filters.doctor_program()
    filters.doctor_program.cache_clear()
    assert filters.doctor_program() == first
    assert len(first) < 300_000, "it travels to every node in every run"


def answered(node: str, findings: Any = (), yarn: Any = None) -> dict[str, Any]:
    told = filters._module("kafka_doctor_findings")
    made = [told.finding(code, "tcp", "seen", {"node": node, "advertised": "192.0.2.21:9092"}) for code in findings]
    walk = {
        "as": "yarn", "cluster": "hq", "role": "broker", "id": 1, "advertised": "192.0.2.21:9092", "rewritten_to": None,
        "dialled": "192.0.2.21:9092", "latency_ms": 1.0, "state": "ok", "code": None, "hops": [],
    }  # fmt: skip
    report = {
        "format": 1, "node": node, "kind": ["node"], "time": "", "seconds": 1.0, "asked_as": ["yarn"], "clusters": [], "walks": [walk],
        "findings": made, "blind": None, "verdict": told.verdict(made, [walk]), "addresses": ["198.51.100.5"], "yarn": yarn,
    }  # fmt: skip
    return {"doctor_result": {"answer": report}}


def test_alike_findings_of_many_nodes_stand_once() -> None:
    hosts = [f"nm{number}" for number in range(5)]
    reports = filters.doctor_reports(hosts, {host: answered(host, ["NOT_REWRITTEN"]) for host in hosts}, [])
    lines = filters.doctor_lines(reports)
    assert filters.doctor_state(reports) == "findings"
    assert sum(line.startswith("NOT_REWRITTEN") for line in lines) == 1
    assert "on nm0, nm1, nm2 and 2 more" in "\n".join(lines)
    assert "    mend   ansible-playbook apply --limit nm0,nm1,nm2,nm3,nm4" in lines
    assert json.loads(filters.doctor_json(reports))["state"] == "findings"


def test_many_nodes_stand_in_a_matrix() -> None:
    hosts = [f"nm{number}" for number in range(9)]
    lines = filters.doctor_lines(filters.doctor_reports(hosts, {host: answered(host) for host in hosts}, []))
    assert lines[0].startswith("HEALTHY: 9 ways")
    assert sum("ok 1.0 ms" in line for line in lines) == 9
    assert len(lines) == 4 + 9, lines


def test_a_host_that_gave_nothing_could_not_look() -> None:
    result = {"nm1": {"doctor_result": {"unreachable": True, "msg": "no route"}}, "nm2": answered("nm2"), "nm3": {}}
    reports = filters.doctor_reports(["nm1", "nm2", "nm3"], result, [])
    assert [one["verdict"]["state"] for one in reports] == ["blind", "healthy", "blind"]
    assert filters.doctor_state(reports) == "blind"
    assert filters.doctor_lines(reports)[1].startswith("nm1: could not look: the node cannot be reached: no route")


def test_nodes_that_yarn_knows_and_the_inventory_does_not() -> None:
    listed = {"resource_manager": "http://master:8088", "problem": None, "nodes": [
        {"host": "nm1", "state": "RUNNING", "addresses": []}, {"host": "nm9", "state": "RUNNING", "addresses": []},
    ]}  # fmt: skip
    reports = filters.doctor_reports(["nm1"], {"nm1": answered("nm1", yarn=listed)}, ["nm1"])
    (found,) = reports[0]["findings"]
    assert (found["code"], "lists nm9" in found["evidence"]) == ("NODE_UNMANAGED", True)
    assert reports[0]["verdict"]["state"] == "findings"


def test_make_has_the_local_doctor() -> None:
    done = subprocess.run(
        ["make", "-n", "doctor", "BOOTSTRAP=a:1"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "--bootstrap a:1" in done.stdout
    assert "--as" not in done.stdout
    assert Path(ROOT / "ansible/roles/doctor/files/kafka_doctor.py").is_file()
