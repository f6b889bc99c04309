"""The probe's request: read, check, fill in defaults. Python 3.6 syntax."""

import ipaddress
import json
from typing import Any, Callable, Dict, List, Optional

from kafka_natmap_identity import parse_address
from kafka_natmap_wire import SASL_CLASSES

# The longest request, in bytes: a map of 10,000 brokers takes 1 MB.
LONGEST = 16 << 20
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Seconds, and the most connections at once.
NUMBERS = {"connect_timeout": 3.0, "request_timeout": 5.0, "deadline": 20.0}
MOST_AT_ONCE = 64


class Refused(Exception):
    """A probe that cannot be run: the cause and the mend, one sentence each."""

    def __init__(self, cause: str, mend: str) -> None:
        super().__init__(cause)
        self.cause, self.mend = cause, mend


def parse_request(data: bytes) -> Dict[str, Any]:
    """The request with every key there. Raises Refused with the path of the first thing that is wrong."""
    try:
        asked = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused(f"the request is not JSON: {error}", "give one JSON object on standard input") from None
    need(isinstance(asked, dict), "the request", "a JSON object")
    need(asked.get("path") in ("reachable", "advertised"), "path", "reachable or advertised")
    clusters = items(asked, "clusters", "clusters")
    parsed = dict(
        asked, clusters=[parse_cluster(cluster, f"clusters[{number}]") for number, cluster in enumerate(clusters)]
    )
    for key in ("identity", "outsider"):
        parsed[key] = parse_identity(asked.get(key), key)
    for key, default in NUMBERS.items():
        value = parsed[key] = asked.get(key, default)
        need(type(value) in (int, float) and 0 < value <= 3600, key, "seconds, more than 0 and at most 3600")
    parsed.setdefault("concurrency", 8)
    need(
        is_count(parsed["concurrency"]) and 1 <= parsed["concurrency"] <= MOST_AT_ONCE,
        "concurrency",
        f"a number from 1 to {MOST_AT_ONCE}",
    )
    return parsed


def parse_cluster(cluster: Any, path: str) -> Dict[str, Any]:
    need(isinstance(cluster, dict) and isinstance(cluster.get("name"), str), path, "an object with a name")
    known = cluster.get("cluster_id")
    need(known is None or isinstance(known, str), path + ".cluster_id", "a text or null")
    bootstrap = items(cluster, "bootstrap", path)
    for number, text in enumerate(bootstrap):
        parse_text(parse_address, text, f"{path}.bootstrap[{number}]", "host:port")
    brokers = [
        parse_broker(broker, f"{path}.brokers[{number}]")
        for number, broker in enumerate(items(cluster, "brokers", path))
    ]
    networks = [
        parse_network(network, f"{path}.networks[{number}]")
        for number, network in enumerate(items(cluster, "networks", path))
    ]
    need(bool(bootstrap or brokers), path, "at least one bootstrap address or broker")
    return {
        "name": cluster["name"],
        "cluster_id": known,
        "bootstrap": bootstrap,
        "brokers": brokers,
        "networks": networks,
        "security": parse_security(cluster.get("security"), path + ".security"),
    }


def parse_broker(broker: Any, path: str) -> Dict[str, Any]:
    need(isinstance(broker, dict), path, "an object")
    for key in ("advertised", "reachable"):
        parse_text(parse_address, broker.get(key), f"{path}.{key}", "host:port")
    need(broker.get("id") is None or is_count(broker["id"]), path + ".id", "a broker id or null")
    return dict(broker, id=broker.get("id"))


def parse_network(network: Any, path: str) -> Dict[str, Any]:
    need(isinstance(network, dict), path, "an object")
    pair = [
        parse_text(ipaddress.IPv4Network, network.get(key), f"{path}.{key}", "an IPv4 prefix")
        for key in ("advertised", "reachable")
    ]
    need(pair[0].prefixlen == pair[1].prefixlen, path, "two prefixes of one length")
    ports = items(network, "ports", path)
    need(all(is_count(port) for port in ports), path + ".ports", "a list of ports")
    return dict(network, ports=ports)


def parse_security(security: Any, path: str) -> Dict[str, Any]:
    security = {"protocol": "PLAINTEXT"} if security is None else security
    need(isinstance(security, dict) and security.get("protocol") in PROTOCOLS, path + ".protocol", ", ".join(PROTOCOLS))
    if security["protocol"].startswith("SASL"):
        need(security.get("mechanism") in SASL_CLASSES, path + ".mechanism", ", ".join(sorted(SASL_CLASSES)))
        for key in ("username", "password") if security["mechanism"] != "GSSAPI" else ():
            need(isinstance(security.get(key), str), f"{path}.{key}", "a text")
    return dict(security)


def parse_identity(identity: Any, path: str) -> Optional[Dict[str, Any]]:
    if identity is None:
        return None
    need(isinstance(identity, dict), path, "an object or null")
    for key in ("uid", "gid"):
        need(is_count(identity.get(key)), f"{path}.{key}", "a number")
    groups = items(identity, "groups", path)
    need(all(is_count(group) for group in groups), path + ".groups", "a list of numbers")
    label = identity.get("label") or "uid {}".format(identity["uid"])
    return {"uid": identity["uid"], "gid": identity["gid"], "groups": groups, "label": str(label)}


def items(holder: Dict[str, Any], key: str, path: str) -> List[Any]:
    value = holder.get(key)
    need(value is None or isinstance(value, list), path if path == key else f"{path}.{key}", "a list")
    return value or []


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 32


def parse_text(parse: Callable[[str], Any], value: Any, path: str, wanted: str) -> Any:
    try:
        return parse(value) if isinstance(value, str) else need(False, path, wanted)
    except ValueError:
        return need(False, path, wanted)


def need(holds: bool, path: str, wanted: str) -> None:
    """Values are never quoted: they may be secrets."""
    if not holds:
        raise Refused(f"the probe's request is wrong at {path}", f"make {path} {wanted}")
