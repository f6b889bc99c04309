"""Routing, seen by another client than ours: kcat on the nodes, as the scope's users and as others.

A broker takes a record only for a partition that it leads, so what was written and read back arrived at the right one.
"""

import json
import os
import subprocess
import uuid

import pytest

ROUTING = json.loads(os.environ["ROUTING"])
NODES = ("mol-nm1", "mol-nm2")
CASES = [(node, bootstrap) for node in NODES for bootstrap in ROUTING["bootstrap"]]


def kcat(node: str, user: str, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run kcat on a node as a user, for at most 12 s."""
    command = ["podman", "exec", "-i", "--user", user, node, "timeout", "12", "kcat", *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)


def leaders(node: str, user: str, bootstrap: str) -> dict[int, int]:
    """One partition that each broker leads: broker to partition."""
    done = kcat(node, user, "-b", bootstrap, "-L", "-J", "-t", "heartbeat")
    assert done.returncode == 0, done.stderr
    return {part["leader"]: part["partition"] for part in json.loads(done.stdout)["topics"][0]["partitions"]}


@pytest.mark.parametrize(("node", "bootstrap"), CASES)
def test_users_of_the_scope_reach_every_broker(node: str, bootstrap: str) -> None:
    for user in ROUTING["users"]:
        found = leaders(node, user, bootstrap)
        assert sorted(found) == sorted(ROUTING["bootstrap"][bootstrap])
        for partition in found.values():
            token = uuid.uuid4().hex
            where = ("-b", bootstrap, "-t", "heartbeat", "-p", str(partition))
            wrote = kcat(node, user, *where, "-P", "-X", "message.timeout.ms=9000", given=token)
            assert wrote.returncode == 0, wrote.stderr
            read = kcat(node, user, *where, "-C", "-o", "-1", "-c", "1", "-e", "-q")
            assert read.stdout.strip() == token


@pytest.mark.parametrize(("node", "bootstrap"), CASES)
def test_other_users_reach_none(node: str, bootstrap: str) -> None:
    for user in ROUTING["others"]:
        partition = next(iter(leaders(node, user, bootstrap).values()))
        where = ("-b", bootstrap, "-t", "heartbeat", "-p", str(partition))
        wrote = kcat(node, user, *where, "-P", "-X", "message.timeout.ms=3000", given="never")
        assert wrote.returncode != 0
