"""Ways of upstream's evaluator that no one would guess, each found by asking it (`oracle -cel`)."""

import pytest

from scheduler.kernel.cel import ERROR, FALSE, TRUE, CompileError, compile_expression
from tests.support.devices import devices

DEVICE = {
    "driver": "d",
    "attributes": {"v": {"version": "1.2.3"}, "n": {"int": 1}, "ok": {"bool": True}},
    "capacity": {"memory": {"value": "1Gi"}},
}


def verdict(expression: str) -> int:
    return int(compile_expression(expression).evaluate(devices([DEVICE])).codes[0])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # A quantity refuses to be compared with anything else; being different is the negation.
        ('dyn(quantity("1")) == dyn(1)', ERROR),
        ('dyn(quantity("1")) != dyn(1)', TRUE),
        ('dyn(1) == dyn(quantity("1"))', FALSE),
        # A computed quantity on the right is none of the kind it is on the left.
        ('quantity("1").add(quantity("1")) == quantity("2")', TRUE),
        ('quantity("2") == quantity("1").add(quantity("1"))', ERROR),
        # In a list what refuses counts as equal.
        ('[dyn(quantity("1"))] == [dyn(1)]', TRUE),
        # Only whole numbers of 64 bits without a fraction written are integers.
        ('quantity("1.0").isInteger()', FALSE),
        ('quantity("0.5Gi").isInteger()', FALSE),
        ('quantity("512Mi").isInteger()', TRUE),
        # A quantity that 64 bits do not hold is a decimal of nine places, times an inexact 1e-9.
        ('quantity("3.75Gi").asApproximateFloat() == 4026531840.0', FALSE),
        ('quantity("3.75Gi").add(quantity("1k")).asApproximateFloat() == 4026532840.0', FALSE),
        ('quantity("1.5Gi").sub(quantity("7m")).asApproximateFloat() == 1610612735.993', TRUE),
        ('quantity("12345678901234567890e400").asApproximateFloat() > 1.0', TRUE),
        ('quantity("-12345678901234567890e400").asApproximateFloat() < -1.0', TRUE),
        # A minus may be anywhere in a class, an underscore may be escaped, and dotless i is no i.
        (r'"a-b.c".matches("^[\\w-.]+$")', TRUE),
        ('"a-e".matches("^[a-c-e]+$")', TRUE),
        ('"-".matches("^[^-a]$")', FALSE),
        (r'"nv_h100".matches("^nv\\_h100$")', TRUE),
        ('"m\u0131ni".matches("(?i)^mini$")', FALSE),
        # Go takes a group's name twice, zeros in front of a code, and properties in any spelling.
        ('"ab".matches("(?P<n>a)(?P<n>b)")', TRUE),
        (r'"A".matches("\\x{0000000000041}")', TRUE),
        (r'"A".matches("^\\p{LC}\\P{Cn}?$")', TRUE),
        (r'"A".matches("^\\p{lu}$") && !"a".matches("\\p{Uppercase_Letter}")', TRUE),
        (r'"A".matches("^\\p{ASCII}$") && "\u212a".matches("(?i)^\\p{ASCII}$")', TRUE),
        (r'"A".matches("^\\p{Assigned}$") && !"\u0378".matches("\\p{assigned}")', TRUE),
        # What is written as a precision of `%e` is a width, as is the default of six.
        ('"%e".format([1.5]) == "1.500000\u00d710\u2070\u2070"', TRUE),
        ('"%.15e".format([-1.5]) == " -1.500000\u00d710\u2070\u2070"', TRUE),
        ('"%e%.2e".format([0.0 / 0.0, 1.0 / 0.0]) == "   NaN \u221e"', TRUE),
        # A fraction of a duration is computed with doubles, and zeros in front do not matter.
        ('duration("0.3333333333333333333h") == duration("20m")', TRUE),
        (f'timestamp("1970-01-01T00:00:00.{"0" * 2000}1Z") == timestamp(0)', TRUE),
        (f'duration("{"0" * 2000}1s") == duration("1s")', TRUE),
        ("dyn([7])[-9223372036854775808.0] == 7", ERROR),
        # Kubernetes' own types do not survive in an optional that passes through a name or `?:`.
        ('optional.of(quantity("1")).value() == quantity("1")', TRUE),
        ('cel.bind(q, optional.of(quantity("1")), q.hasValue())', TRUE),
        ('cel.bind(q, optional.of(quantity("1")), q.value() == quantity("1"))', ERROR),
        # An empty list holds nothing, whatever its left side would say.
        ("1 / 0 in []", FALSE),
        # A result that is an optional may hold the bool.
        ('true ? device.attributes["d"].?ok : optional.of(device.attributes["d"].n).value()', TRUE),
        # Integers beside doubles are rounded to doubles.
        ("9007199254740993 == dyn(9007199254740992.0)", TRUE),
    ],
)
def test_values(expression: str, expected: int) -> None:
    assert verdict(expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["d"].v in ["1.2.3"] || true',
        '{"a": 1}[dyn(semver("1.2.3")) in {"a": 1} ? "a" : "a"] == 1 || true',
        "[1].sortBy(x, 1 / 0).size() == 1 || true",
        "1 / 0 + [1].map(x, 1 / 0).distinct().size() == 1 || true",
    ],
)
def test_a_panic_of_upstream_is_not_absorbed(expression: str) -> None:
    """It ends the evaluation with an internal error, also where the other side would decide."""
    table = devices([DEVICE])

    found = compile_expression(expression).evaluate(table)

    assert found.codes.tolist() == [ERROR]
    assert found.error(0).startswith("internal error: ")


def test_what_is_decided_first_is_not_reached_by_a_panic() -> None:
    assert verdict('true || device.attributes["d"].v in ["1.2.3"]') == TRUE


@pytest.mark.parametrize(
    "expression",
    [
        # Attributes are `any`, which is no range of a macro.
        'device.attributes["d"].n.exists(x, x == 1)',
        # A literal of a duration is worked out when it is compiled, and integers make none.
        "duration(1) == duration('1s')",
        # The first text of the function `matches` is taken for a pattern too.
        "matches('(', 'a')",
        # `existsOne` exists with two variables only.
        "[1].existsOne(x, x == 1)",
        # Mixed lists are refused, except as arguments of `format`.
        "[dyn(1), 2] == []",
    ],
)
def test_what_is_refused(expression: str) -> None:
    with pytest.raises(CompileError):
        compile_expression(expression)


def test_mixed_lists_are_arguments_of_format() -> None:
    assert verdict("'%s %d'.format(['a', 1]) == 'a 1'") == TRUE


def test_a_name_bound_to_a_constant_is_worked_out_on_devices() -> None:
    """Not when it is compiled: a conversion that fails is an error, not a refusal."""
    assert verdict('bool(cel.bind(x, device.attributes["d"], dyn("1.5")))') == ERROR


GPU = 'device.attributes["d"]'


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        # A list of constants is a set.
        (f"{GPU}.n in [1, 2, 3]", 4),
        # An attribute inside another is not counted again.
        (f"(true ? {GPU}.n : 3) == 1", 4),
        ("[1, 2, 3].filter(x, x > 5).size() == 0", 9),
        ("[1, 2, 3].exists_one(x, x > 2)", 10),
        ("device.attributes[device.driver].n == 1", 6),
        # Calls that fail are counted, and what an error was put into.
        ("1 / 0 == 1 || true", 2),
        ('"abc".substring(5) == "" || true', 1),
        ("[1, 2, 3].slice(2, 9) == [] || true", 12),
        ("[1 / 0].size() == 1 || true", 13),
        # Steps are counted if they find something, and the one that fails.
        (f"{GPU}.?nope.hasValue()", 4),
        (f"{GPU}.?nope.?x.hasValue()", 4),
        ('dyn({"a": 1}).b.c == 1 || true', 3),
        # Addresses have a length only where they differ; searches count bytes.
        ('ip("::1") == ip("::1")', 3),
        ('ip("::1") != ip("::2")', 4),
        ('"éééééééééééééééééééé".indexOf("é") == 0', 5),
    ],
)
def test_costs(expression: str, cost: int) -> None:
    found = compile_expression(expression).evaluate(devices([DEVICE]))

    assert (found.error(0), found.cost) == ("", cost)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("dyn([1])[5.0] == 1", "index out of bounds: 5"),
        ("dyn({1: 2})[5.0] == 1", "no such key: 5"),
        ('duration("1h") + duration(dyn("2562047h")) == duration("1s")', "integer overflow"),
        ('timestamp(0).getHours("Local") == 0', ""),
        (
            '[[1]].flatten(dyn("a")) == [1] || true',
            "internal error: interface conversion: ref.Val is types.String, not types.Int",
        ),
        (
            "dyn(1).flatten(1 / 0) == [1] || true",
            "internal error: interface conversion: ref.Val is *types.Err, not types.Int",
        ),
    ],
)
def test_texts(expression: str, text: str) -> None:
    assert compile_expression(expression).evaluate(devices([DEVICE])).error(0) == text
