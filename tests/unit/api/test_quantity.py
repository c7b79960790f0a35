"""What the text of a quantity amounts to."""

from decimal import Decimal

import pytest

from scheduler.api.quantity import QuantityError, ceil, int64, milli_value, parse

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("100m", Decimal("0.1"), id="thousandths"),
        pytest.param("1.5Gi", Decimal(3 * 2**29), id="binary with a fraction"),
        pytest.param("12e6", Decimal(12_000_000), id="exponent"),
        pytest.param("1E", Decimal(10**18), id="exa, not an exponent"),
        pytest.param(".5", Decimal("0.5"), id="no digit before the point"),
        pytest.param(2, Decimal(2), id="a number"),
        pytest.param("9223372036854775807", Decimal(LARGEST), id="the largest"),
        pytest.param("1Ei", Decimal(2**60), id="the largest suffix"),
    ],
)
def test_a_quantity_is_exact(text: str | int, expected: Decimal) -> None:
    """No digit is lost: what fits exactly must not be refused."""
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("8Ei", id="suffix"),
        pytest.param("1e30", id="exponent"),
        pytest.param("1e3000000", id="an exponent that would take minutes to write out"),
        pytest.param("1e99999999999999999", id="an exponent beyond decimal arithmetic"),
    ],
)
def test_what_64_bits_cannot_hold_counts_as_the_largest(text: str) -> None:
    """As for the API server; and finding out takes no time."""
    assert (ceil(parse(text)), milli_value(text)) == (LARGEST, LARGEST)


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (0, 0),
        (-1, -1),
        (LARGEST, LARGEST),
        (LARGEST + 1, -LARGEST - 1),
        (-LARGEST - 2, LARGEST),
        (2 * LARGEST, -2),
    ],
)
def test_sums_are_those_of_64_bits(value: int, left: int) -> None:
    """What is beyond comes back at the other end, as in kube-scheduler."""
    assert int64(value) == left


def test_what_is_too_small_to_tell_rounds_up() -> None:
    """A request that is not 0 takes something."""
    assert (ceil(parse("1e-99999999999999999")), milli_value("1n")) == (1, 1)


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1e", "1e9999999999999999999999", "0x1", "1mm"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """By one error that says what is expected."""
    with pytest.raises(QuantityError, match="is not a quantity: expected a number"):
        parse(text)
