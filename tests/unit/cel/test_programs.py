"""Expressions about devices, compiled and evaluated."""

import numpy as np
import pytest

from scheduler.kernel.cel import (
    ERROR,
    FALSE,
    PENDING,
    TRUE,
    CompileError,
    compile_expression,
)
from tests.support.devices import devices

GPU = {
    "driver": "gpu.example.com",
    "attributes": {
        "model": {"string": "h100"},
        "index": {"int": 3},
        "healthy": {"bool": True},
        "driverVersion": {"version": "1.2.3-rc.1"},
        "numa.example.org/node": {"int": 1},
    },
    "capacity": {"memory": {"value": "80Gi"}},
}
NIC = {"driver": "nic.example.com", "allowMultipleAllocations": True}
BROKEN = {"driver": "gpu.example.com", "attributes": {"driverVersion": {"version": "1.2"}}}


def verdicts(expression: str, *objects: object) -> list[int]:
    table = devices(objects or (GPU, NIC))  # type: ignore[arg-type]
    return [int(code) for code in compile_expression(expression).evaluate(table).codes]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "gpu.example.com"', [TRUE, FALSE]),
        ("device.allowMultipleAllocations", [FALSE, TRUE]),
        ('device.attributes["gpu.example.com"].model == "h100"', [TRUE, ERROR]),
        ('device.attributes["gpu.example.com"]["index"] > 2.5', [TRUE, ERROR]),
        ('device.attributes["gpu.example.com"].healthy', [TRUE, ERROR]),
        ('device.attributes["numa.example.org"].node == 1', [TRUE, ERROR]),
        (
            'device.attributes["gpu.example.com"].driverVersion.isLessThan(semver("1.2.3"))',
            [TRUE, ERROR],
        ),
        (
            'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) == 0',
            [TRUE, ERROR],
        ),
        ('"gpu.example.com" in device.attributes', [TRUE, FALSE]),
        ('"model" in device.attributes["gpu.example.com"]', [TRUE, FALSE]),
        ('has(device.attributes["gpu.example.com"].model)', [TRUE, FALSE]),
        ('device.attributes["nowhere"].size() == 0', [TRUE, TRUE]),
        (
            'device.attributes["gpu.example.com"].?index.orValue(7) == 7',
            [FALSE, TRUE],
        ),
        (
            'cel.bind(gpu, device.attributes["gpu.example.com"], gpu.healthy && gpu.index == 3)',
            [TRUE, ERROR],
        ),
        ('device.attributes.exists(domain, domain == "numa.example.org")', [TRUE, FALSE]),
    ],
)
def test_selectors_read_devices(expression: str, expected: list[int]) -> None:
    assert verdicts(expression) == expected


def test_logical_operators_absorb_errors() -> None:
    missing = 'device.attributes["gpu.example.com"].model == "h100"'

    assert verdicts(f'{missing} || device.driver == "nic.example.com"') == [TRUE, TRUE]
    assert verdicts(f'{missing} && device.driver == "gpu.example.com"') == [TRUE, FALSE]
    assert verdicts(f'{missing} && device.driver == "nic.example.com"') == [FALSE, ERROR]
    assert verdicts(f'device.driver == "nic.example.com" ? true : {missing}') == [TRUE, TRUE]


def test_a_version_that_does_not_parse_fails_every_expression() -> None:
    table = devices((GPU, BROKEN))

    found = compile_expression("true").evaluate(table)

    assert found.codes.tolist() == [TRUE, ERROR]
    assert found.error(1) == (
        "attribute driverVersion: parse semantic version: No Major.Minor.Patch elements found"
    )


def test_errors_say_what_is_missing() -> None:
    table = devices((GPU, NIC))

    found = compile_expression('device.attributes["gpu.example.com"].model == "x"').evaluate(table)

    assert (found.error(0), found.error(1)) == ("", "no such key: model")


def test_a_result_that_is_no_bool_is_an_error() -> None:
    table = devices((GPU,))

    found = compile_expression('device.attributes["gpu.example.com"].model').evaluate(table)

    assert found.codes.tolist() == [ERROR]
    assert found.error(0).startswith("CEL result of type string could not be converted to bool")


def test_rows_can_be_chosen() -> None:
    table = devices((GPU, NIC, GPU))

    found = compile_expression('device.driver == "gpu.example.com"').evaluate(
        table, np.array([2, 1])
    )

    assert found.matches.tolist() == [True, False]


def test_a_budget_leaves_the_rest_pending() -> None:
    table = devices([GPU] * 50)
    program = compile_expression('device.attributes["gpu.example.com"].all(name, name != "x")')

    found = program.evaluate(table, budget=200)
    rest = np.flatnonzero(found.codes == PENDING)

    assert set(found.codes[: rest[0]].tolist()) == {TRUE}
    assert 0 < rest.size < 50
    assert set(program.evaluate(table, rest).codes.tolist()) == {TRUE}


def test_values_that_cannot_be_looked_up_cost_what_it_took_to_find_out() -> None:
    """Go panics on them; a few versions of drivers must not use up the budget of a pass."""
    table = devices(
        [{"driver": "d", "attributes": {"a": {"version": f"1.{n}.0"}}} for n in range(50)]
    )
    program = compile_expression('device.attributes["d"].a in ["1.0.0", "1.1.0"]')

    found = program.evaluate(table, budget=2_000_000)

    assert set(found.codes.tolist()) == {ERROR}
    assert 50 <= found.cost < 1000


@pytest.mark.parametrize(
    ("expression", "problem", "position"),
    [
        ("", "expecting an expression", 0),
        ("?!", "expecting an expression", 0),
        ("1", "must evaluate to bool or the unknown type, not int", None),
        ("dyn(true)", "must evaluate to bool or the unknown type, not dyn", None),
        ("device.nothing", "undefined field 'nothing'", 6),
        ("unknown == 1", "undeclared reference to 'unknown'", 0),
        ('device.driver.frobnicate() == "x"', "undeclared reference to 'frobnicate'", 24),
        ("device.driver == 1", "found no matching overload for '_==_'", 14),
        ('"a".matches("(")', "missing closing )", 11),
        ("[1, 'a'] == []", "expected type 'int' but found 'string'", 4),
        ("for == 1", "reserved identifier: for", 0),
        ('int("x") == 1', "type conversion error from 'string' to 'int'", 3),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(
    expression: str, problem: str, position: int | None
) -> None:
    with pytest.raises(CompileError) as caught:
        compile_expression(expression)

    assert problem in str(caught.value)
    assert caught.value.position == position
