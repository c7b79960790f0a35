"""Conversions from one type to another.

Source: github.com/google/cel-go v0.26.0 common/stdlib, common/types.
"""

import math
import re
from typing import Final

from scheduler.kernel.cel import costs
from scheduler.kernel.cel.declarations import function
from scheduler.kernel.cel.errors import EvaluationError
from scheduler.kernel.cel.numbers import double_text
from scheduler.kernel.cel.times import (
    checked_timestamp,
    duration_text,
    parse_duration,
    parse_timestamp,
    timestamp_text,
)
from scheduler.kernel.cel.values import (
    INT_MAX,
    INT_MIN,
    MAX_DIGITS,
    UINT_MAX,
    Address,
    Duration,
    Network,
    Timestamp,
    Uint,
    Value,
)

_FLOAT: Final = re.compile(
    r"[+-]?(?:inf|infinity)|nan"
    r"|[+-]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:e[+-]?[0-9][0-9_]*)?",
    re.ASCII | re.IGNORECASE,
)
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0x(?:[0-9a-f]+(?:\.[0-9a-f]*)?|\.[0-9a-f]+)p[+-]?[0-9]{1,9}", re.ASCII | re.IGNORECASE
)
_BOOLS: Final = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


def checked_int(value: int) -> int:
    """A number, if it is an int.

    Raises:
        EvaluationError: it takes more than 64 bits.
    """
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def checked_uint(value: int) -> Uint:
    """A number as a uint.

    Raises:
        EvaluationError: it is negative, or takes more than 64 bits.
    """
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def _identity(value: Value) -> Value:
    return value


def _failed(source: str, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


def _digits(text: str, low: int, high: int, pattern: str) -> int | None:
    if not re.fullmatch(pattern, text, re.ASCII) or len(text.lstrip("+-0")) > MAX_DIGITS:
        return None
    sign = -1 if text.startswith("-") else 1
    number = sign * int(text.lstrip("+-0") or "0")
    return number if low <= number <= high else None


def _string_to_int(text: str) -> int:
    number = _digits(text, INT_MIN, INT_MAX, r"[+-]?[0-9]+")
    if number is None:
        raise _failed("string", "int")
    return number


def _string_to_uint(text: str) -> Uint:
    number = _digits(text, 0, UINT_MAX, r"[0-9]+")
    if number is None:
        raise _failed("string", "uint")
    return Uint(number)


def _string_to_double(text: str) -> float:
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            raise _failed("string", "double") from None
    # Underscores must be between digits.
    if not _FLOAT.fullmatch(text) or re.search(r"_(?![0-9])|(?<![0-9])_", text):
        raise _failed("string", "double")
    number = float(text)
    if math.isinf(number) and text.lstrip("+-")[0] not in "iI":
        raise _failed("string", "double")
    return number


def _string_to_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise _failed("string", "bool")
    return _BOOLS[text]


def _bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _double_to_int(value: float) -> int:
    # Upstream leaves both ends out: the nearest doubles are not 64 bits.
    if not float(INT_MIN) < value < float(2**63):
        raise EvaluationError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if not 0 <= value < float(2**64):
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def _int_to_duration(_: int) -> Duration:
    # Upstream declares this, and has no code for it.
    raise _failed("int", "google.protobuf.Duration")


def _int_to_timestamp(seconds: int) -> Timestamp:
    return checked_timestamp(seconds * 10**9, 0)


def address_text(value: Address) -> str:
    """An address in its canonical form."""
    return str(value.address)


def network_text(value: Network) -> str:
    """A network with its own address and the length of its prefix."""
    return f"{value.interface.ip}/{value.interface.network.prefixlen}"


CONVERSIONS: Final = (
    function("dyn(A) dyn", body=_identity),
    function(("bool(bool) bool", _identity), ("bool(string) bool", _string_to_bool)),
    function(
        ("bytes(bytes) bytes", _identity),
        ("bytes(string) bytes", str.encode),
        cost=lambda arguments, _: (
            costs.traversal()(arguments, _) if type(arguments[0]) is str else 1
        ),
    ),
    function(
        ("double(double) double", _identity),
        ("double(int) double", float),
        ("double(string) double", _string_to_double),
        ("double(uint) double", float),
    ),
    function(
        ("duration(duration) duration", _identity),
        ("duration(int) duration", _int_to_duration),
        ("duration(string) duration", parse_duration),
    ),
    function(
        ("int(int) int", _identity),
        ("int(double) int", _double_to_int),
        ("int(duration) int", lambda value: value.nanoseconds),
        ("int(string) int", _string_to_int),
        ("int(timestamp) int", lambda value: value.nanoseconds // 10**9),
        ("int(uint) int", lambda value: checked_int(int(value))),
    ),
    function(
        ("string(string) string", _identity),
        ("string(bool) string", lambda value: "true" if value else "false"),
        ("string(bytes) string", _bytes_to_string),
        ("string(double) string", double_text),
        ("string(duration) string", duration_text),
        ("string(int) string", str),
        ("string(timestamp) string", timestamp_text),
        ("string(uint) string", str),
        ("string(ip) string", address_text),
        ("string(cidr) string", network_text),
        cost=lambda arguments, _: (
            costs.traversal()(arguments, _) if type(arguments[0]) is bytes else 1
        ),
    ),
    function(
        ("timestamp(timestamp) timestamp", _identity),
        ("timestamp(int) timestamp", _int_to_timestamp),
        ("timestamp(string) timestamp", parse_timestamp),
    ),
    function(
        ("uint(uint) uint", _identity),
        ("uint(double) uint", _double_to_uint),
        ("uint(int) uint", checked_uint),
        ("uint(string) uint", _string_to_uint),
    ),
)
