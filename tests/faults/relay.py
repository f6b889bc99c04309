"""`make faults-relay`: what befalls a relay of months, and an audit of each; exit code 1 where a promise was not kept."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

from bench.rows import Row, finish, row
from faults.relay_cases import CASES, Case
from faults.relay_hosts import large_disk
from faults.relay_run import Run
from faults.relay_site import Site
from lab.borrow import borrowed

HOSTS = ("hq", "router", "yarn", "kafka", "edge")
COLUMNS = (
    "case",
    "told",
    "counts",
    "records",
    "lost",
    "altered",
    "reordered",
    "repeated",
    "bar",
    "value",
    "unit",
    "holds",
)
KINDS = ("lost", "altered", "reordered")


def play(site: Site, case: Case) -> Row:
    """One row: a relay of its own under load, the fault, the drain, the audit."""
    # A name of its own each time: what an earlier run left does not matter.
    run = Run(site, f"{case.name}-{int(time.time()):x}", case.settings, case.jumped)
    try:
        run.prepare()
        if not case.own:
            run.deploy()
        run.feed()
        begun = time.monotonic()
        mended = case.fault(run)
        came = run.progress(mended).at
        run.starve()
        run.drain()
        return judged(case, run, begun, came - mended)
    except Exception as error:  # whatever went wrong, the other rows are worth having
        return row(case.name, 0.0, "s", case.repeats, False, error=f"{type(error).__name__}: {error}"[:2000])
    finally:
        run.end()


def judged(case: Case, run: Run, begun: float, seconds: float) -> Row:
    """Nothing lost, altered or out of order, repeats within the bound, and the states told."""
    states = list(dict.fromkeys(one.status["state"] for one in run.told if one.at >= begun))
    figures = run.audit()
    kept = figures["records"] > 0 and not any(figures[kind] for kind in KINDS) and figures["repeated"] <= case.repeats
    last = run.status
    as_told = set(case.states) <= set(states) and case.attempts in (0, last["attempt"])
    made = row(case.name, seconds, "s", case.repeats, kept and as_told)
    counts = {key: last[key] for key in ("attempt", "restarts", "waits", "left_out")}
    return made | {"told": " ".join(states), "counts": counts} | {
        key: figures[key] for key in ("records", "gaps", *KINDS, "repeated", "of_other_sources")
    }  # fmt: skip


def measure(site: Site, wanted: Sequence[str]) -> Iterator[Row]:
    """All rows, or those that are wanted."""
    large_disk(site)
    for case in CASES:
        if not wanted or case.name in wanted:
            begun = time.monotonic()
            made = play(site, case)
            said = "" if made["holds"] else f"  MISSED {made['beside'] or made}"
            print(f"{case.name}: {case.fault.__doc__}", flush=True)
            print(
                f"  {made.get('records', 0)} records, {made.get('repeated', '?')} repeated, on again after"
                f" {made['value']:.1f} s; took {time.monotonic() - begun:.0f} s{said}",
                flush=True,
            )
            yield made
    large_disk(site)


def main() -> int:
    """Play all, on a lab of its own unless another is named."""
    parser = argparse.ArgumentParser(prog="python -m faults.relay", description=__doc__)
    parser.add_argument("--lab", default="chaos", help="the lab's name (default: %(default)s); brought up if need be")
    parser.add_argument("cases", nargs="*", help=f"only these: {', '.join(case.name for case in CASES)}")
    args = parser.parse_args()
    unknown = sorted(set(args.cases) - {case.name for case in CASES})
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    begun = time.monotonic()
    with borrowed(args.lab, HOSTS) as lab:
        site = Site(lab)
        site.play("apply")
        rows = list(measure(site, args.cases))
    code = finish("faults", "relay", rows, COLUMNS)
    print(f"took {time.monotonic() - begun:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
