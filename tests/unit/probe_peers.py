"""Peers for the probe on loopback: scripted Kafka brokers, and servers that are none."""

from __future__ import annotations

import contextlib
import io
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Handler = Callable[[socket.socket], None]
NOT_LEADER, SASL_FAILED = 6, 58


@contextlib.contextmanager
def listening(handler: Handler, host: str = "127.0.0.1", port: int = 0) -> Iterator[tuple[str, int]]:
    """A server whose connections are given to `handler`, each in a thread; ends with the block."""
    server = socket.create_server((host, port))

    def serve() -> None:
        while True:
            try:
                taken, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=attend, args=(taken,), daemon=True).start()

    def attend(taken: socket.socket) -> None:
        with taken, contextlib.suppress(OSError, EOFError):
            handler(taken)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server.getsockname()
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def closed_port() -> tuple[str, int]:
    """An address that refuses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        return host, port


def says(data: bytes) -> Handler:
    """Answers whatever comes with the same bytes, and hangs up when the other side does."""

    def handle(taken: socket.socket) -> None:
        taken.recv(4096)
        taken.sendall(data)
        while taken.recv(4096):
            pass

    return handle


def keeps_silent(taken: socket.socket) -> None:
    while taken.recv(4096):
        pass


def hangs_up(taken: socket.socket) -> None:
    taken.recv(4096)


def echoes(taken: socket.socket) -> None:
    while data := taken.recv(4096):
        taken.sendall(data)


@dataclass
class Site:
    """A cluster as its brokers tell it: who is alive, and (leader, replicas) of each partition."""

    cluster_id: str
    brokers: dict[int, tuple[str, int]]
    topics: dict[str, list[tuple[int, list[int]]]] = field(default_factory=dict)
    login: tuple[str, str] | None = None
    apis: dict[int, tuple[int, int]] = field(default_factory=lambda: {2: (1, 9), 3: (0, 12), 18: (0, 4)})
    asked: list[tuple[int, Any]] = field(default_factory=list)

    def broker(self, node: int) -> Handler:
        """The handler of one broker."""

        def handle(taken: socket.socket) -> None:
            while True:
                (size,) = struct.unpack(">i", read(taken, 4))
                frame = io.BytesIO(read(taken, size))
                key, version, correlation, length = struct.unpack(">hhih", frame.read(10))
                frame.read(length)
                answer = self._answer(node, key, version, frame)
                body = struct.pack(">i", correlation) + answer.encode()
                taken.sendall(struct.pack(">i", len(body)) + body)

        return handle

    def _answer(self, node: int, key: int, version: int, frame: io.BytesIO) -> Any:
        name = {2: "ListOffsets", 3: "Metadata", 17: "SaslHandshake", 18: "ApiVersions", 36: "SaslAuthenticate"}[key]
        request = protocol(name + "Request")[version].decode(frame)
        self.asked.append((node, request))
        return protocol(name + "Response")[version](*getattr(self, f"_{key}")(node, request))

    def _18(self, node: int, request: Any) -> Any:
        return 0, [(key, low, high) for key, (low, high) in self.apis.items()]

    def _3(self, node: int, request: Any) -> Any:
        wanted = self.topics if request.topics is None else {name: self.topics[name] for name in request.topics}
        topics: list[Any] = [
            (0, name, False, [(0, number, led, held, held, []) for number, (led, held) in enumerate(partitions)])
            for name, partitions in wanted.items()
        ]
        brokers = [(number, host, port, None) for number, (host, port) in self.brokers.items()]
        return 0, brokers, self.cluster_id, -1, topics

    def _2(self, node: int, request: Any) -> Any:
        return (
            [
                (name, [(n, 0 if self.topics[name][n][0] == node else NOT_LEADER, -1, 0) for n, _ in numbers])
                for name, numbers in request.topics
            ],
        )

    def _17(self, node: int, request: Any) -> Any:
        return (0 if request.mechanism == "PLAIN" else 33), ["PLAIN"]

    def _36(self, node: int, request: Any) -> Any:
        if tuple(request.auth_bytes.decode().split("\0")[1:]) == self.login:
            return 0, None, b""
        return SASL_FAILED, "refused: " + request.auth_bytes.decode().replace("\0", " "), b""


def protocol(name: str) -> Any:
    """A list of protocol classes by version, of the kafka-python that the probe has loaded."""
    modules = [module for key, module in sys.modules.items() if key.startswith("kafka.protocol.")]
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def read(taken: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = taken.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data
