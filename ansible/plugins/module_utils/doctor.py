"""What the doctor of one host is asked: the map's clusters by scope, or a bootstrap address alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils.bundle import for_probe, probe_cluster
from ansible_collections.kafka.natmap.plugins.module_utils.facts import gateway_of
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import Cluster, NatMap, Scope

SECRETS = ("password", "keyfile_password")
LONE = "kafka"
"""The name of a cluster that no map names."""
MOST_BOOTSTRAP = 16
"""Of a map without bootstrap addresses, so many reachable ones are asked as such; every pair is dialled anyway."""


def request_for(natmap: NatMap, host: str, is_node: bool, user: str | None = None) -> dict[str, Any]:
    """The map's clusters for one host. A gateway is asked for the reachable side, as whoever runs there."""
    probes: dict[Scope, list[dict[str, Any]]] = {}
    for cluster in natmap.clusters:
        if cluster.brokers or cluster.bootstrap:
            probes.setdefault(cluster.scope, []).append(_cluster(cluster, host, is_node))
    return {
        "map": True,
        "owner": natmap.owner,
        "kind": ["node" if is_node else "gateway"],
        "path": "advertised" if is_node else "reachable",
        "probe": [
            {"clusters": clusters, "scope": _scope(scope) if is_node else None, "user": user}
            for scope, clusters in probes.items()
        ],
    }


def request_without_map(bootstrap: str, security: Mapping[str, Any] | None, user: str | None = None) -> dict[str, Any]:
    """Bootstrap addresses alone, with commas between."""
    addresses = [part.strip() for part in bootstrap.split(",") if part.strip()]
    open_ = tuple((key, value) for key, value in (security or {}).items() if key not in SECRETS)
    cluster = {"name": LONE, "bootstrap": addresses, "security": {"protocol": "PLAINTEXT", **for_probe(open_)}}
    return {
        "map": False,
        "owner": None,
        "kind": ["node"],
        "probe": [{"clusters": [cluster], "scope": None, "user": user}],
    }


def secrets_without_map(security: Mapping[str, Any] | None) -> dict[str, dict[str, str]]:
    """What is kept out of the request, which a node's log may hold."""
    kept = tuple((key, str(value)) for key, value in (security or {}).items() if key in SECRETS)
    return {LONE: for_probe(kept)} if kept else {}


def _cluster(cluster: Cluster, host: str, is_node: bool) -> dict[str, Any]:
    ways = [(b, (gateway_of(cluster, b, host) if is_node else None) or b.reachable) for b in cluster.brokers]
    return probe_cluster(cluster, ways, MOST_BOOTSTRAP)


def _scope(scope: Scope) -> dict[str, Any]:
    return {
        "users": list(scope.users),
        "groups": list(scope.groups),
        "uid_ranges": [list(bounds) for bounds in scope.uid_ranges],
        "discover": scope.discover,
    }
