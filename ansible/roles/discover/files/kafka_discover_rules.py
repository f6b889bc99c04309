"""From the pairs that are known to guesses for the others: only a rule that explains every known pair may guess.

Pure. Python 3.6 syntax.
"""

import ipaddress
import re
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

Address = Tuple[str, int]
# By broker id: what it advertises, and where it was proven to be reachable.
Known = Dict[int, Tuple[Address, Address]]
Guess = Callable[[int, Address], Optional[Address]]
Counter = Callable[[int, Address], Optional[int]]

KEPT = {4: "the same host", 3: "the last three numbers kept", 2: "the last two numbers kept", 1: "the last number kept"}


class Rule(NamedTuple):
    """How a reachable address follows from a broker's id and advertised address: in words, and as a function."""

    text: str
    guess: Guess


def rules(known: Known, brokers: Dict[int, Address]) -> List[Rule]:
    """Those that explain every known pair, the likeliest first; none where nothing is known.

    Two rules that guess alike for all brokers are one.
    """
    found: List[Rule] = []
    seen: Set[Tuple[Optional[Address], ...]] = set()
    for rule in _families(known, brokers) if known else ():
        guesses = tuple(safe(rule, node, at) for node, at in sorted(brokers.items()))
        if guesses not in seen and all(safe(rule, node, at) == to for node, (at, to) in known.items()):
            seen.add(guesses)
            found.append(rule)
    return found


def safe(rule: Rule, node: int, advertised: Address) -> Optional[Address]:
    """A guess that can be dialled, or None."""
    guess = rule.guess(node, advertised)
    if guess is None or not 0 < guess[1] < 65536:
        return None
    ip = ipaddress.IPv4Address(guess[0])
    bad = ip.is_multicast or ip.is_unspecified or ip.is_link_local or int(ip) == (1 << 32) - 1
    return None if bad else guess


def _families(known: Known, brokers: Dict[int, Address]) -> Iterator[Rule]:
    advertised, reachable = known[min(known)]
    moved = reachable[1] - advertised[1]
    port = "the same port" if moved == 0 else "the port {:+d}".format(moved)
    for octets in sorted(KEPT, reverse=True):
        yield Rule(_kept_text(octets, advertised, reachable, port), _kept(octets, reachable[0], moved))
    if len({at[1] for at in brokers.values()}) == len(brokers) > 1:
        yield Rule("one address, {}, {}".format(reachable[0], port), lambda _, at: (reachable[0], at[1] + moved))
    for what, count in _counters(brokers):
        base, step = _line(known, count, lambda at: at[1])
        if base is not None:
            text = "one port a broker behind {}: {} by the {}".format(reachable[0], _formula(base, step), what)
            yield Rule(text, _port_by(count, reachable[0], base, step))
    for what, count in _counters(brokers):
        base, step = _line(known, count, lambda at: int(ipaddress.IPv4Address(at[0])))
        if base is not None:
            first = ipaddress.IPv4Address(base & 0xFFFFFFFF)
            text = "one address a broker: {} by the {}, {}".format(_formula(first, step), what, port)
            yield Rule(text, _address_by(count, base, step, moved))


def _formula(base: object, step: int) -> str:
    return "{} + {}n".format(base, "" if step == 1 else step)


def _kept_text(octets: int, advertised: Address, reachable: Address, port: str) -> str:
    if octets == 4:
        return "the same host, " + port
    ends = [".".join(at[0].split(".")[: 4 - octets]) + ".x" for at in (advertised, reachable)]
    return "{}, {} to {}, {}".format(KEPT[octets], ends[0], ends[1], port)


def _kept(octets: int, to: str, moved: int) -> Guess:
    def guess(_: int, at: Address) -> Optional[Address]:
        if not is_ip(at[0]):
            return None
        return ".".join(to.split(".")[: 4 - octets] + at[0].split(".")[4 - octets :]), at[1] + moved

    return guess


def _port_by(count: Counter, host: str, base: int, step: int) -> Guess:
    def guess(node: int, at: Address) -> Optional[Address]:
        place = count(node, at)
        return None if place is None else (host, base + step * place)

    return guess


def _address_by(count: Counter, base: int, step: int, moved: int) -> Guess:
    def guess(node: int, at: Address) -> Optional[Address]:
        place = count(node, at)
        number = 0 if place is None else base + step * place
        return (str(ipaddress.IPv4Address(number)), at[1] + moved) if 0 < number < 1 << 32 else None

    return guess


def _counters(brokers: Dict[int, Address]) -> List[Tuple[str, Counter]]:
    """What brokers may be numbered by."""
    ids = sorted(brokers)
    return [
        ("broker id", lambda node, _: node),
        ("number in the name", lambda _, at: number_in(at[0])),
        ("place among the ids", lambda node, _: ids.index(node) if node in brokers else None),
        ("advertised address", lambda _, at: int(ipaddress.IPv4Address(at[0])) if is_ip(at[0]) else None),
        ("advertised port", lambda _, at: at[1]),
    ]


def _line(known: Known, count: Counter, value: Callable[[Address], int]) -> Tuple[Optional[int], int]:
    """base and step of value = base + step * count through the first known pair and the next that differs."""
    points = []
    for node, (advertised, reachable) in sorted(known.items()):
        place = count(node, advertised)
        if place is None:
            return None, 1
        points.append((place, value(reachable)))
    place, at = points[0]
    other = next((point for point in points if point[0] != place), None)
    step = (other[1] - at) // (other[0] - place) if other else 1
    return at - step * place, step


def number_in(host: str) -> Optional[int]:
    """The last number in the first label of a name: 2 of kafka-hq-2.example."""
    found = [] if is_ip(host) else re.findall(r"\d+", host.partition(".")[0])
    return int(found[-1]) if found and len(found[-1]) < 7 else None


def is_ip(host: str) -> bool:
    try:
        return bool(ipaddress.IPv4Address(host))
    except ValueError:
        return False


def prefixes(known: Known) -> List[Dict[str, object]]:
    """1:1 prefixes that the proven pairs fill by half or more: {"advertised", "reachable", "ports", "filled", "size"}.

    A prefix keeps host bits and ports, so only pairs that do so count; at least two, and no pair may contradict it.
    """
    shifts: Dict[Tuple[int, int], List[int]] = {}
    for advertised, reachable in known.values():
        if is_ip(advertised[0]) and advertised[1] == reachable[1] and advertised[0] != reachable[0]:
            number = int(ipaddress.IPv4Address(advertised[0]))
            moved = int(ipaddress.IPv4Address(reachable[0])) - number
            shifts.setdefault((moved, advertised[1]), []).append(number)
    found = []
    for (moved, port), numbers in sorted(shifts.items()):
        bits = (min(numbers) ^ max(numbers)).bit_length()
        size = 1 << bits
        first = min(numbers) >> bits << bits
        if len(numbers) < 2 or len(numbers) * 2 < size or moved % size:
            continue
        inside = [pair for pair in known.values() if is_ip(pair[0][0]) and pair[0][1] == port]
        inside = [pair for pair in inside if first <= int(ipaddress.IPv4Address(pair[0][0])) < first + size]
        if len(inside) == len(numbers):
            ends = [str(ipaddress.IPv4Network((base, 32 - bits))) for base in (first, first + moved)]
            found.append(
                {"advertised": ends[0], "reachable": ends[1], "ports": [port], "filled": len(numbers), "size": size}
            )
    return found
