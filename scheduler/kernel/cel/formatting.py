"""`string.format`: clauses and the values that they accept.

Source: github.com/google/cel-go v0.26.0 ext/formatting.go, with golang.org/x/text for numbers.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.kernel.cel import costs, effort
from scheduler.kernel.cel.errors import CostLimitError, EvaluationError
from scheduler.kernel.cel.numbers import double_text
from scheduler.kernel.cel.times import duration_text, timestamp_text
from scheduler.kernel.cel.values import (
    LISTS,
    Duration,
    Map,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    kind_of,
    size_of,
)

_DEFAULT_PRECISION: Final = 6
_LAST_OF_FOUR_DIGITS: Final = 0xFFFF
_MAX_PRECISION: Final = 1000
"""Largest number of digits after the point. A double has no more, and each costs time."""
_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_CLAUSE: Final = re.compile(r"(?:\.(?P<precision>[0-9]*))?(?P<sign>.)?", re.ASCII | re.DOTALL)
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, slots=True)
class Clause:
    """A formatting clause: the part after a percent sign."""

    sign: str
    precision: int


ACCEPTED: Final = {
    "s": [
        "string",
        "bool",
        "bytes",
        "int",
        "uint",
        "double",
        "null_type",
        "list",
        "map",
        "type",
        "google.protobuf.Timestamp",
        "google.protobuf.Duration",
    ],
    "d": ["int", "uint"],
    "f": ["double", "string"],
    "e": ["double", "string"],
    "b": ["int", "uint", "bool"],
    "x": ["int", "uint", "string", "bytes"],
    "X": ["int", "uint", "string", "bytes"],
    "o": ["int", "uint"],
}
"""By clause, the static types that may be put there."""
_PROBLEMS: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
    "types, durations, and timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "X": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}


def parts(text: str) -> Iterator[str | Clause]:
    """Parse a format text.

    Raises:
        EvaluationError: a clause is none.
    """
    position = 0
    while (percent := text.find("%", position)) >= 0:
        yield text[position:percent]
        if text.startswith("%%", percent):
            yield "%"
            position = percent + 2
            continue
        match = _CLAUSE.match(text, percent + 1)
        if match is None or not match["sign"]:
            raise EvaluationError("unexpected end of string")
        yield _clause(match)
        position = match.end()
    yield text[position:]


def _clause(match: re.Match[str]) -> Clause:
    prefix = "could not parse formatting clause: "
    precision = _DEFAULT_PRECISION
    if match["precision"] is not None:
        if not match["precision"]:
            raise EvaluationError(prefix + "error while parsing precision")
        precision = int(match["precision"][:10])
    if match["sign"] not in ACCEPTED:
        raise EvaluationError(f'{prefix}unrecognized formatting clause "{match["sign"]}"')
    return Clause(match["sign"], precision)


def problem(sign: str, kind: str) -> str:
    """The error text for a value of a kind that a clause does not accept."""
    return "error during formatting: " + _PROBLEMS[sign].format(kind)


def format_text(text: str, arguments: Sequence[Value]) -> str:
    """Put the arguments into a format text.

    Raises:
        EvaluationError: too few arguments, or one that its clause does not accept.
    """
    written: list[str] = []
    index = length = 0
    for part in parts(text):
        if isinstance(part, str):
            written.append(part)
        else:
            if index >= len(arguments):
                raise EvaluationError(f"index {index} out of range")
            written.append(_CLAUSES[part.sign](arguments[index], part))
            index += 1
        length += len(written[-1])
        if length > costs.LIMIT:
            raise CostLimitError
    return "".join(written)


def _refuse(clause: Clause, value: Value) -> EvaluationError:
    return EvaluationError(problem(clause.sign, kind_of(value)))


def _as_string(value: Value, clause: Clause) -> str:
    return _string(value, top=True, clause=clause)


def _string(value: Value, *, top: bool, clause: Clause) -> str:
    """Write a value for `%s`; inside lists and maps texts have quotes and doubles six digits."""
    kind = type(value)
    effort.charge(size_of(value))
    if kind in LISTS:
        inner = (_quoted(element, clause) for element in value)
        return f"[{', '.join(inner)}]"
    if kind is Map:
        pairs = sorted(
            (_map_key(key, clause), _quoted(held, clause)) for key, held in value.items()
        )
        return "{" + ", ".join(f"{key}:{held}" for key, held in pairs) + "}"
    if kind is float:
        return double_text(value) if top else f"{value:.6f}"
    if kind is Timestamp:
        written = timestamp_text(value)
        return written if top else f'timestamp("{written}")'
    if kind is Duration:
        written = duration_text(value)
        return written if top else f'duration("{written}")'
    return _plain(value, clause)


def _plain(value: Value, clause: Clause) -> str:
    if value is None:
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("could not convert argument to string") from None
    if type(value) is TypeValue:
        return value.name
    if type(value) in {str, int, Uint}:
        return str(value)
    raise _refuse(clause, value)


def _quoted(value: Value, clause: Clause) -> str:
    written = _string(value, top=False, clause=clause)
    if type(value) is str or type(value) is bytes:
        return ("b" if type(value) is bytes else "") + go_quote(written)
    if type(value) is float and not math.isfinite(value):
        return go_quote({"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}[written])
    return written


def _map_key(key: Value, clause: Clause) -> str:
    if type(key) not in {str, bool, int, Uint}:
        raise EvaluationError(f"no formatting function for map key of type {kind_of(key)}")
    return _quoted(key, clause)


_GO_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def go_quote(text: str) -> str:
    """A text as Go's `%q` writes it."""
    written = []
    for letter in text:
        if letter in _GO_ESCAPES:
            written.append(_GO_ESCAPES[letter])
        elif letter == " " or (letter.isprintable() and not letter.isspace()):
            written.append(letter)
        elif letter < " " or letter == "\x7f":
            written.append(f"\\x{ord(letter):02x}")
        else:
            code = ord(letter)
            written.append(f"\\u{code:04x}" if code <= _LAST_OF_FOUR_DIGITS else f"\\U{code:08x}")
    return '"' + "".join(written) + '"'


def _decimal(value: Value, clause: Clause) -> str:
    if type(value) is int or type(value) is Uint:
        return str(int(value))
    raise _refuse(clause, value)


def _double(value: Value, clause: Clause) -> float:
    if type(value) is str and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if type(value) is float:
        # Zero has no sign here.
        return value + 0.0
    raise _refuse(clause, value)


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


def _fixed(value: Value, clause: Clause) -> str:
    number = _double(value, clause)
    if not math.isfinite(number):
        return _not_finite(number)
    return f"{number:,.{_precision(clause)}f}"


def _scientific(value: Value, clause: Clause) -> str:
    """`%e`: upstream takes the precision for a width, and always writes six digits."""
    number = _double(value, clause)
    if clause.precision > costs.LIMIT:
        raise CostLimitError
    if not math.isfinite(number):
        return _not_finite(number).rjust(clause.precision)
    mantissa, _, power = f"{number:.{_DEFAULT_PRECISION}e}".partition("e")
    exponent = f"{int(power):03d}" if int(power) < 0 else f"{int(power):02d}"
    return f"{mantissa}\u00d710{exponent.translate(_SUPERSCRIPT)}".rjust(clause.precision)


def _precision(clause: Clause) -> int:
    if clause.precision > _MAX_PRECISION:
        raise CostLimitError
    return clause.precision


def _base(letter: str) -> Callable[[Value, Clause], str]:
    def write(value: Value, clause: Clause) -> str:
        if letter == "b" and type(value) is bool:
            return "1" if value else "0"
        if letter in "xX" and type(value) in {str, bytes}:
            data: bytes = value.encode() if type(value) is str else value
            return data.hex() if letter == "x" else data.hex().upper()
        if type(value) is not int and type(value) is not Uint:
            raise _refuse(clause, value)
        return format(int(value), letter)

    return write


_CLAUSES: Final[dict[str, Callable[[Value, Clause], str]]] = {
    "s": _as_string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _base("b"),
    "x": _base("x"),
    "X": _base("X"),
    "o": _base("o"),
}
