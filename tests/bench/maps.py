"""The maps that the figures are taken with."""

from __future__ import annotations

import ipaddress
from typing import Any

from faults.node import Node

Map = dict[str, Any]
OWNER = "bench"
# Pairs whose both ends are on another node of the site: (advertised port, reachable port).
LOCAL = [(7001 + number, 7101 + number) for number in range(8)]
# Documentation addresses, RFC 5737 and RFC 2544: nobody answers there, and nobody asks.
_SPARE = int(ipaddress.ip_address("198.19.128.0"))


def hq(node: Node, brokers: int = 3, spare: int = 0) -> Map:
    """HQ's first brokers, and `spare` more that nobody advertises yet."""
    rows = [
        {
            "id": number,
            "advertised": f"{node.lab.ip(f'hq-{number}')}:9092",
            "reachable": f"{node.lab.nat_ip(f'hq-{number}')}:9092",
        }
        for number in range(1, brokers + 1)
    ]
    rows += [
        {
            "id": 1000 + number,
            "advertised": f"{ipaddress.ip_address(_SPARE + number // 4)}:{9092 + number % 4}",
            "reachable": f"{node.lab.nat_ip('hq-1')}:{20000 + number}",
        }
        for number in range(spare)
    ]
    return _map({"hq": {"brokers": rows}})


def local(node: Node, peer: str, more: bool = False) -> Map:
    """Pairs at another node of the site, where a listener tells which end was reached; `more` is one pair beside."""
    host = node.lab.ip(peer)
    pairs = [*LOCAL, (7900, 7990)] if more else LOCAL
    rows = [
        {"id": number, "advertised": f"{host}:{one}", "reachable": f"{host}:{other}"}
        for number, (one, other) in enumerate(pairs)
    ]
    return _map({"local": {"brokers": rows}})


def _map(clusters: dict[str, Any]) -> Map:
    return {"owner": OWNER, "scope": {"users": ["yarn"]}, "mechanism": "auto", "clusters": clusters}
