"""`make discover` on one machine, without an inventory: ask, print, and write the draft. Python 3.6 syntax.

The password is read from the terminal or standard input. Exit code 0 written, 1 nothing could be proven, 2 not asked,
3 no address answered here.
"""

import argparse
import os
import platform
import sys
import time
from typing import Any, Dict, List, Optional

import kafka_discover
import yaml
from ansible_collections.kafka.natmap.plugins.filter import discover as filters
from kafka_doctor_cli import parse_arguments

HERE = "inventory/group_vars/all/nat_map.yml"


class _Reader(yaml.SafeLoader):
    """Reads a map whose secrets are in Vault, without them."""


_Reader.add_constructor("!vault", lambda loader, node: "***")


def main(argv: List[str]) -> int:
    """The doctor's options, and a few of our own."""
    parser = argparse.ArgumentParser(prog="discover", add_help=False)
    parser.add_argument("--cluster", default="", metavar="NAME", help="its name in the map")
    parser.add_argument("--draft", default="records/nat_map.draft.yml", metavar="FILE", help="where the draft goes")
    parser.add_argument("--map", default=HERE, metavar="FILE", help="the present map, to compare with")
    parser.add_argument(
        "--trust-guesses", action="store_true", help="send a password in clear to guessed addresses too"
    )
    own, others = parser.parse_known_args(argv[1:])
    asked, _ = parse_arguments(["--deadline", "20"] + others, __doc__ + "\n" + parser.format_help())
    if not asked["probe"][0]["clusters"][0]["bootstrap"]:
        parser.error("--bootstrap: no address is given. Mend: make discover BOOTSTRAP=HOST:PORT")
    present = read_map(own.map)
    (probe,) = asked["probe"]
    security = probe["clusters"][0]["security"]
    pairs = [pair for body in ((present or {}).get("clusters") or {}).values() for pair in body.get("brokers") or ()]
    probe["clusters"][0]["brokers"] = pairs
    print("asking {} ...".format(probe["clusters"][0]["bootstrap"][0]), file=sys.stderr)
    answer = kafka_discover.answer(dict(asked, trust_guesses=own.trust_guesses))
    if "error" in answer:
        print("{cause}. Mend: {mend}.".format(**answer["error"]), file=sys.stderr)
        return 2
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    draft = filters.discover_draft(answer, platform.node(), at, own.cluster, present, security, probe["user"] or "")
    print("\n".join(draft["lines"] + draft["problems"]))
    if draft["text"]:
        return write(own.draft, draft["text"])
    return 1 if answer["brokers"] else 3


def read_map(path: str) -> Optional[Dict[str, Any]]:
    """The present map, or None where there is none that can be read."""
    try:
        with open(path, encoding="utf-8") as stream:
            found: Dict[str, Any] = yaml.load(stream, _Reader)["nat_map"]
            return found
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None


def write(path: str, text: str) -> int:
    """The draft as a file, old or new at every instant."""
    place = filters.draft_place(path)
    os.makedirs(place["folder"], exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(path + ".new", path)
    print("Written: " + os.path.abspath(path))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
