"""What the node says: hosts lines, loaded rules, leftovers in conntrack, nginx, certificates."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import kafka_doctor_around as around
import kafka_natmap_conntrack as conntrack
import pytest
from doctor_peers import certificate as make_certificate
from kafka_doctor_around import Rules, hosts_sources, leftovers
from kafka_doctor_certificate import read_certificate
from kafka_doctor_nginx import lint

HOSTS = """127.0.0.1 localhost
10.0.0.7 Kafka-1 kafka-1.hq # old
::1 kafka-1
# BEGIN kafka-natmap data-platform: computed
240.0.0.1 kafka-1
# END kafka-natmap data-platform
10.0.0.8 kafka-2
"""


def test_hosts_lines_tell_where_a_name_comes_from() -> None:
    found = hosts_sources(HOSTS)
    assert found["kafka-1"] == [(2, "10.0.0.7", None), (5, "240.0.0.1", "data-platform")]
    assert found["kafka-2"] == [(7, "10.0.0.8", None)]


# ------------------------------------------------------------ rules

NFT = """table ip kafka_natmap_x {
	map pairs_yarn { type ipv4_addr . inet_service : ipv4_addr . inet_service
		elements = { 192.0.2.21 . 9092 : 203.0.113.21 . 9092, 192.0.2.22 . 9092 : 203.0.113.22 . 9092 } }
	set carried_yarn { type ipv4_addr . inet_service; counter
		elements = { 192.0.2.21 . 9092 counter packets 3 bytes 180 } }
	chain rewrite_yarn { ip daddr . tcp dport @carried_yarn dnat ip to ip daddr . tcp dport map @pairs_yarn }
	chain prefixes_yarn { ip daddr 198.51.100.0/24 tcp dport { 9092, 9094 } counter dnat ip prefix to 203.0.113.0/24 }
}"""
IPTABLES = """-A OUTPUT -m comment --comment x -j KNAT-X
-A KNAT-X-1 -d 192.0.2.21/32 -p tcp -m tcp --dport 9092 -m comment --comment "hq broker 1" -j DNAT --to-destination 203.0.113.21:9092
-A KNAT-X-1-P -d 198.51.100.0/24 -p tcp -m tcp --dport 9092 -j NETMAP --to 203.0.113.0/24"""


@pytest.mark.parametrize("text", [NFT, IPTABLES])
def test_a_rule_is_found_in_what_the_kernel_holds(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rules, "_read", lambda self: [text])
    rules = Rules({})
    assert rules.loaded(("192.0.2.21", 9092))
    assert rules.loaded(("198.51.100.7", 9092))
    assert not rules.loaded(("192.0.2.22", 9092)), "in nft it is in the map and not in the set: no rule asks for it"
    assert not rules.loaded(("192.0.2.2", 9092))
    assert not rules.loaded(("192.0.2.21", 909))


def test_a_chain_without_its_jump_rewrites_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rules, "_read", lambda self: [IPTABLES.partition("\n")[2]])
    assert not Rules({}).loaded(("192.0.2.21", 9092))


def test_our_own_nginx_is_looked_behind() -> None:
    text = "stream { server { listen 127.70.1.2:9092; proxy_pass 203.0.113.21:9092; } }"
    rules = Rules({"x": {"pairs": [], "texts": {"nginx": text}}})
    assert rules.behind("127.70.1.2:9092") == "203.0.113.21:9092"
    assert rules.behind("203.0.113.22:9092") == "203.0.113.22:9092"


def entry(state: str, source_port: int, to: str = "192.0.2.21", answers: str = "192.0.2.21") -> conntrack.Entry:
    return conntrack.Entry(
        ("198.51.100.5", source_port, to, 9092), (answers, 9092, "198.51.100.5", source_port), 1, 0, 0, state
    )


def test_leftovers_are_the_job_s_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        entry("SYN_SENT", 1), entry("ESTABLISHED", 2), entry("ESTABLISHED", 3), entry("TIME_WAIT", 4),
        entry("ESTABLISHED", 5, answers="203.0.113.21"), entry("SYN_SENT", 6, to="192.0.2.99", answers="192.0.2.99"),
    ]  # fmt: skip
    monkeypatch.setattr(conntrack, "ct_dump", lambda: iter(entries))
    sockets = {(2, "192.0.2.21", 9092): 991, (3, "192.0.2.21", 9092): 1500}
    monkeypatch.setattr(around, "tcp_sockets", lambda: sockets)
    rules = Rules({"x": {"pairs": [["192.0.2.21", 9092, "203.0.113.21", 9092]], "who": []}})
    assert [(one.orig[1], kind) for one, kind in leftovers(rules, {991})] == [(1, "dead"), (2, "live")]


def test_the_owner_of_a_socket_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "tcp"
    table.write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0500C6C6:9C41 150200C0:2384 01 00000000:00000000 00:00000000 00000000   991        0 1 1\n"
    )
    monkeypatch.setattr(around, "_TCP_SOCKETS", str(table))
    assert around.tcp_sockets() == {(40001, "192.0.2.21", 9092): 991}


# ------------------------------------------------------------ nginx

STREAM = """
events {}
stream {
    upstream brokers { server 203.0.113.21:9092; server 203.0.113.22:9092; server 203.0.113.23:9092 backup; }
    server { listen 9092; proxy_pass brokers; proxy_timeout 5m; proxy_connect_timeout 1s; }
    server { listen 127.0.0.1:9093; proxy_pass 203.0.113.22:9092; proxy_timeout 24h; proxy_connect_timeout 8s; }
    server { listen 5432; proxy_pass 10.0.0.1:5432; proxy_timeout 1s; }
    include more/*.conf;
}
http { upstream kafka { server 203.0.113.21:9092; }
  server { listen 80; location / { proxy_pass http://kafka; } } # proxy_pass http://no;
  server { listen 81; location / { proxy_pass "http://10.0.0.1:80"; } } }
"""


def test_an_nginx_in_front_of_kafka_is_looked_through(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "nginx.conf").write_text(STREAM)
    (tmp_path / "more" / "one.conf").write_text(
        "server { listen 9094; proxy_pass 203.0.113.21:9092; proxy_timeout 1m30s; include ../nginx.conf; }"
    )
    found = lint(str(tmp_path / "nginx.conf"), lambda address: address.startswith("203.0.113."), 540000)
    assert [(one["code"], one["listen"]) for one in found] == [
        ("PROXY_BALANCED", "9092"),
        ("IDLE_TIMEOUT_SHORT", "9092"),
        ("CONNECT_TIMEOUT_SHORT", "9092"),
        ("IDLE_TIMEOUT_SHORT", "9094"),
        ("PROXY_HTTP", "80"),
    ]
    assert "203.0.113.21:9092, 203.0.113.22:9092" in found[0]["evidence"]
    assert "after 90 s" in found[3]["evidence"]


def test_a_file_that_is_not_there_is_no_finding(tmp_path: Path) -> None:
    assert lint(str(tmp_path / "none.conf"), lambda address: True, 540000) == []


# ------------------------------------------------------------ certificates


def test_names_and_dates_of_a_certificate(tmp_path: Path) -> None:
    file = make_certificate(tmp_path, "DNS:kafka-1.example,IP:192.0.2.21", "20240131", "20490615")
    der = subprocess.run(
        ["openssl", "x509", "-in", file + ".crt", "-outform", "DER"], capture_output=True, check=True
    ).stdout
    seen = read_certificate(der)
    assert seen is not None
    assert str(seen) == "for kafka-1.example, 192.0.2.21, valid 2024-01-31 to 2049-06-15"
    assert [seen.fault(when) for when in (0, time.time(), 3e9)] == ["not_yet_valid", "", "expired"]
    assert all(read_certificate(der[:length]) is None for length in range(0, 200, 7))
