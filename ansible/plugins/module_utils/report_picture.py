"""The site's ways to Kafka as a picture: nodes, gateways, the NAT's addresses, brokers, and a line for each way.

Only numbers and texts come from here; the template prints them as SVG. Lengths are in the picture's own units, of
which one is a pixel at full size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.kafka.natmap.plugins.module_utils import report_groups
from ansible_collections.kafka.natmap.plugins.module_utils.report_groups import Edge
from ansible_collections.kafka.natmap.plugins.module_utils.report_matrix import Matrix, Row, worst

_BOX, _GAP, _HEAD, _PAD = 46, 14, 30, 14
_WIDE, _BETWEEN, _SHORT = 204, 120, 56
_TEXT = 24
"""So many characters fit into a box."""
MOST_GATEWAYS = 4


@dataclass(frozen=True)
class Box:
    """A thing with a name and a second line."""

    x: int
    y: int
    kind: str
    state: str
    name: str
    more: str
    width: int = _WIDE
    height: int = _BOX


@dataclass(frozen=True)
class Line:
    """A way, with a mark where it is not well."""

    path: str
    state: str
    mark: str
    x: int
    y: int


@dataclass(frozen=True)
class Frame:
    """What belongs together, with its name above."""

    x: int
    y: int
    width: int
    height: int
    name: str


@dataclass(frozen=True)
class Picture:
    """All of it; ``described`` says the same in sentences."""

    width: int
    height: int
    frames: tuple[Frame, ...]
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    described: tuple[str, ...]


@dataclass
class _Drawing:
    matrix: Matrix
    gateways: Mapping[str, str]
    frames: list[Frame] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    described: list[str] = field(default_factory=list)


def draw(matrix: Matrix, gateways: Mapping[str, str]) -> Picture:
    """The picture of a matrix.

    :param gateways: the gateways' addresses, each with its host's name
    """
    made = _Drawing(matrix, gateways)
    nodes = report_groups.rows_of([row for row in matrix.rows if not row.gateway])
    carriers = [[row] for row in matrix.rows if row.gateway]
    if len(carriers) > MOST_GATEWAYS:
        carriers = [[row for group in carriers for row in group]]
    clusters = report_groups.columns_of(matrix)
    upper = max(_clusters_height(clusters), _column_height(len(nodes)))
    # Gateways stand below everything, so that no way to another address passes behind them.
    height = upper + (_column_height(len(carriers)) - _HEAD if carriers else 0)
    left = _PAD * 2
    middle = left + _WIDE + _BETWEEN if carriers else left
    nat = middle + _WIDE + _BETWEEN
    homes = _hosts(made, nodes, left, (_HEAD, upper), "node")
    halts = _hosts(made, carriers, middle, (upper, height), "gateway")
    made.frames.append(Frame(_PAD, 2, middle + _WIDE, height + _PAD, "Your site"))
    _headquarters(made, clusters, nat, homes, halts, height)
    width = nat + 2 * _WIDE + _SHORT + 2 * _PAD
    return Picture(
        width=width,
        height=height + _PAD + 4,
        frames=tuple(made.frames),
        boxes=tuple(made.boxes),
        lines=tuple(made.lines),
        described=tuple(made.described),
    )


def _column_height(boxes: int) -> int:
    return _HEAD + boxes * (_BOX + _GAP) + _PAD


def _clusters_height(clusters: Sequence[tuple[str, list[list[int]]]]) -> int:
    return max(sum(_HEAD + len(groups) * (_BOX + _GAP) + _PAD for _, groups in clusters), _HEAD + _BOX)


def _hosts(
    made: _Drawing, groups: Sequence[list[Row]], x: int, heights: tuple[int, int], kind: str
) -> list[tuple[list[Row], Box]]:
    """One box a group, spread between two heights."""
    placed = []
    room = (heights[1] - heights[0]) / max(len(groups), 1)
    for number, rows in enumerate(groups):
        hosts = list(dict.fromkeys(row.host for row in rows))
        users = report_groups.span(list(dict.fromkeys(row.asked_as for row in rows)))
        state = worst([row.state for row in rows])
        blind = sum(row.blind for row in rows)
        count = f"{len(hosts)} {kind}s, as {users}" if len(hosts) > 1 else f"{kind}, as {users}"
        more = f"{blind} could not look" if blind == len(rows) > 1 else "could not look" if blind else count
        y = int(heights[0] + room * number + (room - _BOX) / 2)
        box = Box(x, y, kind, state, short(report_groups.span([first_label(host) for host in hosts])), short(more))
        made.boxes.append(box)
        placed.append((rows, box))
    return placed


def _headquarters(
    made: _Drawing,
    clusters: Sequence[tuple[str, list[list[int]]]],
    x: int,
    homes: Sequence[tuple[list[Row], Box]],
    halts: Sequence[tuple[list[Row], Box]],
    height: int,
) -> None:
    """The NAT's addresses beside their brokers, and every way to them."""
    made.frames.append(Frame(x - _PAD, 2, _WIDE + 2 * _PAD, height + _PAD, "NAT"))
    by_gateway: dict[tuple[int, int], list[Edge]] = {}
    y = 0
    for name, groups in clusters:
        top = y
        y += _HEAD
        for places in groups:
            _broker(made, name, places, (x, y), homes, halts, by_gateway)
            y += _BOX + _GAP
        y += _PAD
        made.frames.append(Frame(x + _WIDE + _SHORT - _PAD, top + 2, _WIDE + 2 * _PAD, y - top - 4, f"Kafka {name}"))
    for (home, halt), edges in by_gateway.items():
        state = worst([edge.state for edge in edges])
        _line(made, homes[home][1], halts[halt][1], state)


def _broker(
    made: _Drawing,
    cluster: str,
    places: list[int],
    at: tuple[int, int],
    homes: Sequence[tuple[list[Row], Box]],
    halts: Sequence[tuple[list[Row], Box]],
    by_gateway: dict[tuple[int, int], list[Edge]],
) -> None:
    """One row of HQ: the address that leads to a group of brokers, and the group."""
    columns = [made.matrix.columns[place] for place in places]
    seen = [(rows, box, report_groups.edge(rows, places)) for rows, box in (*halts, *homes)]
    direct = [edge for _, _, edge in seen if edge.ways and _gateway_of(made, edge) is None]
    # One host that arrives proves the address and the broker; then it is others' ways to it that are broken.
    state = "ok" if any(edge.well for edge in direct) else worst([edge.state for edge in direct])
    targets = list(dict.fromkeys(target for edge in direct for target in edge.targets))
    mapped = any(edge.mapped for edge in direct)
    name, advertised = report_groups.broker_names(columns), report_groups.span([one.advertised for one in columns])
    known = "reached here" if mapped else "as advertised"
    count = f"{known}: {len(targets)} addresses" if len(targets) > 1 else known
    nat = Box(*at, "nat", state, short(report_groups.span(targets) if targets else "no way known"), count)
    broker = Box(at[0] + _WIDE + _SHORT, at[1], "broker", state, name, short(advertised))
    made.boxes += [nat, broker]
    _line(made, nat, broker, state)
    halt_names = [rows[0].host for rows, _ in halts]
    for number, (rows, box, edge) in enumerate((r, b, report_groups.edge(r, places)) for r, b in homes):
        gateway = _gateway_of(made, edge)
        if gateway is not None:
            halt = halt_names.index(gateway) if gateway in halt_names else 0
            by_gateway.setdefault((number, halt), []).append(edge)
        elif edge.ways:
            _line(made, box, nat, edge.state)
        _describe(made, rows, f"{cluster} {name}", edge, gateway)
    for rows, box in halts:
        edge = report_groups.edge(rows, places)
        if edge.ways:
            _line(made, box, nat, edge.state)
        _describe(made, rows, f"{cluster} {name}", edge, None)


def _gateway_of(made: _Drawing, edge: Edge) -> str | None:
    hosts = {made.gateways.get(target.rpartition(":")[0]) for target in edge.targets}
    return next((host for host in sorted(filter(None, hosts))), None)


def _describe(made: _Drawing, rows: Sequence[Row], broker: str, edge: Edge, gateway: str | None) -> None:
    """The way in words; those that are well are only counted."""
    if edge.ways and edge.state != "ok":
        through = f" through {gateway}" if gateway else ""
        why = ", ".join(edge.codes) or edge.state
        hosts = report_groups.span(list(dict.fromkeys(row.host for row in rows)))
        share = f"{edge.well} of {edge.ways} ways are well; " if edge.ways > 1 else ""
        made.described.append(f"{hosts} to {broker}{through}: {share}{why}.")


def _line(made: _Drawing, start: Box, end: Box, state: str) -> None:
    """A curve from box to box; its mark stands on it, nearer to the end."""
    x1, y1 = start.x + start.width, start.y + start.height // 2
    x2, y2 = end.x, end.y + end.height // 2
    half = (x2 - x1) // 2
    mark = {"broken": "✕", "unproven": "?"}.get(state, "")
    share = 0.5 if end.kind == "broker" else 0.7
    # The point of a cubic curve whose handles are level.
    x = (1 - share) ** 3 * x1 + 3 * (1 - share) * share * (x1 + half) + share**3 * x2
    y = y1 + (y2 - y1) * (3 * share**2 - 2 * share**3)
    path = f"M{x1} {y1}C{x1 + half} {y1} {x2 - half} {y2} {x2} {y2}"
    made.lines.append(Line(path, state, mark, round(x), round(y)))


def first_label(host: str) -> str:
    """A host's name without its domain; an address as it is."""
    label = host.partition(".")[0]
    return host if label.isdigit() else label


def short(text: str) -> str:
    """A text that fits into a box; of a range that does not, its beginning."""
    if len(text) > _TEXT and " … " in text:
        text = text.partition(" … ")[0] + " …"
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"
