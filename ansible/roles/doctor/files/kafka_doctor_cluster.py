"""What a cluster says of itself, and the threads that ask it. Python 3.6 syntax."""

import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from kafka_doctor_walk import Walk
from kafka_natmap_identity import Address, Partition
from kafka_natmap_session import CLUSTER_FRAME, Broken

# Error codes of the protocol: LISTENER_NOT_FOUND, INVALID_REQUEST; and the resource type of a broker.
LISTENER_NOT_FOUND, ILLEGAL, BROKER_RESOURCE = 72, 42, 4


class Pool:
    """Runs what is put in, so many at once; what is put in may put in more."""

    def __init__(self, workers: int, until: float) -> None:
        self.workers, self.until = workers, until
        self.changed = threading.Condition()
        self.waiting: List[Callable[[], None]] = []
        self.running = 0

    def put(self, work: Callable[[], None]) -> None:
        with self.changed:
            self.waiting.append(work)
            if self.running < self.workers:
                self.running += 1
                threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            with self.changed:
                if not self.waiting:
                    self.running -= 1
                    self.changed.notify_all()
                    return
                work = self.waiting.pop(0)
            work()

    def join(self) -> None:
        """Until all is done, or the monotonic time `until` is there."""
        with self.changed:
            while self.running and time.monotonic() < self.until:
                self.changed.wait(max(self.until - time.monotonic(), 0))


class View:
    """What one address says of its cluster: who is alive, and at which address."""

    def __init__(self, answer: Any) -> None:
        self.cluster_id = answer.cluster_id
        self.brokers: Dict[int, Address] = {row[0]: (row[1].lower(), row[2]) for row in answer.brokers}


class Topics:
    """What the cluster says of all its topics: who leads what, and which brokers hold replicas."""

    def __init__(self, answer: Any) -> None:
        self.leads: Dict[int, List[Partition]] = {}
        self.leader: Dict[Partition, Tuple[int, int]] = {}
        self.held: Set[int] = set()
        self.in_sync: Set[int] = set()
        self.hidden: Set[Partition] = set()
        self.names: Set[str] = set()
        for error, topic, _, partitions in answer.topics:
            if not error:
                self.names.add(topic)
            for fault, number, leader, _, replicas, in_sync, _ in () if error else partitions:
                self.held.update(replicas)
                self.in_sync.update(in_sync)
                self.leader[topic, number] = (leader, fault)
                self.leads.setdefault(leader, []).append((topic, number))
                if fault == LISTENER_NOT_FOUND:
                    self.hidden.add((topic, number))


def ask_config(walk: Walk, owner: int) -> Optional[Tuple[str, str]]:
    """With the right to describe the cluster's configuration: only broker `owner` answers for itself. None without it."""
    versions: Any = sys.modules["kafka.protocol.admin"]
    asks = versions.DescribeConfigsRequest[1]([(BROKER_RESOURCE, str(owner), ["broker.id"])], False)
    try:
        (error, said, _, _, _), *_ = walk.ask(asks, CLUSTER_FRAME).resources
    except (Broken, ValueError):
        return None
    if not error:
        return "OK", f"{walk.address} answers for the configuration of broker {owner}"
    if error == ILLEGAL and "broker id" in (said or ""):
        return (
            "WRONG_BROKER",
            f"{walk.address} is not broker {owner}: asked for its configuration it says: {said[:160]}",
        )
    return None
