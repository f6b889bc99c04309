"""Which broker is it that answers: metadata read, and the identity proven. Python 3.6 syntax."""

import sys
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from kafka_natmap_session import CLUSTER_FRAME, Broken, Session
from kafka_natmap_wire import request

NOT_LEADER, INVALID_REQUEST = 6, 42
DESCRIBE_CONFIGS, BROKER_RESOURCE = 32, 4
EARLIEST = -2
# Partitions asked for each broker; tries while leadership moves, and the seconds between them.
SAMPLE = 3
TRIES = 3
PAUSE = 0.2

Address = Tuple[str, int]
Partition = Tuple[str, int]
Leads = Dict[int, List[Partition]]


def parse_address(text: str) -> Address:
    """("host", port) of "host:port", the host in lower case. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError("not host:port: " + text)
    return host.lower(), int(port)


def show(address: Optional[Address]) -> Optional[str]:
    return "{}:{}".format(*address) if address else None


class View(NamedTuple):
    """What one metadata answer says: the living brokers, what each leads, which ids hold replicas."""

    cluster_id: Optional[str]
    brokers: Dict[int, Address]
    leads: Leads
    known: Set[int]


def read_metadata(answer: Any) -> View:
    """The view in a Metadata v5 answer."""
    leads: Leads = {}
    known: Set[int] = set()
    for error, topic, _, partitions in answer.topics:
        for _, number, leader, replicas, _, _ in () if error else partitions:
            known.update(replicas)
            leads.setdefault(leader, []).append((topic, number))
    brokers = {node: (host.lower(), port) for node, host, port, _ in answer.brokers}
    return View(answer.cluster_id, brokers, leads, known)


def offsets_request(partitions: List[Partition]) -> Any:
    """ListOffsets v1 for the first offset of each partition."""
    topics: Dict[str, List[Tuple[int, int]]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append((number, EARLIEST))
    return request("list_offsets", 1, -1, list(topics.items()))


def identify(session: Session, expected: int, leads: Leads) -> Tuple[str, str]:
    """Verdict and evidence: is it broker `expected` that answers? Raises Broken.

    One request asks for partitions of every broker; whose partitions are answered, answers. While
    leadership moves the picture is mixed, so it is asked again with fresh leaders. A broker that leads
    nothing, as each does for minutes after its restart, is asked for its own configuration instead.
    """
    settled, verdict = False, ("UNPROVEN", "")
    for sample, errors in rounds(session, leads):
        settled, verdict = judge(expected, sample, errors)
        if settled:
            break
    if verdict[0] == "UNPROVEN" or not settled:
        verdict = ask_config(session, expected) or verdict
    return verdict[0], session.address + " " + verdict[1]


def ask_config(session: Session, expected: int) -> Optional[Tuple[str, str]]:
    """Verdict and evidence by the configuration of broker `expected`, which it alone describes; None without the
    right to DescribeConfigs on the cluster, and where the answer does not come."""
    low, high = session.apis.get(DESCRIBE_CONFIGS, (0, 0))
    if expected < 0 or not low <= 1 <= high:
        return None
    versions: Any = sys.modules["kafka.protocol.admin"]
    asks = versions.DescribeConfigsRequest[1]([(BROKER_RESOURCE, str(expected), ["broker.id"])], False)
    try:
        error, said = next(((row[0], row[1]) for row in session.ask(asks).resources), (None, None))
    except Broken:
        return None
    if error == 0:
        return "OK", f"answers for the configuration of broker {expected}"
    if error == INVALID_REQUEST and "broker id" in (said or ""):
        return "WRONG_BROKER", f"is not broker {expected}: asked for its configuration it says: {said[:160]}"
    return None


def rounds(session: Session, leads: Leads) -> Iterator[Tuple[Dict[Partition, int], Dict[Partition, int]]]:
    """Which broker leads the partitions that are asked for, and what was answered for each (an error code); again with
    fresh leaders for whoever is not satisfied. Raises Broken."""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(min(PAUSE, session.limits.left(PAUSE)))
            topics = sorted({topic for sample in leads.values() for topic, _ in sample[:SAMPLE]})
            leads = read_metadata(session.ask(request("metadata", 5, topics, False), CLUSTER_FRAME)).leads
        sample = {partition: node for node, led in leads.items() if node >= 0 for partition in led[:SAMPLE]}
        errors = {}
        if sample:
            answer = session.ask(offsets_request(list(sample)))
            errors = {(topic, number): error for topic, parts in answer.topics for number, error, _, _ in parts}
        yield sample, errors


def judge(expected: int, leaders: Dict[Partition, int], errors: Dict[Partition, int]) -> Tuple[bool, Tuple[str, str]]:
    """Settled or not, and the verdict on one round; evidence continues a sentence that began with an address."""
    answered = {leaders[part]: part for part in sorted(errors, reverse=True) if errors[part] == 0 and part in leaders}
    mine = [part for part, node in sorted(leaders.items()) if node == expected]
    refused = [part for part in mine if errors.get(part) == NOT_LEADER]
    if set(answered) == {expected}:
        return True, ("OK", "answers for {}-{}, which broker {} leads".format(*answered[expected] + (expected,)))
    if len(answered) == 1:
        other, part = next(iter(answered.items()))
        return True, (
            "WRONG_BROKER",
            f"is broker {other}: it answers for {part[0]}-{part[1]}, which broker {other} leads, "
            f"and not for broker {expected}",
        )
    if answered:
        return False, (
            "UNPROVEN",
            "answers for partitions of brokers {}: leadership is moving".format(", ".join(map(str, sorted(answered)))),
        )
    if refused:
        return False, (
            "WRONG_BROKER",
            "is not broker {}: it does not lead {}-{}; whose it is cannot be told, it leads nothing".format(
                expected, *refused[0]
            ),
        )
    return True, ("UNPROVEN", f"names no partition led by broker {expected} that this user may read")
