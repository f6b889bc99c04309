"""One conversation with one Kafka listener: name, TCP, TLS, SASL, API versions, then requests.

The first hop that breaks is raised as `Broken` with its verdict and what was seen. Time is bounded by
the limits, memory by the frame size, whatever the peer is. Python 3.6 syntax; the protocol classes and
SASL mechanisms are kafka-python's (2.3), read from its zip.
"""

import errno
import hashlib
import io
import os
import select
import socket
import struct
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from kafka_natmap_wire import request, sasl_mechanism

CLIENT_ID = "kafka-natmap-probe"
# Frames of a size, in bytes: everything but the topics of a whole cluster is small.
SMALL_FRAME = 1 << 20
CLUSTER_FRAME = 32 << 20
RST_ON_CLOSE = struct.pack("ii", 1, 0)

Flow = Tuple[str, int, str, int]


class Broken(Exception):
    """The hop that failed: a verdict code and one sentence that says what was seen."""

    def __init__(self, verdict: str, evidence: str, hung_up: bool = False) -> None:
        super().__init__(evidence)
        self.verdict, self.evidence, self.hung_up = verdict, evidence, hung_up


class Limits(NamedTuple):
    """Seconds for a TCP connect, seconds for one answer, and the monotonic time when all must be over."""

    connect: float
    request: float
    until: float

    def left(self, wanted: float) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise Broken("UNPROVEN", "the probe's time was over before this was asked")
        return min(wanted, left)


def resolve(host: str, port: int) -> List[str]:
    """The IPv4 addresses that the node's own resolver gives for a host."""
    try:
        found = socket.getaddrinfo(host.encode("ascii"), port, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not a host name"
        raise Broken("DNS", f"{host} has no IPv4 address on this node: {reason}") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def tcp_failure(code: int, address: str, waited: float) -> Broken:
    """What an errno of connect() says about the way to `address`."""
    if code in (errno.ECONNREFUSED, errno.ECONNRESET):
        return Broken("TCP_REFUSED", f"{address} refused the TCP connection")
    if code == errno.ETIMEDOUT:
        return Broken("TCP_TIMEOUT", f"no answer to the TCP connection from {address} in {waited:.1f} s")
    hint = ", as a firewall on this node does" if code in (errno.EPERM, errno.EACCES) else ""
    return Broken("NO_ROUTE", f"connect to {address} failed: {os.strerror(code)}{hint}")


class Session:
    """An open conversation. `flow` is the connection as the kernel of this node sees it."""

    def __init__(
        self,
        host: str,
        port: int,
        security: Dict[str, Any],
        limits: Limits,
        tls: Any = None,
        tls_name: Optional[str] = None,
    ) -> None:
        self.host, self.port, self.security, self.limits = host, port, security, limits
        self.tls, self.tls_name = tls, tls_name or host
        self.address = f"{host}:{port}"
        self.socket: Any = None
        self.flow: Optional[Flow] = None
        self.latency_ms: Optional[float] = None
        self.apis: Dict[int, Tuple[int, int]] = {}
        self.sent = 0

    def open(self) -> None:
        """Walk the hops up to a listener that takes requests. Raises Broken at the first that fails."""
        self._connect()
        if self.tls is not None:
            self._start_tls()
        self._api_versions()
        if self.security["protocol"].startswith("SASL"):
            self._authenticate()

    def close(self) -> None:
        """Reset the connection: nothing is left waiting on either side."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    @property
    def digest(self) -> str:
        """Eight hex digits of the API version ranges: alike for brokers of one version."""
        ranges = ",".join(f"{key}:{low}-{high}" for key, (low, high) in sorted(self.apis.items()))
        return hashlib.sha256(ranges.encode()).hexdigest()[:8]

    def _connect(self) -> None:
        failure: Optional[Broken] = None
        for ip in resolve(self.host, self.port)[:3]:
            try:
                return self._connect_to(ip)
            except Broken as broken:
                failure = broken
        raise failure or Broken("DNS", f"{self.host} has no IPv4 address on this node")

    def _connect_to(self, ip: str) -> None:
        wait = self.limits.left(self.limits.connect)
        self.address = f"{ip}:{self.port}"
        self.close()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST_ON_CLOSE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        began = time.monotonic()
        code = self.socket.connect_ex((ip, self.port))
        if code in (0, errno.EINPROGRESS):
            # Read at once: after a refusal the kernel no longer tells.
            self.flow = self.socket.getsockname() + (ip, self.port)
            poll = select.poll()
            poll.register(self.socket, select.POLLOUT)
            ready = poll.poll(wait * 1000)
            code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if ready else errno.ETIMEDOUT
        waited = time.monotonic() - began
        if code:
            raise tcp_failure(code, self.address, waited)
        self.latency_ms = round(waited * 1000, 2)

    def _start_tls(self) -> None:
        import ssl

        self.socket.settimeout(self.limits.left(self.limits.request))
        try:
            self.socket = self.tls.wrap_socket(self.socket, server_hostname=self.tls_name)
        except socket.timeout:
            raise Broken("TLS", f"{self.address} did not finish the TLS handshake") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or str(error)
            kind = "certificate" if isinstance(error, getattr(ssl, "SSLCertVerificationError", ())) else "handshake"
            raise Broken("TLS", f"TLS {kind} of {self.address} for the name {self.tls_name} failed: {reason}") from None

    def _api_versions(self) -> None:
        try:
            answer = self.ask(request("api_versions", 0))
        except Broken as broken:
            if broken.hung_up and self.tls is None and speaks_tls(self):
                raise Broken("TLS", f"{self.address} speaks TLS, but is asked without") from None
            raise
        if answer.error_code:
            raise Broken("NOT_KAFKA", f"{self.address} answered ApiVersions with error {answer.error_code}")
        self.apis = {key: (low, high) for key, low, high in answer.api_versions}

    def _authenticate(self) -> None:
        name = self.security["mechanism"]
        offered = self._sasl(request("sasl_handshake", 1, name))
        if offered.error_code:
            raise Broken(
                "SASL",
                "{} does not offer {}; it offers {}".format(
                    self.address, name, ", ".join(offered.enabled_mechanisms) or "none"
                ),
            )
        try:
            mechanism = sasl_mechanism(self.security, self.tls_name)
            while not mechanism.is_done():
                answer = self._sasl(request("sasl_authenticate", 0, mechanism.auth_bytes()))
                if answer.error_code:
                    raise Broken(
                        "SASL",
                        "{} refused the {} login: {}".format(
                            self.address, name, answer.error_message or f"error {answer.error_code}"
                        ),
                    )
                mechanism.receive(answer.auth_bytes)
        except ImportError as error:
            raise Broken("SASL", str(error)) from None
        except Broken:
            raise
        except Exception as error:  # a mechanism raises what it likes; its text may hold a secret
            raise Broken("SASL", f"the {name} login at {self.address} failed with {type(error).__name__}") from None

    def _sasl(self, message: Any) -> Any:
        try:
            return self.ask(message)
        except Broken as broken:
            raise Broken("SASL", broken.evidence) from None

    def ask(self, message: Any, frame: int = SMALL_FRAME) -> Any:
        """Send one request, return its decoded answer; `frame` is the most that it may hold, in bytes."""
        asked = type(message).__name__.split("Request")[0]
        self.sent += 1
        # Kept in a name: an encoder refers to its object only weakly.
        header = message.build_header(self.sent, CLIENT_ID)
        body = header.encode() + message.encode()
        until = time.monotonic() + self.limits.left(self.limits.request)
        data = self._exchange(struct.pack(">i", len(body)) + body, asked, frame, until)
        try:
            answer = io.BytesIO(data)
            if message.RESPONSE_TYPE.parse_header(answer).correlation_id != self.sent:
                raise ValueError("an answer to something else")
            return message.RESPONSE_TYPE.decode(answer)
        except Exception:  # the decoder raises many kinds on bytes that are no answer
            raise Broken("NOT_KAFKA", f"{self.address} answered {asked} with bytes that are no Kafka answer") from None

    def _exchange(self, data: bytes, asked: str, frame: int, until: float) -> bytes:
        got = bytearray()
        try:
            self.socket.settimeout(max(until - time.monotonic(), 0.001))
            self.socket.sendall(data)
            self._read(got, 4, until)
            size = struct.unpack(">i", got)[0]
            if not 4 <= size <= frame:
                raise Broken(*not_a_frame(bytes(got), size, self.address, asked))
            del got[:]
            self._read(got, size, until)
            return bytes(got)
        except socket.timeout:
            raise self._cut(asked, len(got), hung_up=False) from None
        except OSError as error:
            if self.tls is not None and type(error).__module__ == "ssl":
                reason = getattr(error, "reason", None) or "closed"
                raise Broken("TLS", f"{self.address} ended TLS when asked {asked}: {reason}") from None
            raise self._cut(asked, len(got), hung_up=True) from None

    def _read(self, got: bytearray, size: int, until: float) -> None:
        while len(got) < size:
            left = until - time.monotonic()
            if left <= 0:
                raise socket.timeout()
            self.socket.settimeout(left)
            part = self.socket.recv(min(size - len(got), 1 << 16))
            if not part:
                raise ConnectionResetError()
            got.extend(part)

    def _cut(self, asked: str, received: int, hung_up: bool) -> Broken:
        how = "closed it" if hung_up else f"kept silent for {self.limits.request:.1f} s"
        what = f"{self.address} took the connection, and {how} when asked {asked} ({received} bytes came)"
        if not self.apis:
            return Broken("NOT_KAFKA", what, hung_up)
        if not hung_up:
            return Broken("TCP_TIMEOUT", what + "; smaller answers came through")
        if asked == "Metadata" and not self.security["protocol"].startswith("SASL"):
            return Broken("SASL", what + ", as a listener does that wants a login first")
        return Broken("UNPROVEN", what)


def not_a_frame(head: bytes, size: int, address: str, asked: str) -> Tuple[str, str]:
    """Verdict and evidence for four bytes that are no frame length."""
    if head == b"HTTP":
        return "NOT_KAFKA", f"{address} is an HTTP server"
    if head[:2] == b"\x15\x03":
        return "TLS", f"{address} answered with a TLS alert: it wants TLS"
    return "NOT_KAFKA", f"{address} answered {asked} with a frame of {size} bytes"


def speaks_tls(session: Session) -> bool:
    """Does the address that cut a plain conversation take a TLS handshake?"""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = session.address.rsplit(":", 1)
    try:
        wait = session.limits.left(session.limits.connect)
        with socket.create_connection((host, int(port)), timeout=wait) as plain:
            context.wrap_socket(plain).close()
        return True
    except (OSError, Broken) as error:
        # A server that wants a client certificate says so in an alert.
        return "ALERT" in (getattr(error, "reason", None) or "")
