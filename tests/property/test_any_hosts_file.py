"""The hosts layer gives every foreign byte back, whatever stands in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kafka_natmap_layers as layers
import pytest
from hypothesis import given
from hypothesis import strategies as st

# Lines of any bytes, encoded or not; only the line ends are ours to know.
LINES = st.binary(max_size=30).map(lambda line: line.translate(None, b"\n"))
OWNERS = ["a", "a-b", "data-platform"]


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "hosts"
    monkeypatch.setattr(layers, "HOSTS", str(path))
    return path


def block(owner: str, names: list[int]) -> str:
    lines = "".join(f"240.0.0.{name} kafka-{name} # hq broker {name}\n" for name in names)
    return f"# BEGIN kafka-natmap {owner}: computed\n{lines}# END kafka-natmap {owner}\n"


NAMES = st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True)


@given(foreign=st.lists(LINES), ended=st.booleans(), first=NAMES, second=NAMES)
def test_clear_after_load_is_the_identity(
    hosts: Path, foreign: list[bytes], ended: bool, first: Any, second: Any
) -> None:
    before = b"\n".join(foreign) + (b"\n" if ended else b"")
    hosts.write_bytes(before)
    layer, state = layers.Hosts({"owner": "a"}), {}
    for names in (first, second, second):
        layer.load(block("a", names), state)
        assert layer.snapshot() == block("a", names)
        assert hosts.read_bytes().startswith(before)
    layer.clear(state)
    assert hosts.read_bytes() == before


@given(foreign=st.lists(LINES), order=st.permutations(OWNERS), leaving=st.permutations(OWNERS))
def test_owners_leave_in_any_order(hosts: Path, foreign: list[bytes], order: list[str], leaving: list[str]) -> None:
    before = b"".join(line + b"\n" for line in foreign)
    hosts.write_bytes(before)
    states: dict[str, dict[str, Any]] = {owner: {} for owner in OWNERS}
    for owner in order:
        layers.Hosts({"owner": owner}).load(block(owner, [1, 2]), states[owner])
    for owner in leaving:
        assert layers.Hosts({"owner": owner}).listing() == block(owner, [1, 2])
        layers.Hosts({"owner": owner}).clear(states[owner])
    assert hosts.read_bytes() == before
