"""What stands where a Kafka or a Hadoop is expected: ports that speak otherwise, and a YARN by its processes and files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from faults.doctor_fault import Fault
from faults.doctor_node import cluster, nat_map
from lab.topology import Lab

PORT = 9098
_END = "kill $(cat /run/stranger.pid)"
_STRANGER = """
import socket, threading, time
def serve(taken):
    asked = taken.recv(4096)
    said = {said}
    if said is None: time.sleep(60)
    taken.sendall(said)
    if {stays}: time.sleep(60)
    taken.close()
port = socket.create_server(('127.0.0.1', {port}))
print('ready', flush=True)
while True:
    threading.Thread(target=serve, args=(port.accept()[0],), daemon=True).start()
"""
# ApiVersions v0 of a broker that takes Metadata up to version 1 and no more, to whichever question.
_OLD = "bytes.fromhex('00000016') + asked[8:12] + bytes.fromhex('0000 00000002 0003 0000 0001 0012 0000 0000')"
_NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
_FOLDER = "/run/stand-in"
_GONE = f"kill $(cat {_FOLDER}/pid); rm -r {_FOLDER}"


def strangers(lab: Lab) -> Iterator[Fault]:
    """Ports that are no Kafka, or none that is new enough."""
    for what, said, expected, stays in (
        ("no Kafka: an HTTP server", repr(b"HTTP/1.1 400 no\r\n\r\n"), "NOT_KAFKA/http@api", False),
        ("no Kafka: a silent port", "None", "NOT_KAFKA/silent@api", True),
        ("no Kafka: a port that says garbage", repr(b"\0\0\0\x10" + b"\xee" * 16), "NOT_KAFKA/garbage@api", True),
        ("no Kafka: a port that announces 2 GB", repr(b"\x7f\xff\xff\xff" + b"\0" * 64), "NOT_KAFKA/garbage@api", True),
        ("no Kafka: a port that hangs up", "b''", "NOT_KAFKA/closed@api", False),
        ("a broker older than Kafka 2.1", _OLD, "UNPROVEN@api", True),
    ):
        there = f"127.0.0.1:{PORT}"
        yield Fault(what, expected, _serve(said, stays), _END, bootstrap=there, at=there)


def yarn(lab: Lab) -> Iterator[Fault]:
    """A NodeManager and a ResourceManager by what the doctor reads of them."""
    made = nat_map({"plain": cluster(lab)})
    rows = [{"nodeHostName": name, "state": "RUNNING"} for name in ("nm1", "nm9")]
    page = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps({"nodes": {"node": rows}})
    yield Fault(
        "YARN has a node that the inventory does not know",
        "NODE_UNMANAGED@yarn",
        f"{_manager('yarn', {'webapp.address': f'127.0.0.1:{PORT}'})}; {_serve(repr(page.encode()), False)}",
        f"{_END}; {_GONE}",
        map=made,
        options={"yarn": True},
    )
    yield Fault("containers run as another user", "SCOPE_WRONG/containers@yarn", _manager("etl", {}), _GONE, map=made)
    runtime = f"{_manager('yarn', {'runtimes': 'default,docker', 'local-user': 'yarn', 'executor': 'LinuxContainerExecutor'})}"
    yield Fault("containers with a network of their own", "CONTAINER_NETWORK@yarn", runtime, _GONE, map=made)


_KEYS = {
    "webapp.address": "yarn.resourcemanager.webapp.address",
    "executor": "yarn.nodemanager.container-executor.class",
    "local-user": "yarn.nodemanager.linux-container-executor.nonsecure-mode.local-user",
    "runtimes": "yarn.nodemanager.runtime.linux.allowed-runtimes",
}


def _serve(said: str, stays: bool) -> str:
    """Start a listener that answers every connection with these bytes (Python)."""
    code = shlex.quote(_STRANGER.format(said=said, stays=stays, port=PORT))
    ready = "until grep -q ready /run/stranger.ready; do sleep 0.05; done"
    return f"nohup python3 -c {code} > /run/stranger.ready 2>&1 & echo $! > /run/stranger.pid; {ready}"


def _manager(user: str, settings: dict[str, str]) -> str:
    """Start a process that looks like a NodeManager of this user, with these settings."""
    rows = "".join(
        f"<property><name>{_KEYS[key]}</name><value>{one}</value></property>" for key, one in settings.items()
    )
    file = f"mkdir -p {_FOLDER}; echo '<configuration>{rows}</configuration>' > {_FOLDER}/yarn-site.xml"
    sleeper = f"python3 -c 'import time; time.sleep(600)' {_NODE_MANAGER}"
    start = f"setpriv --reuid {user} --regid {user} --clear-groups {sleeper}"
    # Through exec: the process that is ended is the one that was started.
    return f"{file}; (HADOOP_CONF_DIR={_FOLDER} exec {start}) > /dev/null 2>&1 & echo $! > {_FOLDER}/pid"
