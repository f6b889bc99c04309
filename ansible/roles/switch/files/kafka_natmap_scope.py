"""What became of the probe's connections: rewritten or not, as conntrack tells. Python 3.6 syntax.

Whether a connect succeeds proves nothing about a rule; the entry of that very connection does.
"""

import functools
import ipaddress
import os
import socket
from typing import Any, Callable, Dict, List, Optional, Tuple

from kafka_natmap_conntrack import Entry, Tuple4, Watch, ct_delete, ct_get
from kafka_natmap_identity import parse_address, show
from kafka_natmap_session import RST_ON_CLOSE, Broken, resolve
from kafka_natmap_survey import NOT_ASKED

Named = Tuple[str, str]


class Tracker:
    """Looks up our own connections through the rules, and removes what they left in conntrack."""

    def __init__(self, clusters: List[Dict[str, Any]]) -> None:
        ports = {parse_address(broker["advertised"])[1] for cluster in clusters for broker in cluster["brokers"]}
        ports.update(port for cluster in clusters for network in cluster["networks"] for port in network["ports"])
        self.ours: List[Entry] = []
        self.watch: Optional[Watch] = None
        try:
            self.watch = Watch(ports)
        except OSError as error:
            self.unreadable = f"conntrack cannot be read: {error.strerror}"

    def find(self, flow: Tuple4) -> Optional[Entry]:
        """The entry of one of our connections. Raises OSError when conntrack cannot be read."""
        if self.watch is None:
            raise OSError(0, self.unreadable)
        return self.watch.find(flow)

    def settle(self, row: Dict[str, Any], flow: Tuple4) -> None:
        """Complete a broker's row by what its connection became."""
        try:
            entry = self.find(flow)
        except OSError as error:
            row["evidence"] += f"; conntrack cannot be read: {error.strerror}"
            return
        if entry is not None and entry.rewritten:
            row["rewritten_to"] = show(entry.answers_from)
            return
        self.ours.extend([entry] if entry else [])
        # A name may lead to the reachable address without a rule; an address cannot.
        needs_rule = is_address(row["advertised"]) and row["reachable"] not in (None, row["advertised"])
        if needs_rule and (entry is not None or row["latency_ms"] is not None):
            row["verdict"] = "NOT_REWRITTEN"
            row["evidence"] = "no rule rewrote the connection to {}; {}".format(row["dialled"], row["evidence"])
        elif needs_rule:
            row["evidence"] += "; conntrack has no entry of it"

    def judge_outsider(self, flow: Optional[Tuple4], note: str) -> Tuple[str, str]:
        """Verdict and evidence on a connection that must not be rewritten."""
        if flow is None:
            return "NOT_REWRITTEN", note
        try:
            entry = self.find(flow)
        except OSError as error:
            return "UNPROVEN", f"conntrack cannot be read: {error.strerror}"
        there = show(flow[2:])
        if entry is None and self.watch and self.watch.lost:
            return "UNPROVEN", f"conntrack has no entry for {there}, and lost reports of new ones"
        if entry is None:
            return "NOT_REWRITTEN", f"conntrack tracks nothing to {there}: it was dropped or is not tracked"
        self.ours.append(entry)
        if entry.rewritten:
            return "SCOPE_LEAK", f"conntrack: {there} is answered by {show(entry.answers_from)}"
        return "NOT_REWRITTEN", f"conntrack: {there} is answered by itself"

    def close(self) -> None:
        """Delete our un-rewritten entries: a later connection from that port would follow them."""
        for entry in self.ours:
            try:
                left = ct_get(*entry.orig)
                if left is not None and left.id == entry.id:
                    ct_delete(left)
            except OSError:
                break
        if self.watch is not None:
            self.watch.close()


def is_address(pair: str) -> bool:
    try:
        return bool(ipaddress.IPv4Address(pair.rpartition(":")[0]))
    except ValueError:
        return False


def pairs_to_prove(clusters: List[Dict[str, Any]], rows: List[Dict[str, Any]]) -> List[Named]:
    """(cluster, advertised) of every mapped pair, addresses before names: a name may take time."""
    pairs = {(cluster["name"], broker["advertised"]) for cluster in clusters for broker in cluster["brokers"]}
    known = {(name, advertised.lower()) for name, advertised in pairs}
    pairs.update(
        (row["cluster"], row["advertised"])
        for row in rows
        if row["reachable"] and (row["cluster"], row["advertised"]) not in known
    )
    return sorted(pairs, key=lambda pair: (not is_address(pair[1]), pair))


def prove_outsider(
    pairs: List[Named], outsider: Dict[str, Any], tracker: Tracker, run_as: Callable[..., bool], until: float
) -> List[Dict[str, Any]]:
    """Connect to each pair as the outsider, and look each connection up while it is open."""
    rows = {
        pair: {"cluster": pair[0], "advertised": pair[1], "verdict": "UNPROVEN", "evidence": NOT_ASKED}
        for pair in pairs
    }

    def hear(told: Dict[str, Any]) -> None:
        flow = tuple(told["flow"]) if told["flow"] else None
        verdict, evidence = tracker.judge_outsider(flow, told["note"])
        rows[pairs[told["pair"]]].update(verdict=verdict, evidence="as {}: {}".format(outsider["label"], evidence))

    def tell(say: Callable[[Dict[str, Any]], None], number: int, flow: Optional[Tuple4], note: str) -> None:
        say({"pair": number, "flow": flow, "note": note})

    def dial(say: Callable[[Dict[str, Any]], None]) -> None:
        for number, (_, advertised) in enumerate(pairs):
            knock(advertised, functools.partial(tell, say, number))

    run_as(outsider, dial, hear, until)
    return list(rows.values())


def knock(advertised: str, tell: Callable[[Optional[Tuple4], str], None]) -> None:
    """Begin one connection, tell its addresses while it is open, then drop it."""
    host, port = parse_address(advertised)
    try:
        ip = resolve(host, port)[0]
    except Broken as broken:
        return tell(None, broken.evidence)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as dialling:
        dialling.setblocking(False)
        dialling.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST_ON_CLOSE)
        # The rules of this node see it; the first router ends it, and HQ is spared.
        dialling.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        code = dialling.connect_ex((ip, port))
        source = dialling.getsockname()
        if not source[1]:
            return tell(None, f"no connection to {show((ip, port))} left this node: {os.strerror(code)}")
        tell(source + (ip, port), "")
