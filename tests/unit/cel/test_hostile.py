"""Whatever a tenant writes costs a bounded time, and ends in a verdict or a refusal."""

import random
from time import thread_time

import pytest

from scheduler.kernel.cel import ERROR, FALSE, TRUE, CompileError, compile_expression
from scheduler.kernel.cel.regex import compile_regex
from tests.support.devices import devices

TABLE = devices([{"driver": "d", "attributes": {"a": {"string": "a" * 64}}}])
SECONDS = 5.0
"""Far more than any of these takes, far less than what grows without bound would."""


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5000 + "true" + ")" * 5000,
        "!" * 9000 + "true",
        "-" * 9000 + "1 == 1",
        "[" * 5000 + "]" * 5000 + " == []",
        "{1:" * 3000 + "1" + "}" * 3000 + " == {}",
        " + ".join(["1"] * 3000) + " == 1",
        " && ".join(["true"] * 2000),
        "true ? " * 1400 + "true" + " : true" * 1400,
        "device" + ".a" * 4000,
        "optional.none()" + ".optMap(x, x)" * 700 + ".hasValue()",
        "size(" * 2000 + "'a'" + ")" * 2000 + " == 1",
        "x in [" * 1600 + "1" + "]" * 1600,
        "1" * 10000 + " == 1",
        "'" + "a" * 10000 + "' == 'a'",
        "true" * 4000,
    ],
)
def test_size_and_nesting_are_bounded(expression: str) -> None:
    began = thread_time()
    try:
        compile_expression(expression).evaluate(TABLE)
    except CompileError as error:
        assert str(error)  # noqa: PT017 - refused or not, it must end
    assert thread_time() - began < SECONDS


@pytest.mark.parametrize("brackets", [10, 50, 79])
def test_nesting_that_people_write_is_no_problem(brackets: int) -> None:
    deep = "(" * brackets + "true" + ")" * brackets

    assert compile_expression(deep).evaluate(TABLE).matches.all()
    assert compile_expression("[" * brackets + "]" * brackets + ".size() <= 1").evaluate(TABLE)
    assert compile_expression(" || ".join(["false"] * 1000) + " || true").evaluate(TABLE).matches[0]


def test_too_deep_says_what_is_allowed() -> None:
    with pytest.raises(CompileError, match="expected at most 80 brackets"):
        compile_expression("(" * 200 + "true" + ")" * 200)


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000).all(x, lists.range(1000).all(y, lists.range(1000).all(z, x + y >= 0)))",
        "lists.range(1000000000).size() == 1",
        "lists.range(100000).map(x, lists.range(100000)).size() == 1",
        "lists.range(1000000).transformMap(i, v, v).size() == 1",
        "".join(f"cel.bind(x{i}, x{i - 1} + x{i - 1}, " for i in range(1, 60)).replace(
            "x0 + x0", "'aaaaaaaa' + 'a'"
        )
        + "x59 == ''"
        + ")" * 59,
        "".join(f"cel.bind(x{i}, x{i - 1} + x{i - 1}, " for i in range(1, 60)).replace(
            "x0 + x0", "[1] + [1]"
        )
        + "x59 == []"
        + ")" * 59,
        "'a'" + ".replace('', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')" * 60 + " == ''",
        "'%.1000000000f'.format([1.0]) == ''",
        "lists.range(100000).distinct().size() == 1",
    ],
)
def test_what_costs_too_much_is_an_error(expression: str) -> None:
    """Upstream's limit, or ours where upstream is charged only after it has done the work."""
    began = thread_time()

    found = compile_expression(expression).evaluate(TABLE)

    assert found.codes.tolist() == [ERROR]
    assert found.error(0) == "operation cancelled: actual cost limit exceeded"
    assert thread_time() - began < SECONDS * 2


LONG = '"1".replace("1", "1111111111")' + '.replace("1", "1111111111")' * 5
"""A million digits."""
QUOTIENT = "quantity(string(i) + 'e9999').compareTo(quantity('1e-' + string(i)))"


@pytest.mark.parametrize(
    ("expression", "codes"),
    [
        (f'double({LONG} + "x") > 0.0', {ERROR}),
        (f'double("0x" + {LONG} + "x") > 0.0', {ERROR}),
        (f'isQuantity({LONG} + "x")', {FALSE}),
        (f'isQuantity("." + {LONG} + "x")', {FALSE}),
        (f"isQuantity({LONG})", {ERROR}),
        (f'isQuantity("1e" + {LONG})', {FALSE}),
        (f'duration({LONG}) > duration("1s")', {ERROR}),
        (
            f"lists.range(20000).all(i, {QUOTIENT} == 1)",
            {ERROR, FALSE},
        ),
        # What Python by itself refuses to read.
        ("0" * 5000 + "1 == 1", {TRUE}),
        ("0x" + "0" * 5000 + "1u == 1u", {TRUE}),
        ("0" * 5000 + " == 0", {TRUE}),
        (f'isQuantity("{"1" * 5000}")', {TRUE}),
        (f'isQuantity("{"0" * 5000}1")', {TRUE}),
        (f'isQuantity("1e{"0" * 5000}1")', {TRUE}),
        (f'quantity("{"1" * 5000}") == quantity("{"1" * 4999}2")', {FALSE}),
    ],
)
def test_long_numbers_take_no_quadratic_time(expression: str, codes: set[int]) -> None:
    began = thread_time()

    found = compile_expression(expression).evaluate(TABLE)

    assert set(found.codes.tolist()) <= codes
    assert thread_time() - began < SECONDS


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "((a?){20}){20}b", "(.*)*x", "a?" * 60 + "a" * 60]
)
def test_patterns_take_no_exponential_time(pattern: str) -> None:
    began = thread_time()

    compile_regex(pattern).search("a" * 64 + "!")

    assert thread_time() - began < SECONDS


def test_random_bytes_are_refused_or_evaluated() -> None:
    """Nothing but a refusal comes out of the compiler."""
    draw = random.Random("cel")
    words = [
        "device",
        ".",
        "driver",
        "attributes",
        "capacity",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "?",
        ":",
        ",",
        "==",
        "!=",
        "&&",
        "||",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "in",
        "1",
        "1u",
        "1.5",
        "'a'",
        '"b"',
        "b'c'",
        "true",
        "false",
        "null",
        "x",
        "has",
        "size",
        "all",
        "map",
        "cel.bind",
        "optional.of",
        "quantity",
        "(",
        ")",
        ".",
        "a",
    ]
    for _ in range(3000):
        expression = " ".join(draw.choices(words, k=draw.randint(1, 12)))
        try:
            compile_expression(expression).evaluate(TABLE)
        except CompileError:
            continue
