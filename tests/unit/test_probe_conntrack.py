"""ctnetlink messages, byte by byte, and our own entries in a namespace of this process."""

from __future__ import annotations

import socket
import struct
import subprocess

import kafka_natmap_conntrack as ct
import pytest
from netns import Namespace

FLOW = ("10.0.0.5", 40000, "192.0.2.21", 9092)
BACK = ("203.0.113.21", 19092, "10.0.0.5", 40000)
# As the kernel lays it out on a little-endian machine: nested 0x8001 > 0x8001 (addresses), 0x8002 (protocol).
FLOW_BYTES = bytes.fromhex(
    "34000180 14000180 08000100 0a000005 08000200 c0000215 1c000280 05000100 06000000 06000200 9c400000 06000300 23840000"
)


def entry_bytes(orig: bytes = b"", reply: bytes = b"", family: int = socket.AF_INET, state: int = 3) -> bytes:
    tcp = attribute(ct.PROTOINFO, attribute(ct.PROTOINFO_TCP, attribute(ct.TCP_STATE, bytes([state]))))
    numbers = attribute(ct.ID, b"\0\0\1\2") + attribute(ct.MARK, b"\0\0\0\7") + attribute(ct.ZONE, b"\0\5")
    return bytes([family, 0, 0, 0]) + orig + reply + tcp + numbers


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def test_a_tuple_is_laid_out_as_the_kernel_reads_it() -> None:
    assert ct.encode_tuple(ct.TUPLE_ORIG, FLOW) == FLOW_BYTES


def test_a_request_has_its_header() -> None:
    message = ct.encode_request(ct.MSG_GET, ct.NLM_F_DUMP, b"body")
    assert struct.unpack_from("=IHHII", message) == (24, 0x0101, 0x301, 1, 0)
    assert message[16:] == b"\x02\0\0\0body"


def test_an_entry_is_read() -> None:
    data = entry_bytes(ct.encode_tuple(ct.TUPLE_ORIG, FLOW), ct.encode_tuple(ct.TUPLE_REPLY, BACK))
    entry = ct.decode_entry(data)
    assert entry == ct.Entry(FLOW, BACK, 0x102, 5, 7, "ESTABLISHED")
    assert entry.rewritten
    assert entry.dialled == ("192.0.2.21", 9092)
    assert entry.answers_from == ("203.0.113.21", 19092)


@pytest.mark.parametrize(
    ("reply", "rewritten"),
    [
        (("192.0.2.21", 9092, "10.0.0.5", 40000), False),
        (("192.0.2.21", 9092, "198.18.0.9", 61000), False),  # masqueraded: the source alone
        (("192.0.2.21", 9093, "10.0.0.5", 40000), True),
        (("203.0.113.21", 9092, "10.0.0.5", 40000), True),
    ],
)
def test_rewritten_is_about_the_destination(reply: ct.Tuple4, rewritten: bool) -> None:
    assert ct.Entry(FLOW, reply, 1, 0, 0, "SYN_SENT").rewritten is rewritten


ORIG, REPLY = ct.encode_tuple(ct.TUPLE_ORIG, FLOW), ct.encode_tuple(ct.TUPLE_REPLY, BACK)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02",
        entry_bytes(ORIG),
        entry_bytes(ORIG, REPLY[:20]),
        entry_bytes(ORIG, REPLY, family=socket.AF_INET6),
        entry_bytes(ORIG.replace(b"\x06\0\0\0", b"\x11\0\0\0"), REPLY),  # UDP
        entry_bytes(b"\xff\xff\x01\x80", REPLY),
        entry_bytes(b"\x00\x00\x01\x80", REPLY),
    ],
)
def test_what_is_no_tcp_entry_is_passed_over(data: bytes) -> None:
    assert ct.decode_entry(data) is None


def test_messages_of_one_datagram() -> None:
    first, second = ct.encode_request(0, 0, b"abc"), ct.encode_request(2, 0)
    padded = first + b"\0" * (-len(first) % 4) + second
    assert [(kind & 0xFF, payload[4:]) for kind, payload in ct.messages(padded + b"\0\0\0")] == [(0, b"abc"), (2, b"")]


def test_our_own_entries(namespace: Namespace, tracking: None) -> None:
    with namespace.entered():
        watch = ct.Watch([9092])
        with (
            socket.create_server(("127.0.0.1", 9092)) as server,
            socket.create_connection(server.getsockname()) as client,
        ):
            flow = client.getsockname() + client.getpeername()
            entry = ct.ct_get(*flow)
            assert entry is not None
            assert (entry.orig, entry.state, entry.rewritten) == (flow, "ESTABLISHED", False)
            assert entry in list(ct.ct_dump())
            assert ct.ct_delete(entry._replace(id=entry.id ^ 1)) is False
            assert ct.ct_delete(entry) is True
            assert ct.ct_delete(entry) is False
            assert ct.ct_get(*flow) is None
            found = watch.find(flow)
            assert found is not None
            assert found.id == entry.id
        watch.close()


def test_a_refused_connection_is_still_found(namespace: Namespace, tracking: None) -> None:
    with namespace.entered():
        watch = ct.Watch([9092])
        with socket.socket() as client:
            client.setblocking(False)
            client.connect_ex(("127.0.0.7", 9092))
            flow = (*client.getsockname(), "127.0.0.7", 9092)
            assert ct.ct_get(*flow) is None
            found = watch.find(flow)
        assert found is not None
        assert found.orig == flow
        watch.close()


@pytest.fixture(scope="module")
def tracking(namespace: Namespace) -> None:
    """Any rule that asks for the state makes the kernel track."""
    with namespace.entered():
        load("table ip t {\nchain out {\ntype filter hook output priority 0;\nct state new accept\n}\n}\n")


def load(rules: str) -> None:
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
