"""One cluster that has no map yet: who are its brokers, and where does each answer as itself? Python 3.6 syntax."""

import time
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from kafka_discover_rules import Known, is_ip, rules, safe
from kafka_doctor_walk import Walk
from kafka_natmap_identity import (
    Address,
    Partition,
    ask_config,
    identify,
    parse_address,
    read_metadata,
    rounds,
    show,
)
from kafka_natmap_session import CLUSTER_FRAME, Broken, Limits
from kafka_natmap_survey import each
from kafka_natmap_wire import request

# More would be a search of the network and no guess.
MOST_TRIES = 8
MOST_DESCRIBED = 64
NAMED, PRESENT, FOUND, AS_IS = "named", "present map", "found", "as advertised"
SAID = "the present map says so, verified"


class Proof(NamedTuple):
    """Who answered at an address: an id, or None and why not."""

    node: Optional[int]
    said: str
    code: str
    address: Optional[Address]


class Discovery:
    """Asks and guesses; what it writes down has been proven."""

    def __init__(self, asked: Dict[str, Any], limits: Limits, workers: int, trusting: bool) -> None:
        self.asked, self.limits, self.workers = asked, limits, workers
        security = asked["security"]
        clear = security["protocol"] == "SASL_PLAINTEXT" and security["mechanism"] == "PLAIN"
        self.may_guess = trusting or not clear
        self.cluster_id: Optional[str] = asked["cluster_id"]
        self.brokers: Dict[int, Address] = {}
        self.leads: Dict[int, List[Partition]] = {}
        self.known: Known = {}
        self.how: Dict[int, Tuple[str, str, str]] = {}
        self.tried: Dict[int, List[Dict[str, str]]] = {}
        self.dialled: Set[Tuple[Address, Optional[str]]] = set()
        self.bootstrap: List[Dict[str, Any]] = []

    def run(self) -> Dict[str, Any]:
        """Everything that could be found out in time."""
        self._ask_bootstrap([parse_address(text) for text in self.asked["bootstrap"]])
        if self.brokers:
            self._try_present_map()
            while self._guess_once():
                pass
            self._try_as_advertised()
        return self.told()

    def told(self) -> Dict[str, Any]:
        rows = []
        for node, advertised in sorted(self.brokers.items()):
            how, rule, proof = self.how.get(node, ("", "", ""))
            reachable = self.known[node][1] if node in self.known else None
            rows.append(
                {
                    "id": node,
                    "advertised": show(advertised),
                    "reachable": show(reachable),
                    "how": how,
                    "rule": rule,
                    "proof": proof,
                    "tried": self.tried.get(node, []),
                }
            )
        return {
            "cluster_id": self.cluster_id,
            "bootstrap": self.bootstrap,
            "brokers": rows,
            "may_guess": self.may_guess,
        }

    # ------------------------------------------------------------ the addresses that were given

    def _ask_bootstrap(self, addresses: List[Address]) -> None:
        answers = each(self._open_named, addresses, self.workers, self.limits.until)
        views = [(at, walk, view) for at, (walk, view, _) in ((at, got) for at, got in answers if got) if view]
        if views and self.cluster_id is None:
            ids = [view.cluster_id for _, _, view in views]
            self.cluster_id = max(ids, key=ids.count)
        ours = [(at, walk, view) for at, walk, view in views if view.cluster_id == self.cluster_id]
        for _, _, view in ours:
            self.brokers.update(view.brokers)
        unread = self._learn_leaders([walk for _, walk, _ in ours])
        proofs = dict(
            each(lambda item: self._who(item[1]), [(at, walk) for at, walk, _ in ours], self.workers, self.limits.until)
        )
        by_address = {at: proof for (at, _), proof in proofs.items()}
        for at, got in answers:
            self.bootstrap.append(self._row(at, got, by_address.get(at), unread))
        for at, _, _ in ours:
            proof = by_address.get(at)
            if proof is not None and proof.node is not None and proof.node not in self.known:
                self._take(proof.node, proof, NAMED, "it was named, and answered as broker {}".format(proof.node))
        for _, walk, _ in views:
            walk.close()

    def _row(self, at: Address, got: Any, proof: Optional[Proof], unread: str) -> Dict[str, Any]:
        walk, view, broken = got or (
            None,
            None,
            Broken("UNPROVEN", "the time was over before {} was asked".format(show(at))),
        )
        code, said = (broken.verdict, broken.evidence) if broken else ("", "")
        if view is not None and view.cluster_id != self.cluster_id:
            code, said = (
                "WRONG_CLUSTER",
                "{} belongs to cluster {}, not {}".format(show(at), view.cluster_id, self.cluster_id),
            )
        elif view is not None and proof is not None:
            code, said = (
                ("" if proof.node is not None else "UNPROVEN"),
                proof.said + (unread if proof.node is None else ""),
            )
        node = proof.node if proof else None
        return {"address": show(at), "ip": walk.address if walk else None, "code": code, "said": said, "broker": node}

    def _learn_leaders(self, walks: List[Walk]) -> str:
        """The one costly question, all topics; the reason where nobody answers it."""
        said = ""
        for walk in walks:
            try:
                self.leads = read_metadata(walk.ask(request("metadata", 5, None, False), CLUSTER_FRAME)).leads
                return ""
            except Broken as broken:
                said = "; the topics could not be read: " + broken.evidence
        return said

    # ------------------------------------------------------------ dialling

    def _open_named(self, named: Address) -> Tuple[Walk, Any, Optional[Broken]]:
        """An address as it was given; NAME@IP:PORT says for which name its certificate is."""
        name, _, host = named[0].rpartition("@")
        return self._open((host, named[1]), name or host)

    def _open(self, address: Address, tls_name: Optional[str] = None) -> Tuple[Walk, Any, Optional[Broken]]:
        walk = Walk(
            address[0], address[1], self.asked["security"], self.limits, self.asked["tls"], tls_name or address[0]
        )
        try:
            walk.open()
            return walk, read_metadata(walk.ask(request("metadata", 5, [], False))), None
        except Broken as broken:
            walk.close()
            return walk, None, broken
        except Exception as error:  # one address must not end the asking of the others
            walk.close()
            return walk, None, Broken("UNPROVEN", "asking {} failed here: {!r}".format(walk.address, error))

    def _who(self, walk: Walk) -> Proof:
        """Which broker answers here, proven by what only it can answer."""
        try:
            node = self._leader_here(walk)
            if node is not None:
                verdict, said = identify(walk, node, self.leads)
                if verdict == "OK":
                    return Proof(node, said, "", parse_address(walk.address))
                return Proof(None, said, verdict, None)
            for candidate in sorted(self.brokers)[:MOST_DESCRIBED]:
                answer = ask_config(walk, candidate)
                if answer is None:
                    break
                if answer[0] == "OK":
                    return Proof(candidate, f"{walk.address} {answer[1]}", "", parse_address(walk.address))
        except Broken as broken:
            return Proof(None, broken.evidence, broken.verdict, None)
        said = "{} leads nothing that this user may read, so who answers there cannot be proven".format(walk.address)
        return Proof(None, said, "UNPROVEN", None)

    def _leader_here(self, walk: Walk) -> Optional[int]:
        """The broker whose partitions are answered here; None where none is, or leadership keeps moving."""
        for owner, told in rounds(walk, self.leads):
            if not owner:
                return None
            answered = {owner[part] for part, error in told.items() if not error and part in owner}
            if len(answered) == 1:
                return answered.pop()
        return None

    def _prove(self, item: Tuple[int, Address, str]) -> Proof:
        """Who answers at an address that is thought to be this broker's."""
        node, address, _ = item
        walk, view, broken = self._open(address, self.brokers[node][0])
        try:
            if broken is not None:
                return Proof(None, broken.evidence, broken.verdict, None)
            if view.cluster_id != self.cluster_id:
                said = "{} belongs to cluster {}, not {}".format(walk.address, view.cluster_id, self.cluster_id)
                return Proof(None, said, "WRONG_CLUSTER", None)
            return self._who(walk)
        finally:
            walk.close()

    # ------------------------------------------------------------ the others

    def _try_present_map(self) -> None:
        pairs = {parse_address(pair["advertised"]): pair["reachable"] for pair in self.asked["brokers"]}
        self._try([(n, parse_address(pairs[at]), SAID) for n, at in self.brokers.items() if at in pairs], PRESENT)

    def _guess_once(self) -> bool:
        """Try the first rule that still has something to say; False where none has, or time is over."""
        if not self.may_guess or time.monotonic() >= self.limits.until:
            return False
        taken = {reachable for _, reachable in self.known.values()}
        for rule in rules(self.known, self.brokers):
            items = []
            for node, advertised in sorted(self.brokers.items()):
                guess = safe(rule, node, advertised)
                if node in self.known or guess is None or guess in taken or len(self.tried.get(node, ())) >= MOST_TRIES:
                    continue
                if (guess, self._tls_name(node)) not in self.dialled:
                    items.append((node, guess, rule.text))
            if items:
                self._try(items, "guess")
                return True
        return False

    def _tls_name(self, node: int) -> Optional[str]:
        return self.brokers[node][0] if self.asked["tls"] is not None else None

    def _try_as_advertised(self) -> None:
        """Last, since most of these only run into their time-outs."""
        items = [(node, at, "it is reachable where it is advertised") for node, at in self.brokers.items()]
        self._try([item for item in items if item[0] not in self.known], AS_IS)

    def _try(self, items: List[Tuple[int, Address, str]], how: str) -> None:
        items = [item for item in items if item[0] not in self.known]
        self.dialled.update((address, self._tls_name(node)) for node, address, _ in items)
        for (node, address, rule), proof in each(self._prove, items, self.workers, self.limits.until):
            if proof is None:
                proof = Proof(None, "the time was over before {} was asked".format(show(address)), "UNPROVEN", None)
            if proof.node == node:
                self._take(node, proof, how, rule)
                continue
            code = "WRONG_BROKER" if proof.node is not None else proof.code
            said = proof.said if proof.node is None else "{} is broker {}".format(show(address), proof.node)
            self.tried.setdefault(node, []).append(
                {"address": show(address) or "", "rule": rule, "code": code, "said": said}
            )
            if proof.node is not None and proof.node in self.brokers and proof.node not in self.known:
                self._take(proof.node, proof, FOUND, "it answered where broker {} was looked for".format(node))

    def _take(self, node: int, proof: Proof, how: str, rule: str) -> None:
        """A way that is proven: it counts for every later rule. One address leads to one broker."""
        if proof.address is None or not is_ip(proof.address[0]) or node not in self.brokers:
            return
        if proof.address in {reachable for _, reachable in self.known.values()}:
            return
        self.known[node] = (self.brokers[node], proof.address)
        self.how[node] = (how, rule, proof.said)
