"""Dial addresses again and again, and count what answers. Runs on a node as one of its users.

Arguments: a JSON object {addresses, connections, rate, limit}. At least that many connections are made, and on until standard
input ends, `rate` a second in all; each is one byte read and an abortive end, so that no port stays taken. Prints `enough`
when it has made that many, at the end a JSON object {made, failed, unrewritten, p99} (p99: milliseconds from connect to
the byte).
"""

import json
import select
import socket
import struct
import sys
import time

# What the listener at the advertised address says; the one at the reachable address says R.
WRONG = b"W"
PATIENCE = 3.0


def dial(address: str) -> bytes:
    """The byte that the listener says; empty where there is none."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return connection.recv(1)
    except OSError:
        return b""


def ended() -> bool:
    """Whether whoever started this has closed our standard input."""
    return bool(select.select([sys.stdin], [], [], 0)[0]) and not sys.stdin.read(1)


def run(asked: dict[str, list[str] | int | float]) -> dict[str, float]:
    """Dial at an even pace; a connection that came late is not made up for."""
    addresses, rate = list(asked["addresses"]), float(asked["rate"])  # type: ignore[arg-type]
    took: list[float] = []
    made = failed = unrewritten = 0
    due = time.monotonic()
    while made < int(asked["connections"]) or not ended():  # type: ignore[arg-type]
        begun = time.monotonic()
        said = dial(addresses[made % len(addresses)])
        took.append(time.monotonic() - begun)
        if made + 1 == asked["connections"]:
            print("enough", flush=True)
        made, failed, unrewritten = made + 1, failed + (said == b""), unrewritten + (said == WRONG)
        due = max(due + 1 / rate, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    p99 = round(1000 * sorted(took)[len(took) * 99 // 100], 2)
    return {"made": made, "failed": failed, "unrewritten": unrewritten, "p99": p99}


if __name__ == "__main__":
    json.dump(run(json.loads(sys.argv[1])), sys.stdout)
