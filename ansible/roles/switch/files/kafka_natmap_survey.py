"""What stands behind each pair of a NAT map: bootstrap, metadata, identity, verdicts.

Every bootstrap address is asked on its own; metadata says which broker owns which advertised address;
each mapped broker is dialled and asked for offsets of partitions, which only their leader answers.
Python 3.6 syntax.
"""

import ipaddress
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from kafka_natmap_identity import (
    TRIES,
    Address,
    Partition,
    View,
    identify,
    parse_address,
    read_metadata,
    show,
)
from kafka_natmap_session import CLUSTER_FRAME, Broken, Limits, Session
from kafka_natmap_wire import request

# Taken by every broker from 1.0 to 4.2. ListOffsets v1 is answered by the leader alone.
NEEDED = ((2, 1, "ListOffsets"), (3, 5, "Metadata"))
NOT_ASKED = "the probe's time was over before this was asked"
UNREACHED = ("TCP_REFUSED", "TCP_TIMEOUT", "NO_ROUTE")


class Pair(NamedTuple):
    """One broker of the map: who it is, where it says it is, where it can be reached."""

    id: Optional[int]
    advertised: Address
    reachable: Optional[Address]


class Answer(NamedTuple):
    """What one address gave: a view, or the verdict on the hop that broke."""

    session: Session
    view: Optional[View]
    verdict: str
    evidence: str


def each(work: Callable[[Any], Any], items: List[Any], workers: int, until: float) -> List[Tuple[Any, Any]]:
    """(item, work(item)) for all items, so many at once; None for what is not done at the monotonic time `until`."""
    results: List[Tuple[Any, Any]] = [(item, None) for item in items]
    queue, lock = iter(enumerate(items)), threading.Lock()

    def run() -> None:
        while time.monotonic() < until:
            with lock:
                index, item = next(queue, (-1, None))
            if index < 0:
                return
            results[index] = (item, work(item))

    threads = [threading.Thread(target=run, daemon=True) for _ in range(min(workers, len(items)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        # A resolver cannot be interrupted; who hangs in it is left behind.
        thread.join(max(until - time.monotonic(), 0) + 0.05)
    return list(results)


class Cluster:
    """The survey of one cluster of the map, from one node."""

    def __init__(self, asked: Dict[str, Any], path: str, tls: Any) -> None:
        self.name, self.security, self.tls = asked["name"], asked["security"], tls
        self.reachable_path = path == "reachable"
        self.pinned: Optional[str] = asked["cluster_id"]
        self.pairs = [
            Pair(broker["id"], parse_address(broker["advertised"]), parse_address(broker["reachable"]))
            for broker in asked["brokers"]
        ]
        self.networks = [
            (ipaddress.ip_network(net["advertised"]), ipaddress.ip_network(net["reachable"]), net["ports"])
            for net in asked["networks"]
        ]
        self.bootstrap = [parse_address(text) for text in asked["bootstrap"]]
        self.bootstrap = self.bootstrap or [pair.reachable for pair in self.pairs if pair.reachable]
        self.names = {pair.reachable: pair.advertised[0] for pair in self.pairs}
        # Open until the look-up in conntrack is done.
        self.kept: List[Session] = []
        self.answers: Dict[Address, Answer] = {}
        self.cluster_id: Optional[str] = None
        self.owners: Dict[Address, int] = {}
        self.leads: Dict[int, List[Partition]] = {}
        self.known: Set[int] = set()
        self.unread = ""

    def target(self, pair: Pair) -> Address:
        """Where a pair is dialled."""
        return pair.reachable if self.reachable_path and pair.reachable else pair.advertised

    def ask(self, address: Address, limits: Limits, tls_name: Optional[str] = None) -> Answer:
        """API versions and the living brokers of one address; the session of a good answer stays open."""
        tls_name = tls_name or self.names.get(address)
        session = Session(address[0], address[1], self.security, limits, self.tls, tls_name)
        try:
            session.open()
            for key, version, name in NEEDED:
                if key not in session.apis:
                    raise Broken(
                        "NOT_KAFKA", f"{session.address} is no broker: it does not know {name} (a controller?)"
                    )
                low, high = session.apis[key]
                if not low <= version <= high:
                    raise Broken("UNPROVEN", f"{session.address} does not take {name} v{version}")
            view = read_metadata(session.ask(request("metadata", 5, [], False)))
        except Broken as broken:
            session.close()
            return Answer(session, None, broken.verdict, broken.evidence)
        except Exception as error:  # one address must not end the survey of the others
            session.close()
            return Answer(session, None, "UNPROVEN", f"asking {session.address} failed here: {error!r}")
        self.kept.append(session)
        return Answer(
            session, view, "OK", f"{session.address} names {len(view.brokers)} brokers of cluster {view.cluster_id}"
        )

    def remember(self, address: Address, limits: Limits) -> Answer:
        """Ask an address whose answer later steps will use again."""
        answer = self.answers[address] = self.ask(address, limits)
        return answer

    def settle(self) -> bool:
        """Take the pinned id, or the one that most answers give, as this cluster; False when none does."""
        views = [answer.view for answer in self.answers.values() if answer.view is not None]
        ids = [view.cluster_id for view in views]
        self.cluster_id = self.pinned or (max(ids, key=ids.count) if ids else None)
        for view in views:
            if view.cluster_id == self.cluster_id:
                self.owners.update((address, node) for node, address in view.brokers.items())
        return bool(self.owners)

    def learn_leaders(self, limits: Limits) -> None:
        """The one costly question, all topics, asked of one address of the cluster."""
        for address, answer in list(self.answers.items()):
            if answer.view is None or answer.view.cluster_id != self.cluster_id:
                continue
            answer.session.limits = limits
            try:
                full = read_metadata(answer.session.ask(request("metadata", 5, None, False), CLUSTER_FRAME))
            except Broken as broken:
                self.unread = "; the topics could not be read: " + broken.evidence
                del self.answers[address]
                continue
            self.leads, self.known = full.leads, full.known
            return

    def compute_reachable(self, address: Address) -> Optional[Address]:
        """The same host in the reachable prefix, for an advertised address that a prefix pair covers."""
        try:
            host = ipaddress.IPv4Address(address[0])
        except ValueError:
            return None
        for advertised, reachable, ports in self.networks:
            if host in advertised and (not ports or address[1] in ports):
                offset = int(host) - int(advertised.network_address)
                return str(reachable.network_address + offset), address[1]
        return None

    def sort_out(self) -> Tuple[List[Dict[str, Any]], List[Pair]]:
        """Rows for brokers that are not dialled, and the pairs to dial, by what metadata names."""
        if not self.owners:
            return [], self.pairs
        rows: List[Dict[str, Any]] = []
        dials: List[Pair] = []
        alive = set(self.owners.values())
        claimed = {pair.id for pair in self.pairs}
        for pair in self.pairs:
            down = pair.id in self.known - alive if pair.id is not None else bool(self.known - alive - claimed)
            moved = [address for address, node in self.owners.items() if node == pair.id]
            if pair.advertised in self.owners:
                dials.append(pair)
            elif moved:
                rows.append(self.row(pair, "STALE_ENTRY", f"broker {pair.id} now advertises {show(moved[0])}"))
            elif down:
                rows.append(self.row(pair, "DOWN_AT_HQ", "metadata names it as a replica, but not among the living"))
            else:
                rows.append(self.row(pair, "STALE_ENTRY", "metadata names no broker at this address"))
        mapped = {pair.advertised for pair in self.pairs}
        for address, node in sorted(self.owners.items(), key=lambda item: item[1]):
            if address in mapped:
                continue
            pair = Pair(node, address, self.compute_reachable(address))
            if pair.reachable:
                dials.append(pair)
            else:
                rows.append(self.row(pair, "UNMAPPED_BROKER", "metadata names it, the map does not cover it"))
        return rows, dials

    def row(self, pair: Pair, verdict: str, evidence: str, session: Optional[Session] = None) -> Dict[str, Any]:
        return {
            "cluster": self.name,
            "id": self.owners.get(pair.advertised, pair.id),
            "advertised": show(pair.advertised),
            "reachable": show(pair.reachable),
            "dialled": session.address if session else None,
            "verdict": verdict,
            "evidence": evidence,
            "latency_ms": session.latency_ms if session else None,
            "rewritten_to": None,
            "api_versions": session.digest if session and session.apis else None,
            "flow": session.flow if session else None,
        }

    def prove(self, pair: Pair, limits: Limits) -> Dict[str, Any]:
        """Dial one pair and ask who answers."""
        address = self.target(pair)
        answer = self.answers.pop(address, None)
        if answer is None or answer.verdict == "UNPROVEN":
            answer = self.ask(address, limits, pair.advertised[0])
        session, view = answer.session, answer.view
        session.limits = limits
        owner = self.owners.get(pair.advertised)
        if view is None:
            return self.row(pair, answer.verdict, answer.evidence, session)
        if view.cluster_id != self.cluster_id:
            return self.row(
                pair,
                "WRONG_CLUSTER",
                f"{session.address} belongs to cluster {view.cluster_id}, not {self.cluster_id}",
                session,
            )
        try:
            verdict, evidence = identify(session, owner if owner is not None else -1, self.leads)
        except Broken as broken:
            verdict, evidence = broken.verdict, broken.evidence
        if verdict == "UNPROVEN":
            evidence += self.unread
        if verdict == "OK" and pair.id not in (None, owner):
            verdict, evidence = "WRONG_BROKER", f"{evidence}; the map calls it broker {pair.id}"
        return self.row(pair, verdict, evidence, session)

    def recheck(self, rows: List[Dict[str, Any]], limits: Limits) -> None:
        """Whoever could not be reached may have died meanwhile: ask the cluster once more."""
        missed = [row for row in rows if row["verdict"] in UNREACHED and row["id"] is not None]
        good = [session for session in self.kept if session.socket is not None]
        for session in good[:TRIES] if missed else []:
            session.limits = limits
            try:
                alive = read_metadata(session.ask(request("metadata", 5, [], False))).brokers
            except Broken:
                continue
            for row in missed:
                if row["id"] not in alive:
                    row["evidence"] += ", and metadata no longer names broker {}".format(row["id"])
                    row["verdict"] = "DOWN_AT_HQ"
            return

    def report(self, answers: Dict[Address, Optional[Answer]]) -> Dict[str, Any]:
        """What each bootstrap address gave."""
        return {
            "name": self.name,
            "cluster_id": self.cluster_id,
            "bootstrap": [self.report_one(show(address), answers.get(address)) for address in self.bootstrap],
        }

    def report_one(self, address: Optional[str], answer: Optional[Answer]) -> Dict[str, Any]:
        if answer is None:
            return {
                "address": address,
                "verdict": "UNPROVEN",
                "brokers": {},
                "cluster_id": None,
                "latency_ms": None,
                "evidence": NOT_ASKED,
            }
        view, verdict, evidence = answer.view, answer.verdict, answer.evidence
        if view is not None and view.cluster_id != self.cluster_id:
            verdict, evidence = "WRONG_CLUSTER", f"{evidence}, not {self.cluster_id}"
        return {
            "address": address,
            "verdict": verdict,
            "brokers": {str(node): show(where) for node, where in sorted(view.brokers.items())} if view else {},
            "cluster_id": view.cluster_id if view else None,
            "latency_ms": answer.session.latency_ms,
            "evidence": evidence,
        }
