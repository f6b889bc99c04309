"""Read and delete single conntrack entries over a raw ctnetlink socket (TCP over IPv4).

Standard library only, Python 3.6 syntax. Needs CAP_NET_ADMIN, both when the socket is opened and
when it is used. Message layout: linux/netfilter/nfnetlink.h and nfnetlink_conntrack.h.
"""

import errno
import os
import socket
import struct
from typing import Dict, Iterable, Iterator, NamedTuple, Optional, Tuple

NETLINK_NETFILTER = 12
SUBSYS_CTNETLINK = 1
MSG_NEW, MSG_GET, MSG_DELETE = 0, 1, 2
GROUP_NEW = 1
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLA_F_NESTED = 0x8000
NLA_TYPE_MASK = 0x3FFF
TUPLE_ORIG, TUPLE_REPLY, STATUS, PROTOINFO, MARK, ID, ZONE = 1, 2, 3, 4, 8, 12, 18
TUPLE_IP, TUPLE_PROTO = 1, 2
IP_V4_SRC, IP_V4_DST = 1, 2
PROTO_NUM, PROTO_SRC_PORT, PROTO_DST_PORT = 1, 2, 3
PROTOINFO_TCP = 1
TCP_STATE = 1
TCP_STATES = (
    "NONE",
    "SYN_SENT",
    "SYN_RECV",
    "ESTABLISHED",
    "FIN_WAIT",
    "CLOSE_WAIT",
    "LAST_ACK",
    "TIME_WAIT",
    "CLOSE",
    "SYN_SENT2",
)
# What may wait unread, in bytes, and how many entries a watch keeps.
EVENT_BUFFER = 1 << 20
MOST_SEEN = 50000

Tuple4 = Tuple[str, int, str, int]


class Entry(NamedTuple):
    """One tracked TCP connection. `orig` is what the client dialled, `reply` what answers come from."""

    orig: Tuple4
    reply: Tuple4
    id: int
    zone: int
    mark: int
    state: str

    @property
    def dialled(self) -> Tuple[str, int]:
        return self.orig[2], self.orig[3]

    @property
    def answers_from(self) -> Tuple[str, int]:
        return self.reply[0], self.reply[1]

    @property
    def rewritten(self) -> bool:
        """True when the destination was translated."""
        return self.answers_from != self.dialled


def _attribute(kind: int, value: bytes) -> bytes:
    pad = -len(value) % 4
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * pad


def encode_tuple(kind: int, flow: Tuple4) -> bytes:
    """The nested attribute `kind` (TUPLE_ORIG or TUPLE_REPLY) of a TCP flow."""
    src, sport, dst, dport = flow
    addresses = _attribute(IP_V4_SRC, socket.inet_aton(src)) + _attribute(IP_V4_DST, socket.inet_aton(dst))
    protocol = (
        _attribute(PROTO_NUM, struct.pack("B", socket.IPPROTO_TCP))
        + _attribute(PROTO_SRC_PORT, struct.pack("!H", sport))
        + _attribute(PROTO_DST_PORT, struct.pack("!H", dport))
    )
    return _attribute(
        kind | NLA_F_NESTED,
        _attribute(TUPLE_IP | NLA_F_NESTED, addresses) + _attribute(TUPLE_PROTO | NLA_F_NESTED, protocol),
    )


def encode_request(message: int, flags: int, body: bytes = b"") -> bytes:
    """One netlink request to ctnetlink, family IPv4."""
    payload = struct.pack("=BBH", socket.AF_INET, 0, 0) + body
    kind = SUBSYS_CTNETLINK << 8 | message
    return struct.pack("=IHHII", 16 + len(payload), kind, NLM_F_REQUEST | flags, 1, 0) + payload


def attributes(data: bytes) -> Dict[int, bytes]:
    """Attributes by type; a malformed tail is dropped."""
    found = {}
    offset = 0
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, offset)
        if length < 4:
            break
        found[kind & NLA_TYPE_MASK] = data[offset + 4 : offset + length]
        offset += length + (-length % 4)
    return found


def _decode_tuple(data: bytes) -> Optional[Tuple4]:
    parts = attributes(data)
    address, protocol = attributes(parts.get(TUPLE_IP, b"")), attributes(parts.get(TUPLE_PROTO, b""))
    try:
        if protocol[PROTO_NUM] != b"\x06":
            return None
        return (
            socket.inet_ntoa(address[IP_V4_SRC]),
            struct.unpack("!H", protocol[PROTO_SRC_PORT])[0],
            socket.inet_ntoa(address[IP_V4_DST]),
            struct.unpack("!H", protocol[PROTO_DST_PORT])[0],
        )
    except (KeyError, OSError, struct.error):
        return None


def decode_entry(payload: bytes) -> Optional[Entry]:
    """The entry in one message after its netlink header; None when it is not TCP over IPv4."""
    if len(payload) < 4 or payload[0] != socket.AF_INET:
        return None
    found = attributes(payload[4:])
    orig, reply = _decode_tuple(found.get(TUPLE_ORIG, b"")), _decode_tuple(found.get(TUPLE_REPLY, b""))
    if orig is None or reply is None:
        return None
    tcp = attributes(attributes(found.get(PROTOINFO, b"")).get(PROTOINFO_TCP, b""))
    state = tcp.get(TCP_STATE, b"\0")[0]
    return Entry(
        orig,
        reply,
        _number(found.get(ID)),
        _number(found.get(ZONE)),
        _number(found.get(MARK)),
        TCP_STATES[state] if state < len(TCP_STATES) else str(state),
    )


def _number(value: Optional[bytes]) -> int:
    return int.from_bytes(value or b"\0", "big")


def messages(data: bytes) -> Iterator[Tuple[int, bytes]]:
    """(type, payload) of every netlink message in one datagram."""
    offset = 0
    while offset + 16 <= len(data):
        length, kind = struct.unpack_from("=IH", data, offset)
        if length < 16:
            break
        yield kind, data[offset + 16 : offset + length]
        offset += length + (-length % 4)


def _answers(request: bytes) -> Iterator[bytes]:
    """Payloads that answer one request. Raises OSError with the kernel's errno."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as netlink:
        netlink.settimeout(5.0)
        netlink.bind((0, 0))
        netlink.send(request)
        while True:
            for kind, payload in messages(netlink.recv(1 << 18)):
                if kind == NLMSG_DONE:
                    return
                if kind != NLMSG_ERROR:
                    yield payload
                    continue
                code = -struct.unpack_from("=i", payload)[0]
                if code:
                    raise OSError(code, "conntrack: " + os.strerror(code))
                return


def ct_get(src: str, sport: int, dst: str, dport: int) -> Optional[Entry]:
    """The entry of the flow as its client sees it (zone 0), or None.

    Raises OSError when conntrack cannot be read (EPERM: not root; no module: ENOTSUP, EINVAL).
    """
    body = encode_tuple(TUPLE_ORIG, (src, sport, dst, dport))
    try:
        for payload in _answers(encode_request(MSG_GET, NLM_F_ACK, body)):
            return decode_entry(payload)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
    return None


def ct_dump() -> Iterator[Entry]:
    """Every TCP connection over IPv4 that the kernel tracks. Raises OSError as `ct_get` does."""
    for payload in _answers(encode_request(MSG_GET, NLM_F_DUMP)):
        entry = decode_entry(payload)
        if entry is not None:
            yield entry


def ct_delete(entry: Entry) -> bool:
    """Delete exactly this entry; False when it is gone, or its tuple has been taken by a newer one."""
    # Tuple and id always go along: a DELETE without a tuple empties the whole table.
    body = encode_tuple(TUPLE_ORIG, entry.orig) + _attribute(ID, struct.pack("!I", entry.id))
    if entry.zone:
        body += _attribute(ZONE, struct.pack("!H", entry.zone))
    try:
        for _ in _answers(encode_request(MSG_DELETE, NLM_F_ACK, body)):
            pass
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return False
    return True


class Watch:
    """The kernel's reports of new entries, from now on until `close`.

    A refused connection loses its entry at once, so a look-up may come too late; a report does not.
    """

    def __init__(self, ports: Iterable[int]) -> None:
        self.ports = frozenset(ports)
        self.seen: Dict[Tuple4, Entry] = {}
        self.lost = not _reports_new()
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, EVENT_BUFFER)
        self.socket.bind((0, 1 << GROUP_NEW - 1))
        self.socket.setblocking(False)

    def read(self) -> None:
        """Take in what has been reported; `lost` tells when the kernel had to drop some."""
        while True:
            try:
                data = self.socket.recv(1 << 16)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    return
                self.lost = True
                continue
            for _, payload in messages(data):
                entry = decode_entry(payload)
                if entry is not None and entry.dialled[1] in self.ports:
                    self.lost = self.lost or len(self.seen) >= MOST_SEEN
                    if not self.lost:
                        self.seen[entry.orig] = entry

    def find(self, flow: Tuple4) -> Optional[Entry]:
        """The entry of a flow, in the table or as it was reported. Raises OSError as `ct_get` does."""
        self.read()
        return ct_get(*flow) or self.seen.get(flow)

    def close(self) -> None:
        self.socket.close()


def _reports_new() -> bool:
    try:
        with open("/proc/sys/net/netfilter/nf_conntrack_events") as setting:
            return setting.read().strip() != "0"
    except OSError:
        return False
