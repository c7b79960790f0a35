"""YAML is read as kube-scheduler reads it, and every value knows its line."""

import pytest
import yaml
from hypothesis import given, strategies as st

from scheduler.config.problems import Problems
from scheduler.config.source import Value, is_plain_text, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("y", True, id="y is true"),
        pytest.param("Off", False, id="off is false"),
        pytest.param("~", None, id="tilde is null"),
        pytest.param("010", 8, id="leading zero is octal"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("-0b11", -3, id="binary"),
        pytest.param("1_000", 1000, id="underscores"),
        pytest.param("1e3", 1000.0, id="exponent"),
        pytest.param("_1", "_1", id="no underscore at the beginning"),
        pytest.param("1e400", "1e400", id="more than a float holds"),
        pytest.param("1:30", "1:30", id="no sexagesimal numbers"),
        pytest.param("2001-01-01", "2001-01-01", id="a date is a text"),
        pytest.param("08", 8.0, id="no octal number, so a float"),
        pytest.param('"yes"', "yes", id="quoted is a text"),
        pytest.param("!!str 5", "5", id="tagged as text"),
        pytest.param("!mine 5", "5", id="tagged as something else"),
        pytest.param("*", None, id="a star alone is an unfinished alias"),
    ],
)
def test_scalars(text: str, value: Value) -> None:
    """Plain scalars resolve by YAML 1.1 as go-yaml knows it."""
    assert parse(text, Problems()) == value


def test_every_value_knows_its_line() -> None:
    """Fields have the line of their name, list items the line they begin in."""
    problems = Problems()

    parse("a: 1\nb:\n- x\n- c:\n    d\n", problems)

    assert problems.lines == {
        (): 1,
        ("a",): 1,
        ("b",): 2,
        ("b", 0): 3,
        ("b", 1): 4,
        ("b", 1, "c"): 4,
    }


def test_an_alias_is_a_copy() -> None:
    """An anchor can be used twice; it is read twice."""
    assert parse("a: &x {b: 1}\nc: *x\n", Problems()) == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: &x [*x]", "an alias must not contain itself", id="endless"),
        pytest.param("<<: 5", '"<<" must name a mapping', id="merging a number"),
        pytest.param("a: -.inf", "expected a value that JSON has, got -.inf; ", id="infinite"),
        pytest.param("a: .NaN", "expected a value that JSON has, got .NaN; ", id="no number"),
        pytest.param("? [a]\n: b", "a field name must be a text", id="list as field name"),
        pytest.param("a: 1\na: 2", "given twice, first in line 1; keep one of them", id="twice"),
        pytest.param(b"\xff\xff", "expected a text in UTF-8: ", id="no UTF-8"),
        pytest.param("a: \x01", "expected a text in UTF-8: ", id="control character"),
    ],
)
def test_what_cannot_be_read(text: str | bytes, message: str) -> None:
    """Each has its message."""
    problems = Problems()

    parse(text, problems)

    assert [p.message[: len(message)] for p in problems] == [message]


@pytest.mark.parametrize("text", [b"a: b\nc: \x01", "a: b\nc: é".encode("latin-1")])
def test_what_is_no_text_has_its_line(text: bytes) -> None:
    """Which the editor shows; nothing of Python's names for it."""
    problems = Problems()

    parse(text, problems)

    [problem] = problems
    assert str(problem).startswith("line 2: expected a text in UTF-8: ")
    assert "string" not in problem.message


def test_many_aliases_of_little_are_read() -> None:
    """Only aliases that stand for very many values are refused."""
    text = "a: &x {b: [1, 2]}\nc: [" + ", ".join(["*x"] * 10_000) + "]"

    value = parse(text, Problems())

    assert isinstance(value, dict)
    assert value["c"] == [{"b": [1, 2]}] * 10_000


def test_aliases_of_aliases_are_refused() -> None:
    """Written out, they would fill the memory."""
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    problems = Problems()

    assert parse("\n".join(["a0: &a0 [x]", *lines]), problems) is None

    told = "aliases stand for more than 100,000 values; write the values out"
    assert [p.message for p in problems] == [told]


@pytest.mark.parametrize("text", ["a: " + "[" * 400 + "]" * 400, "{a: " * 400 + "}" * 400])
def test_deep_nesting_is_refused(text: str) -> None:
    """Even if it could be read: nothing could write it."""
    problems = Problems()

    parse(text, problems)

    told = "not readable: lists and mappings are nested too deeply"
    assert [p.message for p in problems] == [told]


def test_an_empty_last_document_is_no_second_document() -> None:
    """Files often end with a separator."""
    problems = Problems()

    assert parse("---\na: 1\n---\n", problems) == {"a": 1}
    assert not problems


@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs"))))
def test_a_text_that_needs_no_quotes_is_read_back(text: str) -> None:
    """Whatever the writer leaves unquoted is a text to the reader; it asks `is_plain_text`."""
    style = None if is_plain_text(text) else '"'
    node = yaml.ScalarNode("tag:yaml.org,2002:str", text, style=style)

    assert parse(yaml.serialize(node, allow_unicode=True), Problems()) == text
