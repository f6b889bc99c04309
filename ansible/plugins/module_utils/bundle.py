"""What travels to a node: the texts of its plan, their digest, what the switch must know, and the probe's questions."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from ipaddress import IPv4Address
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils import conflicts, scoping
from ansible_collections.kafka.natmap.plugins.module_utils.facts import Account, NodeFacts, gateway_of, stand_ins
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import Broker, Cluster, Endpoint, NatMap, Scope
from ansible_collections.kafka.natmap.plugins.module_utils.plan import Plan, chain_name, identifier

_NOBODY = range(65534, 60000, -1)
_ASKED = 3
"""Of all reachable addresses, the probe asks these first; where none of them answers, every other one."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def pack(files: Mapping[str, bytes]) -> bytes:
    """A zip with these files, the same bytes for the same content (zipapp, PEP 441)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def make_bundle(
    natmap: NatMap,
    plan: Plan,
    node: NodeFacts,
    texts: Mapping[str, str],
    units: Mapping[str, str],
    python: str,
    drift: str = "repair",
) -> dict[str, Any]:
    """The one thing that is carried over to a node. ``texts`` and ``units`` are what the templates printed.

    ``drift`` is what the watch on the node does about a foreign change: repair or report.
    """
    content = {"owner": plan.owner, "texts": dict(texts), "units": dict(units)}
    digest = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return {
        **content,
        "digest": digest,
        "plan": {
            "entries": [vars(entry) for entry in plan.entries],
            "notices": list(plan.notices),
            "conntrack": plan.conntrack,
            "digest": digest,
        },
        "pairs": [[p.address, p.port, p.to_address, p.to_port] for rules in plan.rules for p in rules.pairs],
        "who": sorted({(s.kind, s.low, s.high) for rules in plan.rules for s in rules.selectors}),
        "exempt": plan.exempt,
        "prefixes": [[p.network, list(p.ports), p.to_network] for rules in plan.rules for p in rules.prefixes],
        "hosts": [[line.name, line.address] for line in plan.hosts],
        "take_over": list(plan.take_over),
        "names": _names(plan, python),
        "probe": list(probe_requests(natmap, node)) if node.is_node else [],
        "remove": plan.empty,
        "drift": drift,
    }


def unit_name(owner: str, kind: str) -> str:
    """A systemd unit of this owner: ``main`` puts it back at boot, ``nginx`` listens, ``watch`` keeps it."""
    return f"kafka-natmap-{owner}.service" if kind == "main" else f"kafka-natmap-{kind}-{owner}.service"


def removal(owner: str) -> dict[str, Any]:
    """The bundle that leaves nothing of an owner; it needs no map, only the name."""
    ident = identifier(owner)
    names = {
        "nft_table": f"kafka_natmap_{ident}",
        "notrack_table": f"kafka_notrack_{ident}",
        "ipt_chain": chain_name(owner),
    }
    units = {unit_name(owner, kind): "" for kind in ("main", "nginx", "watch")}
    return {"owner": owner, "digest": None, "texts": {}, "units": units, "pairs": [], "names": names, "remove": True}


def way_back(owner: str, digest: str) -> dict[str, Any]:
    """The bundle that brings an owner's generation before this one back; a node that holds another one keeps it."""
    return {**removal(owner), "back": digest, "remove": False}


def _names(plan: Plan, python: str) -> dict[str, Any]:
    nft = [rules for rules in plan.rules if rules.backend == "nftables"]
    ipt = [rules for rules in plan.rules if rules.backend == "iptables"]
    kinds = (("map", "pairs_"), ("set", "carried_"), ("set", "masqueraded_"), ("chain", "rewrite_"))
    objects = [["chain", "taking" if plan.take_over else "output"], ["chain", "postrouting"]]
    objects += [[kind, prefix + rules.ident] for rules in nft for kind, prefix in kinds]
    return {
        "nft_table": f"kafka_natmap_{plan.ident}",
        "nft_objects": objects + [["chain", f"prefixes_{rules.ident}"] for rules in nft if rules.prefixes],
        "notrack_table": f"kafka_notrack_{plan.ident}",
        "ipt_chain": plan.chain,
        "ipt_chains": [
            plan.chain,
            f"{plan.chain}-SRC",
            *(r.chain for r in ipt),
            *(f"{r.chain}-P" for r in ipt if r.prefixes),
        ],
        "take_over": list(plan.take_over),
        "listeners": [[listener.address, listener.port] for listener in plan.listeners],
        "nginx_path": plan.nginx.path if plan.nginx else None,
        "python": python,
    }


def probe_requests(natmap: NatMap, node: NodeFacts) -> Iterator[dict[str, Any]]:
    """The probe's questions, one request for each user that dials: brokers, who asks, and who must not be rewritten."""
    outsider = _outsider(natmap, node)
    by_identity: dict[tuple[int, int], dict[str, Any]] = {}
    for cluster in natmap.clusters:
        asked = [way for way in _ways(cluster, node) if not _left(natmap, node, *way)]
        if not asked and not cluster.bootstrap:
            continue
        for label, account in _identities(cluster.scope, node):
            request = by_identity.setdefault(
                (account.uid, account.gid),
                {
                    "clusters": [],
                    "identity": {
                        "uid": account.uid,
                        "gid": account.gid,
                        "groups": list(account.groups),
                        "label": label,
                    },
                    "outsider": None,
                    "connect_timeout": 3.0,
                    "request_timeout": 5.0,
                    "deadline": 20.0,
                    "concurrency": 8,
                },
            )
            request["clusters"].append(probe_cluster(cluster, asked))
            if cluster.mechanism != "hosts":
                request["outsider"] = outsider
    yield from by_identity.values()


def _ways(cluster: Cluster, node: NodeFacts) -> list[tuple[Broker, Endpoint]]:
    """Each broker with the endpoint that this node dials for it."""
    return [(broker, gateway_of(cluster, broker, node.name) or broker.reachable) for broker in cluster.brokers]


def _left(natmap: NatMap, node: NodeFacts, broker: Broker, way: Endpoint) -> bool:
    """Whether another owner has taken this broker over and leads it elsewhere: not ours to prove."""
    host = broker.advertised.host
    known = [broker.advertised.address] if broker.advertised.address else map(IPv4Address, node.resolves.get(host, ()))
    addresses = list(known) or [stand_ins(natmap)[host]]
    target = (str(way.address), way.port)
    return any(conflicts.led_elsewhere(natmap, node, one, broker.advertised.port, target) for one in addresses)


def probe_cluster(cluster: Cluster, ways: list[tuple[Broker, Endpoint]], most: int = _ASKED) -> dict[str, Any]:
    """One cluster as whoever dials it on a node is told of it, without its secrets.

    :param ways: each broker with the endpoint at which this node reaches it
    :param most: of these, so many stand for bootstrap addresses where the map names none
    """
    return {
        "name": cluster.name,
        "cluster_id": cluster.cluster_id,
        "bootstrap": [str(one) for one in cluster.bootstrap] or [str(way) for _, way in ways[:most]],
        "brokers": [{"id": b.id, "advertised": str(b.advertised), "reachable": str(way)} for b, way in ways],
        "networks": [
            {"advertised": str(net.advertised), "reachable": str(net.reachable), "ports": list(net.ports)}
            for net in cluster.networks
        ],
        "security": {
            "protocol": cluster.security.protocol,
            "mechanism": cluster.security.mechanism,
            **for_probe(cluster.security.settings),
        },
    }


def _identities(scope: Scope, node: NodeFacts) -> Iterator[tuple[str, Account]]:
    """Who dials for the probe: each user of the scope, a member of each group, the first uid of its ranges."""
    scope = scoping.resolved(scope, node)
    for user in scope.users:
        account = node.users.get(user)
        if account:
            yield user, account
    for group in scope.groups:
        gid = node.groups.get(group)
        if gid is not None:
            yield f"group {group}", Account(_NOBODY[0], gid, (gid,))
    for low, _ in scope.uid_ranges[:1]:
        yield f"uid {low}", Account(low, _NOBODY[0])


def _outsider(natmap: NatMap, node: NodeFacts) -> dict[str, Any]:
    """A uid and gid that no scope of the map holds; no account is needed to be one."""
    uids: list[tuple[int, int]] = []
    gids = set()
    for cluster in natmap.clusters:
        scope = scoping.resolved(cluster.scope, node)
        accounts = [account for user in scope.users if (account := node.users.get(user))]
        uids += [(account.uid, account.uid) for account in accounts]
        uids += scope.uid_ranges
        gids |= {node.groups.get(group) for group in scope.groups}
    uid = next(uid for uid in (*_NOBODY, *range(1, 1000)) if not any(low <= uid <= high for low, high in uids))
    gid = next(gid for gid in _NOBODY if gid not in gids)
    return {"uid": uid, "gid": gid, "groups": [], "label": f"uid {uid}"}


def secrets_of(natmap: NatMap) -> dict[str, dict[str, str]]:
    """The probe's secrets by cluster; they travel apart from the bundle, so that no log shows them."""
    return {
        cluster.name: for_probe(cluster.security.secrets) for cluster in natmap.clusters if cluster.security.secrets
    }


def for_probe(settings: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The settings under the names that the probe's request has for them."""
    names = {"kerberos_service_name": "service_name", "keyfile_password": "keypassword"}
    return {names.get(key, key): value for key, value in settings}
