"""From what was seen to what is wrong: every broken way gets one finding, and so does what the answers together give away. Python 3.6 syntax."""

from typing import Any, Dict, List, Optional

from kafka_doctor_findings import finding
from kafka_doctor_ways import Ways
from kafka_natmap_identity import parse_address

# Verdicts that a broken way to a broker can have although the broker is well.
UNREACHED = ("DNS", "NO_ROUTE", "TCP_REFUSED", "TCP_TIMEOUT", "NOT_KAFKA")
NETWORK = ("TCP_REFUSED", "TCP_TIMEOUT")
BROKEN_AT = {"DNS": "name", "NO_ROUTE": "route", "TCP_REFUSED": "tcp", "TCP_TIMEOUT": "tcp"}
# Of the protocol: none, LEADER_NOT_AVAILABLE, COORDINATOR_NOT_AVAILABLE, LISTENER_NOT_FOUND.
NO_LEADER = (0, 5, 15, 72)
ANOTHER = ("WRONG_BROKER", "WRONG_CLUSTER")


class Diagnosis(Ways):
    """What is wrong with one cluster as one user saw it."""

    def __init__(self, *what: Any) -> None:
        super().__init__(*what)
        self.findings: List[Dict[str, Any]] = []

    def examine(self) -> List[Dict[str, Any]]:
        """Everything that is wrong with this cluster from here."""
        self._balanced()
        for walk in self.walks:
            if walk["role"] != "bootstrap":
                self._judge_broker(walk)
        self._missing_listeners()
        self._absent_pairs()
        self._bootstrap()
        self._mixed()
        self._references()
        return self.findings

    def add(self, code: str, hop: str, evidence: str, detail: str = "", severity: str = "", **about: Any) -> None:
        self.findings.append(finding(code, hop, evidence, dict(self.about, **about), detail, severity))

    def _of(self, walk: Dict[str, Any]) -> Dict[str, Any]:
        return {
            "broker": walk["id"],
            "advertised": walk["advertised"],
            "reachable": walk["reachable"] or "of the map",
            "address": walk["rewritten_to"] or walk["dialled"] or walk["advertised"],
        }

    def _mark(self, walk: Dict[str, Any], code: str, name: str, said: str) -> None:
        """The rule is to blame for a break that showed later."""
        walk["code"], walk["state"] = code, "broken"
        after = False
        for hop in walk["hops"]:
            if hop["name"] == name:
                hop["state"], hop["said"], after = "broken", said, True
            elif after:
                hop.update(state="not reached", said="", ms=None)

    def _judge_broker(self, walk: Dict[str, Any]) -> None:
        code, evidence = walk["code"], walk["evidence"]
        if walk["id"] in self.exam["gone"] and code in UNREACHED:
            said = evidence + ", and metadata no longer names broker {}".format(walk["id"])
            return self.add("DOWN_AT_HQ", BROKEN_AT.get(code, "api"), said, **self._of(walk))
        if walk.get("old"):
            self._judge_old_plan(walk)
        if walk.get("passed_by") or (walk.get("foreign") and code not in ANOTHER):
            return self._judge_rule(walk)
        if walk.get("foreign"):
            evidence = walk["evidence"] = "rewritten to {}, the map says {}; {}".format(
                walk["foreign"], walk["reachable"] or "nothing", evidence
            )
        if code is None:
            self._judge_dead_address(walk)
            return self._judge_number(walk)
        if self._wrong_line(walk):
            return None
        hop = next((hop["name"] for hop in walk["hops"] if hop["state"] == "broken"), "identity")
        detail = walk["detail"]
        if code in UNREACHED and walk["reachable"] is None and self.request["path"] == "advertised":
            if self.request["map"]:
                walk["code"] = "UNMAPPED_BROKER"
                return self.add("UNMAPPED_BROKER", hop, evidence, **self._of(walk))
            detail = detail or ("unmapped_free" if code in NETWORK else "")
        if code == "MTU_BLACK_HOLE" and walk.get("mtu"):
            evidence += "; the MTU of the way is {} on this node".format(walk["mtu"])
        if code == "SASL" and not detail:
            detail = "wants_login"
        if code == "WRONG_BROKER" and walk["balanced"]:
            code = walk["code"] = "PROXY_BALANCED"
        if code == "UNPROVEN" and any(one["code"] == "PROXY_BALANCED" for one in self.findings):
            return None
        return self.add(code, hop, evidence, detail, **self._of(walk))

    def _judge_old_plan(self, walk: Dict[str, Any]) -> None:
        """The rules of this node are ours, of another map than this one."""
        about = self._of(walk)
        if walk["reachable"] is None:
            said = "it is rewritten to {} by the plan kept here, and the map does not name it".format(walk["old"])
            return self.add("UNMAPPED_BROKER", "rule", said, "old_plan", "warning", **about)
        said = "it is rewritten to {} by the plan kept here, and the map says {}".format(walk["old"], walk["reachable"])
        return self.add("NOT_REWRITTEN", "rule", said, "old_plan", "warning", **about)

    def _judge_dead_address(self, walk: Dict[str, Any]) -> None:
        """A name with a dead address before a good one: every new connection waits for it."""
        if not walk["dead"]:
            return
        host = parse_address(walk["advertised"])[0]
        lines = {line[1]: line for line in self.view["hosts"].get(host, [])}
        foreign = next((lines[ip] for ip in walk["dead"] if ip in lines and not lines[ip][2]), None)
        said = "{} is {} too, which does not answer".format(host, ", ".join(walk["dead"]))
        said += " (line {} of /etc/hosts)".format(foreign[0]) if foreign else ""
        self.add("DNS", "name", said, "hosts_line" if foreign else "dead_address", "warning", **self._of(walk))

    def _judge_number(self, walk: Dict[str, Any]) -> None:
        pair = self.pairs.get(walk["advertised"])
        if pair and pair["id"] not in (None, walk["id"]):
            said = "the cluster says broker {}, the map says {}".format(walk["id"], pair["id"])
            self.add("WRONG_BROKER", "map", said, "map_id", "warning", **self._of(walk))

    def _judge_rule(self, walk: Dict[str, Any]) -> None:
        """A connection that the map covers was rewritten otherwise, or not at all."""
        works, about = walk["code"] is None, self._of(walk)
        after = "" if works else "; then: " + walk["evidence"]
        if walk.get("foreign"):
            taker = self._taker(walk)
            said = "rewritten to {}, the map says {}{}{}".format(
                walk["foreign"], walk["reachable"], "; by " + taker if taker else "", after
            )
            if not works:
                self._mark(walk, "FOREIGN_RULE", "rule", said)
            return self.add("FOREIGN_RULE", "rule", said, "", "note" if works else "", **about)
        rules = self.view["rules"]
        dialled = parse_address(walk["dialled"])
        code, detail = "NOT_REWRITTEN", "counter_still"
        said = f"conntrack: the connection to {walk['dialled']} was not rewritten"
        if self._wrong_line(walk):
            return None
        if not rules.kept:
            detail, said = "not_applied", said + "; no plan of {} is kept here".format(self.request["owner"])
        elif rules.target(dialled) is None:
            detail, said = "not_applied", said + "; the plan that is kept here does not hold this pair"
        elif not rules.covers(self.identity if self.identity["uid"] is not None else None):
            by_hand = any(probe.get("user") for probe in self.request.get("probe", ()))
            code, detail = "SCOPE_WRONG", "" if by_hand else "old_scope"
            said += "; the rules hold for " + rules.scopes()
        elif not rules.loaded(dialled):
            detail, said = "missing_rule", said + "; the kernel holds no rule for it"
        if not works:
            self._mark(walk, code, "rule", said + after)
        return self.add(code, "rule", said + after, detail, "note" if works else "", **about)

    def _taker(self, walk: Dict[str, Any]) -> Optional[str]:
        identity = self.identity if self.identity["uid"] is not None else None
        rules = self.view["rules"]
        return rules.foreign(parse_address(walk["dialled"]), identity)

    def _wrong_line(self, walk: Dict[str, Any]) -> bool:
        """A foreign line of /etc/hosts that leads a mapped name away from the map's address and from our own line."""
        line, reachable = walk.get("hosts_line"), walk["reachable"]
        if not line or not reachable or line[2] or walk["code"] is None or walk["rewritten_to"]:
            return False
        host = parse_address(walk["advertised"])[0]
        wanted = {reachable.rpartition(":")[0]}
        wanted.update(entry[1] for entry in self.view["hosts"].get(host, []) if entry[2])
        if line[1] in wanted:
            return False
        said = "line {} of /etc/hosts says {} {}; then: {}".format(line[0], line[1], host, walk["evidence"])
        self._mark(walk, "DNS", "name", said)
        self.add("DNS", "name", said, "hosts_line", **self._of(walk))
        return True

    def _balanced(self) -> None:
        """Several brokers behind one address and port: whoever dials it gets one of them."""
        targets: Dict[str, List[Dict[str, Any]]] = {}
        for walk in self.walks:
            target = walk["rewritten_to"] or walk["dialled"]
            if walk["role"] != "bootstrap" and walk["latency_ms"] is not None and target:
                targets.setdefault(target, []).append(walk)
        for target, walks in targets.items():
            if len({walk["id"] for walk in walks}) < 2:
                continue
            said = "brokers {} are all dialled at {}".format(", ".join(str(walk["id"]) for walk in walks), target)
            self.add("PROXY_BALANCED", "identity", said, **dict(self._of(walks[0]), address=target))
            for walk in walks:
                walk["balanced"] = True

    def _bootstrap(self) -> None:
        walks = [walk for walk in self.walks if walk["role"] == "bootstrap"]
        failed = [walk for walk in walks if walk["code"]]
        if walks and len(failed) == len(walks) and {walk["code"] for walk in walks} <= set(NETWORK):
            said = "; ".join(walk["evidence"] for walk in walks[:5])
            about = dict(self._of(walks[0]), advertised=None, address=walks[0]["dialled"] or walks[0]["advertised"])
            return self.add("BOOTSTRAP_UNREACHABLE", "tcp", said, walks[0]["code"], **about)
        told = {one["advertised"] for one in self.findings}
        hidden = {self.pairs[name]["reachable"] for name in told if name in self.pairs} | told
        for walk in failed:
            if walk["advertised"] in hidden:
                continue
            hop = next((hop["name"] for hop in walk["hops"] if hop["state"] == "broken"), "metadata")
            severity = "" if len(failed) == len(walks) else "warning"
            detail = walk["detail"] or ("wants_login" if walk["code"] == "SASL" else "")
            about = dict(self._of(walk), broker=None)
            self.add(walk["code"], hop, "bootstrap: " + walk["evidence"], detail, severity, **about)
        return None

    def _mixed(self) -> None:
        """Bootstrap addresses that answer differently; those whose broker has a finding of its own are left out."""
        blamed = {one["advertised"] for one in self.findings if one["code"] in ("WRONG_CLUSTER", "WRONG_BROKER")}
        skipped = {pair["reachable"] for name, pair in self.pairs.items() if name in blamed} | blamed
        answers: Dict[str, List[str]] = {}
        for address, cluster_id, brokers in self.exam["views"]:
            if address in self.asked["bootstrap"] and address not in skipped:
                told = "cluster {} with {}".format(
                    cluster_id, ", ".join(f"{node}={at}" for node, at in brokers.items())
                )
                answers.setdefault(told, []).append(address)
        if len(answers) > 1:
            said = "; ".join("{} gave {}".format(", ".join(who), what) for what, who in answers.items())
            self.add("MIXED_LISTENERS", "metadata", said, address=self.asked["bootstrap"][0])

    def _missing_listeners(self) -> None:
        alive = set(self.owners.values())
        pairs = {pair["id"]: name for name, pair in self.pairs.items()}
        for node in sorted(set(self.exam["in_sync"]) - alive):
            said = "broker {} keeps its replicas in sync, and no metadata of this listener names it".format(node)
            hidden = [f"{topic}-{number}" for topic, number in self.exam["hidden"][:3]]
            said += "; error LISTENER_NOT_FOUND at {}".format(", ".join(hidden)) if hidden else ""
            self.add("LISTENER_MISSING", "metadata", said, broker=node, advertised=pairs.get(node))

    def _absent_pairs(self) -> None:
        """Pairs of the map that no metadata names, and replicas of nobody."""
        if not self.exam["views"] and not self.owners:
            return
        alive, in_sync = set(self.owners.values()), set(self.exam["in_sync"])
        down = set(self.exam["held"]) - alive - in_sync
        for name, pair in self.pairs.items():
            node = pair["id"]
            if name in self.owners or node in in_sync - alive:
                continue
            about = {"broker": node, "advertised": name, "reachable": pair["reachable"]}
            moved = [address for address, owner in self.owners.items() if owner == node]
            if node in down or (node is None and down):
                self.add("DOWN_AT_HQ", "metadata", "metadata names it as a replica, and not among the living", **about)
                down.discard(node)
            elif moved:
                self.add("STALE_ENTRY", "map", "broker {} now advertises {}".format(node, moved[0]), **about)
            else:
                self.add("STALE_ENTRY", "map", "metadata names no broker at {}".format(name), **about)
        for node in sorted(down if all(pair["id"] is not None for pair in self.pairs.values()) else ()):
            self.add("DOWN_AT_HQ", "metadata", "metadata names it as a replica, and not among the living", broker=node)

    def _references(self) -> None:
        """Coordinators and leaders whose broker cannot be used."""
        by_address = {walk["advertised"]: walk for walk in self.walks if walk["role"] != "bootstrap"}
        for one in self.exam["references"]:
            code = "COORDINATOR_UNREACHABLE" if one["role"] == "coordinator" else "LEADER_UNREACHABLE"
            about = {"broker": one["id"], "advertised": one["address"], "of": one["of"]}
            walk = by_address.get(one["address"])
            if one["role"] == "leader" and one["id"] is None:
                self.add(code, "metadata", "no metadata holds it", "no_topic", **about)
            elif one["address"] is None and one["error"] in NO_LEADER:
                detail = "no_leader" if one["role"] == "leader" else "no_coordinator"
                self.add(code, "metadata", "the cluster names none (error {})".format(one["error"]), detail, **about)
            elif walk is not None and walk["state"] == "broken":
                said = "{}'s {} is broker {}: {}".format(one["of"], one["role"], one["id"], walk["evidence"])
                hop = next((hop["name"] for hop in walk["hops"] if hop["state"] == "broken"), "identity")
                self.add(code, hop, said, **about)
