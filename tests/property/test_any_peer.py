"""Whatever a peer says, a certificate or a configuration holds: a verdict, never a crash, in bounded time."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import kafka_doctor_nginx as nginx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka_doctor_certificate import read_certificate
from kafka_doctor_walk import Walk
from kafka_natmap_session import Broken, Limits
from unit.conftest import kafka_python  # noqa: F401 - a fixture
from unit.probe_peers import listening, says

KNOWN = {"NOT_KAFKA", "TLS", "UNPROVEN", "SASL", "TCP_TIMEOUT", "MTU_BLACK_HOLE"}
# What a Kafka answer begins with, so that decoders are reached.
FRAMES = st.builds(lambda length, body: length.to_bytes(4, "big") + body, st.integers(0, 64), st.binary(max_size=64))


@pytest.fixture(scope="module")
def der(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = str(Path(tmp_path_factory.mktemp("tls")) / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
               "-subj", "/CN=kafka-1", "-addext", "subjectAltName=DNS:kafka-1.example,IP:192.0.2.1", "-keyout", file,
               "-outform", "DER"]  # fmt: skip
    return subprocess.run(command, check=True, capture_output=True).stdout


@pytest.mark.usefixtures("kafka_python")
@settings(max_examples=40, deadline=None)
@given(st.one_of(st.binary(min_size=1, max_size=200), FRAMES))
def test_any_bytes_give_a_verdict(data: bytes) -> None:
    began = time.monotonic()
    with listening(says(data)) as address:
        walk = Walk(*address, {"protocol": "PLAINTEXT"}, Limits(0.3, 0.1, time.monotonic() + 2), None, address[0])
        with pytest.raises(Broken):
            walk.open()
        walk.close()
    assert walk.code in KNOWN
    assert len(walk.evidence) < 400
    assert time.monotonic() - began < 3


@given(st.data())
def test_any_damage_to_a_certificate_is_read_or_refused(der: bytes, data: Any) -> None:
    damaged = bytearray(der)
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    seen = read_certificate(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    assert seen is None or str(seen).isprintable()


@given(st.binary(max_size=300))
def test_any_bytes_are_no_certificate_that_crashes(data: bytes) -> None:
    read_certificate(data)


WORDS = st.sampled_from(
    [
        "stream",
        "http",
        "server",
        "listen 1",
        "proxy_pass a:1",
        "upstream u",
        "{",
        "}",
        ";",
        '"',
        "'",
        "#",
        "\n",
        "include x",
    ]
)


@given(st.lists(st.one_of(WORDS, st.text(max_size=5)), max_size=60).map(" ".join))
def test_any_text_is_a_configuration(text: str) -> None:
    nginx.listeners(text)
