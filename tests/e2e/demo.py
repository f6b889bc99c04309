"""Tell the whole story on a terminal: `make demo`."""

import argparse
import sys
import time

from e2e.story import Story, stand
from e2e.telling import say
from lab.topology import DEFAULT_NAME


def main() -> int:
    """Show an unmodified Spark job fail behind a NAT, work with the map applied, and fail again without it."""
    parser = argparse.ArgumentParser(prog="demo", description=main.__doc__)
    parser.add_argument("--name", default=DEFAULT_NAME, help="the lab (default: %(default)s)")
    parser.add_argument("--records", type=int, default=200_000, help="events to relay (default: %(default)s)")
    args = parser.parse_args()
    begin = time.monotonic()
    try:
        Story(stand(args.name), args.records).tell()
    except KeyboardInterrupt:
        say("\nInterrupted; the next `make demo` starts from here as well as from anywhere.", "bad", "")
        return 130
    except RuntimeError as error:
        say(f"\nThe story went another way after {time.monotonic() - begin:.0f} s:\n{error}", "bad", "")
        return 1
    say(f"\nThe whole story: {time.monotonic() - begin:.0f} s", "good", "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
