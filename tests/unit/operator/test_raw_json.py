"""Raw JSON is taken apart as a decoder would, whatever is in it and however deep it is."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from scheduler.operator.raw_json import RawJson

TEXTS = st.text(max_size=6) | st.sampled_from(['"', "\\", '\\"', "{", "],[", ",", ":"])
KEYS = st.text(st.characters(codec="utf-8", exclude_characters='"\\'), max_size=4).filter(
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1] == text
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def depth_of(value: Any) -> int:
    """How many lists and objects are open at most."""
    if isinstance(value, dict):
        value = [*value.values()]
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(value=VALUES, is_spaced=st.booleans())
def test_parts_are_those_of_a_decoder(value: Any, is_spaced: bool) -> None:
    """Law: items, fields and nesting, whatever strings hold."""
    separators = (" , ", " : ") if is_spaced else (",", ":")
    raw = RawJson(json.dumps(value, separators=separators, ensure_ascii=False).encode())

    assert raw.depth == depth_of(value)
    if isinstance(value, list):
        assert [json.loads(each.raw) for each in raw.items()] == value
        assert [each.depth for each in raw.items()] == [*map(depth_of, value)]
    if isinstance(value, dict):
        assert {name: json.loads(each.raw) for name, each in raw.fields().items()} == value
        assert json.loads(raw.only({*value})) == value


@given(st.binary(max_size=60) | st.text('{}[]",:\\a', max_size=60).map(str.encode))
def test_bytes_that_are_no_json_have_parts_too(raw: bytes) -> None:
    """Law: nothing raises; what the parts are is for decoders to say."""
    for part in (*RawJson(raw).items(), *RawJson(raw).fields().values()):
        assert part.raw in raw


@pytest.mark.parametrize("bracket", [b"[", b'{"a":'])
def test_nesting_has_no_limit(bracket: bytes) -> None:
    """A million levels are counted, not followed."""
    assert RawJson(bracket * 1_000_000).depth == 1_000_000
