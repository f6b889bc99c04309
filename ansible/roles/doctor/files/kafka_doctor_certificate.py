"""Names and dates of an X.509 certificate (RFC 5280), read from its DER bytes. Python 3.6 syntax.

The standard library tells them only of a certificate that it trusts; a doctor needs them of the others.
"""

import calendar
import socket
import time
from typing import Iterator, List, Optional, Tuple

SEQUENCE, SET, OID, OCTETS, UTC_TIME, GENERAL_TIME, VERSION, EXTENSIONS = 0x30, 0x31, 0x06, 0x04, 0x17, 0x18, 0xA0, 0xA3
DNS_NAME, IP_ADDRESS = 0x82, 0x87
COMMON_NAME, ALTERNATIVE_NAMES = b"\x55\x04\x03", b"\x55\x1d\x11"
MOST_NAMES = 6

Item = Tuple[int, bytes]


class Certificate:
    """Who a certificate is for, and from when to when (seconds since the epoch)."""

    def __init__(self, names: List[str], begins: int, ends: int) -> None:
        self.names, self.begins, self.ends = names, begins, ends

    def fault(self, now: float) -> str:
        """ "expired", "not_yet_valid", or empty."""
        return "expired" if now > self.ends else "not_yet_valid" if now < self.begins else ""

    def __str__(self) -> str:
        more = ", ..." if len(self.names) > MOST_NAMES else ""
        names = ", ".join(self.names[:MOST_NAMES]) + more if self.names else "no name"
        return "for {}, valid {} to {}".format(names, _day(self.begins), _day(self.ends))


def read_certificate(der: Optional[bytes]) -> Optional[Certificate]:
    """The certificate in DER bytes, or None where there is none or it cannot be read."""
    try:
        return _read(der) if der else None
    except (ValueError, IndexError, StopIteration):
        return None


def _read(der: bytes) -> Certificate:
    (_, whole), *_ = items(der)
    (_, signed), *_ = items(whole)
    parts = [item for item in items(signed) if item[0] != VERSION]
    # serial number, algorithm, issuer, validity, subject, key, ... extensions
    begins, ends = [_seconds(*item) for item in items(parts[3][1])]
    extensions = [content for tag, content in parts if tag == EXTENSIONS]
    names = list(_alternative(extensions[0])) if extensions else []
    return Certificate(names or list(_common(parts[4][1])), begins, ends)


def items(data: bytes) -> Iterator[Item]:
    """(tag, content) of each DER element in a row. Raises ValueError on a length that is not there."""
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[at : at + size], "big")
            at += size
        if at + length > len(data):
            raise ValueError("cut off")
        yield tag, data[at : at + length]
        at += length


def _alternative(extensions: bytes) -> Iterator[str]:
    (_, listed), *_ = items(extensions)
    for _, extension in items(listed):
        fields = list(items(extension))
        if fields[0][1] != ALTERNATIVE_NAMES:
            continue
        (_, names), *_ = items(fields[-1][1])
        for tag, content in items(names):
            if tag == DNS_NAME:
                yield _text(content)
            elif tag == IP_ADDRESS and len(content) == 4:
                yield socket.inet_ntoa(content)


def _common(subject: bytes) -> Iterator[str]:
    for _, group in items(subject):
        for _, pair in items(group):
            kind, value = list(items(pair))
            if kind[1] == COMMON_NAME:
                yield _text(value[1])


def _text(content: bytes) -> str:
    """Foreign text for a terminal: what does not print is shown by its number."""
    return "".join(c if c.isprintable() else "?" for c in content.decode("utf-8", "replace"))[:253]


def _seconds(tag: int, content: bytes) -> int:
    form = "%y%m%d%H%M%SZ" if tag == UTC_TIME else "%Y%m%d%H%M%SZ"
    return calendar.timegm(time.strptime(content.decode("ascii"), form))


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
