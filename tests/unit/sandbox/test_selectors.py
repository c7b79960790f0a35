"""Label and field selectors on their own."""

from dataclasses import dataclass, field

import pytest

from scheduler.sandbox.selectors import SelectorError, parse_fields, parse_labels, predicate


@dataclass
class Thing:
    labels: dict[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        pytest.param("", {}, True, id="empty selects all"),
        pytest.param("a=b", {"a": "b"}, True, id="equal"),
        pytest.param("a==b", {"a": "c"}, False, id="double equal"),
        pytest.param("a!=b", {}, True, id="absent is unequal"),
        pytest.param("a!=b", {"a": "b"}, False, id="unequal"),
        pytest.param("a=", {"a": ""}, True, id="empty value"),
        pytest.param("a=", {}, False, id="empty value is not absence"),
        pytest.param("a in (b, c)", {"a": "c"}, True, id="in"),
        pytest.param("a in (b,c)", {}, False, id="absent is in nothing"),
        pytest.param("a notin (b,c)", {}, True, id="absent is not in"),
        pytest.param("a notin (b,c),d", {"a": "b", "d": ""}, False, id="notin and presence"),
        pytest.param("example.com/a", {"example.com/a": "x"}, True, id="exists with prefix"),
        pytest.param("!a", {"a": "x"}, False, id="does not exist"),
        pytest.param("!a , b in (c)", {"b": "c"}, True, id="blanks between"),
        pytest.param("a>3", {"a": "4"}, True, id="greater"),
        pytest.param("a<3", {"a": "4"}, False, id="less"),
        pytest.param("a>3", {"a": "x"}, False, id="greater than no number"),
    ],
)
def test_labels_are_matched(selector: str, labels: dict[str, str], expected: bool) -> None:
    """Each operator means what it means on the real server."""
    selects = predicate(parse_labels(selector), ())

    assert (selects is None or selects(Thing(labels))) is expected


@pytest.mark.parametrize(
    "selector", ["a in b", "a in (b", "=b", "a=b c", "a>x", "-a=b", "a,", "a=b,,c"]
)
def test_a_broken_label_selector_is_refused(selector: str) -> None:
    """What does not parse names the part that does not."""
    with pytest.raises(SelectorError, match="unable to parse requirement"):
        parse_labels(selector)


def test_escaped_commas_belong_to_the_value() -> None:
    r"""A field's value may hold `\,` and `\=`."""
    selects = predicate((), parse_fields(r"x=a\,b\=c,y!=1", {"x": 0, "y": 1}))

    assert selects is not None
    assert selects(Thing(fields=("a,b=c", "2")))
    assert not selects(Thing(fields=("a,b=c", "1")))
