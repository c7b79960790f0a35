"""Doubles as text."""

import math
from typing import Final

_SMALLEST_PLAIN: Final = -4
_LARGEST_PLAIN: Final = 6
"""Doubles with more digits before the point are written with an exponent."""


def double_text(value: float) -> str:
    """A double as Go's `%g` writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = _decimal(value)
    point = len(digits) + exponent
    if _SMALLEST_PLAIN <= point - 1 < _LARGEST_PLAIN:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        if point >= len(digits):
            return sign + digits + "0" * (point - len(digits))
        return f"{sign}{digits[:point]}.{digits[point:]}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+03d}"


def _decimal(value: float) -> tuple[str, str, int]:
    text = repr(value)
    sign = "-" if text.startswith("-") else ""
    mantissa, _, power = text.lstrip("-").partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    exponent = int(power or "0") - len(part)
    stripped = digits.rstrip("0")
    if not stripped:
        return sign, "0", 0
    return sign, stripped, exponent + len(digits) - len(stripped)
