"""One conversation: every kind of peer gets its verdict, in bounded time and memory."""

from __future__ import annotations

import contextlib
import ssl
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_natmap_identity import show
from kafka_natmap_session import Broken, Limits, Session, resolve, tcp_failure
from kafka_natmap_wire import tls_context
from probe_peers import Handler, Site, closed_port, echoes, hangs_up, keeps_silent, listening, says

pytestmark = pytest.mark.usefixtures("kafka_python")

PLAIN = {"protocol": "PLAINTEXT"}
LOGIN = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "etl", "password": "pass-word"}
SITE = Site("C", {1: ("192.0.2.21", 9092)}, login=("etl", "pass-word"))


def limits(connect: float = 2.0, request: float = 2.0, total: float = 5.0) -> Limits:
    return Limits(connect, request, time.monotonic() + total)


@contextlib.contextmanager
def broken(address: tuple[str, int], security: dict[str, Any] = PLAIN, tls: Any = None) -> Iterator[Broken]:
    session = Session(*address, security, limits(request=0.2), tls)
    with pytest.raises(Broken) as caught:
        session.open()
    yield caught.value
    session.close()


NO_KAFKA = [
    ("an HTTP server", says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "NOT_KAFKA", "HTTP server"),
    ("garbage", says(b"\x00\x00\x00\x20" + b"garbage!" * 4), "NOT_KAFKA", "no Kafka answer"),
    ("two gigabytes", says(struct.pack(">i", 2**31 - 1) + b"x" * 64), "NOT_KAFKA", "frame of 2147483647 bytes"),
    ("a negative length", says(b"\xff\xff\xff\xff"), "NOT_KAFKA", "frame of -1 bytes"),
    ("half a length", says(b"\x00\x00"), "NOT_KAFKA", "(2 bytes came)"),
    ("half an answer", says(b"\x00\x00\x00\x20half"), "NOT_KAFKA", "kept silent"),
    ("silence", keeps_silent, "NOT_KAFKA", "kept silent for 0.2 s when asked ApiVersions (0 bytes came)"),
    ("hanging up", hangs_up, "NOT_KAFKA", "closed it when asked ApiVersions"),
    ("an echo", echoes, "NOT_KAFKA", "no Kafka answer"),
    ("a TLS alert", says(b"\x15\x03\x03\x00\x02\x02\x50"), "TLS", "wants TLS"),
    ("a huge count", says(struct.pack(">iihi", 10, 1, 0, 2**31 - 1)), "NOT_KAFKA", "no Kafka answer"),
]


@pytest.mark.parametrize(("peer", "verdict", "said"), [case[1:] for case in NO_KAFKA], ids=[c[0] for c in NO_KAFKA])
def test_what_is_no_kafka_is_named(peer: Handler, verdict: str, said: str) -> None:
    began = time.monotonic()
    with listening(peer) as address, broken(address) as error:
        assert (error.verdict, said in error.evidence) == (verdict, True), error.evidence
    assert time.monotonic() - began < 2


def test_tls_server_spoken_to_in_plain(certificate: str) -> None:
    with tls_server(certificate) as address, broken(address) as error:
        assert (error.verdict, error.evidence) == ("TLS", f"{show(address)} speaks TLS, but is asked without")


def test_certificate_is_checked_against_the_advertised_name(certificate: str) -> None:
    context = ssl.create_default_context(cafile=certificate)
    security = {"protocol": "SSL"}
    with tls_server(certificate, SITE.broker(1)) as address:
        right = Session(*address, security, limits(), context, "kafka-1.example")
        right.open()
        right.close()
        wrong = Session(*address, security, limits(), context, "kafka-2.example")
        with pytest.raises(Broken, match=r"not valid for 'kafka-2\.example'") as caught:
            wrong.open()
    assert caught.value.verdict == "TLS"


@pytest.mark.parametrize("verify", [True, False])
def test_an_authority_comes_as_text_or_nobody_checks(certificate: str, verify: bool) -> None:
    security: dict[str, Any] = {"protocol": "SSL", "verify": False}
    if verify:
        security = {"protocol": "SSL", "cadata": Path(certificate + ".crt").read_text()}
    with tls_server(certificate, SITE.broker(1)) as address:
        # Unchecked, any name will do.
        session = Session(*address, security, limits(), tls_context(security), f"kafka-{1 if verify else 2}.example")
        session.open()
        session.close()


def test_plain_server_spoken_to_by_tls(certificate: str) -> None:
    context = ssl.create_default_context(cafile=certificate)
    with listening(hangs_up) as address, broken(address, {"protocol": "SSL"}, context) as error:
        assert error.verdict == "TLS"


def test_refused() -> None:
    with broken(closed_port()) as error:
        assert error.verdict == "TCP_REFUSED"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "k\u00e4fka", "a" * 300])
def test_name_without_address(host: str) -> None:
    with broken((host, 9092)) as error:
        assert error.verdict == "DNS"


def test_address_needs_no_resolver() -> None:
    assert resolve("192.0.2.21", 9092) == ["192.0.2.21"]


@pytest.mark.parametrize(
    ("code", "verdict", "said"),
    [
        (111, "TCP_REFUSED", "refused"),
        (110, "TCP_TIMEOUT", "in 3.0 s"),
        (101, "NO_ROUTE", "Network is unreachable"),
        (113, "NO_ROUTE", "No route to host"),
        (1, "NO_ROUTE", "firewall on this node"),
    ],
)
def test_errors_of_connect(code: int, verdict: str, said: str) -> None:
    failure = tcp_failure(code, "192.0.2.21:9092", 3.0)
    assert (failure.verdict, said in failure.evidence) == (verdict, True)


def test_answers_and_addresses_of_a_broker() -> None:
    with listening(SITE.broker(1)) as address:
        session = Session(*address, PLAIN, limits())
        session.open()
        assert session.apis == SITE.apis
        assert session.flow is not None
        assert session.flow[2:] == address
        assert session.latency_ms is not None
        assert session.latency_ms < 2000
        session.close()


def test_digest_tells_versions_apart() -> None:
    sessions = [Session("h", 1, PLAIN, limits()) for _ in range(2)]
    sessions[0].apis, sessions[1].apis = {3: (0, 8)}, {3: (0, 9)}
    assert len({session.digest for session in sessions}) == 2
    assert all(len(session.digest) == 8 for session in sessions)


def test_login() -> None:
    with listening(SITE.broker(1)) as address:
        Session(*address, LOGIN, limits()).open()
        with broken(address, {**LOGIN, "mechanism": "SCRAM-SHA-512"}) as error:
            assert (error.verdict, "it offers PLAIN" in error.evidence) == ("SASL", True)
        with broken(address, {**LOGIN, "username": "eve"}) as error:
            assert (error.verdict, "refused the PLAIN login" in error.evidence) == ("SASL", True)


def test_no_time_left_asks_nothing() -> None:
    with pytest.raises(Broken, match="time was over"):
        Session("127.0.0.1", 9, PLAIN, limits(total=-1)).open()


@contextlib.contextmanager
def tls_server(certificate: str, handler: Handler = keeps_silent) -> Iterator[tuple[str, int]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def handle(taken: Any) -> None:
        with context.wrap_socket(taken, server_side=True) as wrapped:
            handler(wrapped)

    with listening(handle) as address:
        yield address
