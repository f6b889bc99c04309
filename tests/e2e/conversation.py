"""Ask HOST:PORT, as a Kafka client does first, which requests it takes. Runs on a node; standard library only.

Prints {"port": local port, "answer": number of request types} or {"port": …, "error": text}; ends within 3 s.
"""

import json
import socket
import struct
import sys

SECONDS = 3
API_VERSIONS, CORRELATION = 18, 7


def ask(host: str, port: int) -> dict[str, int | str]:
    """The local port, and what came of it."""
    client = socket.socket()
    client.settimeout(SECONDS)
    client.bind(("", 0))
    result: dict[str, int | str] = {"port": client.getsockname()[1]}
    try:
        with client:
            client.connect((host, port))
            request = struct.pack(">hhih", API_VERSIONS, 0, CORRELATION, -1)
            client.sendall(struct.pack(">i", len(request)) + request)
            answer = client.makefile("rb").read(4 + 4 + 2 + 4)
            _, correlation, error, count = struct.unpack(">iihi", answer)
            if (correlation, error) != (CORRELATION, 0):
                raise OSError("this is not Kafka")
            result["answer"] = count
    except (OSError, struct.error) as error:
        result["error"] = str(error) or type(error).__name__
    return result


if __name__ == "__main__":
    json.dump(ask(sys.argv[1], int(sys.argv[2])), sys.stdout)
