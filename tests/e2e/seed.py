"""Give a lab what the example inventory's job works on: the topic `audit`, filled at headquarters, empty at the site."""

import argparse
import sys

from e2e import access
from lab import lifecycle
from lab.topology import DEFAULT_NAME, KAFKA_PORT, Lab

TOPIC = "audit"
# a listener of the second headquarters that needs no name, for those in its room
DR_ROOM_PORT = 9094


def seed(lab: Lab, records: int) -> list[str]:
    """Create what is missing; returns a line for each topic."""
    places = [("hq-1", KAFKA_PORT, records), ("dr-1", DR_ROOM_PORT, records), ("kafka", KAFKA_PORT, 0)]
    lines = []
    for host, port, count in places:
        if lab.has(host):
            bootstrap = f"{lab.ip(host)}:{port}"
            arguments = ["--bootstrap", bootstrap, "--topic", TOPIC, "--records", str(count), "--unless-there"]
            lines.append(f"topic {TOPIC} on {host}: {access.in_network(lab, host, 'events', *arguments)}")
    return lines


def main() -> int:
    """Seed a lab that is up; one that is not is left alone."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--name", default=DEFAULT_NAME, help="the lab's name (default: %(default)s)")
    parser.add_argument("--records", type=int, default=10_000)
    args, _ = parser.parse_known_args()
    lab = lifecycle.standing(args.name)
    if lab:
        sys.stdout.writelines(f"  {line}\n" for line in seed(lab, args.records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
