"""Containers that the map's scope does not hold, or that no rule of the host reaches."""

from __future__ import annotations

import time
from typing import Any

import kafka_doctor_yarn as yarn
import pytest

ACCOUNTS = {"yarn": 991, "etl": 1500, "nobody": 65534}


def found(users: Any = (), ranges: Any = (), notices: Any = (), refusal: str | None = None) -> dict[str, Any]:
    return {
        "users": list(users), "uid_ranges": list(ranges), "found": ["containers run so"], "notices": list(notices),
        "refusal": {"cause": refusal, "mend": "mend"} if refusal else None,
    }  # fmt: skip


def codes(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], scope: dict[str, Any], *users: str
) -> list[tuple[str, str]]:
    monkeypatch.setattr(yarn, "discovered", lambda: said)
    monkeypatch.setattr(yarn, "account_of", lambda name: {"uid": ACCOUNTS[name], "gid": ACCOUNTS[name]})
    who = [{"uid": ACCOUNTS[user], "gid": ACCOUNTS[user], "label": user} for user in users]
    who += [{"uid": 65533, "gid": 991, "label": f"group {group}"} for group in scope.get("groups", [])]
    return [(one["code"], one["detail"]) for one in yarn.container_findings("nm1", scope, who)]


def test_containers_of_another_user_are_a_wrong_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    assert codes(monkeypatch, found(["nobody"]), {"users": ["yarn"]}, "yarn") == [("SCOPE_WRONG", "containers")]
    assert codes(monkeypatch, found(["yarn"]), {"users": ["yarn"]}, "yarn") == []
    assert codes(monkeypatch, found(["yarn"]), {"groups": ["hadoop"]}) == []
    assert codes(monkeypatch, found(["yarn"]), {"uid_ranges": [[900, 999]]}) == []


def test_submitters_are_held_where_one_of_them_is(monkeypatch: pytest.MonkeyPatch) -> None:
    everybody = found([], [[1000, 60000]])
    assert codes(monkeypatch, everybody, {"users": ["etl"]}, "etl") == []
    assert codes(monkeypatch, everybody, {"uid_ranges": [[2000, 2001]]}) == []
    assert codes(monkeypatch, everybody, {"users": ["yarn"]}, "yarn") == [("SCOPE_WRONG", "containers")]


def test_a_runtime_with_its_own_network_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = found(
        ["yarn"], notices=["containers of runtime docker that have a network of their own do not pass these rules"]
    )
    assert codes(monkeypatch, docker, {"users": ["yarn"]}, "yarn") == [("CONTAINER_NETWORK", "")]
    inside = found(
        refusal="the NodeManager runs in a network namespace of its own, which rules of this host do not reach"
    )
    assert codes(monkeypatch, inside, {"users": ["yarn"]}, "yarn") == [("CONTAINER_NETWORK", "")]


def test_a_host_without_yarn_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert codes(monkeypatch, found(refusal="no NodeManager runs here"), {"users": ["yarn"]}, "yarn") == []


def test_a_resource_manager_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yarn, "nodes", lambda: time.sleep(2))
    began = time.monotonic()
    answer = yarn.Asked(True).wait(0.1)
    assert answer is not None
    assert "no answer" in answer["problem"]
    assert time.monotonic() - began < 1
    assert yarn.Asked(False).wait(1) is None
