"""Label and field selectors on their own."""

from dataclasses import dataclass, field

import pytest

from apistub.storage.selectors import parse_fields, parse_labels, predicate, selects
from apistub.storage.status import StatusError


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
    ],
)
def test_labels_are_matched(selector: str, labels: dict[str, str], expected: bool) -> None:
    """Each operator means what it means on the real server."""
    matches = predicate(parse_labels(selector), ())

    assert (matches is None or matches(Thing(labels))) is expected


@pytest.mark.parametrize("selector", ["a in b", "a in (b", "=b", "a=b c", "a>3", "a,", "a=b,,c"])
def test_a_broken_label_selector_is_refused(selector: str) -> None:
    """What does not parse names the part that does not."""
    with pytest.raises(StatusError, match="is not part of a label selector"):
        parse_labels(selector)


def test_escaped_commas_belong_to_the_value() -> None:
    r"""A field's value may hold `\,` and `\=`."""
    matches = predicate((), parse_fields(r"x=a\,b\=c,y!=1", {"x": 0, "y": 1}))

    assert matches is not None
    assert matches(Thing(fields=("a,b=c", "2")))
    assert not matches(Thing(fields=("a,b=c", "1")))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, False, id="none selects nothing"),
        pytest.param({}, True, id="an empty one selects all"),
        pytest.param({"matchLabels": {"a": "b"}}, True, id="labels"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]},
            False,
            id="expressions",
        ),
        pytest.param(
            {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}],
            },
            True,
            id="both",
        ),
    ],
)
def test_selectors_of_objects(selector: dict[str, object] | None, expected: bool) -> None:
    """Budgets and workloads select by labels and expressions, all of them together."""
    assert selects(selector, {"a": "b"}) is expected
