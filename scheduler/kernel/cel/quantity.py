"""Resource quantities in expressions: exact, with upstream's notion of an integer.

Source: k8s.io/apimachinery pkg/api/resource, v0.36.3 (`ParseQuantity`, `int64Amount`). Upstream
holds a small quantity as 64 bits and a power of ten, any other as a decimal. Only the first kind
can be an integer, so `1.0` and `0.5Gi` are not, which expressions can observe.
"""

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

from scheduler.kernel.cel import effort
from scheduler.kernel.cel.errors import CostLimitError

_INT64: Final = 2**63
_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*+)(?:\.(?P<part>[0-9]*+))?"
    r"(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)",
    re.ASCII,
)
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FACTORS: Final = 18
"""Decimal digits that always fit 64 bits (`maxInt64Factors`)."""
_FINEST: Final = -9
"""Billionths: the smallest unit of a quantity."""
_MAX_EXPONENT: Final = 10_000
"""Larger exponents are beyond any device, and cost time."""
_MAX_DIGITS: Final = 10_000
"""So are more digits."""
_CACHED: Final = 64
"""Longest text that is remembered: devices have no longer quantities, but expressions make them."""
_DIGITS_OF_UNIT: Final = 64
"""Decimal digits of an exact amount that are computed with in a unit of work."""
FORMAT_WRONG: Final = (
    "quantities must match the regular expression "
    r"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIX_WRONG: Final = "unable to parse quantity's suffix"
NUMERIC_WRONG: Final = "unable to parse numeric part of quantity"


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount: `value` · 10^`scale` in 64 bits, or `exact` where that does not hold it."""

    value: int = 0
    scale: int = 0
    exact: Fraction | None = None
    computed: bool = False
    """Made by `add` or `sub`. Upstream compares such a value on the right of `==` with nothing."""
    places: int = -_FINEST
    """Decimal places that upstream keeps of `exact`."""

    @property
    def amount(self) -> Fraction:
        """The number, exactly."""
        if self.exact is not None:
            effort.charge(self.exact.numerator.bit_length() // (3 * _DIGITS_OF_UNIT))
            return self.exact
        effort.charge(abs(self.scale) // _DIGITS_OF_UNIT)
        return Fraction(self.value) * Fraction(10) ** self.scale

    def compare(self, other: "Quantity") -> int:
        """Return -1, 0 or 1."""
        if self.exact is None and other.exact is None and self.scale == other.scale:
            return (self.value > other.value) - (self.value < other.value)
        mine, others = self.amount, other.amount
        return (mine > others) - (mine < others)

    def integer(self) -> int | None:
        """The value as 64 bits (`AsInt64`), or None."""
        if self.exact is not None or self.scale < 0 or (self.value and self.scale > _FACTORS):
            return None
        value = self.value and self.value * 10**self.scale
        return value if -_INT64 <= value < _INT64 else None

    def approximate(self) -> float:
        """The nearest double, computed as upstream does (`AsApproximateFloat64`)."""
        if self.exact is not None:
            try:
                return float(int(self.exact * 10**self.places)) * float(f"1e{-self.places}")
            except OverflowError:
                return math.inf if self.exact > 0 else -math.inf
        if self.scale == 0:
            return float(self.value)
        return self.value * float(f"1e{self.scale}")

    def plus(self, other: "Quantity") -> "Quantity":
        """The sum, in 64 bits where upstream keeps it there."""
        return self._added(other) or self._beyond(self.amount + other.amount, other)

    def minus(self, other: "Quantity") -> "Quantity":
        """The difference. In 64 bits the smallest number is its own negative, as in Go."""
        if other.exact is None:
            value = other.value if other.value == -_INT64 else -other.value
            found = self._added(Quantity(value, other.scale))
            if found is not None:
                return found
        return self._beyond(self.amount - other.amount, other)

    def _beyond(self, amount: Fraction, other: "Quantity") -> "Quantity":
        """A sum or difference as a decimal."""
        places = [-one.scale if one.exact is None else one.places for one in (self, other)]
        return Quantity(exact=amount, computed=True, places=max(places))

    def _added(self, other: "Quantity") -> "Quantity | None":
        """The sum, if 64 bits hold it and both operands."""
        if self.exact is not None or other.exact is not None:
            return None
        if other.value == 0:
            return Quantity(self.value, self.scale, computed=True)
        if self.value == 0:
            return Quantity(other.value, other.scale, computed=True)
        scale = min(self.scale, other.scale)
        parts = [one.value * 10 ** (one.scale - scale) for one in (self, other)]
        total = sum(parts)
        if all(-_INT64 <= part < _INT64 for part in (*parts, total)):
            return Quantity(total, scale, computed=True)
        return None


def parse_quantity(text: str) -> Quantity:
    """Read a quantity.

    Raises:
        ValueError: the text is none; the message is upstream's.
        CostLimitError: it has too many digits to compute with.
    """
    return _remembered(text) if len(text) <= _CACHED else _parsed(text)


def _parsed(text: str) -> Quantity:
    match = _QUANTITY.fullmatch(text)
    if not text or match is None:
        raise ValueError(FORMAT_WRONG)
    whole = match["whole"].lstrip("0")
    part = match["part"] or ""
    base, exponent, is_binary = _suffix(match["suffix"])
    negative = match["sign"] == "-"
    digits = len(whole or "0") + len(part)
    if is_binary:
        room = 15 - len(whole or "0") - int(exponent * 3 / 10) - 1 if not part else -1
        factor, scale = base**exponent, 0
    else:
        room, factor, scale = _FACTORS - digits, 1, exponent
    if room >= 0 and scale - len(part) >= _FINEST:
        value = int(whole + part or "0") * factor
        return Quantity(-value if negative else value, scale - len(part))
    if not match["whole"] and not part:
        raise ValueError(NUMERIC_WRONG)
    if digits > _MAX_DIGITS:
        raise CostLimitError
    # As a decimal: Python reads no whole number of more than 4,300 digits.
    number = int(Decimal(whole + part or "0"))
    amount = Fraction(number, 10 ** len(part)) * Fraction(base) ** exponent
    # Upstream rounds away from zero to whole billionths, so that asking for little asks for some.
    amount = Fraction(math.ceil(amount * 10**9), 10**9)
    if is_binary:
        amount = min(amount, Fraction(_INT64 - 1))
    return Quantity(exact=-amount if negative else amount)


_remembered: Final = lru_cache(maxsize=4096)(_parsed)


def _suffix(text: str) -> tuple[int, int, bool]:
    if text in _DECIMAL:
        return 10, _DECIMAL[text], False
    if text in _BINARY:
        return 2, _BINARY[text], True
    exponent = re.fullmatch(r"[eE]([+-]?)0*([0-9]{1,19})", text, re.ASCII)
    if exponent is None or not -_INT64 <= (power := int(exponent[1] + exponent[2])) < _INT64:
        raise ValueError(SUFFIX_WRONG)
    return 10, max(-_MAX_EXPONENT, min(power, _MAX_EXPONENT)), False
