"""What the tests of the node's programs share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import kafka_natmap_wire as wire
import pytest
from netns import Namespace


def _kafka_modules() -> dict[str, object]:
    return {name: module for name, module in sys.modules.items() if name.split(".")[0] == "kafka"}


@pytest.fixture(scope="module")
def kafka_python() -> Iterator[None]:
    """The installed kafka-python as the probe loads it; other tests get theirs back."""
    before = _kafka_modules()
    for name in before:
        del sys.modules[name]
    wire.load_kafka()
    wire.load_sasl("PLAIN")
    wire.load_sasl("SCRAM-SHA-512")
    yield
    for name in _kafka_modules():
        del sys.modules[name]
    sys.modules.update(before)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    """A network namespace of its own for each module that loads rules."""
    made = Namespace()
    yield made
    made.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a key and its self-signed certificate for kafka-1.example."""
    file = str(Path(tmp_path_factory.mktemp("tls")) / "kafka-1.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=kafka-1", "-addext", "subjectAltName=DNS:kafka-1.example", "-keyout", file, "-out", file + ".crt"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    with open(file, "a") as both:
        both.write(Path(file + ".crt").read_text())
    return file
