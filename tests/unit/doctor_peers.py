"""Scripted brokers for the doctor: what the probe's peers do not answer, and ways to be wrong."""

from __future__ import annotations

import contextlib
import io
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probe_peers import Handler, Site, closed_port, listening, protocol

NAMES = {10: "FindCoordinator", 32: "DescribeConfigs"}
TOPICS = {"orders": [(1, [1, 2]), (2, [2, 3]), (3, [3, 1])]}


@dataclass
class HQ(Site):
    """A cluster that also knows coordinators, in-sync replicas, hidden listeners, and who may describe a broker."""

    apis: dict[int, tuple[int, int]] = field(
        default_factory=lambda: {2: (1, 9), 3: (0, 12), 10: (0, 4), 18: (0, 4), 32: (1, 4)}
    )
    coordinators: dict[str, int] = field(default_factory=dict)
    unavailable: int = 0
    in_sync: dict[int, list[int]] = field(default_factory=dict)
    hidden: tuple[int, ...] = ()
    describes: bool = False
    unreadable: bool = False

    def _answer(self, node: int, key: int, version: int, frame: io.BytesIO) -> Any:
        if key not in NAMES and key != 3:
            return super()._answer(node, key, version, frame)
        name = NAMES.get(key, "Metadata")
        request = protocol(name + "Request")[version].decode(frame)
        self.asked.append((node, request))
        return protocol(name + "Response")[version](*getattr(self, f"_{key}")(node, request))

    def _3(self, node: int, request: Any) -> Any:
        if request.API_VERSION < 7:
            return super()._3(node, request)
        known = {} if self.unreadable else self.topics
        wanted = known if request.topics is None else {name: known.get(name) for name in request.topics}
        topics = [
            (0, name, False, self._partitions(parts)) if parts else (3, name, False, [])
            for name, parts in wanted.items()
        ]
        brokers = [(number, host, port, None) for number, (host, port) in self.brokers.items()]
        return 0, brokers, self.cluster_id, -1, topics

    def _partitions(self, partitions: list[tuple[int, list[int]]]) -> list[Any]:
        return [
            (
                72 if led in self.hidden else 0,
                number,
                -1 if led in self.hidden else led,
                0,
                held,
                self.in_sync.get(led, held),
                [],
            )
            for number, (led, held) in enumerate(partitions)
        ]

    def _10(self, node: int, request: Any) -> Any:
        if self.unavailable:
            self.unavailable -= 1
            return 0, 15, None, -1, "", -1
        led = self.coordinators.get(request.coordinator_key)
        return (0, 0, None, led, *self.brokers[led]) if led is not None else (0, 15, None, -1, "", -1)

    def _32(self, node: int, request: Any) -> Any:
        (kind, name, _), *_ = request.resources
        if not self.describes:
            return 0, [(31, "not authorized", kind, name, [])]
        if name == str(node):
            return 0, [(0, None, kind, name, [])]
        said = f"Unexpected broker id, expected {node} or empty string, but received {name}"
        return 0, [(42, said, kind, name, [])]


@contextlib.contextmanager
def running(
    cluster_id: str = "C", dead: tuple[int, ...] = (), swap: bool = False, **more: Any
) -> Iterator[tuple[HQ, dict[int, Any]]]:
    """Three brokers on loopback that advertise where they listen; the dead refuse. `swap`: 1 and 2 advertise each other."""
    with ExitStack() as open_:
        site = HQ(cluster_id, {}, {name: list(parts) for name, parts in TOPICS.items()}, **more)
        there: dict[int, Any] = {}
        for node in (1, 2, 3):
            there[node] = closed_port() if node in dead else open_.enter_context(listening(site.broker(node)))
        site.brokers.update(there)
        if swap:
            site.brokers.update({1: there[2], 2: there[1]})
        yield site, there


def tls(certificate: str, handler: Handler) -> Handler:
    """The same server behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def handle(taken: Any) -> None:
        with context.wrap_socket(taken, server_side=True) as secured:
            handler(secured)

    return handle


def certificate(folder: Path, names: str, begins: str, ends: str) -> str:
    """A file with a key and its self-signed certificate; times as YYYYMMDD."""
    made = str(folder / "made.pem")
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
        "-subj", "/CN=hq", "-addext", f"subjectAltName={names}", "-keyout", made, "-out", made + ".crt",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    # `openssl req` of version 3.0 takes no dates; `openssl ca` wants a folder of its own; `x509` signs what is there.
    authority = folder / "ca.cnf"
    authority.write_text(
        f"[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index\nserial={folder}/serial\nnew_certs_dir={folder}\n"
        f"default_md=sha256\npolicy=p\nx509_extensions=x\n[p]\ncommonName=supplied\n[x]\nsubjectAltName={names}\n"
    )
    (folder / "index").write_text("")
    (folder / "serial").write_text("01\n")
    subprocess.run(
        ["openssl", "req", "-new", "-key", made, "-subj", "/CN=hq", "-out", made + ".csr"],
        check=True,
        capture_output=True,
    )
    sign = [
        "openssl", "ca", "-batch", "-selfsign", "-config", str(authority), "-keyfile", made, "-in", made + ".csr", "-out", made + ".crt",
        "-startdate", begins + "000000Z", "-enddate", ends + "000000Z", "-notext",
    ]  # fmt: skip
    subprocess.run(sign, check=True, capture_output=True)
    with open(made, "a") as both:
        both.write(Path(made + ".crt").read_text())
    return made


def loaded() -> None:
    """What the doctor's program loads beside the probe's modules."""
    import importlib

    for name in ("admin", "find_coordinator"):
        if "kafka.protocol." + name not in sys.modules:
            importlib.import_module("kafka.protocol." + name)
