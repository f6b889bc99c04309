"""The faults of ways, rules, maps and listeners that the doctor is to name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faults.doctor_fault import Fault
from faults.doctor_node import TABLE, cluster, nat_map, pairs, second
from faults.doctor_strangers import strangers, yarn
from faults.node import Map
from lab.topology import DR_NAME, Lab

DROPPED = "table ip injected {{ chain first {{ type filter hook {hook} priority -300; {rule}; }}; }}"
LIFTED = "nft delete table ip injected"


def faults(lab: Lab) -> Iterator[Fault]:
    """Every fault, those that take long to heal last."""
    for part in (_network, _rules, _names, _map, _scope, _listeners, _security, _proxies, strangers, yarn, _dead):
        yield from part(lab)


def _hq(lab: Lab, **more: Any) -> Map:
    return nat_map({"plain": cluster(lab)}, **more)


def _own(lab: Lab, number: int) -> str:
    return f"{lab.ip(f'hq-{number}')}:9092"


def _cut(lab: Lab, name: str, expected: str, rule: str, hook: str = "forward", **more: Any) -> Fault:
    """A rule of somebody else on the router."""
    put = "nft '" + DROPPED.format(hook=hook, rule=rule) + "'"
    return Fault(name, expected, put, LIFTED, "router", _hq(lab), **more)


def _network(lab: Lab) -> Iterator[Fault]:
    two = lab.ip("hq-2")
    nat = f"ip daddr {lab.nat_ip('hq-2')} drop"
    yield _cut(lab, "the router's NAT drops one broker", "TCP_TIMEOUT@tcp", nat, "prerouting", at=_own(lab, 2))
    everything = f"ip daddr {lab.prefix('nat')}.0/24 drop"
    yield _cut(
        lab, "the router drops all that goes to HQ", "BOOTSTRAP_UNREACHABLE/TCP_TIMEOUT@tcp", everything, "prerouting"
    )
    refused = f"ip daddr {two} tcp dport 9092 reject with tcp reset"
    yield _cut(lab, "port of one broker closed", "TCP_REFUSED@tcp", refused, at=_own(lab, 2))
    hole = f"ip daddr {two} tcp dport 9092 drop"
    yield _cut(lab, "port of one broker black-holed", "TCP_TIMEOUT@tcp", hole, at=_own(lab, 2))
    large = f"ip daddr {lab.prefix('hq')}.0/24 meta length gt 1400 drop"
    yield _cut(lab, "MTU black hole to HQ", "MTU_BLACK_HOLE@size", large)
    back = f"ip saddr {two} meta length gt 1400 drop"
    yield _cut(lab, "MTU black hole from one broker", "MTU_BLACK_HOLE@size", back, at=_own(lab, 2))
    mute = f"ip saddr {two} tcp sport 9092 meta length gt 60 drop"
    yield _cut(lab, "a broker that takes connections and says nothing", "NOT_KAFKA/silent@api", mute, at=_own(lab, 2))
    route = f"ip route add default via {lab.ip('router')}"
    yield Fault("no default route", "NO_ROUTE@route", "ip route del default", route, map=_hq(lab))


def _rules(lab: Lab) -> Iterator[Fault]:
    one, two, three = (f"{lab.ip(f'hq-{number}')} . 9092" for number in (1, 2, 3))
    to_one, to_two, to_three = (f"{lab.nat_ip(f'hq-{number}')} . 9092" for number in (1, 2, 3))
    lost = [f"nft {verb} element ip {TABLE} carried_plain '{{ {two} }}'" for verb in ("delete", "add")]
    yield Fault("one rule deleted", "NOT_REWRITTEN/missing_rule@rule", *lost, map=_hq(lab), at=_own(lab, 2))
    swapped = _lead({one: to_two, two: to_one})
    normal = _lead({one: to_one, two: to_two, three: to_three})
    yield Fault("two brokers swapped", "WRONG_BROKER@identity", swapped, normal, map=_hq(lab), at=_own(lab, 1))
    other = _lead({two: f"{lab.nat_ip('dr-1')} . 19092"})
    yield Fault(
        "a second cluster behind one address", "WRONG_CLUSTER@identity", other, normal, map=_hq(lab), at=_own(lab, 2)
    )
    all_one = _lead({two: to_one, three: to_one})
    yield Fault("one reachable address for all brokers", "PROXY_BALANCED@identity", all_one, normal, map=_hq(lab))
    stranger = f"type nat hook output priority -110; ip daddr {lab.ip('hq-2')} tcp dport 9092 dnat to {lab.nat_ip('hq-2')}:9999"
    rule = f"nft 'table ip injected {{ chain first {{ {stranger}; }}; }}'"
    yield Fault("another's rule before ours", "FOREIGN_RULE@rule", rule, LIFTED, map=_hq(lab), at=_own(lab, 2))
    passed = f"nft insert rule ip {TABLE} output ip daddr {lab.ip('hq-2')} accept"
    handle = f"nft -a list chain ip {TABLE} output | grep '{lab.ip('hq-2')} accept' | sed 's/.*handle //'"
    away = f"nft delete rule ip {TABLE} output handle $({handle})"
    yield Fault(
        "our rule is passed by", "NOT_REWRITTEN/counter_still@rule", passed, away, map=_hq(lab), at=_own(lab, 2)
    )
    address = lab.ip("nm1")
    entry = f"--orig-src {address} --orig-dst {lab.ip('hq-1')} --sport 40001 --dport 9092"
    reply = f"--reply-src {lab.ip('hq-1')} --reply-dst {address} --reply-port-src 9092 --reply-port-dst 40001"
    left = f"conntrack -I -p tcp {entry} --state SYN_SENT --timeout 100 {reply}"
    gone = "conntrack -D -p tcp --sport 40001"
    yield Fault("a connection from before the rule", "CONNTRACK_LEFTOVER@conntrack", left, gone, map=_hq(lab))


def _lead(pairs_to: Mapping[str, str]) -> str:
    """Lead advertised pairs elsewhere, by hand in our table."""
    gone = " ".join(f"delete element ip {TABLE} pairs_plain {{ {one} }};" for one in pairs_to)
    new = ", ".join(f"{one} : {to}" for one, to in pairs_to.items())
    return f"nft '{gone} add element ip {TABLE} pairs_plain {{ {new} }}'"


def _names(lab: Lab) -> Iterator[Fault]:
    dr, name = nat_map({"dr": second(lab)}), f"{DR_NAME}:9092"
    kept, back = "cp -p /etc/hosts /root/hosts.kept; ", "cat /root/hosts.kept > /etc/hosts"
    wrong = f"{kept} sed -i '1i {lab.nat_ip('hq-1')} {DR_NAME}' /etc/hosts"
    yield Fault("a wrong line in /etc/hosts", "DNS/hosts_line@name", wrong, back, map=dr, at=name)
    without = f"{kept} sed -i '/{DR_NAME}/d' /etc/hosts"
    yield Fault("a name without an address", "DNS/no_address@name", without, back, map=dr, at=name)
    yield Fault("a bootstrap name that nobody knows", "DNS/no_address@name", bootstrap="kafka.nowhere.example:9092")


def _map(lab: Lab) -> Iterator[Fault]:
    few = nat_map({"plain": cluster(lab, brokers=pairs(lab, "plain", (1, 2)))})
    three = f"{lab.ip('hq-3')} . 9092"
    gone, back = (f"nft {verb} element ip {TABLE} carried_plain '{{ {three} }}'" for verb in ("delete", "add"))
    new = _own(lab, 3)
    yield Fault("a new broker that the map does not name", "UNMAPPED_BROKER@tcp", gone, back, map=few, at=new)
    # Of six groups one has its coordinator there: partitions of the offsets topic are spread over three brokers.
    groups = {"groups": [f"group-{number}" for number in range(6)], "topics": ["heartbeat"]}
    yield Fault(
        "coordinator unmapped",
        "UNMAPPED_BROKER@tcp +COORDINATOR_UNREACHABLE +LEADER_UNREACHABLE",
        gone,
        back,
        map=few,
        at=new,
        options=groups,
    )
    gone_id = {"id": 4, "advertised": f"{lab.prefix('hq')}.24:9092", "reachable": f"{lab.prefix('nat')}.24:9092"}
    stale = [*pairs(lab), gone_id]
    yield Fault(
        "a broker of the map that is gone",
        "STALE_ENTRY@map",
        map=nat_map({"plain": cluster(lab, brokers=stale)}),
        at=f"{lab.prefix('hq')}.24:9092",
    )
    numbered = [{**pair, "id": pair["id"] % 3 + 1} for pair in pairs(lab)]
    yield Fault(
        "broker numbers of the map mixed up",
        "WRONG_BROKER/map_id@map",
        map=nat_map({"plain": cluster(lab, brokers=numbered)}),
    )
    yield Fault(
        "a topic that is not there",
        "LEADER_UNREACHABLE/no_topic@metadata",
        map=_hq(lab),
        options={"topics": ["nowhere"]},
    )


def _scope(lab: Lab) -> Iterator[Fault]:
    yield Fault("the scope names another user", "SCOPE_WRONG/old_scope@rule", map=_hq(lab, scope={"users": ["nobody"]}))
    unknown = _hq(lab, scope={"users": ["nobody-of-this-node"]})
    yield Fault("the scope's user is unknown here", "SCOPE_WRONG/no_user@scope", map=unknown)
    rule = f"nft insert rule ip {TABLE} output meta skuid 65533 jump rewrite_plain"
    handle = f"nft -a list chain ip {TABLE} output | grep 'skuid 65533' | sed 's/.*handle //'"
    gone = f"nft delete rule ip {TABLE} output handle $({handle})"
    yield Fault("another user is rewritten too", "SCOPE_LEAK@scope", rule, gone, map=_hq(lab))


def _listeners(lab: Lab) -> Iterator[Fault]:
    part = nat_map({"part": cluster(lab, "part")})
    yield Fault("a listener missing on one broker", "LISTENER_MISSING@metadata", map=part, at=f"{lab.ip('hq-3')}:9211")
    mixed = [f"{lab.nat_ip('hq-1')}:9092", f"{lab.nat_ip('hq-2')}:9210"]
    yield Fault(
        "bootstrap addresses of two listeners",
        "MIXED_LISTENERS@metadata",
        map=nat_map({"plain": cluster(lab, bootstrap=mixed)}),
    )
    two = f"{lab.nat_ip('hq-1')}:9092,{lab.nat_ip('dr-1')}:19092"
    yield Fault("bootstrap addresses of two clusters, no map", "MIXED_LISTENERS@metadata +TCP_TIMEOUT", bootstrap=two)
    alone = f"{lab.nat_ip('hq-1')}:9092"
    yield Fault("no map at all", "TCP_TIMEOUT/unmapped_free@tcp", bootstrap=alone, at=_own(lab, 1))


def _security(lab: Lab) -> Iterator[Fault]:
    for name, detail, what in (
        ("expired", "expired", "an expired certificate"),
        ("early", "not_yet_valid", "a certificate that is not valid yet"),
        ("misnamed", "name", "a certificate for another name"),
    ):
        at = f"{lab.ip('hq-2')}:{pairs(lab, name)[1]['reachable'].rpartition(':')[2]}"
        yield Fault(what, f"TLS/{detail}@tls", map=nat_map({name: cluster(lab, name)}), at=at)
    untrusting = cluster(lab, "tls", security={"protocol": "SSL"})
    yield Fault("an authority that is not trusted", "TLS/chain@tls", map=nat_map({"tls": untrusting}))
    plain = cluster(lab, "tls", security={"protocol": "PLAINTEXT"})
    yield Fault("a TLS port spoken to in plain", "TLS/tls_port@api", map=nat_map({"tls": plain}))
    yield Fault(
        "a plain port spoken to with TLS",
        "TLS/plain_port@tls",
        map=nat_map({"plain": cluster(lab, security={"protocol": "SSL"})}),
    )
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        made = cluster(lab, "login", mechanism)
        made["security"]["password"] = "not-this-one"
        yield Fault(f"a wrong password, {mechanism}", "SASL/login@sasl", map=nat_map({"login": made}))
    open_ = cluster(
        lab, security={"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "u", "password": "p"}
    )
    yield Fault("a login where none is wanted", "SASL/no_login@sasl", map=nat_map({"plain": open_}))
    none = cluster(lab, "login", security={"protocol": "PLAINTEXT"})
    yield Fault("no login where one is wanted", "SASL/wants_login@metadata", map=nat_map({"login": none}))


def _nginx(text: str) -> str:
    """Start an nginx of this configuration."""
    body = f"pid /run/front.pid; error_log /dev/null; load_module modules/ngx_stream_module.so; events {{ }} {text}"
    return f"printf '%s' '{body}' > /run/front.conf && nginx -c /run/front.conf"


def _proxies(lab: Lab) -> Iterator[Fault]:
    servers = [f"{lab.nat_ip(f'hq-{number}')}:9092" for number in (1, 2, 3)]
    stop = "kill $(cat /run/front.pid) && while [ -e /run/front.pid ]; do sleep 0.05; done"
    through = nat_map({"plain": cluster(lab, bootstrap=[f"{lab.ip('nm1')}:9099"])})
    one = f"listen 9099; proxy_pass {servers[0]};"
    all_ = " ".join(f"server {server};" for server in servers)
    balanced = f"stream {{ upstream hq {{ {all_} }} server {{ listen 9099; proxy_pass hq; proxy_timeout 24h; }} }}"
    yield Fault("nginx balances over the brokers", "PROXY_BALANCED@nginx", _nginx(balanced), stop, map=through)
    nats = ", ".join(lab.nat_ip(f"hq-{number}") for number in (1, 2, 3))
    turns = f"numgen inc mod 2 map {{ 0 : {lab.ip('hq-1')}, 1 : {lab.ip('hq-2')} }}"
    rule = f"type nat hook prerouting priority -110; ip daddr {{ {nats} }} tcp dport 9092 dnat to {turns}"
    balancer = f"nft 'table ip injected {{ chain first {{ {rule}; }}; }}'"
    yield Fault("HQ's NAT balances over brokers", "PROXY_BALANCED@identity", balancer, LIFTED, "router", _hq(lab))
    short = f"stream {{ server {{ {one} proxy_timeout 60s; }} }}"
    yield Fault("nginx with a short idle time-out", "IDLE_TIMEOUT_SHORT@nginx", _nginx(short), stop, map=through)
    hasty = f"stream {{ server {{ {one} proxy_timeout 24h; proxy_connect_timeout 500ms; }} }}"
    yield Fault("nginx with a short connect time-out", "CONNECT_TIMEOUT_SHORT@nginx", _nginx(hasty), stop, map=through)
    http = f"http {{ access_log off; server {{ listen 9099; location / {{ proxy_pass http://{servers[0]}; }} }} }}"
    yield Fault("an http block in front of Kafka", "PROXY_HTTP@nginx +NOT_KAFKA", _nginx(http), stop, map=through)


def _dead(lab: Lab) -> Iterator[Fault]:
    """A broker that is not there; Kafka takes its time with these."""
    stopped, started = "systemctl stop kafka", "systemctl start kafka"
    yield Fault("a broker is down", "DOWN_AT_HQ@metadata", stopped, started, "hq-3", _hq(lab), _own(lab, 3))
