"""Resource quantities as integers.

Source: k8s.io/apimachinery pkg/api/resource (Quantity.Value, MilliValue: both round up).
"""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Final

from scheduler.api.objects import Quantity

_SUFFIXES: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,18})|([numkMGTPE]|[KMGTPE]i)?)"
)
_INT64: Final = 2**63
_LARGEST: Final = Decimal(_INT64 - 1)
_MAX_EXPONENT: Final = 1000
"""Exponents beyond this only add cost: the value is capped, or rounds as with this exponent."""
MILLI: Final = Decimal(1000)


class QuantityError(ValueError):
    """A text that is not a resource quantity."""


@lru_cache(maxsize=65536)
def parse(text: Quantity) -> Decimal:
    """Parse a quantity into its exact number, capped at 64 bits.

    Raises:
        QuantityError: the text does not parse.
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise QuantityError(
            f"{text!r} is not a quantity: expected a number with an optional suffix, "
            'such as "500m", "2" or "1.5Gi"'
        )
    number, exponent, suffix = match.groups()
    if exponent is None:
        return min(Decimal(number) * _SUFFIXES[suffix or ""], _LARGEST)
    power = max(-_MAX_EXPONENT, min(int(exponent[1:]), _MAX_EXPONENT))
    return min(Decimal(f"{number}e{power}"), _LARGEST)


def ceil(value: Decimal) -> int:
    """Round up to a whole number, capped at the largest signed 64-bit integer."""
    return min(int(value.to_integral_value(rounding=ROUND_CEILING)), _INT64 - 1)


def int64(value: int) -> int:
    """Wrap a sum to a signed 64-bit integer, as upstream's addition and subtraction do."""
    return (value + _INT64) % (2 * _INT64) - _INT64


@lru_cache(maxsize=65536)
def milli_value(quantity: Quantity) -> int:
    """The quantity in thousandths, rounded up (CPU).

    Raises:
        QuantityError: the text does not parse.
    """
    return ceil(parse(quantity) * MILLI)
