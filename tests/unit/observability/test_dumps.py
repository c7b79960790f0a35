"""Large values as JSON: the same whatever the slices, and made only when their turn comes."""

import json
from typing import Any

from hypothesis import given, strategies as st

from scheduler.observability.dumps import REST, Entries, json_slices

VALUES = st.recursive(
    st.none() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


def lazy(value: Any) -> Any:
    """The same value, coming about piece by piece."""
    if isinstance(value, dict):
        return Entries((key, lazy(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return iter([lazy(inner) for inner in value])
    return lambda: value


@given(VALUES)
def test_a_dump_is_what_it_would_be_in_one_piece(value: Any) -> None:
    """Whether it is there or comes about."""
    assert json.loads(b"".join(json_slices(value))) == value
    assert json.loads(b"".join(json_slices(lazy(value)))) == value


def test_no_more_comes_about_than_is_asked_for() -> None:
    """A hundred thousand pods are described as they are written."""
    made = 0

    def rows() -> Any:
        nonlocal made
        for made in range(1, 100_001):
            yield {"pod": f"namespace/pod-{made}", "message": "x" * 200}

    slices = json_slices({"pods": rows()})
    first = next(slices)

    assert made < 1000
    assert len(first) < 2**16
    assert len(json.loads(first + b"".join(slices))["pods"]) == 100_000


def test_who_looks_for_long_without_finding_anything_lets_others_run() -> None:
    """Each rest is the end of a slice, and nothing of it is to be seen."""
    slices = list(json_slices({"found": iter([REST, "a", REST, REST, "b"])}))

    assert len(slices) == 4
    assert json.loads(b"".join(slices)) == {"found": ["a", "b"]}
