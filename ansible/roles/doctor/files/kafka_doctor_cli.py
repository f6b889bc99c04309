"""The doctor's command line, for one machine without a map. Python 3.6 syntax."""

import argparse
import getpass
import sys
from typing import Any, Dict, List, Tuple

from kafka_natmap_identity import parse_address
from kafka_natmap_request import PROTOCOLS
from kafka_natmap_wire import SASL_CLASSES


def parse_arguments(arguments: List[str], text: str) -> Tuple[Dict[str, Any], bool]:
    """The request that the arguments stand for, and whether JSON is wanted. Exits with 2 on a bad one."""
    parser = argparse.ArgumentParser(
        prog="doctor", description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT", required=True, help="one or several, with commas between")
    parser.add_argument("--as", dest="user", metavar="USER", help="who asks, such as the job's user (needs root)")
    parser.add_argument("--group", action="append", default=[], help="a consumer group whose coordinator is dialled")
    parser.add_argument("--topic", action="append", default=[], help="a topic whose leaders are dialled")
    parser.add_argument("--protocol", choices=PROTOCOLS, default="PLAINTEXT")
    parser.add_argument("--mechanism", choices=sorted(SASL_CLASSES))
    parser.add_argument("--username", help="of the login; its password is read from standard input")
    parser.add_argument("--cafile", metavar="FILE", help="certificates of the authorities to trust")
    parser.add_argument("--owner", help="whose rules of this node are looked at (default: everybody's)")
    parser.add_argument("--deadline", type=float, default=4.5, metavar="SECONDS")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    addresses = [part.strip() for part in options.bootstrap.split(",") if part.strip()]
    for address in addresses:
        try:
            parse_address(address)
        except ValueError as error:
            parser.error("--bootstrap: {}".format(error))
    security = {"protocol": options.protocol, "mechanism": options.mechanism, "cafile": options.cafile}
    if options.protocol.startswith("SASL"):
        if not options.mechanism:
            parser.error("--protocol {} needs --mechanism".format(options.protocol))
        if options.mechanism != "GSSAPI":
            security.update(username=options.username or "", password=_password())
    cluster = {"name": "kafka", "bootstrap": addresses, "security": security}
    return {
        "probe": [{"clusters": [cluster], "user": options.user}],
        "owner": options.owner,
        "groups": options.group,
        "topics": options.topic,
        "deadline": options.deadline,
    }, options.json


def _password() -> str:
    """From a terminal without echo, else the first line of standard input: never from the arguments."""
    if sys.stdin.isatty():
        return getpass.getpass("Password: ")
    return sys.stdin.readline().rstrip("\n")
