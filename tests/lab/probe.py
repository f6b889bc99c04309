"""Asks the lab's parts whether they answer. Runs on a lab host, fed to its Python on standard input.

Arguments: seconds to try for, the name of the question, its arguments as JSON. Prints what was seen last when it gives up.
"""

import json
import socket
import struct
import sys
import time
import urllib.error
import urllib.request
from typing import Any


class NotYet(Exception):
    """The part does not answer as it should; the text says what was seen."""


def _read(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        if not chunk:
            raise NotYet("the broker closed the connection")
        data += chunk
    return data


def _ask(address: str, api_key: int, version: int, body: bytes = b"") -> bytes:
    """One Kafka request with header version 1; returns the answer after its correlation id."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=3) as sock:
        request = struct.pack(">hhih", api_key, version, 7, 3) + b"lab" + body
        sock.sendall(struct.pack(">i", len(request)) + request)
        return _read(sock, struct.unpack(">i", _read(sock, 4))[0])[4:]


def _brokers(address: str) -> dict[str, str]:
    """Metadata v1 for no topic: the brokers as {id: 'host:port'}."""
    data = _ask(address, 3, 1, struct.pack(">i", 0))
    count, at = struct.unpack_from(">i", data)[0], 4
    found: dict[str, str] = {}
    for _ in range(count):
        node, length = struct.unpack_from(">ih", data, at)
        host = data[at + 6 : at + 6 + length].decode()
        at += 6 + length
        port, rack = struct.unpack_from(">ih", data, at)
        at += 6 + max(rack, 0)
        found[str(node)] = f"{host}:{port}"
    return found


def kafka(bootstrap: list[str], brokers: dict[str, str]) -> None:
    """Each address answers, and its metadata names exactly these brokers."""
    for address in bootstrap:
        seen = _brokers(address)
        if seen != brokers:
            raise NotYet(f"{address} names the brokers {seen}, not {brokers}")


def nat(open_addresses: list[str], closed_addresses: list[str]) -> None:
    """The first answer Kafka's ApiVersions; from the second not even a refusal comes."""
    for address in open_addresses:
        try:
            _ask(address, 18, 0)
        except OSError as error:
            raise NotYet(f"{address}: {error}") from error
    for address in closed_addresses:
        host, port = address.rsplit(":", 1)
        try:
            socket.create_connection((host, int(port)), timeout=0.4).close()
        except TimeoutError:
            continue
        except OSError as error:
            raise NotYet(f"{address} should be dropped in silence, but says {error}") from error
        raise NotYet(f"{address} is reached past the NAT")


def _http(url: str, method: str = "GET", data: bytes | None = None) -> Any:
    request = urllib.request.Request(url, data=data, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"{}")


def yarn(url: str, nodes: int) -> None:
    """The ResourceManager lists this many NodeManagers."""
    active = _http(url + "/ws/v1/cluster/metrics")["clusterMetrics"]["activeNodes"]
    if active != nodes:
        raise NotYet(f"the ResourceManager has {active} of {nodes} NodeManagers")


def hdfs(url: str, users: list[str]) -> None:
    """Out of safe mode, and each user can write a file to /checkpoints."""
    for user in users:
        path = f"{url}/webhdfs/v1/checkpoints/.probe-{user}?user.name={user}&op="
        datanode = _http(path + "CREATE&overwrite=true&noredirect=true", "PUT")["Location"]
        _http(datanode, "PUT", b"probe")
        _http(path + "DELETE", "DELETE")


def main() -> None:
    deadline = time.monotonic() + float(sys.argv[1])
    question, arguments = globals()[sys.argv[2]], json.loads(sys.argv[3])
    while True:
        try:
            question(**arguments)
            return
        except (NotYet, OSError, urllib.error.URLError) as error:
            seen = str(error)
        if time.monotonic() > deadline:
            sys.exit(seen)
        time.sleep(0.5)


main()
