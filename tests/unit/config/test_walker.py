"""Plain values become structs, and every mismatch is reported where it is."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest

from scheduler.config.problems import ConfigError, Problems, render_path
from scheduler.config.source import Value
from scheduler.config.walker import DURATION, decode, did_you_mean


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


class Leaf(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    colour: Colour = Colour.BLUE


class Tree(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    count: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 7
    ratio: float = 0.5
    wanted: bool | None = None
    leaf: Leaf | None = None
    leaves: tuple[Leaf, ...] = ()
    labels: dict[str, str] = {}
    data: bytes = b""
    anything: Any = None
    wait_seconds: Annotated[float, DURATION] = msgspec.field(name="wait", default=3.0)
    limit_seconds: Annotated[float, DURATION] | None = msgspec.field(name="limit", default=4.0)


def _decode(value: Value) -> tuple[Tree, list[str]]:
    problems = Problems()
    tree = decode(Tree, value, (), problems)
    return tree, [f"{render_path(p.path)}: {p.message}" for p in problems]


def test_everything_that_fits_is_taken() -> None:
    """Numbers may be written as whole floats, durations as texts, bytes as base64."""
    tree, problems = _decode(
        {
            "count": 2.0,
            "ratio": 1,
            "wanted": False,
            "leaf": {"name": "a", "colour": "Red"},
            "leaves": [{"name": "b"}],
            "labels": {"k": "v"},
            "data": "aG\r\nk=\n",
            "anything": [1, {"x": None}],
            "wait": "1m",
        }
    )

    assert not problems
    assert tree == Tree(
        count=2,
        ratio=1.0,
        wanted=False,
        leaf=Leaf("a", Colour.RED),
        leaves=(Leaf("b"),),
        labels={"k": "v"},
        data=b"hi",
        anything=[1, {"x": None}],
        wait_seconds=60.0,
    )


def test_null_is_absent_except_for_a_duration() -> None:
    """Go reads null as nothing, but its Duration refuses it unless it is optional."""
    tree, problems = _decode({"count": None, "leaf": None, "leaves": None, "limit": None})

    assert (tree, problems) == (Tree(), [])
    assert _decode({"wait": None})[1] == [
        'wait: expected a duration such as "15s", "1m30s" or "2h", got null'
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"cuont": 1}, 'cuont: unknown field; did you mean "count"?', id="misspelt"),
        pytest.param({"count": "x"}, 'count: expected a whole number, got "x"', id="text"),
        pytest.param({"count": True}, "count: expected a whole number, got true", id="bool"),
        pytest.param({"count": 1.5}, "count: expected a whole number, got 1.5", id="fraction"),
        pytest.param({"ratio": "1"}, 'ratio: expected a number, got "1"', id="number as text"),
        pytest.param({"wanted": 1}, "wanted: expected true or false, got 1", id="1 for true"),
        pytest.param({"leaf": {}}, "leaf.name: required", id="required field"),
        pytest.param(
            {"leaves": [{"name": "a"}, None]},
            "leaves[1]: expected a value, got null",
            id="null item",
        ),
        pytest.param({"labels": []}, "labels: expected a mapping, got a list", id="list for map"),
        pytest.param(
            {"labels": {"a": 1}},
            'labels.a: expected a text (write "1" with quotes if it is meant so), got 1',
            id="number in a map of texts",
        ),
        pytest.param({"data": 5}, "data: expected base64 text", id="no base64"),
        pytest.param({"wait": 5}, 'got 5; did you mean "5s"?', id="duration without unit"),
        pytest.param(
            {"leaf": {"name": "a", "colour": "red"}},
            'leaf.colour: expected one of Red, Blue, got "red"; did you mean "Red"?',
            id="choice in the wrong case",
        ),
        pytest.param([], "expected a mapping with fields such as", id="list for struct"),
    ],
)
def test_mismatch(value: Value, message: str) -> None:
    """One problem, saying where, what was expected and what came."""
    problems = _decode(value)[1]

    assert len(problems) == 1
    assert message in problems[0]


def test_all_mismatches_are_found_and_stand_ins_take_their_place() -> None:
    """Reading goes on after a mistake."""
    tree, problems = _decode({"count": "x", "leaves": [{"colour": 3}, {"name": "ok"}], "no": 1})

    assert len(problems) == 4
    assert tree == Tree(count=0, leaves=(Leaf("", Colour.RED), Leaf("ok")))


def test_a_place_inside_a_wrong_one_is_not_reported() -> None:
    """Later checks see a stand-in there; what they find would only confuse."""
    problems = Problems()

    problems.add(("a",), "wrong type")
    problems.add(("a", "b"), "too small")
    problems.add(("a",), "too large")

    assert [p.message for p in problems] == ["wrong type"]


def test_one_problem_is_one_line_and_several_are_a_list() -> None:
    """The error can be shown to people as it is."""
    problems = Problems({(): 1, ("a",): 3})
    problems.add(("b",), "required")
    one = ConfigError("f.yaml", problems)
    problems.add(("a", "x", 0), "wrong")

    assert str(one) == "f.yaml: line 1: b: required"
    assert str(ConfigError("f.yaml", problems)) == (
        "f.yaml: 2 problems\n  line 1: b: required\n  line 3: a.x[0]: wrong"
    )


def test_a_similar_name_is_searched_among_so_many_names() -> None:
    """A cluster has 150,000 pods, and a comparison takes a tenth of a millisecond."""
    read = 0

    def names() -> Iterator[str]:
        nonlocal read
        for read in range(1, 150_001):
            yield f"web-{read}"

    assert did_you_mean("web-1x", names()) == '; did you mean "web-1"?'
    assert read <= 5000
