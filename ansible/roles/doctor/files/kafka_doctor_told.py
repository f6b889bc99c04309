"""A doctor's reports as lines for a terminal: first the verdict, then the findings, then the ways. Python 3.6 syntax."""

from typing import Any, Dict, Iterable, List, Sequence

MOST_NODES = 3
STATES = {"healthy": "HEALTHY", "findings": "FINDINGS", "blind": "COULD NOT LOOK"}


def lines(reports: Sequence[Dict[str, Any]]) -> List[str]:
    """Everything that one or many nodes said."""
    ways = way_lines(reports) if len(reports) <= MOST_NODES else matrix_lines(reports)
    return fleet_verdict(reports) + [""] + finding_lines(reports) + ways


def fleet_verdict(reports: Sequence[Dict[str, Any]]) -> List[str]:
    """One line, and one more for each node that could not look."""
    blind = [one for one in reports if one["verdict"]["state"] == "blind"]
    bad = [one for one in reports if one["verdict"]["state"] == "findings"]
    seconds = max([one["seconds"] for one in reports] or [0])
    took = " ({} node{}, {:.1f} s)".format(len(reports), "" if len(reports) == 1 else "s", seconds)
    if bad:
        first = min(bad, key=lambda one: (one["findings"][0]["severity"], reports.index(one)))
        head = "FINDINGS: " + first["verdict"]["text"] + took
    elif blind or not reports:
        head = "COULD NOT LOOK on {} of {}; what was seen is healthy".format(len(blind), len(reports)) + took
    else:
        ways = [walk for one in reports for walk in one["walks"] if walk["role"] != "bootstrap"]
        head = "HEALTHY: {} ways to brokers walked, each answered as itself".format(len(ways)) + took
    return [head] + ["{}: {}".format(one["node"], one["verdict"]["text"]) for one in blind]


def state_of(reports: Sequence[Dict[str, Any]]) -> str:
    """healthy, findings or blind, over all nodes."""
    states = [one["verdict"]["state"] for one in reports] or ["blind"]
    return "findings" if "findings" in states else "blind" if "blind" in states else "healthy"


def finding_lines(reports: Sequence[Dict[str, Any]]) -> List[str]:
    """Alike findings of several nodes stand once."""
    groups: Dict[Any, List[Dict[str, Any]]] = {}
    for report in reports:
        for one in report["findings"]:
            key = (
                one["code"],
                one["detail"],
                one["severity"],
                one["cluster"],
                one["hop"]["name"],
                one["advertised"] or one["hop"]["port"],
            )
            groups.setdefault(key, []).append(one)
    found = []
    for ones in sorted(groups.values(), key=lambda ones: ("error", "warning", "note").index(ones[0]["severity"])):
        first = ones[0]
        nodes = list(dict.fromkeys(str(one["node"]) for one in ones))
        more = " and {} more".format(len(nodes) - MOST_NODES) if len(nodes) > MOST_NODES else ""
        where = "hop {}".format(first["hop"]["name"])
        place = "{}:{}".format(first["hop"]["address"], first["hop"]["port"]) if first["hop"]["port"] else ""
        if first["advertised"]:
            place = first["advertised"] + ("" if place in ("", first["advertised"]) else " by " + place)
        names = [first["code"], first["severity"], where, place, "on " + ", ".join(nodes[:MOST_NODES]) + more]
        found.append("  ".join(part for part in names if part))
        mend = first["mend"].replace("--limit " + nodes[0], "--limit " + ",".join(nodes))
        found += ["    saw    " + first["evidence"], "    cause  " + first["cause"], "    mend   " + mend, ""]
    return found


def way_lines(reports: Sequence[Dict[str, Any]]) -> List[str]:
    """One row a way: who answers where, and the first hop that is broken."""
    rows = []
    for report in reports:
        for walk in report["walks"]:
            rows.append(
                (
                    report["node"],
                    walk["as"],
                    walk["cluster"],
                    walk["role"] if walk["id"] is None else "{} {}".format(walk["role"], walk["id"]),
                    walk["advertised"],
                    walk["rewritten_to"] or walk["dialled"],
                    "-" if walk["latency_ms"] is None else "{:.1f} ms".format(walk["latency_ms"]),
                    trail(walk),
                )
            )
    return table(("node", "as", "cluster", "role", "asked", "reached at", "connect", "hops"), rows) if rows else []


def matrix_lines(reports: Sequence[Dict[str, Any]]) -> List[str]:
    """Nodes x brokers, where single ways would be too many lines."""
    brokers: Dict[Any, str] = {}
    for walk in (walk for report in reports for walk in report["walks"] if walk["role"] == "broker"):
        name = walk["advertised"] if walk["id"] is None else walk["id"]
        brokers.setdefault((walk["cluster"], str(name).zfill(12)), "{} {}".format(walk["cluster"], name))
    columns = [brokers[key] for key in sorted(brokers)]
    rows = []
    for report in reports:
        cells = {}
        for walk in report["walks"]:
            name = "{} {}".format(walk["cluster"], walk["advertised"] if walk["id"] is None else walk["id"])
            if walk["role"] == "broker" and cells.get(name, "ok").startswith("ok"):
                cells[name] = "ok {:.1f} ms".format(walk["latency_ms"] or 0) if walk["state"] == "ok" else trail(walk)
        asked = [walk for walk in report["walks"] if walk["role"] == "bootstrap"]
        good = "{} of {}".format(sum(walk["state"] == "ok" for walk in asked), len(asked))
        rows.append([report["node"], good] + [cells.get(column, "-") for column in columns])
    return table(["node", "bootstrap"] + columns, rows)


def trail(walk: Dict[str, Any]) -> str:
    """The hops up to the first that is not well."""
    for hop in walk["hops"]:
        if hop["state"] == "broken":
            return "{} at {}".format(walk["code"], hop["name"])
    return "ok" if walk["state"] == "ok" else str(walk["code"])


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> List[str]:
    """Lines with aligned columns."""
    cells = [list(head)] + [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    made = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]
    return [made[0], "  ".join("-" * width for width in widths)] + made[1:]
