"""Maps and facts that nobody wrote: mostly sound, from small pools, so that they meet; some broken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

# Few of each, so that addresses, names, prefixes and owners meet.
ADDRESSES = st.sampled_from([f"192.0.2.{last}" for last in range(1, 6)] + ["10.0.0.7", "10.0.1.7", "172.16.9.9"])
REACHABLES = st.sampled_from([f"203.0.113.{last}" for last in range(1, 9)] + ["20.0.0.7", "192.0.2.5"])
LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAMES = st.one_of(
    st.sampled_from(["kafka-1", "kafka-2", "kafka-1.hq.example", "Kafka-3"]),
    st.lists(LABEL, min_size=1, max_size=4).map(".".join),
    st.just(".".join(["x" * 63] * 3 + ["y" * 61])),
)
PORTS = st.sampled_from([9092, 9093, 19092, 1, 65535])
OWNERS = st.sampled_from(["default", "a", "a-b", "data-platform", "z" * 32])
CLUSTERS = st.sampled_from(["hq", "hq-dr", "lake", "c" * 32, "src"])
MECHANISMS = st.sampled_from(["auto", "auto", "auto", "auto", "nftables", "iptables", "nginx_stream", "hosts"])
USERS = ["yarn", "etl", "nobody", "u" * 32, "svc$"]
GROUPS = ["hadoop", "spark"]
BROKEN = st.sampled_from(
    ["", "a b", "a\nb", "x;y", '"', "{", "-a", "1.2.3", "::1", "127.0.0.1", "0.0.0.0", "é", "localhost"]
)


def endpoints(hosts: Any, broken: bool) -> Any:
    """``host:port`` texts; some are none, where asked for."""
    sound = st.builds(lambda host, port: f"{host}:{port}", hosts, PORTS)
    return st.one_of(*[sound] * 30, BROKEN, st.builds("{}:9092".format, BROKEN)) if broken else sound


def brokers(broken: bool) -> Any:
    """One pair."""
    return st.fixed_dictionaries(
        {
            "advertised": endpoints(st.one_of(ADDRESSES, NAMES), broken),
            "reachable": endpoints(REACHABLES, broken),
        },
        optional={"id": st.integers(0, 9)},
    )


@st.composite
def networks(draw: Any) -> dict[str, Any]:
    """One 1:1 prefix, of any length that makes sense."""
    length = draw(st.sampled_from([24, 24, 26, 28, 31, 32]))
    near = draw(st.sampled_from([f"10.0.{third}.0" for third in range(4)] + ["192.0.2.0"]))
    far = draw(st.sampled_from([f"20.0.{third}.0" for third in range(4)]))
    ports = draw(st.lists(PORTS, min_size=1, max_size=3))
    return {"advertised": f"{near}/{length}", "reachable": f"{far}/{length}", "ports": ports}


@st.composite
def scopes(draw: Any) -> dict[str, Any]:
    """Whose connections: at least somebody."""
    kinds: dict[str, Any] = {
        "users": st.lists(st.sampled_from(USERS), min_size=1, max_size=3),
        "groups": st.lists(st.sampled_from(GROUPS), min_size=1, max_size=2),
        "uid_range": st.sampled_from([[1000, 60000], [1, 1], [1, 4294967294]]),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, unique=True))
    return {kind: draw(kinds[kind]) for kind in chosen}


@st.composite
def clusters(draw: Any, broken: bool) -> dict[str, Any]:
    """One cluster's body; without a mechanism of its own it takes the map's."""
    body: dict[str, Any] = {"brokers": draw(st.lists(brokers(broken), max_size=6))}
    if draw(st.booleans()):
        body["networks"] = draw(st.lists(networks(), min_size=1, max_size=3))
    if draw(st.booleans()):
        body["mechanism"] = draw(MECHANISMS)
    if draw(st.booleans()):
        body["scope"] = draw(scopes())
    return body


@st.composite
def maps(draw: Any, broken: bool = True) -> dict[str, Any]:
    """A whole map."""
    bodies = draw(st.dictionaries(CLUSTERS, clusters(broken), min_size=1, max_size=3))
    return {
        "owner": draw(OWNERS),
        "scope": draw(scopes()),
        "mechanism": draw(MECHANISMS),
        "add_routes": draw(st.booleans()),
        "clusters": bodies,
    }


def mended(data: Mapping[str, Any]) -> dict[str, Any]:
    """The map without most of what would be refused: what is left has a good chance to be taken."""
    seen: set[str] = set()
    kept: dict[str, Any] = {}
    for name, body in data["clusters"].items():
        by_name = body.get("mechanism", data["mechanism"]) == "hosts"
        brokers_left, networks_left = [], []
        for one in map(portable, body["brokers"]) if by_name else body["brokers"]:
            keys = {one["advertised"].lower(), one["reachable"], f"{name}#{one.get('id', id(one))}"}
            keys |= {one["advertised"].partition(":")[0].lower()} if by_name else set()
            if not keys & seen and not (by_name and one["advertised"][0].isdigit()):
                brokers_left.append(one)
                seen |= keys
        for net in body.get("networks", []):
            keys = {net["advertised"].partition("/")[0], "to " + net["reachable"].partition("/")[0]}
            if not keys & seen and body.get("mechanism", data["mechanism"]) in ("auto", "nftables", "iptables"):
                networks_left.append(net)
                seen |= keys
        if brokers_left or networks_left:
            kept[name] = body | {"brokers": brokers_left, "networks": networks_left}
    return {**data, "clusters": kept}


def portable(one: Mapping[str, Any]) -> dict[str, Any]:
    """A pair whose port does not change."""
    return {**one, "reachable": one["reachable"].partition(":")[0] + ":" + one["advertised"].rpartition(":")[2]}


BACKENDS = st.sampled_from([(True, True)] * 4 + [(True, False)] + [(False, True)] * 3 + [(False, False)])


@st.composite
def facts(draw: Any, **known: Any) -> dict[str, Any]:
    """What a node may say of itself; ``known`` is taken as it is."""
    addresses = [f"192.0.2.{last}" for last in range(1, 6)] + [f"203.0.113.{last}" for last in range(1, 9)]
    addresses += ["10.0.0.7", "10.0.0.1", "20.0.0.1", "10.0.1.1", "20.0.1.1"]
    route = st.fixed_dictionaries(
        {"source": st.sampled_from(["198.18.254.1", "198.18.254.1", "198.18.254.9"]), "device": st.just("left")}
    )
    nftables, iptables = draw(BACKENDS)
    none = st.just({"source": None, "error": "Network is unreachable"})
    return {
        "kernel": draw(st.sampled_from([[6, 1], [6, 1], [4, 18], [4, 17]])),
        "users": {name: {"uid": 2000 + number, "gid": 3000} for number, name in enumerate(USERS)},
        "groups": {"hadoop": 989, "spark": 4294967294},
        "nftables": {"usable": nftables, "reason": "no nft"},
        "iptables": {"usable": iptables, "reason": "no iptables"},
        "routes": {address: draw(st.one_of(*[route] * 30, none)) for address in addresses},
        "resolves": draw(
            st.dictionaries(
                st.sampled_from(["kafka-1", "kafka-2"]), st.lists(st.one_of(ADDRESSES, REACHABLES), max_size=2)
            )
        ),
    } | known
