"""Whatever stands in the file, the answer is a map or a list of reasons."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from property.maps import maps
from unit.maps import problems_of

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.dates())
KEYS = st.one_of(
    st.sampled_from(
        ["clusters", "brokers", "networks", "scope", "users", "gateway", "security", "advertised", "ports"]
    ),
    st.text(max_size=8),
    st.integers(),
    st.booleans(),
    st.none(),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=20,
)


@given(ANYTHING)
def test_anything_at_all_is_refused_in_words(data: Any) -> None:
    found = problems_of(data)
    assert found
    assert all(str(problem).isprintable() for problem in found)


@st.composite
def damaged(draw: Any) -> Any:
    """A map in which one value, anywhere, was replaced by anything."""
    data = draw(maps())
    at: Any = data
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw(st.sampled_from(keys))
        if isinstance(at[key], (dict, list)) and at[key] and draw(st.booleans()):
            at = at[key]
            continue
        at[key] = draw(ANYTHING)
        return data


@given(damaged())
def test_one_damaged_value_never_breaks_the_reader(data: Any) -> None:
    assert all(str(problem).isprintable() for problem in problems_of(data))
