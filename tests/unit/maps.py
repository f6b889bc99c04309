"""Short ways to write NAT maps in tests: one cluster hq and a scope, unless told otherwise."""

from __future__ import annotations

from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils import map_parser
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import MapError, NatMap, Problem

ADVERTISED, REACHABLE = "192.0.2.21:9092", "203.0.113.21:9092"


def broker(advertised: Any = ADVERTISED, reachable: Any = REACHABLE, **more: Any) -> dict[str, Any]:
    """One pair."""
    return {"advertised": advertised, "reachable": reachable, **more}


def network(
    advertised: Any = "192.0.2.0/24", reachable: Any = "203.0.113.0/24", ports: Any = (9092,)
) -> dict[str, Any]:
    """One 1:1 prefix."""
    return {"advertised": advertised, "reachable": reachable, "ports": list(ports)}


def cluster_map(*brokers: dict[str, Any], networks: list[Any] | None = None, **top: Any) -> dict[str, Any]:
    """A map of one cluster, hq; ``hq`` gives more keys of it, all others are the map's own."""
    hq: dict[str, Any] = dict(top.pop("hq", {}))
    if brokers:
        hq["brokers"] = list(brokers)
    if networks:
        hq["networks"] = networks
    return {"scope": {"users": ["yarn"]}, "clusters": {"hq": hq}, **top}


def parsed(*brokers: dict[str, Any], **more: Any) -> NatMap:
    """The same, parsed."""
    return map_parser.parse(cluster_map(*brokers, **more))


def problems_of(data: Any) -> list[Problem]:
    """What is wrong with a map; empty where nothing is."""
    try:
        map_parser.parse(data)
    except MapError as error:
        return error.problems
    return []
