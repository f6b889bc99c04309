"""From the plain data of ``nat_map.yml`` to a :class:`NatMap`."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

from ansible_collections.kafka.natmap.plugins.module_utils import map_rules, reading
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import (
    DEFAULT_STAND_INS,
    MECHANISMS,
    Broker,
    Cluster,
    Gateway,
    MapError,
    NatMap,
    Network,
    Scope,
    Security,
)
from ansible_collections.kafka.natmap.plugins.module_utils.reading import Reader

_MAP_KEYS = ("clusters", "scope", "mechanism", "owner", "stand_ins", "add_routes", "take_over")
_CLUSTER_KEYS = ("brokers", "networks", "bootstrap", "scope", "mechanism", "gateway", "cluster_id", "security")
_BROKER_KEYS = ("id", "advertised", "reachable", "gateway_port")
_NETWORK_KEYS = ("advertised", "reachable", "ports")
_SCOPE_KEYS = ("users", "groups", "uid_range", "discover", "allow_root")
_GATEWAY_KEYS = ("addresses", "first_port")
_CHOICES = ("auto", *MECHANISMS)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SASL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
_SECRETS = ("password", "keyfile_password")
_SETTINGS = ("username", "cafile", "certfile", "keyfile", "kerberos_service_name")


def parse(data: Any) -> NatMap:
    """Read a map.

    :param data: the value of the variable ``nat_map``: plain mappings, lists, texts and numbers
    :raises MapError: with every problem, in the order of the map
    """
    reader = Reader()
    natmap = _read_map(reader, data)
    reader.problems += map_rules.problems(natmap)
    if reader.problems:
        raise MapError(reader.problems)
    return natmap


def _read_map(reader: Reader, data: Any) -> NatMap:
    top = reader.mapping(data, "nat_map", _MAP_KEYS, required=("clusters",))
    owner = reader.word(top.get("owner", "default"), "nat_map.owner", reading.NAME, "a short name of a-z, 0-9 and -")
    mechanism = reader.choice(top.get("mechanism", "auto"), "nat_map.mechanism", _CHOICES) or "auto"
    scope = _read_scope(reader, top["scope"], "nat_map.scope") if "scope" in top else None
    stand_ins = reader.network(top["stand_ins"], "nat_map.stand_ins") if "stand_ins" in top else None
    clusters = top.get("clusters", {})
    if "clusters" in top and not (isinstance(clusters, dict) and clusters):
        reader.problem("nat_map.clusters", "names no cluster", "add at least one, as name: {brokers: [...]}")
        clusters = {}
    return NatMap(
        owner=owner or "default",
        clusters=tuple(_read_cluster(reader, name, value, scope, mechanism) for name, value in clusters.items()),
        stand_ins=stand_ins or DEFAULT_STAND_INS,
        add_routes=reader.flag(top.get("add_routes", False), "nat_map.add_routes"),
        take_over=_read_owners(reader, top.get("take_over"), owner or "default"),
    )


def _read_owners(reader: Reader, value: Any, owner: str) -> tuple[str, ...]:
    path = "nat_map.take_over"
    owners = reader.each(value, path, lambda v, at: reader.word(v, at, reading.NAME, "the name of an owner"))
    if owner in owners:
        reader.problem(path, f"names the map's own owner {owner}", "name the owners whose pairs this map is to take")
    return tuple(sorted(set(owners)))


def _read_cluster(reader: Reader, name: Any, value: Any, scope: Scope | None, mechanism: str) -> Cluster:
    path = f"nat_map.clusters.{reading.shown(name).strip(chr(39))}"
    reader.word(name, path, reading.NAME, "a short name of a-z, 0-9 and -")
    body = reader.mapping(value, path, _CLUSTER_KEYS)
    brokers = reader.each(body.get("brokers"), f"{path}.brokers", lambda item, at: _read_broker(reader, item, at))
    networks = reader.each(body.get("networks"), f"{path}.networks", lambda item, at: _read_network(reader, item, at))
    if not body.get("brokers") and not body.get("networks"):
        reader.problem(
            path, "has neither brokers nor networks", "add the pairs under brokers, or prefixes under networks"
        )
    own_scope = _read_scope(reader, body["scope"], f"{path}.scope") if "scope" in body else scope
    if own_scope is None:
        reader.problem(
            f"{path}.scope", "is missing, and the map has none", "name the job's users, as scope: {users: [etl]}"
        )
    bootstrap = reader.each(body.get("bootstrap"), f"{path}.bootstrap", reader.advertised)
    cluster_id = body.get("cluster_id")
    if cluster_id is not None:
        reader.word(cluster_id, f"{path}.cluster_id", reading.CLUSTER_ID, "a Kafka cluster id")
    return Cluster(
        name=str(name),
        brokers=brokers,
        networks=networks,
        bootstrap=bootstrap,
        scope=own_scope or Scope(),
        mechanism=reader.choice(body.get("mechanism", mechanism), f"{path}.mechanism", _CHOICES) or "auto",
        gateway=_read_gateway(reader, body["gateway"], f"{path}.gateway") if "gateway" in body else None,
        cluster_id=None if cluster_id is None else str(cluster_id),
        security=_read_security(reader, body["security"], f"{path}.security") if "security" in body else Security(),
    )


def _read_broker(reader: Reader, value: Any, path: str) -> Broker | None:
    body = reader.mapping(value, path, _BROKER_KEYS, required=("advertised", "reachable"))
    broker_id = body.get("id")
    if broker_id is not None:
        broker_id = reader.number(broker_id, f"{path}.id", 0, 2**31 - 1, "a broker id")
    port = reader.port(body["gateway_port"], f"{path}.gateway_port") if "gateway_port" in body else None
    advertised = reader.advertised(body["advertised"], f"{path}.advertised") if "advertised" in body else None
    reachable = reader.endpoint(body["reachable"], f"{path}.reachable") if "reachable" in body else None
    if advertised is None or reachable is None:
        return None
    return Broker(advertised, reachable, broker_id, port, where=path)


def _read_network(reader: Reader, value: Any, path: str) -> Network | None:
    body = reader.mapping(value, path, _NETWORK_KEYS, required=_NETWORK_KEYS)
    sides: list[IPv4Network | None] = [
        reader.network(body[side], f"{path}.{side}") if side in body else None for side in ("advertised", "reachable")
    ]
    ports = reader.each(body.get("ports"), f"{path}.ports", reader.port)
    if "ports" in body and not body["ports"]:
        reader.problem(f"{path}.ports", "is empty", "name the brokers' ports, as [9092]")
    if sides[0] is None or sides[1] is None:
        return None
    return Network(sides[0], sides[1], tuple(sorted(set(ports))), where=path)


def _read_scope(reader: Reader, value: Any, path: str) -> Scope:
    body = reader.mapping(value, path, _SCOPE_KEYS)
    users = reader.each(body.get("users"), f"{path}.users", lambda v, at: _account(reader, v, at))
    groups = reader.each(body.get("groups"), f"{path}.groups", lambda v, at: _account(reader, v, at))
    uids = reader.uid_range(body["uid_range"], f"{path}.uid_range") if "uid_range" in body else None
    discover = reader.choice(body["discover"], f"{path}.discover", ("yarn",)) if "discover" in body else None
    allow_root = reader.flag(body.get("allow_root", False), f"{path}.allow_root")
    if not any(body.get(key) for key in ("users", "groups", "uid_range", "discover")):
        reader.problem(path, "is for nobody", "name users, groups or a uid_range, or discover: yarn")
    if not allow_root:
        for key, names in (("users", users), ("groups", groups)):
            if "root" in names:
                reader.problem(f"{path}.{key}", "includes root", "take root out, or add allow_root: true")
        if uids and uids[0] == 0:
            reader.problem(f"{path}.uid_range", "includes root (uid 0)", "begin above 0, or add allow_root: true")
    return Scope(users, groups, (uids,) if uids else (), allow_root, discover)


def _account(reader: Reader, value: Any, path: str) -> str | None:
    return reader.word(value, path, reading.ACCOUNT, "the name of a user or group")


def _read_gateway(reader: Reader, value: Any, path: str) -> Gateway:
    body = reader.mapping(value, path, _GATEWAY_KEYS, required=("addresses",))
    addresses = reader.each(body.get("addresses"), f"{path}.addresses", reader.address)
    if "addresses" in body and not body["addresses"]:
        reader.problem(f"{path}.addresses", "is empty", "give the address of each gateway, as the nodes reach it")
    port = reader.port(body["first_port"], f"{path}.first_port") if "first_port" in body else None
    return Gateway(addresses, port)


def _read_security(reader: Reader, value: Any, path: str) -> Security:
    body = reader.mapping(value, path, ("protocol", "mechanism", *_SETTINGS, *_SECRETS))
    protocol = reader.choice(body.get("protocol", "PLAINTEXT"), f"{path}.protocol", _PROTOCOLS) or "PLAINTEXT"
    mechanism = reader.choice(body["mechanism"], f"{path}.mechanism", _SASL) if "mechanism" in body else None
    if protocol.startswith("SASL") and "mechanism" not in body:
        reader.problem(f"{path}.mechanism", f"is missing with {protocol}", f"give one of {', '.join(_SASL)}")
    for key in (*_SETTINGS, *_SECRETS):
        if key in body and not (isinstance(body[key], str) and body[key].isprintable() and body[key]):
            reader.problem(f"{path}.{key}", "is not a text of one line", "give it as a text; secrets by Ansible Vault")
    settings, secrets = (tuple((key, str(body[key])) for key in keys if key in body) for keys in (_SETTINGS, _SECRETS))
    return Security(protocol, mechanism, settings, secrets)
