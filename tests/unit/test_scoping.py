"""A scope that the node's YARN decides: selectors, probes, and why it is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.module_utils import bundle
from ansible_collections.kafka.natmap.plugins.module_utils.facts import questions
from ansible_collections.kafka.natmap.plugins.module_utils.plan import Selector
from unit.maps import broker, parsed
from unit.nodes import node, planned, printed, refusals

LAST = 4294967294
NATMAP = parsed(broker(id=1), scope={"discover": "yarn"})


def found(**changed: Any) -> dict[str, Any]:
    """What ``inspect`` found of the node's YARN."""
    return {"users": [], "uid_ranges": [], "found": ["because"], "notices": [], "refusal": None} | changed


SUBMITTERS = found(users=["etl"], uid_ranges=[[1000, 1199], [1201, LAST]], notices=["docker"])


def test_only_a_map_that_discovers_asks_for_it() -> None:
    assert questions(NATMAP)["discover"] == ["yarn"]
    assert questions(parsed(broker()))["discover"] == []


def test_what_was_found_is_the_scope_and_said() -> None:
    plan = planned(NATMAP, node(discovered=SUBMITTERS))
    assert plan.rules[0].selectors == (
        Selector("uid", 1000, 1199, "uids 1000 to 1199"),
        Selector("uid", 1201, LAST, f"uids 1201 to {LAST}"),
        Selector("uid", 1500, 1500, "user etl"),
    )
    assert plan.notices == ("hq: because", "hq: docker")


def test_what_was_found_joins_what_is_named() -> None:
    natmap = parsed(broker(), scope={"discover": "yarn", "users": ["etl"]})
    plan = planned(natmap, node(discovered=found(users=["yarn", "etl"])))
    assert [one.label for one in plan.rules[0].selectors] == ["user yarn", "user etl"]


def test_a_scope_that_does_not_discover_takes_nothing_of_it() -> None:
    plan = planned(parsed(broker()), node(discovered=SUBMITTERS))
    assert [one.label for one in plan.rules[0].selectors] == ["user yarn"]
    assert plan.notices == ()


@pytest.mark.parametrize(("backend", "name"), [("nftables", "nftables.nft"), ("iptables", "iptables.rules")])
def test_ranges_to_the_last_uid_are_printed(backend: str, name: str) -> None:
    natmap = parsed(broker(), scope={"discover": "yarn"}, mechanism=backend)
    assert f" 1201-{LAST} " in printed(planned(natmap, node(discovered=SUBMITTERS)))[name]


def test_the_probe_dials_as_who_was_found_and_as_nobody_of_them() -> None:
    natmap, facts = NATMAP, node(discovered=SUBMITTERS)
    probes = list(bundle.probe_requests(natmap, facts))
    assert [probe["identity"]["label"] for probe in probes] == ["etl", "uid 1000"]
    assert 0 < probes[0]["outsider"]["uid"] < 1000


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (None, "nothing was found here"),
        (found(), "nothing was found here"),
        (found(refusal={"cause": "no NodeManager", "mend": "start it"}), "no NodeManager"),
        (found(users=["gone"]), "user gone does not exist here"),
        (found(users=['x" }'], uid_ranges=[[1, 2]]), "is not the name of a user"),
        (found(uid_ranges=[[0, 5]]), "no range of uids"),
        (found(uid_ranges=[[5, 2**32]]), "no range of uids"),
        (found(users=["root"]), "user root is root here"),
    ],
)
def test_is_refused(said: Any, reason: str) -> None:
    users = {"root": {"uid": 0, "gid": 0}, "gone": None, 'x" }': {"uid": 7, "gid": 7}}
    (problem,) = refusals(NATMAP, node(discovered=said, users=users))
    assert reason in problem.reason
    assert problem.path.startswith("nat_map.clusters.hq.scope")
    assert problem.mend
