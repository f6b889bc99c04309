"""Reading plain data strictly: every value is checked for its kind and its form, and every problem is kept."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import Any, TypeVar

from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import Advertised, Endpoint, Problem

T = TypeVar("T")

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
ACCOUNT = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,30}[A-Za-z0-9_$-])?")
CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# Resolvers take a name of such labels for an address: 127.1, 0x7f000001 (inet_aton(3)).
_NUMBER = re.compile(r"[0-9]*|0x[0-9a-f]*")
_MAX_UID = 2**32 - 2


class Reader:
    """Collects the problems of one map. Each ``read_*`` answers None where the value cannot be used."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def problem(self, path: str, reason: str, mend: str) -> None:
        """Keep one more problem."""
        self.problems.append(Problem(path, reason, mend))

    def mapping(self, value: Any, path: str, keys: Sequence[str], required: Sequence[str] = ()) -> dict[str, Any]:
        """A mapping with no other keys than these; an empty one where it is none."""
        if not isinstance(value, Mapping):
            self.problem(path, f"is {kind_of(value)}, not a mapping", f"write it with the keys {', '.join(keys)}")
            return {}
        for key in value:
            if key not in keys:
                close = difflib.get_close_matches(str(key), keys, n=1)
                hint = f"did you mean {close[0]!r}" if close else f"the keys here are {', '.join(keys)}"
                self.problem(f"{path}.{shown(key).strip(chr(39))}", "is an unknown key", hint)
        for key in required:
            if key not in value:
                self.problem(f"{path}.{key}", "is missing", f"add {key!r}")
        return {str(key): item for key, item in value.items() if key in keys}

    def each(self, value: Any, path: str, read: Callable[[Any, str], T | None]) -> tuple[T, ...]:
        """A list whose items are read one by one."""
        if value is None:
            return ()
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Sequence):
            self.problem(path, f"is {kind_of(value)}, not a list", "write it as a list, [a, b]")
            return ()
        items = [read(item, f"{path}[{index}]") for index, item in enumerate(value)]
        return tuple(item for item in items if item is not None)

    def word(self, value: Any, path: str, form: re.Pattern[str], what: str) -> str | None:
        """A string that matches its form wholly."""
        if isinstance(value, str) and form.fullmatch(value):
            return str(value)
        self.problem(path, f"{shown(value)} is not {what}", f"give {what}")
        return None

    def choice(self, value: Any, path: str, choices: Sequence[str]) -> str | None:
        """One of these words."""
        if isinstance(value, str) and value in choices:
            return str(value)
        close = difflib.get_close_matches(str(value), choices, n=1)
        hint = f"did you mean {close[0]!r}" if close else f"give one of {', '.join(choices)}"
        self.problem(path, f"{shown(value)} is not one of {', '.join(choices)}", hint)
        return None

    def flag(self, value: Any, path: str) -> bool:
        """True or false."""
        if isinstance(value, bool):
            return value
        self.problem(path, f"{shown(value)} is neither true nor false", "write true or false")
        return False

    def number(self, value: Any, path: str, low: int, high: int, what: str) -> int | None:
        """A whole number within bounds; YAML's true and false are none."""
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return int(value)
        self.problem(path, f"{shown(value)} is not {what}", f"give a whole number from {low} to {high}")
        return None

    def port(self, value: Any, path: str) -> int | None:
        """A TCP port."""
        return self.number(value, path, 1, 65535, "a TCP port")

    def uid_range(self, value: Any, path: str) -> tuple[int, int] | None:
        """A pair of uids, the lower first."""
        uids = self.each(value, path, lambda uid, at: self.number(uid, at, 0, _MAX_UID, "a uid"))
        if len(uids) == 2 and uids[0] <= uids[1]:
            return uids[0], uids[1]
        self.problem(path, "is not a range of uids", "give [lowest, highest], as in [1000, 60000]")
        return None

    def advertised(self, value: Any, path: str) -> Advertised | None:
        """``host:port`` with a name (RFC 1123) or an IPv4 address."""
        parts = self._host_port(value, path)
        if parts is None:
            return None
        host, port = parts
        problem = host_problem(host)
        if problem:
            self.problem(path, f"{shown(host)} {problem[0]}", problem[1])
            return None
        return Advertised(host.lower(), port)

    def endpoint(self, value: Any, path: str) -> Endpoint | None:
        """``IP:port``; a name is refused, since a rule holds addresses."""
        parts = self._host_port(value, path)
        if parts is None:
            return None
        address = self.address(parts[0], path)
        return Endpoint(address, parts[1]) if address else None

    def address(self, value: Any, path: str) -> IPv4Address | None:
        """A unicast IPv4 address that a packet can be sent to."""
        try:
            address = IPv4Address(value if isinstance(value, str) else "")
        except ValueError:
            hint = "IPv6 is not supported yet: give the IPv4 address" if is_ipv6(value) else "give an IPv4 address"
            self.problem(path, f"{shown(value)} is not an IPv4 address", hint)
            return None
        reason = unusable(IPv4Network(address))
        if reason:
            self.problem(path, f"{address} {reason}", "give the unicast address of a host")
            return None
        return address

    def network(self, value: Any, path: str) -> IPv4Network | None:
        """An IPv4 prefix without host bits."""
        if not isinstance(value, str) or "/" not in value:
            self.problem(path, f"{shown(value)} is not a prefix", "write it as address/length, as in 192.0.2.0/24")
            return None
        try:
            network = IPv4Network(value)
        except ValueError as error:
            hint = "IPv6 is not supported yet: give an IPv4 prefix" if is_ipv6(value) else "clear the host bits"
            self.problem(path, f"{shown(value)} is not an IPv4 prefix ({shown(str(error))})", hint)
            return None
        reason = unusable(network)
        if reason:
            self.problem(path, f"{network} {reason}", "narrow it to addresses of hosts")
            return None
        return network

    def _host_port(self, value: Any, path: str) -> tuple[str, int] | None:
        if not isinstance(value, str):
            self.problem(path, f"is {kind_of(value)}, not host:port", "write it as host:port")
            return None
        if value.startswith("[") or value.count(":") > 1:
            reason = "looks like IPv6, which is not supported yet" if is_ipv6(value) else "is not host:port"
            self.problem(path, f"{shown(value)} {reason}", "give one IPv4 address or name and one port")
            return None
        host, _, port = value.partition(":")
        if not host or not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535 or port[0] == "0":
            self.problem(
                path, f"{shown(value)} has no usable port", "write it as host:port, with a port from 1 to 65535"
            )
            return None
        return host, int(port)


def host_problem(host: str) -> tuple[str, str] | None:
    """Why this cannot be a broker's host, with a mend; None where it can."""
    try:
        address = IPv4Address(host)
    except ValueError:
        pass
    else:
        reason = unusable(IPv4Network(address))
        return (reason, "give the address that the broker has in metadata") if reason else None
    labels = host.lower().split(".")
    if all(_NUMBER.fullmatch(label) for label in labels):
        return "is not an IPv4 address", "four numbers from 0 to 255, without leading zeros"
    if not host.isascii() or len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return "is not a host name of RFC 1123", "use letters, digits, hyphens and dots only"
    if labels[-1] == "localhost":
        return "is this very host", "give the name that the broker has in metadata"
    return None


_NOT_HOSTS = (
    (IPv4Network("0.0.0.0/8"), "is unspecified"),
    (IPv4Network("127.0.0.0/8"), "is loopback"),
    (IPv4Network("169.254.0.0/16"), "is link-local"),
    (IPv4Network("224.0.0.0/4"), "is multicast"),
    (IPv4Network("255.255.255.255/32"), "is broadcast"),
)


def unusable(network: IPv4Network) -> str | None:
    """Why no broker can live at these addresses; None where one can."""
    for block, reason in _NOT_HOSTS:
        if network.overlaps(block):
            return reason if network.subnet_of(block) else f"holds addresses that no host has ({block})"
    return None


def is_ipv6(value: Any) -> bool:
    """Whether the text holds an IPv6 address, alone, in brackets, or with a prefix length."""
    if not isinstance(value, str):
        return False
    bare = value.rpartition("]")[0].lstrip("[") if value.startswith("[") else value.partition("/")[0]
    try:
        return ip_address(bare).version == 6
    except ValueError:
        return False


def kind_of(value: Any) -> str:
    """The kind of a value in words."""
    if value is None:
        return "empty"
    kinds = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        dict: "a mapping",
        list: "a list",
    }
    for kind, words in kinds.items():
        if isinstance(value, kind):
            return words
    return f"a {type(value).__name__}"


def shown(value: Any) -> str:
    """A value as it may stand in a message: quoted, one line, bounded."""
    text = repr(str(value)) if isinstance(value, str) else str(value)
    text = text.encode("unicode_escape").decode("ascii") if not text.isprintable() else text
    return text if len(text) <= 80 else text[:77] + "..."
