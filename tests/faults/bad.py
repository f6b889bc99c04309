"""Changes that are good when they are prepared, and bad when they are probed. Each touches one node's connections only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from faults.node import Node
from lab import podman

_HTTP = 8080


@dataclass(frozen=True)
class Bad:
    """What goes wrong for a node after prepare, and how it is put right again."""

    what: str
    do: Callable[[Node], None]
    end: Callable[[Node], None]


def _elsewhere(node: Node, pairs: Mapping[str, tuple[str, int]]) -> None:
    """The router leads this node's connections to a NAT address elsewhere: broker to (address, port)."""
    rules = "".join(
        f"ip saddr {node.lab.ip(node.name)} ip daddr {node.lab.nat_ip(broker)} tcp dport 9092 dnat to {address}:{port}\n"
        for broker, (address, port) in pairs.items()
    )
    _nft(node.lab.container("router"), _table(f"fault_{node.name}", "nat", "prerouting", -110, rules))


def _back(node: Node) -> None:
    _nft(node.lab.container("router"), f"table ip fault_{node.name}\ndelete table ip fault_{node.name}\n")


def _swapped(node: Node) -> None:
    one, two = node.lab.ip("hq-1"), node.lab.ip("hq-2")
    _elsewhere(node, {"hq-1": (two, 9092), "hq-2": (one, 9092)})


def _another_service(node: Node) -> None:
    # The network that the lab's hosts have in common has no other service; Kafka's controllers are one.
    _elsewhere(node, {"hq-2": (node.lab.ip("hq-2"), 9093)})


def _dead(node: Node) -> None:
    _elsewhere(node, {"hq-2": (node.lab.ip("hq-2"), 9)})


def _kill(node: Node) -> None:
    podman.execute(node.lab.container("hq-2"), "systemctl", "kill", "--signal=KILL", "kafka")
    podman.execute(node.lab.container("hq-2"), "systemctl", "stop", "kafka")


def _revive(node: Node) -> None:
    podman.execute(node.lab.container("hq-2"), "systemctl", "start", "kafka")
    node.await_brokers()


def _overtake(node: Node) -> None:
    # Not by NAT: that would track connections, and the watch would lift our exemption from it, as it must.
    rule = f"ip daddr {node.lab.ip('hq-2')} tcp dport 9092 ip daddr set {node.lab.nat_ip('hq-1')}\n"
    _nft(node.container, _table("overtaker", "route", "output", -150, rule))


def _give_way(node: Node) -> None:
    _nft(node.container, "table ip overtaker\ndelete table ip overtaker\n")


def _table(name: str, kind: str, hook: str, priority: int, rules: str) -> str:
    return f"table ip {name} {{\nchain first {{\ntype {kind} hook {hook} priority {priority}\n{rules}}}\n}}\n"


def _nft(container: str, text: str) -> None:
    podman.execute(container, "nft", "-f", "-", stdin=text.encode())


BAD = (
    Bad("a foreign chain overtakes our rule", _overtake, _give_way),
    Bad("two brokers are swapped behind the NAT", _swapped, _back),
    Bad("another service answers at the reachable address", _another_service, _back),
    Bad("a broker's port is closed", _dead, _back),
)
BROKER_DIES = Bad("a broker dies", _kill, _revive)
