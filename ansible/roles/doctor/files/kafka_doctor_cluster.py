"""What a cluster says of itself, and the threads that ask it. Python 3.6 syntax."""

import threading
import time
from typing import Any, Callable, Dict, List, Set, Tuple

from kafka_natmap_identity import Address, Partition

LISTENER_NOT_FOUND = 72


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
