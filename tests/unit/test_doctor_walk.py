"""One way, hop by hop: the first broken hop is named, in bounded time and memory."""

from __future__ import annotations

import ssl
import struct
import threading
import time
from pathlib import Path
from typing import Any

import kafka_doctor_walk
import pytest
from doctor_peers import certificate as make_certificate
from doctor_peers import running, tls
from kafka_doctor_walk import Walk, resolve_within
from kafka_natmap_session import Broken, Limits
from probe_peers import Handler, Site, closed_port, echoes, hangs_up, keeps_silent, listening, says

pytestmark = pytest.mark.usefixtures("kafka_python")

PLAIN = {"protocol": "PLAINTEXT"}
LOGIN = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "etl", "password": "pass-word"}


def walk(
    address: Any, security: dict[str, Any] = PLAIN, context: Any = None, name: str = "", request: float = 0.3
) -> Walk:
    limits = Limits(0.5, request, time.monotonic() + 5)
    made = Walk(address[0], address[1], security, limits, context, name or address[0])
    try:
        made.open()
        made.step("metadata", lambda: made.metadata([]), "it answered")
        made.measure()
    except Broken:
        pass
    made.close()
    return made


def broken_hop(made: Walk) -> str:
    (name,) = [name for name, hop in made.hops.items() if hop["state"] == "broken"]
    return name


def test_a_good_way_has_every_hop() -> None:
    with running() as (_, there):
        made = walk(there[1])
    assert made.code is None
    assert list(made.hops) == ["name", "tcp", "api", "metadata", "size"]
    assert all(hop["state"] == "ok" and hop["ms"] is not None for hop in made.hops.values())


BAD_PEERS = [
    ("an HTTP server that answers", says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "NOT_KAFKA", "http"),
    ("garbage", says(b"\x00\x00\x00\x20" + b"garbage!" * 4), "NOT_KAFKA", "garbage"),
    ("two gigabytes", says(struct.pack(">i", 2**31 - 1) + b"x" * 64), "NOT_KAFKA", "garbage"),
    ("silence", keeps_silent, "NOT_KAFKA", "silent"),
    ("hanging up", hangs_up, "NOT_KAFKA", "closed"),
    ("an echo", echoes, "NOT_KAFKA", "garbage"),
    ("a TLS alert", says(b"\x15\x03\x03\x00\x02\x02\x50"), "TLS", "tls_port"),
]


@pytest.mark.parametrize(
    ("peer", "code", "detail"), [case[1:] for case in BAD_PEERS], ids=[case[0] for case in BAD_PEERS]
)
def test_what_is_no_broker_is_named(peer: Handler, code: str, detail: str) -> None:
    began = time.monotonic()
    with listening(peer) as address:
        made = walk(address)
    assert (made.code, made.detail, broken_hop(made)) == (code, detail, "api"), made.evidence
    assert time.monotonic() - began < 3


def test_an_http_server_that_waits_for_a_line_is_named() -> None:
    def waits(taken: Any) -> None:
        while b"\n" not in (part := taken.recv(4096)):
            if not part:
                return
        taken.sendall(b"HTTP/1.0 404 Not Found\r\n\r\n")

    with listening(waits) as address:
        made = walk(address)
    assert (made.code, made.detail) == ("NOT_KAFKA", "http")


def test_a_refusal_is_at_tcp() -> None:
    made = walk(closed_port())
    assert (made.code, broken_hop(made)) == ("TCP_REFUSED", "tcp")


def test_no_way_is_at_the_route() -> None:
    made = walk(("255.255.255.255", 9092))
    assert (made.code, broken_hop(made)) == ("NO_ROUTE", "route")


def test_a_name_without_address_is_at_the_name() -> None:
    made = walk(("no-such-host.invalid", 9092))
    assert (made.code, made.detail, broken_hop(made)) == ("DNS", "no_address", "name")


def test_a_resolver_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(kafka_doctor_walk, "resolve", lambda host, port: ended.wait(10))
    began = time.monotonic()
    with pytest.raises(Broken, match="no answer"):
        resolve_within("kafka", 9092, 0.2)
    assert time.monotonic() - began < 2
    ended.set()


def test_a_dead_address_before_a_good_one_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as (_, there):
        monkeypatch.setattr(kafka_doctor_walk, "resolve", lambda host, port: ["255.255.255.255", "127.0.0.1"])
        made = walk(("kafka-1", there[1][1]))
    assert (made.code, made.dead) == (None, ["255.255.255.255"])


# ------------------------------------------------------------ TLS


def test_a_tls_port_spoken_to_in_plain(certificate: str) -> None:
    with listening(tls(certificate, keeps_silent)) as address:
        made = walk(address)
    assert (made.code, made.detail, broken_hop(made)) == ("TLS", "tls_port", "api")


def test_a_plain_broker_spoken_to_by_tls(certificate: str) -> None:
    context = ssl.create_default_context(cafile=certificate)
    with running() as (_, there):
        made = walk(there[1], {"protocol": "SSL"}, context, "kafka-1.example")
    assert (made.code, made.detail, broken_hop(made)) == ("TLS", "plain_port", "tls"), made.evidence


def test_an_http_server_spoken_to_by_tls(certificate: str) -> None:
    context = ssl.create_default_context(cafile=certificate)
    with listening(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address:
        made = walk(address, {"protocol": "SSL"}, context)
    assert (made.code, made.detail) == ("NOT_KAFKA", "http")


CERTIFICATES = [
    ("name", "DNS:other.example,IP:192.0.2.7", "20200101", "20400101", "other.example, 192.0.2.7"),
    ("expired", "DNS:kafka-1.example", "20200101", "20210101", "2021-01-01"),
    ("not_yet_valid", "DNS:kafka-1.example", "20390101", "20400101", "2039-01-01"),
]


@pytest.mark.parametrize(("detail", "names", "begins", "ends", "shown"), CERTIFICATES)
def test_a_bad_certificate_is_told_with_what_it_says(
    detail: str, names: str, begins: str, ends: str, shown: str, tmp_path: Path
) -> None:
    file = make_certificate(tmp_path, names, begins, ends)
    context = ssl.create_default_context(cafile=file)
    with listening(tls(file, keeps_silent)) as address:
        made = walk(address, {"protocol": "SSL"}, context, "kafka-1.example", 2.0)
    assert (made.code, made.detail, broken_hop(made)) == ("TLS", detail, "tls"), made.evidence
    assert shown in made.evidence


def test_an_unknown_authority_is_told_as_such(certificate: str) -> None:
    with listening(tls(certificate, keeps_silent)) as address:
        made = walk(address, {"protocol": "SSL"}, ssl.create_default_context(), "kafka-1.example", 2.0)
    assert (made.code, made.detail) == ("TLS", "chain")
    assert "kafka-1.example" in made.evidence


def test_a_good_certificate_is_no_finding(certificate: str) -> None:
    context = ssl.create_default_context(cafile=certificate)
    with running() as (site, _), listening(tls(certificate, site.broker(1))) as address:
        made = walk(address, {"protocol": "SSL"}, context, "kafka-1.example", 2.0)
    assert made.code is None, made.evidence
    assert "tls" in made.hops


# ------------------------------------------------------------ login


def test_a_wrong_password_is_at_the_login() -> None:
    with running(login=("etl", "another")) as (_, there):
        made = walk(there[1], LOGIN, request=2.0)
    assert (made.code, made.detail, broken_hop(made)) == ("SASL", "login", "sasl")


def test_a_mechanism_that_is_not_offered() -> None:
    with running(login=("etl", "pass-word")) as (_, there):
        made = walk(there[1], {**LOGIN, "mechanism": "SCRAM-SHA-512"}, request=2.0)
    assert (made.code, made.detail) == ("SASL", "mechanism")


def test_a_good_login_is_no_finding() -> None:
    with running(login=("etl", "pass-word")) as (_, there):
        assert walk(there[1], LOGIN, request=2.0).code is None


# ------------------------------------------------------------ size and age


def test_answers_that_stop_at_a_packet_are_a_black_hole() -> None:
    """The peer answers while requests are small, as the far side of a link does that loses full packets."""
    with running() as (site, _):
        small = site.broker(1)

        def narrow(taken: Any) -> None:
            class Link:
                def recv(self, size: int) -> bytes:
                    data = taken.recv(size)
                    if size > 1400:
                        threading.Event().wait(1)
                        raise EOFError
                    return bytes(data)

                sendall = taken.sendall

            small(Link())  # type: ignore[arg-type]

        with listening(narrow) as address:
            made = walk(address)
    assert (made.code, broken_hop(made)) == ("MTU_BLACK_HOLE", "size")


def test_a_broker_that_is_too_old_is_told() -> None:
    old = Site("C", {}, apis={2: (0, 2), 3: (0, 5), 18: (0, 1)})
    with listening(old.broker(1)) as address:
        made = walk(address)
    assert made.code == "UNPROVEN"
    assert "older than Kafka 2.1" in made.evidence
