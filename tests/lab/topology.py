"""The lab as data: which hosts there are, where they stand, what runs on them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build"
DEFAULT_NAME = "natmap"
HQ = ("hq-1", "hq-2", "hq-3")
# Names that `--only` takes beside those of hosts.
PARTS: dict[str, tuple[str, ...]] = {
    "hq": HQ,
    "dr": ("dr-1",),
    "router": ("router",),
    "nodes": ("nm1", "nm2"),
    "yarn": ("master", "nm1", "nm2"),
    "site": ("master", "nm1", "nm2", "kafka", "edge", "gateway"),
}
_HQ_HOSTS = {"hq-1": 21, "hq-2": 22, "hq-3": 23, "dr-1": 41}
_SITE_HOSTS = {"master": 10, "nm1": 11, "nm2": 12, "kafka": 13, "edge": 14, "gateway": 15}
_NAT = {"hq-1": 21, "hq-2": 22, "hq-3": 23, "dr-1": 20}
ALL_HOSTS = (*_HQ_HOSTS, "router", *_SITE_HOSTS)
_ROUTER = 2
_FIRST_EXTRA = 100

KAFKA_PORT = 9092
DR_NAT_PORT = 19092
DR_NAME = "kafka-dr-1"
CLUSTER_IDS = {"hq": "aHEtbmF0bWFwLWxhYi0wMQ", "dr": "ZHItbmF0bWFwLWxhYi0wMQ", "site": "c2l0ZS1uYXRtYXAtbGFiMQ"}


@dataclass(frozen=True)
class Host:
    """One container. `address` maps a network (`hq`, `site`) to this host's IP there."""

    name: str
    address: dict[str, str]
    roles: tuple[str, ...]
    values: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, Path] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Lab:
    """A lab `name` on the four /24 networks that start at 198.18.0.0 + 4 * `number`; `only` names its hosts."""

    name: str = DEFAULT_NAME
    number: int = 0
    only: tuple[str, ...] = ALL_HOSTS

    def __post_init__(self) -> None:
        if not 0 <= self.number < 128:
            raise ValueError(f"lab number {self.number}: 198.18.0.0/15 has room for 0 to 127")

    def prefix(self, net: str) -> str:
        """First three bytes of a network: `hq`, `site` or `nat` (the router's public side)."""
        third = {"hq": 0, "site": 1, "nat": 3}[net]
        base = ipaddress.IPv4Address("198.18.0.0") + (self.number * 4 + third) * 256
        return str(base).removesuffix(".0")

    def ip(self, host: str, net: str = "") -> str:
        """A host's own address; the router's on `net`."""
        if host == "router":
            return f"{self.prefix(net or 'site')}.{_ROUTER}"
        side, hosts = ("hq", _HQ_HOSTS) if host in _HQ_HOSTS else ("site", _SITE_HOSTS)
        return f"{self.prefix(side)}.{hosts[host]}"

    def nat_ip(self, broker: str) -> str:
        """The address at which the site reaches an HQ broker."""
        return f"{self.prefix('nat')}.{_NAT[broker]}"

    def nat_port(self, broker: str) -> int:
        return DR_NAT_PORT if broker == "dr-1" else KAFKA_PORT

    def has(self, *hosts: str) -> bool:
        return set(hosts) <= set(self.only)

    def hq(self) -> list[str]:
        return [h for h in HQ if h in self.only]

    def remote(self) -> list[str]:
        """The brokers behind the NAT."""
        return [h for h in (*HQ, "dr-1") if h in self.only]

    def container(self, host: str) -> str:
        return f"{self.name}-{host}"


def expand(names: Iterable[str]) -> tuple[str, ...]:
    """Hosts for names of hosts and parts, in the order of the topology; nothing given is every host."""
    wanted: set[str] = set()
    for name in names:
        if name not in PARTS and name not in ALL_HOSTS:
            raise ValueError(f"--only {name}: no such host or part; there are {', '.join((*PARTS, *ALL_HOSTS))}")
        wanted.update(PARTS.get(name, (name,)))
    return tuple(h for h in ALL_HOSTS if h in wanted) or ALL_HOSTS


def hosts(lab: Lab) -> list[Host]:
    """Every host of the lab, complete with what runs on it."""
    return [
        _router(lab) if name == "router" else _broker(lab, name) if name in _BROKERS else _site_host(lab, name)
        for name in lab.only
    ]


def extra_node(lab: Lab, name: str, index: int) -> Host:
    """A plain host on the site's network, the `index`th that was added (from 0)."""
    if index >= 250 - _FIRST_EXTRA:
        raise ValueError(f"no address left for node {name}: a lab takes {250 - _FIRST_EXTRA} added nodes")
    address = f"{lab.prefix('site')}.{_FIRST_EXTRA + index}"
    values = _site_values(lab)
    values["hosts"] += f"{address}\t{name}\n"
    return Host(name, {"site": address}, ("node",), values)


_BROKERS = (*_HQ_HOSTS, "kafka")


def _etc_hosts(lab: Lab, names: Iterable[str]) -> str:
    return "".join(f"{lab.ip(name)}\t{name}\n" for name in names if name in lab.only)


def _site_values(lab: Lab) -> dict[str, str]:
    return {"gateway": lab.ip("router"), "hosts": _etc_hosts(lab, _SITE_HOSTS)}


def _broker(lab: Lab, name: str) -> Host:
    room = "site" if name == "kafka" else "hq"
    cluster = "site" if name == "kafka" else "dr" if name == "dr-1" else "hq"
    peers = lab.hq() if cluster == "hq" else [name]
    ids = {"hq-1": 1, "hq-2": 2, "hq-3": 3, "dr-1": 11, "kafka": 21}
    address = lab.ip(name)
    listeners = {"PLAINTEXT": f"{DR_NAME if name == 'dr-1' else address}:{KAFKA_PORT}"}
    if name == "dr-1":
        # For those in the room who cannot resolve the advertised name, such as the tests.
        listeners["ROOM"] = f"{address}:9094"
    names = (
        f"{lab.ip('dr-1')}\t{DR_NAME}\n" + _etc_hosts(lab, _HQ_HOSTS) if room == "hq" else _site_values(lab)["hosts"]
    )
    values = {
        "gateway": lab.ip("router", room),
        "hosts": names,
        "node_id": str(ids[name]),
        "cluster_id": CLUSTER_IDS[cluster],
        "voters": ",".join(f"{ids[p]}@{lab.ip(p)}:9093" for p in peers),
        "listeners": ",".join(f"{k}://{address}:{v.rsplit(':')[-1]}" for k, v in listeners.items()),
        "advertised": ",".join(f"{k}://{v}" for k, v in listeners.items()),
        "replicas": str(len(peers)),
        "min_isr": str(max(1, len(peers) - 1)),
    }
    return Host(
        name,
        {room: address},
        ("node", "kafka"),
        values,
        {"/opt/kafka/libs": BUILD / "jars/kafka"},
        {"data": "/var/lib/kafka"},
    )


def _router(lab: Lab) -> Host:
    dnat = "\n".join(
        f"        {lab.nat_ip(b)} . {lab.nat_port(b)} : {lab.ip(b)} . {KAFKA_PORT}," for b in (*HQ, "dr-1")
    )
    addresses = " ".join(lab.nat_ip(b) for b in (*HQ, "dr-1"))
    return Host(
        "router",
        {"hq": lab.ip("router", "hq"), "site": lab.ip("router", "site")},
        ("router",),
        {"dnat": dnat, "nat_addresses": addresses, "hosts": ""},
    )


def _site_host(lab: Lab, name: str) -> Host:
    roles: list[str] = ["node"]
    values = _site_values(lab)
    mounts: dict[str, Path] = {}
    volumes: dict[str, str] = {}
    yarn = lab.has("master")
    if yarn and name in ("master", "nm1", "nm2", "edge"):
        roles.append("hadoop")
        mounts["/opt/hadoop/lib"] = BUILD / "jars/hadoop"
    if yarn and name in ("nm1", "nm2", "edge"):
        mounts["/opt/spark"] = _pyspark()
    if name == "master":
        roles.append("master")
        volumes["data"] = "/var/lib/hadoop-hdfs"
    if yarn and name in ("nm1", "nm2"):
        roles.append("nodemanager")
    if yarn and name == "edge":
        roles.append("edge")
        mounts["/opt/spark-connector"] = BUILD / "jars/connector"
    return Host(name, {"site": lab.ip(name)}, tuple(roles), values, mounts, volumes)


def _pyspark() -> Path:
    found = sorted((ROOT / ".venv").glob("lib/python3*/site-packages/pyspark"))
    return found[0] if found else ROOT / ".venv/lib/python3/site-packages/pyspark"
