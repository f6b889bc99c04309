"""The examination of one cluster from one node, as one user: every way that a client would go, each walked.

Brokers are dialled as soon as a first address names them, so that one dead address holds nobody up.
Python 3.6 syntax.
"""

import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from kafka_doctor_cluster import Pool, Topics, View
from kafka_doctor_walk import Walk
from kafka_natmap_identity import PAUSE, Address, identify, parse_address, show
from kafka_natmap_session import Broken, Limits
from kafka_natmap_wire import request

COORDINATOR_NOT_AVAILABLE = 15
OFFSETS_TOPIC = "__consumer_offsets"
ASKING_GROUP = "kafka-natmap-doctor"
REDIALS = 3
PATIENCE = 5
MOST_TOLD = 50


class Exam:
    """Asks; judges nothing but single ways."""

    def __init__(self, asked: Dict[str, Any], options: Dict[str, Any], limits: Limits) -> None:
        self.asked, self.options, self.limits = asked, options, limits
        self.name, self.security, self.tls = asked["name"], asked["security"], asked["tls"]
        self.through = options["path"] == "advertised"
        self.pairs = {parse_address(b["advertised"]): b for b in asked["brokers"]}
        self.tls_names = {parse_address(b["reachable"]): parse_address(b["advertised"])[0] for b in asked["brokers"]}
        self.pool = Pool(options["concurrency"], limits.until)
        self.lock, self.reading = threading.Lock(), threading.Lock()
        self.sessions: List[Walk] = []
        self._start(asked["cluster_id"])

    def run(self) -> Dict[str, Any]:
        """Walk every way; the connections stay open until `close`."""
        bootstrap = [parse_address(text) for text in self.asked["bootstrap"]]
        self._all_ways(bootstrap)
        if self.asked["cluster_id"] is None and self._elected(bootstrap) != self.cluster_id:
            # The first to answer was of another cluster than most: once more, now that it is known.
            self._start(self._elected(bootstrap))
            self._all_ways(bootstrap)
        return self.told(self._recheck())

    def _start(self, cluster_id: Optional[str]) -> None:
        self.rows: List[Dict[str, Any]] = []
        self.views: Dict[Address, View] = {}
        self.cluster_id = cluster_id
        self.owners: Dict[Address, int] = {}
        self.dialled: Set[Address] = set()
        self.topics: Optional[Topics] = None
        self.unread = ""
        self.referred = False
        self.references: List[Dict[str, Any]] = []

    def _all_ways(self, bootstrap: List[Address]) -> None:
        for address in bootstrap:
            self.pool.put(lambda address=address: self._bootstrap(address))  # type: ignore[misc]
        self.pool.join()
        if not self.owners:
            self._dial_pairs()
            self.pool.join()

    def _elected(self, bootstrap: List[Address]) -> Optional[str]:
        """The cluster that most bootstrap addresses lead to; of equally many the one named first."""
        ids = [self.views[address].cluster_id for address in bootstrap if address in self.views]
        return max(ids, key=lambda one: (ids.count(one), -ids.index(one))) if ids else self.cluster_id

    def told(self, gone: Sequence[int] = ()) -> Dict[str, Any]:
        """What is known by now; a way that has not come to its end is not among the walks."""
        with self.lock:
            return {
                "name": self.name,
                "cluster_id": self.cluster_id,
                "protocol": self.security["protocol"],
                "views": [
                    [
                        show(at),
                        view.cluster_id,
                        {str(node): show(where) for node, where in sorted(view.brokers.items())},
                    ]
                    for at, view in self.views.items()
                ],
                "owners": [[show(address), node] for address, node in self.owners.items()],
                "held": sorted(self.topics.held) if self.topics else [],
                "in_sync": sorted(self.topics.in_sync) if self.topics else [],
                "hidden": sorted(self.topics.hidden)[:MOST_TOLD] if self.topics else [],
                "gone": list(gone),
                "references": self.references,
                "walks": list(self.rows),
                # Of every connection: also of such as no way is told of.
                "flows": [list(session.flow) for session in self.sessions if session.flow],
            }

    def close(self) -> None:
        for session in self.sessions:
            session.close()

    # ------------------------------------------------------------ the ways

    def _walk(self, address: Address, tls_name: Optional[str] = None) -> Walk:
        walk = Walk(
            address[0],
            address[1],
            self.security,
            self.limits,
            self.tls,
            tls_name or self.tls_names.get(address, address[0]),
        )
        with self.lock:
            self.sessions.append(walk)
        return walk

    def _bootstrap(self, address: Address) -> None:
        walk = self._walk(address)

        def work() -> None:
            walk.open()
            answer = walk.step("metadata", lambda: walk.metadata([]), "{self.address} names {result.brokers}")
            view = View(answer)
            walk.cluster_id = view.cluster_id
            walk.hops["metadata"]["said"] = "it names {} brokers of cluster {}".format(
                len(view.brokers), view.cluster_id
            )
            self._learn(address, view)
            walk.measure()
            if view.cluster_id == self.cluster_id:
                self._refer(walk)

        self._note(walk, work, {"role": "bootstrap", "asked": show(address)})

    def _learn(self, address: Address, view: View) -> None:
        """The first answer, or the map, says which cluster this is; each new broker of it is dialled at once."""
        with self.lock:
            self.views[address] = view
            if self.cluster_id is None:
                self.cluster_id = view.cluster_id
            if view.cluster_id != self.cluster_id:
                return
            self.owners.update((where, node) for node, where in view.brokers.items())
        self._dial_pairs(view.brokers.values())

    def _dial_pairs(self, addresses: Any = None) -> None:
        for advertised in list(self.pairs if addresses is None else addresses):
            with self.lock:
                new = advertised not in self.dialled
                self.dialled.add(advertised)
            if new:
                self.pool.put(lambda advertised=advertised: self._broker(advertised, "broker", None))  # type: ignore[misc]

    def _broker(self, advertised: Address, role: str, of: Optional[str]) -> None:
        pair = self.pairs.get(advertised)
        address = advertised if self.through or not pair else parse_address(pair["reachable"])
        walk = self._walk(address, advertised[0])
        row = {"role": role, "of": of, "asked": show(advertised)}

        def work() -> None:
            walk.open()
            view = View(walk.step("metadata", lambda: walk.metadata([]), "it answered"))
            walk.cluster_id = view.cluster_id
            walk.hops["metadata"]["said"] = f"it is of cluster {view.cluster_id}"
            with self.lock:
                if self.cluster_id is None:
                    self.cluster_id = view.cluster_id
            if view.cluster_id == self.cluster_id and not self.views:
                # No bootstrap address answered: what a broker says of the others is as good.
                self._learn(advertised, view)
            walk.measure()
            walk.step("identity", lambda: self._prove(walk, view, advertised, row), "{result}")

        self._note(walk, work, row)

    def _note(self, walk: Walk, work: Callable[[], None], row: Dict[str, Any]) -> None:
        try:
            work()
        except Broken:
            pass
        except Exception as error:  # one address must not end the examination of the others
            walk.code, walk.evidence = "UNPROVEN", f"asking {walk.address} failed here: {error!r}"
        connected = "tcp" in walk.hops or "route" in walk.hops
        row.update(
            code=walk.code,
            detail=walk.detail,
            evidence=walk.evidence,
            hops=walk.hops,
            latency_ms=walk.latency_ms,
            address=walk.address if connected else None,
            addresses=walk.addresses,
            dead=walk.dead,
            flow=walk.flow,
        )
        with self.lock:
            self.rows.append(dict({"of": None}, **row))

    # ------------------------------------------------------------ who answers

    def _prove(self, walk: Walk, view: View, advertised: Address, row: Dict[str, Any]) -> str:
        """One sentence that proves it. Raises Broken with another verdict."""
        if view.cluster_id != self.cluster_id:
            raise Broken("WRONG_CLUSTER", f"{walk.address} belongs to cluster {view.cluster_id}, not {self.cluster_id}")
        owner = self.owners.get(advertised)
        if owner is None:
            raise Broken("UNPROVEN", f"no metadata names a broker at {show(advertised)}, so nobody is expected there")
        verdict, said = self._identify(walk, owner)
        if verdict == "WRONG_BROKER":
            others = {self._ask_again(walk, owner) for _ in range(REDIALS)} - {said.partition(": ")[0], ""}
            if others:
                row["balanced"] = True
                said += "; asked again, {}".format(", ".join(sorted(others)))
        if verdict != "OK":
            raise Broken(verdict, said)
        return said

    def _identify(self, walk: Walk, owner: int) -> Tuple[str, str]:
        topics = self._all_topics(walk)
        verdict, said = identify(walk, owner, topics.leads if topics else {})
        return verdict, said + self.unread if verdict == "UNPROVEN" else said

    def _ask_again(self, walk: Walk, owner: int) -> str:
        other = self._walk((walk.host, walk.port), walk.tls_name)
        try:
            other.open()
            verdict, said = self._identify(other, owner)
        except Broken:
            return ""
        return f"{other.address} is broker {owner}" if verdict == "OK" else said.partition(": ")[0]

    def _all_topics(self, walk: Walk) -> Optional[Topics]:
        """The one costly question, asked once for each cluster."""
        with self.reading:
            if self.topics is None:
                try:
                    self.topics = Topics(walk.metadata(None))
                except Broken as broken:
                    self.unread = "; the topics could not be read: " + broken.evidence
            return self.topics

    # ------------------------------------------------------------ addresses that come in other answers

    def _refer(self, walk: Walk) -> None:
        """Coordinators of groups and leaders of topics: resolved once, dialled where metadata named no such address."""
        topics = self._all_topics(walk)
        with self.lock:
            first, self.referred = not self.referred and topics is not None, True
        if not first or topics is None:
            return
        groups = list(self.options["groups"])
        # Asking for a coordinator would make the offsets topic where there is none.
        if not groups and OFFSETS_TOPIC in topics.names:
            groups = [ASKING_GROUP]
        for group in groups:
            answer = self._coordinator(walk, group)
            address = (answer.host.lower(), answer.port) if not answer.error_code else None
            self._reference("coordinator", "group " + group, answer.coordinator_id, address, answer.error_code)
        by_id = {node: address for address, node in self.owners.items()}
        for topic in self.options["topics"]:
            found = {leader for (name, _), leader in topics.leader.items() if name == topic}
            if not found:
                self._reference("leader", "topic " + topic, None, None, 3)
            for leader, fault in sorted(found):
                self._reference("leader", "topic " + topic, leader, by_id.get(leader), fault)

    def _coordinator(self, walk: Walk, group: str) -> Any:
        """The answer to FindCoordinator; a cluster that begins to have groups needs a moment."""
        for attempt in range(PATIENCE):
            time.sleep(min(PAUSE * attempt, self.limits.left(PAUSE * attempt)))
            answer = walk.ask(request("find_coordinator", 1, group, 0))
            if answer.error_code != COORDINATOR_NOT_AVAILABLE:
                break
        return answer

    def _reference(self, role: str, of: str, node: Optional[int], address: Optional[Address], error: int) -> None:
        with self.lock:
            self.references.append({"role": role, "of": of, "id": node, "address": show(address), "error": error})
            new = address is not None and address not in self.dialled
            if new and address is not None and node is not None:
                self.dialled.add(address)
                self.owners.setdefault(address, node)
        if new and address is not None:
            self.pool.put(lambda: self._broker(address, role, of))

    def _recheck(self) -> List[int]:
        """Whoever could not be reached may have died meanwhile: the ids that metadata no longer names."""
        missed = {
            self.owners.get(parse_address(row["asked"])) for row in self.rows if str(row["code"]).startswith("TCP_")
        }
        missed.discard(None)
        for walk in [one for one in self.sessions if one.code is None and one.socket is not None]:
            if not missed:
                break
            if walk.cluster_id != self.cluster_id:
                continue
            try:
                return sorted(
                    node for node in missed if node is not None and node not in View(walk.metadata([])).brokers
                )
            except Broken:
                continue
        return []
