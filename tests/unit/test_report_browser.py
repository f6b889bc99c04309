"""The report in a real Chromium: nothing loaded, no errors, names for a screen reader, contrast, light, dark and in print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.filter import report_page
from browser import Browser, browser
from unit import seen_reports
from unit.nodes import ROOT

SHOWN = ROOT / "build" / "test"
TEMPLATE = str(ROOT / "templates" / "report.html.j2")
# Every text with its colour and the ground that it stands on; sizes in pixels.
TEXTS = """[...function*() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const solid = colour => colour !== 'rgba(0, 0, 0, 0)' && colour !== 'none';
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (!text || !element.checkVisibility() || element.closest('title, desc, .skip')) continue;
    const drawn = element.closest('svg'), style = getComputedStyle(element);
    let ground = element;
    while (ground.parentElement && !solid(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
    const before = drawn && [...drawn.querySelectorAll('rect, circle')].filter(shape => {
      const a = shape.getBoundingClientRect(), b = element.getBoundingClientRect(), x = b.x + b.width / 2, y = b.y + b.height / 2;
      return a.left <= x && x <= a.right && a.top <= y && y <= a.bottom && solid(getComputedStyle(shape).fill)
        && shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
    }).pop();
    yield {text, size: parseFloat(style.fontSize), colour: drawn ? style.fill : style.color,
           ground: before ? getComputedStyle(before).fill : getComputedStyle(ground).backgroundColor};
  }
}()]"""
STROKES = """[...document.querySelectorAll('svg .way-line, svg .box')].map(shape => [
  shape.getAttribute('class'), getComputedStyle(shape).stroke, getComputedStyle(document.querySelector('svg .frame')).fill])"""
# Texts that are wider than the box before them.
CUT = "[...document.querySelectorAll('svg .box + text, svg .box + text + text')].filter(text => text.getBBox().x + text.getBBox().width > +text.parentNode.querySelector('.box').getAttribute('width') + +text.getAttribute('x') - 10).map(text => text.textContent)"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as page:
        page.size(1300, 1000)
        yield page


def written(path: Path, reports: list[dict[str, Any]]) -> Path:
    held = {"report_held": {"answer": {"digest": "5b51608aceb7fdff19a2088893aad53d", "state": "confirmed"}}}
    hosts = {one["node"]: held if one["walks"] else {} for one in reports}
    path.write_text(report_page.doctor_page(reports, hosts, "data-platform", seen_reports.AT, "/", TEMPLATE))
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("report") / "small.html", seen_reports.small())


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("report") / "large.html", seen_reports.large())


def luminance(colour: str) -> float:
    """Relative luminance of "rgb(r, g, b)" (WCAG 2.2)."""
    red, green, blue = (int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3])
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula_is_that_of_wcag() -> None:
    assert round(contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)"), 2) == 21
    assert round(contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)"), 2) == 4.48


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("site", ["small", "large"])
def test_it_opens_alone_and_can_be_read(
    chromium: Browser, request: pytest.FixtureRequest, site: str, scheme: str
) -> None:
    path: Path = request.getfixturevalue(site)
    chromium.open(path, prefers_color_scheme=scheme)
    chromium.screenshot(SHOWN / f"report-{site}-{scheme}.png")
    asked = [e["params"]["request"]["url"] for e in chromium.events if e.get("method") == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    faults = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
    assert [event for event in chromium.events if event.get("method") in faults] == []
    texts = chromium.ask(TEXTS)
    assert len(texts) > 100
    weak = {(t["text"], t["colour"], t["ground"]) for t in texts if contrast(t["colour"], t["ground"]) < 4.5}
    assert weak == set()
    assert min(text["size"] for text in texts) >= 11
    assert [one for one in chromium.ask(STROKES) if contrast(one[1], one[2]) < 3] == []
    dark = luminance(chromium.ask("getComputedStyle(document.body).backgroundColor")) < 0.05
    assert dark == (scheme == "dark")


def test_a_screen_reader_finds_its_way(chromium: Browser, small: Path) -> None:
    chromium.open(small)
    named = chromium.named()
    for role, name in [
        ("navigation", "On this page"),
        ("image", "Ways from the site's hosts through the NAT to Kafka's brokers"),
        ("heading", "Findings"),
        ("rowheader", "nm1"),
        ("link", "NOT_REWRITTEN"),
        ("article", "1. NOT_REWRITTEN (error) at 192.0.2.22:9092, on nm1"),
    ]:
        assert (role, name) in named, (role, name)
    assert {"banner", "main", "contentinfo"} <= {role for role, _ in named}
    assert [one for one in named if one[0] in ("region", "image", "link", "table", "article") and not one[1]] == []
    said = chromium.ask("document.getElementById('picture-said').textContent")
    assert "nm1 to hq broker 2: NOT_REWRITTEN." in said


def test_the_matrix_has_headers_in_both_directions(chromium: Browser, small: Path) -> None:
    chromium.open(small)
    assert chromium.ask("[...document.querySelectorAll('table')].every(table => table.caption.textContent.trim())")
    assert chromium.ask("[...document.querySelectorAll('th')].every(header => header.scope)")
    assert chromium.ask(
        "[...document.querySelectorAll('[id]')].length === new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size"
    )
    cells = chromium.ask(
        "[...document.querySelectorAll('.matrix tbody td:not(:nth-child(2))')].map(cell => cell.innerText)"
    )
    assert all(cells), "each cell says its state in words"


def test_the_keyboard_reaches_every_area_that_scrolls_and_every_finding(chromium: Browser, small: Path) -> None:
    chromium.open(small)
    reached = []
    for _ in range(chromium.ask("document.querySelectorAll('a, [tabindex]').length")):
        for kind in ("rawKeyDown", "keyUp"):
            chromium.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        reached.append(chromium.ask("document.activeElement.getAttribute('href') || document.activeElement.className"))
    assert reached[:2] == ["#main", "#picture"]
    assert reached.count("wide") == 4
    assert {"#f1", "#f2"} <= set(reached)
    for link in {one for one in reached if one.startswith("#")}:
        assert chromium.ask(f"!!document.getElementById('{link[1:]}')"), link


def test_it_can_be_printed_whole(chromium: Browser, small: Path) -> None:
    chromium.open(small)
    paper = chromium.printed()
    SHOWN.mkdir(parents=True, exist_ok=True)
    (SHOWN / "report-small.pdf").write_bytes(paper)
    assert paper.startswith(b"%PDF")
    chromium.call("Emulation.setEmulatedMedia", media="print")
    hidden = chromium.ask(
        "[...document.querySelectorAll('.wide')].filter(area => getComputedStyle(area).overflow !== 'visible').length"
    )
    chromium.call("Emulation.setEmulatedMedia", media="")
    assert hidden == 0


def test_no_text_leaves_its_box(chromium: Browser, large: Path, small: Path) -> None:
    for path in (large, small):
        chromium.open(path)
        assert chromium.ask(CUT) == []


def test_a_page_of_a_large_fleet_stays_small(chromium: Browser, large: Path) -> None:
    assert large.stat().st_size < 1_000_000
    chromium.open(large)
    assert chromium.ask("document.querySelectorAll('.matrix tbody tr').length") == 200
    assert chromium.ask("document.querySelectorAll('svg .box').length") < 60
