"""Laws of expressions: however they are evaluated, they say the same."""

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from scheduler.kernel.cel import (
    ERROR,
    FALSE,
    PENDING,
    TRUE,
    CompileError,
    Program,
    compile_expression,
)
from tests.parity.generator.expressions import make_question
from tests.support.devices import Devices, devices

SEEDS = st.integers(0, 2**40)


def compiled(seed: int) -> tuple[Program, Devices]:
    """Make a program of a seed, and a table of the devices of several."""
    try:
        program = compile_expression(make_question(seed)["expression"])
    except CompileError:
        assume(False)
        raise
    rows = [device for more in range(4) for device in make_question(seed + more)["devices"]]
    return program, devices(rows)


def one_by_one(program: Program, table: Devices) -> list[int]:
    """Evaluate each device by itself, logical operators included."""
    evaluation = program._evaluation(table)
    codes = program._one_by_one(evaluation, None)
    program._mark_unreadable(codes, table, None)
    return [int(code) for code in codes]


@given(SEEDS)
@settings(max_examples=300)
def test_columns_say_what_one_device_after_the_other_says(seed: int) -> None:
    program, table = compiled(seed)

    assert program.evaluate(table).codes.tolist() == one_by_one(program, table)


LOGIC = st.recursive(
    st.sampled_from(
        [
            "device.attributes['d'].fast",
            "device.attributes['d'].n == 1",
            "device.driver == 'd' || device.attributes['d'].n == 3",
            "device.attributes.exists(x, x == 'd')",
            # These end early: always, on one value, on some devices; together they cost too much.
            "lists.range(2000000).size() == 1",
            "lists.range(device.attributes['d'].n * 1000000).size() == 2000000",
            "device.attributes.exists(x, lists.range(2000000).size() == 1)",
            "lists.range(350000).size() == 350000",
            "[1].all(x, lists.range(350000).size() == 350000)",
        ]
    ),
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from(["&&", "||"]), part).map(lambda it: f"({' '.join(it)})"),
        st.tuples(part, part, part).map(lambda it: f"({it[0]} ? {it[1]} : {it[2]})"),
        part.map(lambda it: f"!({it})"),
    ),
    max_leaves=6,
)


@given(LOGIC, st.none() | st.integers(1, 4_000_000))
@settings(max_examples=100, deadline=None)
def test_columns_with_parts_that_end_early_say_the_same(
    expression: str, budget: int | None
) -> None:
    table = devices(
        [
            {"driver": driver, "attributes": {"fast": {"bool": bool(row % 2)}, "n": {"int": row}}}
            for row in range(4)
            for driver in ("d", "e")
        ]
    )
    program = compile_expression(expression)

    found = program.evaluate(table, budget=budget).codes

    expected = np.array(one_by_one(compile_expression(expression), table))
    assert found[found != PENDING].tolist() == expected[found != PENDING].tolist()
    assert (found != PENDING).all() or budget is not None


@given(SEEDS, st.data())
def test_some_rows_get_the_verdicts_they_have_among_all(seed: int, data: st.DataObject) -> None:
    program, table = compiled(seed)
    rows = np.array(data.draw(st.lists(st.integers(0, len(table) - 1), max_size=9)), np.intp)

    every = program.evaluate(table).codes
    # Another program remembers nothing of the pass over all.
    some = compile_expression(program.expression).evaluate(table, rows).codes

    assert some.tolist() == every[rows].tolist()


@given(SEEDS, st.integers(1, 400))
def test_a_budget_changes_no_verdict(seed: int, budget: int) -> None:
    program, table = compiled(seed)
    every = program.evaluate(table).codes.tolist()
    codes = np.full(len(table), PENDING, np.uint8)

    while (rows := np.flatnonzero(codes == PENDING)).size:
        found = program.evaluate(table, rows, budget=budget)
        assert (found.codes != PENDING).any()
        codes[rows] = found.codes

    assert codes.tolist() == every


@given(SEEDS)
def test_an_error_has_a_text_and_nothing_else_has(seed: int) -> None:
    program, table = compiled(seed)

    found = program.evaluate(table)

    for index, code in enumerate(found.codes.tolist()):
        assert bool(found.error(index)) is (code == ERROR)


@given(SEEDS, SEEDS)
def test_a_table_that_grew_gets_the_verdicts_of_a_new_one(first: int, second: int) -> None:
    """What a program remembers of values is right when more are appended."""
    program, _ = compiled(first)
    small = make_question(first)["devices"]
    table = devices(small)
    program.evaluate(table)

    large = devices([*small, *make_question(second)["devices"]])
    expected = compile_expression(program.expression).evaluate(large).codes

    # Codes are numbered by first appearance, so the small columns are the large ones' beginnings.
    for kind in ("attributes", "capacities"):
        for domain, columns in getattr(table, kind).items():
            for name, column in columns.items():
                wide = getattr(large, kind)[domain][name]
                column.values.extend(wide.values[len(column.values) :])
                getattr(large, kind)[domain][name] = type(wide)(wide.codes, column.values)

    assert program.evaluate(large).codes.tolist() == expected.tolist()


@pytest.mark.parametrize("code", [FALSE, ERROR, TRUE])
def test_three_valued_logic_is_the_order_of_verdicts(code: int) -> None:
    """An error is between false and true: `&&` is the smaller, `||` the larger."""
    terms = {FALSE: "false", ERROR: "1 / 0 == 1", TRUE: "true"}
    table = devices([{"driver": "a"}])
    for other, term in terms.items():
        both = compile_expression(f"{terms[code]} && {term}").evaluate(table)
        either = compile_expression(f"{terms[code]} || {term}").evaluate(table)

        assert both.codes.tolist() == [min(code, other)]
        assert either.codes.tolist() == [max(code, other)]
