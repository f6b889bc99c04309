"""The discovery of a cluster with scripted brokers on loopback: what is known, guessed, proven, and left out."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.filter import discover as filters
from doctor_peers import HQ, TOPICS, certificate, loaded, tls
from probe_peers import closed_port, hangs_up, keeps_silent, listening, says
from unit.nodes import ROOT

SECRET = "pass-word-19"
NODES = (1, 2, 3)


@contextlib.contextmanager
def behind_nat(
    reachable: dict[int, tuple[str, int]], advertised: dict[int, tuple[str, int]] | None = None, **more: Any
) -> Iterator[HQ]:
    """Brokers that listen at one address and advertise another, where nobody listens."""
    with ExitStack() as open_:
        topics = {} if more.get("unreadable") else {name: list(parts) for name, parts in TOPICS.items()}
        site = HQ("C", {}, topics, **more)
        for node, (host, port) in reachable.items():
            open_.enter_context(listening(site.broker(node), host, port))
        site.brokers.update(
            advertised or {node: (f"127.9.0.{20 + node}", reachable[min(reachable)][1]) for node in NODES}
        )
        yield site


def network(port: int, nodes: tuple[int, ...] = NODES) -> dict[int, tuple[str, int]]:
    return {node: (f"127.8.0.{20 + node}", port) for node in nodes}


def ask(*addresses: tuple[str, int], **more: Any) -> dict[str, Any]:
    bootstrap = ",".join(f"{host}:{port}" for host, port in addresses)
    options = {"deadline": 10, "connect_timeout": 0.5, "request_timeout": 1, "trust_guesses": more.pop("trust", False)}
    request = json.loads(filters.discover_request(bootstrap, options, **more))
    found = filters.discover_secrets(more.get("security"), more.get("present"), more.get("cluster", ""))
    request["probe"][0]["clusters"][0]["security"].update(found.get(filters.NAME, {}))
    return run(json.dumps(request))


@lru_cache(maxsize=1)
def program() -> bytes:
    return base64.b64decode(filters.discover_program())


def run(text: str) -> dict[str, Any]:
    """As on a node: nothing but the standard library and the file itself is there."""
    with tempfile.NamedTemporaryFile(suffix=".pyz") as file:
        file.write(program())
        file.flush()
        command = [sys.executable, "-I", "-S", file.name, "discover"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=30)
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def ways(answer: dict[str, Any]) -> dict[int, tuple[str | None, str]]:
    return {row["id"]: (row["reachable"], row["how"]) for row in answer["brokers"]}


@pytest.fixture(autouse=True)
def _peers_speak(kafka_python: None) -> None:
    loaded()


@pytest.fixture
def port() -> int:
    return closed_port()[1]


def test_one_address_is_enough_where_a_rule_leads_to_the_others(port: int) -> None:
    with behind_nat(network(port)):
        answer = ask(("127.8.0.22", port))
    assert ways(answer) == {
        1: (f"127.8.0.21:{port}", "guess"), 2: (f"127.8.0.22:{port}", "named"), 3: (f"127.8.0.23:{port}", "guess"),
    }  # fmt: skip
    (first, *_) = answer["brokers"]
    assert "last" in first["rule"]
    assert "which broker 1 leads" in first["proof"]
    assert answer["cluster_id"] == "C"
    assert [(one["advertised"], one["filled"]) for one in answer["networks"]] == [("127.9.0.20/30", 3)]


def test_one_port_a_broker_behind_one_address() -> None:
    base = next(base for base in range(21000, 60000, 10) if all(is_free(base + node) for node in NODES))
    with behind_nat({node: ("127.8.0.20", base + node) for node in NODES}):
        answer = ask(("127.8.0.20", base + 3))
    assert {node: way for node, (way, _) in ways(answer).items()} == {n: f"127.8.0.20:{base + n}" for n in NODES}


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.8.0.20", port)).close()
    except OSError:
        return False
    return True


def test_a_guess_that_another_broker_answers_is_never_written_for_the_first(port: int) -> None:
    """The NAT has two brokers crossed: the rule of the network is wrong for both, and each is found where it is."""
    crossed = {1: ("127.8.0.21", port), 2: ("127.8.0.23", port), 3: ("127.8.0.22", port)}
    with behind_nat(crossed):
        answer = ask(("127.8.0.21", port))
    assert ways(answer) == {
        1: (f"127.8.0.21:{port}", "named"), 2: (f"127.8.0.23:{port}", "found"), 3: (f"127.8.0.22:{port}", "found"),
    }  # fmt: skip
    assert {one["code"] for row in answer["brokers"] for one in row["tried"]} == {"WRONG_BROKER"}


@pytest.mark.parametrize(
    ("peer", "code"),
    [
        (hangs_up, "NOT_KAFKA"),
        (keeps_silent, "NOT_KAFKA"),
        (says(b"HTTP/1.1 400 Bad\r\n\r\n"), "NOT_KAFKA"),
        (None, "TCP_REFUSED"),
    ],
    ids=["hangs up", "silent", "http", "refused"],
)
def test_what_is_no_broker_is_left_out_with_the_reason(port: int, peer: Any, code: str) -> None:
    with ExitStack() as open_:
        open_.enter_context(behind_nat(network(port, (1, 2))))
        if peer:
            open_.enter_context(listening(peer, "127.8.0.23", port))
        answer = ask(("127.8.0.21", port))
    assert ways(answer)[3] == (None, "")
    tried = answer["brokers"][2]["tried"]
    assert (tried[0]["address"], tried[0]["code"]) == (f"127.8.0.23:{port}", code)


def test_another_cluster_at_a_guessed_address_is_left_out(port: int) -> None:
    with behind_nat(network(port, (1, 2))):
        other = HQ("D", {3: ("127.9.0.23", port)}, {"orders": [(3, [3])]})
        with listening(other.broker(3), "127.8.0.23", port):
            answer = ask(("127.8.0.21", port))
    assert ways(answer)[3] == (None, "")
    assert answer["brokers"][2]["tried"][0]["code"] == "WRONG_CLUSTER"


def test_nothing_readable_proves_nothing(port: int) -> None:
    with behind_nat(network(port), unreadable=True):
        answer = ask(("127.8.0.21", port))
    assert {way for way, _ in ways(answer).values()} == {None}
    assert answer["bootstrap"][0]["code"] == "UNPROVEN"


def test_the_right_to_describe_proves_where_nothing_can_be_read(port: int) -> None:
    with behind_nat(network(port), unreadable=True, describes=True):
        answer = ask(("127.8.0.21", port))
    assert {how for _, how in ways(answer).values()} == {"named", "guess"}


def test_a_broker_that_is_reachable_where_it_advertises_needs_no_guess(port: int) -> None:
    at = {1: ("127.8.0.21", port), 2: ("127.7.3.99", port), 3: ("127.6.5.4", port)}
    with behind_nat(at, advertised={1: ("127.9.0.21", port), 2: at[2], 3: at[3]}):
        answer = ask(at[1])
    assert ways(answer)[2] == (f"127.7.3.99:{port}", "as advertised")


def test_pairs_of_the_present_map_are_asked_first(port: int) -> None:
    at = {1: ("127.8.0.21", port), 2: ("127.7.3.99", port), 3: ("127.6.5.4", port)}
    pairs = [{"advertised": f"127.9.0.{20 + n}:{port}", "reachable": f"{h}:{p}"} for n, (h, p) in at.items()]
    with behind_nat(at):
        answer = ask(at[1], present={"clusters": {"hq": {"brokers": pairs}}})
    assert {how for _, how in ways(answer).values()} == {"named", "present map"}


def test_tls_checks_the_advertised_name_of_every_address(port: int, tmp_path: Path) -> None:
    """The bootstrap address is given with its certificate's name; broker 3 shows a certificate of another name."""
    good = certificate(tmp_path, "DNS:kafka-1.example,DNS:kafka-2.example", "20200101", "20990101")
    (tmp_path / "other").mkdir()
    other = certificate(tmp_path / "other", "DNS:elsewhere.example", "20200101", "20990101")
    (tmp_path / "ca.pem").write_text(Path(good).read_text() + Path(other).read_text())
    site = HQ(
        "C", {n: (f"kafka-{n}.example", port) for n in NODES}, {name: list(parts) for name, parts in TOPICS.items()}
    )
    with ExitStack() as open_:
        for node, shown in ((1, good), (2, good), (3, other)):
            open_.enter_context(listening(tls(shown, site.broker(node)), f"127.8.0.{20 + node}", port))
        security = {"protocol": "SSL", "cafile": str(tmp_path / "ca.pem")}
        answer = ask(("kafka-1.example@127.8.0.21", port), security=security)
        by_address = ask(("127.8.0.21", port), security=security)
    assert ways(answer) == {1: (f"127.8.0.21:{port}", "named"), 2: (f"127.8.0.22:{port}", "guess"), 3: (None, "")}
    assert "TLS" in {one["code"] for one in answer["brokers"][2]["tried"]}
    assert (by_address["bootstrap"][0]["code"], by_address["brokers"]) == ("TLS", [])


def login(**more: str) -> dict[str, str]:
    return {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "etl", "password": SECRET, **more}


def test_a_password_in_clear_goes_to_named_addresses_only(port: int) -> None:
    with behind_nat(network(port), login=("etl", SECRET)) as site:
        answer = ask(("127.8.0.21", port), ("127.8.0.22", port), security=login())
        asked = {node for node, _ in site.asked}
    assert asked == {1, 2}
    assert ways(answer)[3] == (None, "")
    assert not answer["may_guess"]
    assert SECRET not in json.dumps(answer)
    with behind_nat(network(port), login=("etl", SECRET)):
        trusted = ask(("127.8.0.21", port), security=login(), trust=True)
    assert ways(trusted)[3] == (f"127.8.0.23:{port}", "guess")


def test_a_refused_login_is_said_without_the_password(port: int) -> None:
    with behind_nat(network(port), login=("etl", "another")):
        answer = ask(("127.8.0.21", port), security=login())
    assert (answer["bootstrap"][0]["code"], answer["brokers"]) == ("SASL", [])
    assert SECRET not in json.dumps(answer)


def test_secrets_are_not_in_the_question() -> None:
    present = {"clusters": {"hq": {"brokers": [], "security": login()}}}
    asked = filters.discover_request("a:1", {}, None, present, "hq")
    assert '"username": "etl"' in asked
    assert SECRET not in asked
    assert filters.discover_secrets(None, present, "hq") == {filters.NAME: {"password": SECRET}}


def test_an_older_controller_s_texts_are_numbers_again() -> None:
    asked = json.loads(filters.discover_request("a:1", {"deadline": "20.0", "trust_guesses": "False"}))
    assert (asked["deadline"], asked["trust_guesses"]) == (20.0, False)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"probe": [1]}', '{"probe": [{"clusters": [{"name": "k"}]}]}'])
def test_a_bad_request_is_refused_in_words(text: str) -> None:
    assert set(run(text)["error"]) == {"cause", "mend"}


def test_a_machine_without_a_way_asks_the_inventory_s_first_node() -> None:
    done = subprocess.run(
        ["make", "-n", "discover", "BOOTSTRAP=a:1"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "kafka.natmap.discover -e bootstrap=a:1" in done.stdout
    done = subprocess.run(
        ["make", "-n", "discover", "BOOTSTRAP=a:1", "FROM=nm7", "AS=etl"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "-e discover_from=nm7 -e as_user=etl" in done.stdout
    assert "discover_here" not in done.stdout


def test_make_discover_asks_from_this_machine(port: int, tmp_path: Path) -> None:
    """No inventory, no Ansible run. Loopback can be no broker's address for anybody else, so the draft is refused by the parser."""
    with behind_nat(network(port)):
        done = subprocess.run(
            ["make", "--no-print-directory", "discover", f"BOOTSTRAP=127.8.0.21:{port}", f"ARGS=--draft {tmp_path}/draft.yml --map {tmp_path}/none"],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    said = f"broker 3 127.9.0.23:{port} left out: its advertised host '127.9.0.23' is loopback"
    assert said in done.stdout, done.stderr
    assert done.returncode != 0
    assert not (tmp_path / "draft.yml").exists()
