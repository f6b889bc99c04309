"""The DNAT layers of the node program: with a mocked system, and in a namespace with the real nft and iptables."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import kafka_natmap_dnat as dnat
import pytest
from ansible_collections.kafka.natmap.plugins.module_utils import bundle
from ansible_collections.kafka.natmap.plugins.module_utils.nat_map import NatMap
from kafka_natmap_system import Refusal
from netns import Namespace
from unit.maps import broker, network, parsed
from unit.nodes import no, node, planned, printed

BACKENDS = {"nftables": dnat.Nftables, "iptables": dnat.Iptables}
FILES = {"nftables": "nftables.nft", "iptables": "iptables.rules"}


class Machine:
    """Stands for the programs of a node: remembers what was run, answers by the first words of a command."""

    def __init__(self, answers: dict[str, tuple[int, str, str]]) -> None:
        self.answers = answers
        self.ran: list[tuple[str, str | None]] = []

    def run(self, argv: list[str], text: str | None = None, timeout: float = 60.0) -> tuple[int, str, str]:
        command = " ".join(argv)
        self.ran.append((command, text))
        found = [answer for start, answer in self.answers.items() if command.startswith(start)]
        return found[0] if found else (0, "", "")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Machine]:
    def make(answers: dict[str, tuple[int, str, str]]) -> Machine:
        made = Machine(answers)
        monkeypatch.setattr(dnat, "run", made.run)
        monkeypatch.setattr("kafka_natmap_system.run", made.run)
        monkeypatch.setattr(dnat, "read_text", lambda _path: None)
        return made

    return make


NAMES = {"nft_table": "kafka_natmap_a", "nft_objects": [["chain", "output"]], "ipt_chain": "KNM-a"}


# ------------------------------------------------------------ nft's JSON


def listed(*items: dict[str, Any]) -> tuple[int, str, str]:
    return 0, json.dumps({"nftables": [{"metainfo": {"version": "1.0.6"}}, *items]}), ""


def test_a_snapshot_leaves_out_handles_counts_and_order(machine: Callable[..., Machine]) -> None:
    def items(handle: int, packets: int, *elements: int) -> tuple[int, str, str]:
        rule = {"handle": handle, "expr": [{"counter": {"packets": packets, "bytes": 1}}, {"jump": {"target": "x"}}]}
        elem = [{"elem": {"val": {"concat": [n, 9092]}, "counter": {"packets": packets}}} for n in elements]
        return listed({"rule": rule}, {"set": {"name": "carried_hq", "handle": handle, "elem": elem}})

    machine({"nft -j": items(1, 0, 7, 8, 9)})
    first = dnat.Nftables(NAMES).snapshot()
    machine({"nft -j": items(2, 55, 9, 8, 7)})
    assert dnat.Nftables(NAMES).snapshot() == first
    machine({"nft -j": items(1, 0, 7, 8)})
    assert dnat.Nftables(NAMES).snapshot() != first


def test_a_table_that_is_not_there_has_no_snapshot(machine: Callable[..., Machine]) -> None:
    machine({"nft": (1, "", "No such file or directory")})
    layer = dnat.Nftables(NAMES)
    assert (layer.snapshot(), layer.listing()) == (None, None)


def test_what_is_no_longer_named_ends_in_the_same_transaction(machine: Callable[..., Machine]) -> None:
    stale = [{"chain": {"name": "output"}}, {"map": {"name": "pairs_old"}}, {"chain": {"name": "rewrite_old"}}]
    made = machine({"nft -j": listed(*stale)})
    dnat.Nftables(NAMES).load("TEXT", {})
    (text,) = [text for command, text in made.ran if command == "nft -f -"]
    assert text == (
        "TEXT\nflush chain ip kafka_natmap_a rewrite_old\n"
        "delete chain ip kafka_natmap_a rewrite_old\ndelete map ip kafka_natmap_a pairs_old\n"
    )


@pytest.mark.parametrize(("layer", "program"), [(dnat.Nftables, "nft -c"), (dnat.Iptables, "iptables-restore --test")])
def test_a_refused_text_names_the_program_s_message(machine: Callable[..., Machine], layer: Any, program: str) -> None:
    machine(
        {
            program: (1, "", "line 3: syntax error"),
            "nft -j": (1, "", ""),
            "iptables -V": (0, "iptables v1.8.9 (nf_tables)", ""),
        }
    )
    with pytest.raises(Refusal, match="line 3: syntax error"):
        layer(NAMES).check("*nat\nCOMMIT\n")


# ------------------------------------------------------------ iptables transactions

SAVED = """*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [3:180]
:DOCKER - [0:0]
:KNM-a - [0:0]
:KNM-a-SRC - [0:0]
:KNM-a-old - [0:0]
:KNM-ab - [0:0]
-A OUTPUT -d 127.0.0.0/8 -j DOCKER
-A OUTPUT -p tcp -j KNM-a
-A OUTPUT -p tcp -j KNM-ab
-A KNM-a -p tcp -m owner --uid-owner 9 -j KNM-a-old
COMMIT
"""
NF_TABLES = {
    "iptables -V": (0, "iptables v1.8.9 (nf_tables)", ""),
    "nft list tables": (0, "table ip nat\n", ""),
    "iptables-save": (0, SAVED, ""),
}


def test_an_iptables_transaction_adds_what_lacks_and_ends_what_is_stale(machine: Callable[..., Machine]) -> None:
    made = machine(NF_TABLES)
    state: dict[str, Any] = {}
    dnat.Iptables(NAMES | {"ipt_chains": ["KNM-a", "KNM-a-SRC", "KNM-a-hq"]}).load(
        "*nat\n:KNM-a - [0:0]\n-A KNM-a -j KNM-a-hq\nCOMMIT\n", state
    )
    (text,) = [text for command, text in made.ran if command.startswith("iptables-restore --noflush")]
    assert text is not None
    assert text.splitlines() == [
        "*nat",
        ":KNM-a - [0:0]",
        "-A KNM-a -j KNM-a-hq",
        "-I POSTROUTING 1 -p tcp -j KNM-a-SRC",
        "-F KNM-a-old",
        "-X KNM-a-old",
        "COMMIT",
    ]
    assert state == {"nat_table_before": True}


def test_clearing_iptables_touches_only_ours(machine: Callable[..., Machine]) -> None:
    made = machine(NF_TABLES)
    dnat.Iptables(NAMES).clear({"nat_table_before": True})
    (text,) = [text for command, text in made.ran if command.startswith("iptables-restore --noflush")]
    assert text is not None
    chains = ["KNM-a", "KNM-a-SRC", "KNM-a-old"]
    expected = ["*nat", "-D OUTPUT -p tcp -j KNM-a", *[f"-F {c}" for c in chains], *[f"-X {c}" for c in chains]]
    assert text.splitlines() == [*expected, "COMMIT"]
    assert not [command for command, _ in made.ran if "delete table" in command]


@pytest.mark.parametrize(
    ("names", "version", "tables", "there"),
    [
        ("nat\nfilter\n", "legacy", None, True),
        ("filter\n", "iptables v1.8.9 (legacy)", None, False),
        (None, "iptables v1.8.9 (nf_tables)", "table ip filter\ntable ip nat\n", True),
        (None, "iptables v1.8.9 (nf_tables)", "table ip filter\n", False),
    ],
)
def test_the_nat_table_is_looked_for_without_making_it(
    machine: Callable[..., Machine],
    monkeypatch: pytest.MonkeyPatch,
    names: str | None,
    version: str,
    tables: str | None,
    there: bool,
) -> None:
    made = machine({"iptables -V": (0, version, ""), "nft list tables": (0 if tables else 1, tables or "", "")})
    monkeypatch.setattr(dnat, "read_text", lambda _path: names)
    assert dnat.has_nat_table() is there
    assert not [command for command, _ in made.ran if "-t nat" in command or "iptables-save" in command]


# ------------------------------------------------------------ the real programs


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.close()


@pytest.fixture
def inside(namespace: Namespace) -> Iterator[None]:
    with namespace.entered():
        yield
        subprocess.run(["nft", "flush", "ruleset"], check=True)


def ruleset() -> str:
    return subprocess.run(["nft", "list", "ruleset"], check=True, capture_output=True, text=True).stdout


def loadable(natmap: NatMap, backend: str) -> tuple[Any, str]:
    """The layer and its text for a map, on a node that has this backend only."""
    other = {"nftables": "iptables", "iptables": "nftables"}[backend]
    facts = node(**{other: no("not here")})
    plan = planned(natmap, facts)
    text = printed(plan)[FILES[backend]]
    return BACKENDS[backend](bundle.make_bundle(natmap, plan, facts, {}, {}, "python3")["names"]), text


SMALL = parsed(broker(id=1), owner="a")
LARGE = parsed(
    broker(id=1),
    broker("kafka-2:9092", "203.0.113.20:19092", id=2),
    networks=[network("10.0.0.0/24", "20.0.0.0/24", [9092, 9093])],
    scope={"users": ["yarn", "etl"], "groups": ["hadoop"], "uid_range": [2000, 2999]},
    owner="a",
)


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("backend", BACKENDS)
def test_load_load_again_clear(backend: str) -> None:
    assert ruleset() == ""
    layer, text = loadable(LARGE, backend)
    state: dict[str, Any] = {}
    layer.check(text)
    assert ruleset() == "" or backend == "iptables"
    layer.load(text, state)
    first = layer.snapshot()
    assert first
    layer.load(text, state)
    assert layer.snapshot() == first
    layer.clear(state)
    assert (layer.snapshot(), layer.listing()) == (None, None)
    assert ruleset() == ""


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("old", "new"), [(SMALL, LARGE), (LARGE, SMALL)], ids=["grows", "shrinks"])
def test_a_change_in_place_ends_where_a_fresh_load_does(backend: str, old: NatMap, new: NatMap) -> None:
    layer, text = loadable(new, backend)
    state: dict[str, Any] = {}
    layer.load(text, state)
    fresh = layer.snapshot()
    layer.clear(state)
    before, old_text = loadable(old, backend)
    before.load(old_text, state)
    layer.load(text, state)
    assert layer.snapshot() == fresh
    layer.clear(state)
    assert ruleset() == ""


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_others_hold_is_left_alone(backend: str) -> None:
    foreign = "*nat\n:DOCKER - [0:0]\n-A OUTPUT -d 127.0.0.0/8 -j DOCKER\n-A POSTROUTING -j RETURN\nCOMMIT\n"
    subprocess.run(["iptables-restore", "--noflush"], input=foreign, text=True, check=True)
    subprocess.run(["nft", "add table ip theirs"], check=True)
    before = ruleset()
    state: dict[str, Any] = {}
    layer, text = loadable(LARGE, backend)
    other, other_text = loadable(parsed(broker("192.0.2.9:9092", "203.0.113.9:9092"), owner="a-b"), backend)
    layer.load(text, state)
    other.load(other_text, state)
    theirs = other.snapshot()
    layer.clear(state)
    assert other.snapshot() == theirs, "another owner whose name begins alike"
    other.clear(state)
    assert ruleset() == before


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("backend", BACKENDS)
def test_ten_thousand_pairs_load(backend: str) -> None:
    brokers = [broker(f"10.0.{i >> 8}.{i & 255}:9092", f"20.0.{i >> 8}.{i & 255}:9092") for i in range(10_000)]
    layer, text = loadable(parsed(*brokers, owner="a"), backend)
    state: dict[str, Any] = {}
    layer.load(text, state)
    assert layer.snapshot().count("20.0.") == 10_000
    layer.clear(state)
    assert ruleset() == ""
