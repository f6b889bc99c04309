"""One way, hop by hop, to one Kafka listener: what each hop gave, and the first that is broken. Python 3.6 syntax."""

import ipaddress
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from kafka_doctor_certificate import read_certificate
from kafka_natmap_session import CLUSTER_FRAME, Broken, Limits, Session, resolve
from kafka_natmap_wire import request

# The order in which a client meets them; those that a protocol does not use are left out.
HOPS = ("name", "route", "rule", "tcp", "tls", "api", "sasl", "metadata", "size", "identity")
# Taken by every broker from 2.1 to 4.x; from version 6 on a leader without this listener has an error of its own.
METADATA = 7
NEEDED = ((2, 1, "ListOffsets"), (3, METADATA, "Metadata"))
# Eight topics that nobody has: 2 KB that a broker sends back, more than one packet of 1500 bytes.
LONG_NAMES = ["kafka-natmap-doctor-measures-the-way.{:0212d}".format(number) for number in range(8)]
PEEK = 0.7
CLIENT_ERRORS = {9: "not_yet_valid", 10: "expired", 62: "name", 64: "name"}


class Walk(Session):
    """A session that notes its hops. After `go`, `code` is None or the verdict on the broken hop."""

    def __init__(self, host: str, port: int, security: Dict[str, Any], limits: Limits, tls: Any, tls_name: str) -> None:
        super().__init__(host, port, security, limits, tls, tls_name)
        self.hops: Dict[str, Dict[str, Any]] = {}
        self.code: Optional[str] = None
        self.detail = ""
        self.evidence = ""
        self.addresses: List[str] = []
        self.dead: List[str] = []
        self.cluster_id: Optional[str] = None

    def step(self, name: str, work: Callable[[], Any], said: str) -> Any:
        """Do one hop and note what it gave. Raises Broken, with the hop noted, where it fails."""
        began = time.monotonic()
        try:
            result = work()
        except Broken as broken:
            broken_at = "route" if broken.verdict == "NO_ROUTE" else name
            self.hops[broken_at] = hop("broken", elapsed(began), broken.evidence)
            if self.code is None:
                self.code, self.evidence = broken.verdict, broken.evidence
            raise
        self.hops[name] = hop("ok", elapsed(began), said.format(self=self, result=result))
        return result

    def open(self) -> None:
        """Everything up to a listener that takes requests. Raises Broken."""
        self.addresses = self.step("name", self._name, "{self.host} is {result[0]}")
        self.step("tcp", self._connect, "{self.address} took the connection")
        self.hops["tcp"]["ms"] = self.latency_ms
        if self.tls is not None:
            self.step("tls", self._start_tls, "TLS for the name {self.tls_name}")
        self.step("api", self._check_api, "{self.address} is a Kafka broker")
        if self.security["protocol"].startswith("SASL"):
            self.step("sasl", self._authenticate, "logged in by {self.security[mechanism]}")

    def metadata(self, topics: Optional[List[str]]) -> Any:
        """A Metadata answer; None asks for all topics. Raises Broken."""
        return self.ask(request("metadata", METADATA, topics, False), CLUSTER_FRAME)

    def measure(self) -> None:
        """Does more than one full packet pass, there and back? Raises Broken."""

        def work() -> None:
            try:
                self.metadata(LONG_NAMES)
            except Broken as broken:
                if broken.verdict != "TCP_TIMEOUT":
                    raise
                said = (
                    f"{self.address} answered small requests, and nothing in {self.limits.request:.1f} s to one of 2 KB"
                )
                raise Broken("MTU_BLACK_HOLE", said) from None

        self.step("size", work, "2 KB went there and came back")

    def _name(self) -> List[str]:
        if is_address(self.host):
            return [self.host]
        try:
            return resolve_within(self.host, self.port, self.limits.left(self.limits.connect))
        except Broken as broken:
            self.detail = "no_address"
            raise Broken("DNS", broken.evidence) from None

    def _connect(self) -> None:
        failure: Optional[Broken] = None
        for ip in self.addresses[:3]:
            try:
                return self._connect_to(ip)
            except Broken as broken:
                failure = broken
                self.dead.append(ip)
        raise failure or Broken("DNS", f"{self.host} has no IPv4 address on this node")

    def _check_api(self) -> None:
        try:
            self._api_versions()
        except Broken as broken:
            raise self._name_the_peer(broken) from None
        for key, version, name in NEEDED:
            low, high = self.apis.get(key, (0, -1))
            if not low <= version <= high:
                raise Broken("UNPROVEN", f"{self.address} does not take {name} v{version}: it is older than Kafka 2.1")

    def _name_the_peer(self, broken: Broken) -> Broken:
        """Says what answers there, where it is no Kafka broker."""
        if broken.verdict == "TLS":
            self.detail = "tls_port" if self.tls is None else "handshake"
        if broken.verdict != "NOT_KAFKA":
            return broken
        head = b"HTTP/" if broken.evidence.endswith("an HTTP server") else peek_http(self.address)
        if head.startswith(b"HTTP/"):
            self.detail = "http"
            return Broken("NOT_KAFKA", f"{self.address} is an HTTP server")
        self.detail = "silent" if "kept silent" in broken.evidence else "closed" if broken.hung_up else "garbage"
        return broken

    def _start_tls(self) -> None:
        import ssl

        self.socket.settimeout(self.limits.left(self.limits.request))
        try:
            self.socket = self.tls.wrap_socket(self.socket, server_hostname=self.tls_name)
        except socket.timeout:
            raise self._judge_handshake(f"it did not end in {self.limits.request:.1f} s") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or ""
            if reason == "CERTIFICATE_VERIFY_FAILED" or isinstance(error, ssl.CertificateError):
                self.detail, said = self._judge_certificate(error)
                raise Broken("TLS", said) from None
            raise self._judge_handshake(reason or str(error)) from None

    def _judge_certificate(self, error: Exception) -> Any:
        seen = read_certificate(peek_certificate(self.address, self.tls_name))
        detail = CLIENT_ERRORS.get(getattr(error, "verify_code", 0), "")
        # Python 3.6 names no code: the certificate itself tells.
        detail = detail or (seen.fault(time.time()) if seen else "") or "chain"
        if isinstance(error, ssl_mismatch()):
            detail = "name"
        why = {
            "name": f"is not for the name {self.tls_name}",
            "expired": "has expired",
            "not_yet_valid": "is not valid yet",
            "chain": "comes from an authority that this node does not trust for it: {}".format(
                getattr(error, "verify_message", None) or "chain not verified"
            ),
        }[detail]
        return detail, "the certificate of {} {}{}".format(self.address, why, f"; it is {seen}" if seen else "")

    def _judge_handshake(self, reason: str) -> Broken:
        """No certificate was refused: does the port speak TLS at all?"""
        self.detail = "client_certificate" if "CERTIFICATE" in reason.upper() else "handshake"
        plain = Session(
            *split(self.address), {"protocol": "PLAINTEXT"}, self.limits._replace(connect=PEEK, request=PEEK)
        )
        try:
            plain.open()
        except Broken as broken:
            if broken.evidence.endswith("an HTTP server") or peek_http(self.address).startswith(b"HTTP/"):
                self.detail = "http"
                return Broken("NOT_KAFKA", f"{self.address} is an HTTP server")
        else:
            self.detail = "plain_port"
            return Broken("TLS", f"{self.address} is a Kafka listener without TLS, and is asked with TLS")
        finally:
            plain.close()
        return Broken("TLS", f"the TLS handshake with {self.address} failed: {reason}")

    def _authenticate(self) -> None:
        try:
            super()._authenticate()
        except Broken as broken:
            said = broken.evidence
            self.detail = "gssapi" if "GSSAPI needs" in said else "login"
            if "does not offer" in said:
                self.detail = "no_login" if said.endswith("it offers none") else "mechanism"
            raise


def hop(state: str, ms: Optional[float], said: str) -> Dict[str, Any]:
    return {"state": state, "ms": ms, "said": said}


def elapsed(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 2)


def split(address: str) -> Any:
    host, _, port = address.rpartition(":")
    return host, int(port)


def is_address(host: str) -> bool:
    try:
        return bool(ipaddress.IPv4Address(host))
    except ValueError:
        return False


def resolve_within(host: str, port: int, seconds: float) -> List[str]:
    """As `resolve`, in bounded time: a resolver cannot be interrupted, so it is left behind. Raises Broken."""
    found: List[Any] = []

    def work() -> None:
        try:
            found.append(resolve(host, port))
        except Broken as broken:
            found.append(broken)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise Broken("DNS", f"this node's resolver gave no answer for {host} in {seconds:.1f} s")
    if isinstance(found[0], Broken):
        raise found[0]
    return list(found[0])


def peek_http(address: str) -> bytes:
    """The first bytes that a server says to an HTTP request; empty where it says none."""
    try:
        with socket.create_connection(split(address), timeout=PEEK) as taken:
            taken.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            return taken.recv(16)
    except OSError:
        return b""


def peek_certificate(address: str, name: str) -> Optional[bytes]:
    """The certificate that an address shows for a name, unverified (DER), or None."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(split(address), timeout=PEEK) as plain, context.wrap_socket(
            plain, server_hostname=name
        ) as secured:
            return secured.getpeercert(binary_form=True)
    except (OSError, ValueError):
        return None


def ssl_mismatch() -> Any:
    """What a name mismatch raises where it is not a verification error with a code (Python 3.6)."""
    import ssl

    return () if hasattr(ssl, "SSLCertVerificationError") else ssl.CertificateError
