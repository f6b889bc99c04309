"""How the relay fares: status.json for programs, status.prom for Prometheus, one line for people. Standard library only."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

VERSION = 1
STATES = (
    "STARTING", "RUNNING", "WAITING", "STOPPING", "DRAINING", "STOPPED", "DRAINED", "DONE", "HALTED",
)  # fmt: skip
NOTES = 20
# Metric by key: its name, type and help.
GAUGES = {
    "since": ("state_since_seconds", "When the state began"),
    "time": ("status_time_seconds", "When this status was written"),
    "last_progress": ("last_progress_seconds", "When a batch was last committed, or nothing was there to read"),
    "batch": ("batch_id", "The last committed batch"),
    "batch_seconds": ("batch_seconds", "Time that the last batch took"),
    "in_per_second": ("in_per_second", "Records read each second"),
    "out_per_second": ("out_per_second", "Records written each second"),
    "shadow_committed": ("shadow_commit_seconds", "When the shadow group was last committed"),
}
COUNTERS = {
    "records_in": ("records_in_total", "Records read since this attempt began"),
    "records_out": ("records_out_total", "Records written since this attempt began"),
    "left_out": ("left_out_total", "Records not written again, for they were in the sink"),
    "restarts": ("restarts_total", "Times that the query was started again"),
    "waits": ("waits_total", "Times that a part was away"),
    "waiting_seconds": ("waiting_seconds_total", "Time spent waiting for parts that were away"),
}


class Status:
    """The figures of one attempt; `state` changes note the time, and time spent waiting is summed."""

    def __init__(self, **about: Any) -> None:
        now = time.time()
        self.data: dict[str, Any] = {
            "version": VERSION,
            "state": "STARTING",
            "since": now,
            "cause": "",
            "mend": "",
            "started": now,
            "time": now,
            "batch": None,
            "batch_seconds": None,
            "last_progress": None,
            "records_in": 0,
            "records_out": 0,
            "in_per_second": 0.0,
            "out_per_second": 0.0,
            "lag": {},
            "lag_total": None,
            "bad": {},
            "left_out": 0,
            "restarts": 0,
            "waits": 0,
            "waiting_seconds": 0.0,
            "shadow_committed": None,
            "notes": [],
            **about,
        }

    def become(self, state: str, cause: str = "", mend: str = "") -> bool:
        """Change the state; True when it, or its cause, is new."""
        data, now = self.data, time.time()
        changed = bool(data["state"] != state)
        if changed:
            if data["state"] == "WAITING":
                data["waiting_seconds"] += now - data["since"]
            data["waits"] += state == "WAITING"
            data.update(state=state, since=now)
            if state == "WAITING":
                data.update(in_per_second=0.0, out_per_second=0.0)
        changed = changed or bool(data["cause"] != cause)
        data.update(cause=cause, mend=mend)
        return changed

    def note(self, text: str) -> None:
        """Keep a remark, the last ones of them."""
        if text not in self.data["notes"]:
            self.data["notes"] = [*self.data["notes"], text][-NOTES:]

    def batch(
        self, number: int, seconds: float, rows: int, written: int, left_out: int, bad: Mapping[str, int]
    ) -> None:
        """A batch was committed."""
        data, now = self.data, time.time()
        # Over the time since the batch before, or an idle second would flatter the rate.
        span = max(seconds, min(now - (data["last_progress"] or now), 10.0), 0.001)
        data.update(batch=number, batch_seconds=round(seconds, 3), last_progress=now)
        data.update(in_per_second=round(rows / span, 1), out_per_second=round(written / span, 1))
        data["records_in"] += rows
        data["records_out"] += written
        data["left_out"] += left_out
        for reason, count in bad.items():
            data["bad"][reason] = data["bad"].get(reason, 0) + count

    def idle(self) -> None:
        """Nothing was there to read."""
        self.data.update(last_progress=time.time(), in_per_second=0.0, out_per_second=0.0)

    def lag(self, by_topic: Mapping[str, int]) -> None:
        self.data.update(lag=dict(by_topic), lag_total=sum(by_topic.values()))

    def snapshot(self) -> dict[str, Any]:
        """What is written down now."""
        data, now = dict(self.data), time.time()
        if data["state"] == "WAITING":
            data["waiting_seconds"] += now - data["since"]
        return {**data, "time": now}


def line(data: Mapping[str, Any], now: float | None = None) -> str:
    """One line for people: state, rates, lag by topic, batch time, and the cause when something is wrong."""
    age = (time.time() if now is None else now) - data["time"]
    lag = " ".join(f"{topic} {count:,}" for topic, count in sorted(data["lag"].items())) or "unknown"
    rates = f"in {data['in_per_second']:,.0f}/s out {data['out_per_second']:,.0f}/s"
    batch = "no batch yet" if data["batch"] is None else f"batch {data['batch']} in {data['batch_seconds']:.1f} s"
    told = f"{data['name']}{'/' + data['run'] if data['run'] else ''} {data['state']}  {rates}  lag {lag}  {batch}"
    if data["bad"]:
        told += "  bad " + " ".join(f"{reason} {count}" for reason, count in sorted(data["bad"].items()))
    if age > 30 and data["state"] in STATES[:5]:
        told += f"  (said {age:.0f} s ago)"
    return (
        told + (f"\n  {data['cause']}" if data["cause"] else "") + (f"\n  mend: {data['mend']}" if data["mend"] else "")
    )


def prometheus(data: Mapping[str, Any]) -> str:
    """Prometheus' text format."""
    labels = f'relay="{data["name"]}",run="{data["run"]}"'
    lines: list[str] = []

    def family(name: str, kind: str, text: str, samples: Mapping[str, Any]) -> None:
        lines.append(f"# HELP tagdata_{name} {text}.\n# TYPE tagdata_{name} {kind}")
        lines.extend(
            f"tagdata_{name}{{{labels}{more}}} {value}" for more, value in samples.items() if value is not None
        )

    family("state", "gauge", "1 for the state it is in", {f',state="{s}"': int(s == data["state"]) for s in STATES})
    for key, (name, text) in GAUGES.items():
        family(name, "gauge", text, {"": data[key]})
    for key, (name, text) in COUNTERS.items():
        family(name, "counter", text, {"": data[key]})
    lag = {f',topic="{topic}"': count for topic, count in sorted(data["lag"].items())}
    family("lag_records", "gauge", "Records at the source that are not in the sink yet", lag)
    bad = {f',reason="{reason}"': count for reason, count in sorted(data["bad"].items())}
    family("bad_records_total", "counter", "Records put among the dead letters", bad)
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Print a status.json that comes on standard input."""
    formats = {"line": lambda data: line(data) + "\n", "prometheus": prometheus}
    if len(arguments) != 1 or arguments[0] not in formats:
        print("usage: python3 -m tagdata.status line|prometheus < status.json", file=sys.stderr)
        return 2
    sys.stdout.write(formats[arguments[0]](json.load(sys.stdin)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
