"""The ways that were walked, completed by what the node itself says of them. Python 3.6 syntax."""

import ipaddress
from typing import Any, Dict, List, Optional

from kafka_doctor_walk import HOPS, is_address
from kafka_natmap_identity import parse_address, show

ROLES = ("bootstrap", "broker", "coordinator", "leader")


class Ways:
    """The ways of one cluster as one user walked them, each with all of its hops.

    :param exam: what kafka_doctor_exam found
    :param asked: the cluster of the request
    :param view: {"rules": Rules, "routes", "hosts", "rewritten": {flow: "IP:port" or None}}
    """

    def __init__(
        self, exam: Dict[str, Any], asked: Dict[str, Any], request: Dict[str, Any], who: Dict[str, Any], view: Any
    ) -> None:
        self.exam, self.asked, self.request, self.view = exam, asked, request, view
        self.pairs = {str(show(parse_address(b["advertised"]))): b for b in asked["brokers"]}
        self.networks = [
            (ipaddress.ip_network(n["advertised"]), ipaddress.ip_network(n["reachable"]), n["ports"])
            for n in asked["networks"]
        ]
        self.owners = dict(exam["owners"])
        self.identity = who
        self.about = {"node": request["node"], "cluster": exam["name"], "user": who["label"]}
        self.about["free"] = not request["map"]
        self.about["bootstrap"] = ",".join(asked["bootstrap"][:3])
        self.walks = [self._walk(row) for row in exam["walks"]]
        self.walks.sort(key=lambda walk: (ROLES.index(walk["role"]), walk["id"] or 0, str(walk["advertised"])))

    def _walk(self, row: Dict[str, Any]) -> Dict[str, Any]:
        advertised = row["asked"]
        reachable = self.reachable(advertised)
        flow = tuple(row["flow"]) if row["flow"] else None
        rewritten = self.view["rewritten"].get(flow)
        walk = {
            "cluster": self.exam["name"],
            "as": self.about["user"],
            "role": row["role"],
            "of": row["of"],
            "id": self.owners.get(advertised, (self.pairs.get(advertised) or {}).get("id")),
            "advertised": advertised,
            "reachable": reachable,
            "dialled": row["address"],
            "rewritten_to": rewritten["to"] if rewritten else None,
            "state": "ok" if row["code"] is None else "unproven" if row["code"] == "UNPROVEN" else "broken",
            "code": row["code"],
            "detail": row["detail"],
            "evidence": row["evidence"],
            "latency_ms": row["latency_ms"],
            "balanced": bool(row.get("balanced")),
            "dead": row["dead"],
        }
        hops = dict(row["hops"])
        self._complete_name(walk, hops, row["addresses"])
        self._complete_route(walk, hops)
        if row["role"] != "bootstrap" and self.request["path"] == "advertised":
            self._complete_rule(walk, hops, flow, rewritten)
        walk["hops"] = self._in_order(walk, hops)
        return walk

    def reachable(self, advertised: str) -> Optional[str]:
        """Where the map leads an advertised address, by a pair or a prefix."""
        pair = self.pairs.get(advertised)
        if pair:
            return str(pair["reachable"])
        host, port = parse_address(advertised)
        for network, to, ports in self.networks if is_address(host) else ():
            if ipaddress.ip_address(host) in network and (not ports or port in ports):
                offset = int(ipaddress.ip_address(host)) - int(network.network_address)
                return "{}:{}".format(to.network_address + offset, port)
        return None

    def _complete_name(self, walk: Dict[str, Any], hops: Dict[str, Any], addresses: List[str]) -> None:
        host = parse_address(walk["advertised"])[0]
        if is_address(host):
            hops.setdefault("name", {"state": "ok", "ms": None, "said": host + " is an address"})["ms"] = None
            return
        lines = self.view["hosts"].get(host, [])
        chosen = next((line for line in lines if line[1] in addresses), None)
        if chosen and "name" in hops and hops["name"]["state"] == "ok":
            ours = f", the block of {chosen[2]}" if chosen[2] else ""
            hops["name"]["said"] += f" by line {chosen[0]} of /etc/hosts{ours}"
            walk["hosts_line"] = list(chosen)

    def _complete_route(self, walk: Dict[str, Any], hops: Dict[str, Any]) -> None:
        route = self.view["routes"].get((walk["dialled"] or "").rpartition(":")[0])
        if route is None:
            if "tcp" in hops:
                hops.setdefault("route", {"state": "unproven", "ms": None, "said": "ip is not there to tell"})
            return
        if "route" in hops:
            hops["route"]["said"] += "; " + route["said"]
            walk["evidence"] = hops["route"]["said"]
        else:
            hops["route"] = {"state": "ok", "ms": None, "said": route["said"]}
        walk["mtu"] = route["mtu"]

    def _complete_rule(self, walk: Dict[str, Any], hops: Dict[str, Any], flow: Any, rewritten: Any) -> None:
        """What became of this very connection tells more than any rule's text."""
        expected = walk["reachable"]
        if not walk["dialled"]:
            return
        if rewritten is None:
            said = "conntrack could not be asked what became of the connection"
            hops["rule"] = {"state": "unproven" if expected else "ok", "ms": None, "said": said}
        elif rewritten["to"]:
            hops["rule"] = {"state": "ok", "ms": None, "said": "rewritten to " + rewritten["to"]}
            behind = self.view["rules"].behind(rewritten["to"])
            if behind != expected and self.request["map"]:
                walk["old" if self._our_target(walk, rewritten["to"]) else "foreign"] = behind
            if behind != rewritten["to"]:
                hops["rule"]["said"] += ", where our nginx passes to " + behind
        elif expected in (None, walk["dialled"], walk["advertised"]):
            hops["rule"] = {
                "state": "ok",
                "ms": None,
                "said": "no rule is needed" if expected else "no rule of the map holds here",
            }
        else:
            hops["rule"] = {"state": "ok", "ms": None, "said": "not rewritten"}
            walk["passed_by"] = True

    def _our_target(self, walk: Dict[str, Any], to: str) -> bool:
        rules = self.view["rules"]
        ours = rules.target(parse_address(walk["dialled"]))
        return ours is not None and to == "{}:{}".format(*ours)

    def _in_order(self, walk: Dict[str, Any], hops: Dict[str, Any]) -> List[Dict[str, Any]]:
        used = set(HOPS) - (set() if "SSL" in self.exam["protocol"] else {"tls"})
        used -= set() if "SASL" in self.exam["protocol"] else {"sasl"}
        used -= {"identity", "rule"} if walk["role"] == "bootstrap" else set()
        used -= set() if self.request["path"] == "advertised" else {"rule"}
        missing = {"state": "not reached", "ms": None, "said": ""}
        return [dict({"name": name}, **hops.get(name, missing)) for name in HOPS if name in used]
