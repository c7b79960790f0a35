"""Resource quantities in the form an API server stores them.

Source: k8s.io/apimachinery pkg/api/resource (ParseQuantity, Quantity.CanonicalizeBytes).
"""

import re
from decimal import ROUND_UP, Decimal
from functools import lru_cache
from typing import Final

from scheduler.sandbox.errors import SandboxError

_SYNTAX: Final = re.compile(r"([+-]?[0-9]*\.?[0-9]*)([eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE]?)")
_SYNTAX_TEXT: Final = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO: Final = Decimal("1e-9")
_SMALLEST_BINARY: Final = 1024


class QuantityError(SandboxError, ValueError):
    """A text that is not a quantity."""


def _parsed(text: str) -> tuple[Decimal, str]:
    match = _SYNTAX.fullmatch(text)
    if match is None or not any(char.isdigit() for char in match[1]):
        raise QuantityError(f"quantities must match the regular expression '{_SYNTAX_TEXT}'")
    number, suffix = Decimal(match[1]), match[2]
    if suffix in _BINARY_SUFFIXES:
        return number * 2 ** _BINARY_SUFFIXES[suffix], "binary"
    if suffix in _DECIMAL_SUFFIXES:
        return number.scaleb(_DECIMAL_SUFFIXES[suffix]), "decimal"
    return number.scaleb(int(suffix[1:])), "exponent"


@lru_cache(maxsize=65536)
def quantity_value(text: str) -> Decimal:
    """The number a quantity stands for, no finer than a billionth, rounded away from zero.

    Raises:
        QuantityError: the text does not parse.
    """
    return _parsed(text)[0].quantize(_NANO, rounding=ROUND_UP)


@lru_cache(maxsize=65536)
def canonical_quantity(text: str) -> str:
    """The shortest text without fraction for the same quantity: 1000m becomes 1, 0.5Gi 512Mi.

    Raises:
        QuantityError: the text does not parse.
    """
    form = _parsed(text)[1]
    value = quantity_value(text)
    if form == "binary" and abs(value) >= _SMALLEST_BINARY and value == int(value):
        return _binary_text(int(value))
    return _decimal_text(value, with_exponent=form == "exponent")


def _binary_text(value: int) -> str:
    for suffix, power in reversed(_BINARY_SUFFIXES.items()):
        if value % (1 << power) == 0:
            return f"{value >> power}{suffix}"
    return str(value)


def _decimal_text(value: Decimal, *, with_exponent: bool) -> str:
    nanos = int(value.scaleb(9))
    if nanos == 0:
        return "0"
    for suffix, power in reversed(_DECIMAL_SUFFIXES.items()):
        mantissa, rest = divmod(nanos, 10 ** (power + 9))
        if rest == 0:
            return f"{mantissa}{_exponent(power) if with_exponent else suffix}"
    raise AssertionError("a billionth divides every quantity")


def _exponent(power: int) -> str:
    return f"e{power}" if power else ""
