"""Several owners on one node: what each holds, who is refused, and whose rule a connection meets."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import kafka_natmap_node as node_program
import kafka_natmap_owners as node_owners
import kafka_natmap_system as system
import pytest
from ansible_collections.kafka.natmap.plugins.module_utils import bundle, planner
from ansible_collections.kafka.natmap.plugins.module_utils.facts import NodeFacts
from kafka_natmap_dnat import Iptables, Nftables
from netns import Namespace
from unit.maps import broker, network, parsed
from unit.nodes import answer, held, node, planned, printed, refusals

THEIRS = [["192.0.2.21", 9092, "203.0.113.21", 9092]]


def keep(lib: Path, owner: str, made: dict[str, Any], file: str = "generation.json") -> None:
    (lib / owner).mkdir(parents=True, exist_ok=True)
    whole = {"bundle": made} if file == "pending.json" else made
    (lib / owner / file).write_text(json.dumps(whole))


@pytest.fixture
def lib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of generations."""
    for module in (system, node_owners):
        monkeypatch.setattr(module, "LIB", str(tmp_path))
    return tmp_path


def generation(**more: Any) -> dict[str, Any]:
    return {"owner": "lab", "texts": {"nftables": "x"}, "pairs": THEIRS, "names": {"ipt_chain": "KNM-lab"}} | more


# ------------------------------------------------------------ what others hold


def test_what_others_hold(lib: Path) -> None:
    prefixes = [["10.0.0.0/24", [9092], "20.0.0.0/24"]]
    keep(lib, "lab", generation(prefixes=prefixes, hosts=[["kafka-1", "240.0.0.9"]], take_over=["x"]))
    keep(lib, "own", generation())
    (lib / "empty").mkdir()
    assert node_owners.held("own") == {
        "lab": {
            "pairs": THEIRS,
            "prefixes": prefixes,
            "names": {"kafka-1": "240.0.0.9"},
            "backends": ["nftables"],
            "take_over": ["x"],
        }
    }


def test_a_generation_of_before_owners_met(lib: Path) -> None:
    keep(lib, "lab", generation())
    found = node_owners.held("own")["lab"]
    assert (found["prefixes"], found["names"], found["take_over"]) == ([], {}, [])
    assert NodeFacts.read(answer(others={"lab": found}), "nm1", True, False).others["lab"].pairs


def test_what_is_loaded_and_not_confirmed_counts_too(lib: Path) -> None:
    keep(lib, "lab", generation(pairs=[["192.0.2.99", 1, "203.0.113.1", 1], *THEIRS]), "pending.json")
    assert len(node_owners.held("own")["lab"]["pairs"]) == 2
    keep(lib, "lab", generation())
    assert len(node_owners.held("own")["lab"]["pairs"]) == 2


BLOCK = [["192.0.2.0/24", [9092, 9093], "203.0.113.0/24"]]


@pytest.mark.parametrize(
    ("mine", "theirs", "common"),
    [
        ({"pairs": THEIRS}, {"pairs": THEIRS}, "192.0.2.21:9092"),
        ({"pairs": THEIRS}, {"pairs": [], "prefixes": BLOCK}, "192.0.2.21:9092"),
        ({"pairs": [], "prefixes": BLOCK}, {"pairs": THEIRS}, "192.0.2.21:9092"),
        ({"pairs": [], "prefixes": BLOCK}, {"pairs": [], "prefixes": BLOCK}, "192.0.2.0/24"),
        ({"pairs": [["192.0.2.21", 9094, "1.1.1.1", 1]]}, {"pairs": THEIRS, "prefixes": BLOCK}, ""),
        ({"pairs": [], "prefixes": [["192.0.2.0/25", [80], "1.1.1.0/25"]]}, {"pairs": THEIRS, "prefixes": BLOCK}, ""),
    ],
)
def test_under_the_lock_it_is_looked_at_again(
    mine: dict[str, Any], theirs: dict[str, Any], common: str, lib: Path
) -> None:
    keep(lib, "lab", generation(**theirs))
    asked = {"owner": "own", "take_over": [], **mine}
    if not common:
        node_owners.refuse_held(asked)
        return
    with pytest.raises(system.Refusal, match=f"{common} is rewritten here by owner lab"):
        node_owners.refuse_held(asked)
    node_owners.refuse_held(dict(asked, take_over=["lab"]))
    keep(lib, "lab", generation(**theirs, take_over=["own"]))
    node_owners.refuse_held(asked)


def test_one_switch_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first, and is told who that is when it waited long enough."""
    monkeypatch.setattr(system, "RUN", str(tmp_path))
    with system.locked("owner lab (ann)"):
        told = r"is being switched by owner lab \(ann\), process \d+, since"
        with pytest.raises(system.Refusal, match=told), system.locked("owner own", wait=0.2):
            pytest.fail("two at once")
        timer = threading.Timer(0.3, lambda: order.append("first"))
        order: list[str] = []
        waiter = threading.Thread(target=_wait_for_lock, args=(order,))
        waiter.start()
        timer.start()
        timer.join()
    waiter.join()
    assert order == ["first", "second"]


def test_a_switch_that_waited_long_enough_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a result of its host, so that the roll-out's summary has it; nothing else was done."""
    monkeypatch.setattr(system, "RUN", str(tmp_path))
    asked, said = tmp_path / "request.json", tmp_path / "answer.json"
    asked.write_text(json.dumps({"bundle": {"owner": "own", "digest": "d"}, "lock_wait": 0.1}))
    with system.locked("owner lab (ann)"):
        node_program.switch_now(str(asked), str(said))
    result = json.loads(said.read_text())
    assert (result["state"], result["changed"], result["digest"]) == ("refused", False, "d")
    assert "owner lab (ann)" in result["refusal"]["cause"]


def _wait_for_lock(order: list[str]) -> None:
    with system.locked("owner own", wait=10):
        order.append("second")


# ------------------------------------------------------------ the plan


@pytest.mark.parametrize(
    ("natmap", "theirs", "what"),
    [
        (parsed(broker()), held(*THEIRS), "192.0.2.21:9092"),
        (parsed(broker()), held(prefixes=BLOCK), "192.0.2.21:9092"),
        (parsed(networks=[network()]), held(*THEIRS), "192.0.2.21:9092"),
        (parsed(networks=[network()]), held(prefixes=BLOCK), "192.0.2.0/24 port 9092"),
        (parsed(networks=[network()]), held(prefixes=[["192.0.2.128/25", [9092], "1.1.1.0/25"]]), "192.0.2.128/25"),
        (
            parsed(*[broker(f"192.0.2.{n}:9092", f"203.0.113.{n}:9092") for n in range(30, 40)]),
            held(prefixes=BLOCK),
            "and 5 more",
        ),
    ],
)
def test_pairs_of_another_owner_are_refused_or_taken(natmap: Any, theirs: Any, what: str) -> None:
    facts = node(others={"lab": theirs})
    (problem,) = refusals(natmap, facts)
    assert what in problem.reason
    assert "is rewritten here by owner lab" in problem.reason
    assert "take_over: [lab]" in problem.mend
    taking = replace(natmap, take_over=("lab",))
    assert [n for n in planned(taking, facts).notices if what in n and "is taken over from owner lab" in n]
    left = node(others={"lab": theirs | {"take_over": ["default"]}})
    assert [n for n in planned(natmap, left).notices if what in n and "is left to owner lab" in n]


@pytest.mark.parametrize("theirs", [{}, {"prefixes": [["192.0.2.0/24", [9093], "203.0.113.0/24"]]}])
def test_what_does_not_meet_is_not_refused(theirs: dict[str, Any]) -> None:
    natmap = parsed(broker(), networks=[network("192.0.3.0/24", "203.0.114.0/24")])
    assert refusals(natmap, node(others={"lab": held(["192.0.2.21", 9093, "1.1.1.1", 1], **theirs)})) == []


def test_one_map_at_a_time_takes_over() -> None:
    natmap = parsed(broker(), take_over=["lab"])
    assert "itself takes over" in refusals(natmap, node(others={"lab": held(*THEIRS, take_over=["default"])}))[0].reason
    third = node(others={"third": held(*THEIRS, take_over=["default"])})
    assert "itself takes over" in refusals(natmap, third)[0].reason


def test_iptables_cannot_come_before_nftables() -> None:
    natmap = parsed(broker(), take_over=["lab"], mechanism="iptables")
    (problem,) = refusals(natmap, node(others={"lab": held(*THEIRS)}))
    assert "mechanism: nftables" in problem.mend
    assert refusals(natmap, node(others={"lab": held(*THEIRS, backends=["iptables"])})) == []


def test_a_name_of_another_owner_keeps_its_address() -> None:
    natmap = parsed(broker("kafka-1:9092"))
    (line,) = planned(natmap).hosts
    assert refusals(natmap, node(others={"lab": held(names={"kafka-1": line.address})})) == []
    (problem,) = refusals(natmap, node(others={"lab": held(names={"kafka-1": "240.9.9.9"})}))
    assert "owner lab has it as 240.9.9.9" in problem.reason


@pytest.mark.parametrize(
    ("pair", "asked"),
    [(["192.0.2.21", 9092, "203.0.113.21", 9092], [1, 2]), (["192.0.2.21", 9092, "203.0.113.99", 9092], [2])],
)
def test_a_broker_that_is_led_elsewhere_is_not_ours_to_prove(pair: list[Any], asked: list[int]) -> None:
    natmap = parsed(broker(id=1), broker("192.0.2.22:9092", "203.0.113.22:9092", id=2))
    facts = node(others={"lab": held(pair, take_over=["default"])})
    (probe,) = bundle.probe_requests(natmap, facts)
    assert [one["id"] for one in probe["clusters"][0]["brokers"]] == asked


def test_a_map_that_takes_over_is_another_text() -> None:
    for backend, name in (("nftables", "nftables.nft"), ("iptables", "iptables.rules")):
        plain, taking = (
            printed(planned(parsed(broker(), mechanism=backend, **more)))[name] for more in ({}, {"take_over": ["lab"]})
        )
        assert plain != taking


# ------------------------------------------------------------ the real programs


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.close()


PORTS = {"upper": 7001, "lower": 7002}
LAYERS = {"nftables": Nftables, "iptables": Iptables}


@pytest.fixture
def world(namespace: Namespace) -> Iterator[Callable[[], str]]:
    """Two servers, one an owner; the function says which one a connection to the mapped pair meets."""
    with ExitStack() as stack:
        stack.enter_context(namespace.entered())
        servers = {}
        for owner, port in PORTS.items():
            server = stack.enter_context(socket.create_server(("198.18.254.1", port)))
            server.settimeout(5)
            servers[owner] = server

        def met() -> str:
            with socket.create_connection(("192.0.2.21", 9092), timeout=5) as dialled:
                mine = dialled.getsockname()
                for owner, server in servers.items():
                    server.setblocking(False)
                    try:
                        taken, peer = server.accept()
                    except BlockingIOError:
                        continue
                    taken.close()
                    assert peer == mine
                    return owner
            return "nobody"

        yield met
        subprocess.run(["nft", "flush", "ruleset"], check=True)


def layer_of(owner: str, backend: str, lib: Path, take_over: list[str]) -> tuple[Any, str]:
    """An owner's layer and text; its generation is kept as a switch keeps it."""
    way = f"198.18.254.1:{PORTS[owner]}"
    root = {"users": ["root"], "allow_root": True}
    natmap = parsed(broker(reachable=way), owner=owner, mechanism=backend, scope=root, take_over=take_over)
    facts = node(users={"root": {"uid": 0, "gid": 0}}, nftables={"usable": True, "reason": ""})
    plan = planner.plan_node(natmap, facts)
    text = printed(plan)[{"nftables": "nftables.nft", "iptables": "iptables.rules"}[backend]]
    made = bundle.make_bundle(natmap, plan, facts, {backend: text}, {}, "python3")
    keep(lib, owner, {key: value for key, value in made.items() if key != "probe"})
    return LAYERS[backend](dict(made["names"], owner=owner)), text


@pytest.mark.parametrize("order", [("lower", "upper"), ("upper", "lower")], ids="-then-".join)
@pytest.mark.parametrize("backends", [("nftables", "nftables"), ("iptables", "iptables"), ("nftables", "iptables")])
def test_who_takes_over_goes_first_and_gives_back(
    world: Callable[[], str], lib: Path, backends: tuple[str, str], order: tuple[str, str]
) -> None:
    layers = {
        "upper": layer_of("upper", backends[0], lib, ["lower"]),
        "lower": layer_of("lower", backends[1], lib, []),
    }
    for owner in order:
        layer, text = layers[owner]
        layer.check(text)
        layer.load(text, {})
    assert world() == "upper"
    for owner in (*order, *order):
        layers[owner][0].load(layers[owner][1], {})
        assert world() == "upper"
    layers["upper"][0].clear({"nat_table_before": True})
    assert world() == "lower"


@pytest.mark.parametrize("backend", LAYERS)
def test_a_map_begins_and_ends_to_take_over_in_place(world: Callable[[], str], lib: Path, backend: str) -> None:
    plain, plain_text = layer_of("upper", backend, lib, [])
    lower, lower_text = layer_of("lower", backend, lib, [])
    plain.load(plain_text, {})
    before = plain.snapshot()
    lower.load(lower_text, {})
    taking, text = layer_of("upper", backend, lib, ["lower"])
    taking.load(text, {})
    assert world() == "upper"
    plain, plain_text = layer_of("upper", backend, lib, [])
    plain.load(plain_text, {})
    assert plain.snapshot() == before
    assert world() in PORTS


def test_each_order_of_jumps(lib: Path) -> None:
    """A jump that stands right stays; one that does not is moved in the same transaction."""
    keep(lib, "above", generation(names={"ipt_chain": "KNM-above"}, take_over=["own"]))
    keep(lib, "below", generation(names={"ipt_chain": "KNM-below"}))
    layer = Iptables({"ipt_chain": "KNM-own", "owner": "own", "take_over": ["below"]})
    source = "-A POSTROUTING -p tcp -j KNM-own-SRC"
    for chains in product(("above", "own", "below", "x"), repeat=4):
        if len(set(chains)) < 4 or chains.index("above") > chains.index("below"):
            continue
        saved = [f"-A OUTPUT -p tcp -j KNM-{name}" for name in chains]
        moves = layer._jumps([*saved, source])
        right = chains.index("above") < chains.index("own") < chains.index("below")
        assert bool(moves) != right
        if moves:
            place = chains.index("above") + 2 - (chains.index("own") < chains.index("above"))
            assert moves == ["-D OUTPUT -p tcp -j KNM-own", f"-I OUTPUT {place} -p tcp -j KNM-own"]


def test_without_others_the_jump_goes_first(lib: Path) -> None:
    layer = Iptables({"ipt_chain": "KNM-own", "owner": "own"})
    moves = layer._jumps(["-A OUTPUT -j DOCKER"])
    assert moves == ["-I POSTROUTING 1 -p tcp -j KNM-own-SRC", "-I OUTPUT 1 -p tcp -j KNM-own"]
