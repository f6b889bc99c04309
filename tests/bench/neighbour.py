"""What another user of a node gets out of its network. Runs on that node as that user.

Arguments: host, port, seconds. Prints a JSON object {connections, megabytes}: new connections a second, and megabytes a second
through one. Then it holds 100 connections open until standard input ends.
"""

import contextlib
import json
import socket
import struct
import sys
import time

HELD = 100


def new_connections(peer: tuple[str, int], seconds: float) -> float:
    """Connections made and ended, a second."""
    made, begun = 0, time.monotonic()
    while time.monotonic() - begun < seconds:
        with socket.create_connection(peer, timeout=3) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.recv(1)
        made += 1
    return made / (time.monotonic() - begun)


def throughput(peer: tuple[str, int], seconds: float) -> float:
    """Megabytes a second into one connection."""
    block, sent, begun = b"\0" * (1 << 18), 0, time.monotonic()
    with socket.create_connection(peer, timeout=10) as one:
        while time.monotonic() - begun < seconds:
            one.sendall(block)
            sent += len(block)
        return sent / 1e6 / (time.monotonic() - begun)


def main() -> None:
    """Measure."""
    peer, seconds = (sys.argv[1], int(sys.argv[2])), float(sys.argv[3])
    found = {"connections": new_connections(peer, seconds), "megabytes": throughput(peer, seconds)}
    with contextlib.ExitStack() as held:
        for _ in range(HELD):
            held.enter_context(socket.create_connection(peer, timeout=3)).recv(1)
        print(json.dumps(found), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
