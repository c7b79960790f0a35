"""Decodes plain values to frozen structs, and reports every mismatch with its path.

msgspec's decoder stops at the first error; this walker follows the same type descriptions
(`msgspec.inspect`) and continues. A stand-in replaces a wrong value, so that later checks see a
complete object; `Problems` suppresses their messages about that path.

It accepts the same values as Go's strict decoder: null counts as absent, `2.0` is a whole number.
"""

import base64
import binascii
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from enum import Enum
from functools import cache
from itertools import islice
from typing import Any, Final, TypeVar, cast

import msgspec
import msgspec.inspect as mi

from scheduler.config.duration import EXPECTED as DURATION_EXPECTED, parse_duration
from scheduler.config.problems import Path, Problems
from scheduler.config.source import Value

T = TypeVar("T", bound=msgspec.Struct)
NumberT = TypeVar("NumberT", int, float)

DURATION: Final = msgspec.Meta(extra={"format": "duration"})
"""Marks a float field that is written as a duration; the value is in seconds."""

NOT_WRITTEN: Final = msgspec.Meta(extra={"written": False})
"""Marks a field that is neither read from a file nor written to it."""

DEFAULT_IF_EMPTY: Final = msgspec.Meta(extra={"empty": "default"})
"""Marks a field whose empty text counts as absent, as where upstream defaults an empty string."""

Hint = Callable[[Path, str], str | None]
"""Returns a hint about an unknown field, given its parent's path and its name."""

_LISTED_FIELDS = 12


def decode(
    kind: type[T],
    value: Value,
    path: Path,
    problems: Problems,
    hint: Hint = lambda _path, _name: None,
) -> T:
    """Build a `kind` from plain values; add mismatches to `problems`."""
    return cast("T", _Walker(problems, hint).struct(_describe(kind), value, path))


def decode_foreign(kind: type[T], value: Value, path: Path, problems: Problems) -> T:
    """Build a plugin's type as `decode` does, and check all constraints of msgspec."""
    before = len(problems)
    decoded = decode(kind, value, path, problems)
    if len(problems) == before:
        try:
            msgspec.convert(msgspec.to_builtins(decoded), kind)
        except msgspec.ValidationError as problem:
            text, _, place = str(problem).partition(" - at `$")
            steps = [int(s) if s.isdigit() else s for s in re.findall(r"\w+", place)]
            expected = text.replace("`", "").replace("Expected", "expected", 1)
            problems.add((*path, *steps), expected)
    return decoded


def unreadable(kind: type[msgspec.Struct]) -> str | None:
    """Return the first field of a type that `decode` does not support, or None.

    The argument types of out-of-tree plugins are checked before they are used.
    """
    for path, described in _leaves(_describe(kind), ""):
        if not isinstance(described, _READABLE):
            return path
    return None


def _leaves(described: mi.Type, path: str) -> Iterator[tuple[str, mi.Type]]:
    match described:
        case mi.StructType(fields=fields):
            for field in fields:
                yield from _leaves(field.type, f"{path}.{field.encode_name}".lstrip("."))
        case mi.Metadata(type=inner):
            yield from _leaves(inner, path)
        case mi.UnionType(types=types):
            others = [t for t in types if not isinstance(t, mi.NoneType)]
            yield from _leaves(others[0], path) if len(others) == 1 else ((path, described),)
        case mi.VarTupleType(item_type=inner) | mi.ListType(item_type=inner):
            yield from _leaves(inner, f"{path}[]")
        case mi.DictType(key_type=mi.StrType(), value_type=inner):
            yield from _leaves(inner, f"{path}.*")
        case _:
            yield path, described


@cache
def _describe(kind: type[msgspec.Struct]) -> mi.StructType:
    return cast("mi.StructType", mi.type_info(kind))


def is_written(field: mi.Field) -> bool:
    """Return whether a field is part of files."""
    return not (isinstance(field.type, mi.Metadata) and field.type.extra == NOT_WRITTEN.extra)


def shown(value: object) -> str:
    """Return a value as in a file, shortened."""
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 60 else f'"{value[:57]}..."'  # noqa: PLR2004
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return f"{value:g}" if isinstance(value, float) else str(value)


_NEAR: Final = 0.7
"""Least similarity between an unknown name and a suggestion."""


def nearest(name: str, known: Iterable[str], cutoff: float = _NEAR) -> str | None:
    """Return the known name that is most similar to an unknown one, or None.

    At most `_COMPARED` names are compared.
    """
    by_lower = {candidate.lower(): candidate for candidate in islice(known, _COMPARED)}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else None


_COMPARED: Final = 5000
"""Names at most that are compared with an unknown one: 5,000 take half a second."""
_SUGGESTIONS: Final = 20
"""Number of problems after which no name is suggested: a search takes half a millisecond."""


def did_you_mean(
    name: str, known: Iterable[str], cutoff: float = _NEAR, *, found: Sized = ()
) -> str:
    """Return a question for a message about an unknown name; empty if no known name is similar.

    `found` has the earlier problems of the document; after many no name is searched.
    """
    if len(found) >= _SUGGESTIONS:
        return ""
    meant = nearest(name, known, cutoff)
    return "" if meant is None else f'; did you mean "{meant}"?'


def not_among(value: object, known: Sequence[str], found: Sized = ()) -> str:
    """Return the message about a value that is none of the known words.

    `found` is as for `did_you_mean`.
    """
    suggestion = did_you_mean(value, known, found=found) if isinstance(value, str) else ""
    return f"expected one of {', '.join(known)}, got {shown(value)}{suggestion}"


class _Walker:
    """Decodes one document."""

    def __init__(self, problems: Problems, hint: Hint) -> None:
        self._problems = problems
        self._hint = hint

    def struct(self, described: mi.StructType, value: Value, path: Path) -> object:  # noqa: C901, PLR0912 - each step has its own message
        """Decode a mapping with known fields."""
        fields = {field.encode_name: field for field in described.fields if is_written(field)}
        if not isinstance(value, dict):
            if value is not None:
                self._problems.add(path, _no_mapping(value, fields))
            value = {}
        for name in value:
            if name not in fields:
                self._problems.add((*path, name), self._unknown(name, fields, path))
        arguments: dict[str, object] = {}
        before = len(self._problems)
        for name, field in fields.items():
            item = value.get(name)
            place = (*path, name)
            if item == "" and _has_default_if_empty(field.type):
                continue
            if item is None and (name not in value or not _refuses_null(field.type)):
                if field.required:
                    self._problems.add(place, f"required{_choices_of(field.type)}")
                    arguments[field.name] = _stand_in(field.type)
                continue
            arguments[field.name] = self.any(field.type, item, place)
        try:
            return described.cls(**arguments)
        except Exception as problem:  # noqa: BLE001 - the checks of a plugin's type are its own
            # With stand-ins the type's checks say nothing about the file.
            if len(self._problems) == before:
                self._problems.add(path, _said(problem))
            return None

    def any(self, described: mi.Type, value: Value, path: Path) -> object:  # noqa: C901, PLR0911, PLR0912 - one line per kind of type
        """Decode a value of any type."""
        match described:
            case mi.UnionType(types=types):
                return self.any(
                    next(t for t in types if not isinstance(t, mi.NoneType)), value, path
                )
            case mi.Metadata(type=inner, extra={"format": "duration"}):
                return self._duration(inner, value, path)
            case mi.Metadata(type=inner):
                return self.any(inner, value, path)
            case mi.StructType():
                return self.struct(described, value, path)
            case mi.VarTupleType(item_type=item_type):
                return self._tuple(item_type, value, path)
            case mi.ListType(item_type=item_type):
                return list(self._tuple(item_type, value, path))
            case mi.DictType(value_type=value_type):
                return self._dict(value_type, value, path)
            case mi.EnumType(cls=choices):
                return self._enum(choices, value, path)
            case mi.AnyType():
                return value
            case _:
                return self._scalar(described, value, path)

    def _unknown(self, name: str, fields: Iterable[str], path: Path) -> str:
        hint = self._hint(path, name)
        if hint is not None:
            return hint
        known = f"; known here: {_listing(fields, _LISTED_FIELDS)}"
        return f"unknown field{did_you_mean(name, fields, found=self._problems) or known}"

    def _tuple(self, item_type: mi.Type, value: Value, path: Path) -> tuple[object, ...]:
        if not isinstance(value, list):
            message = f'expected a list (its items begin with "- "), got {shown(value)}'
            self._problems.add(path, message)
            return ()
        result = []
        for i, item in enumerate(value):
            if item is None:
                self._problems.add((*path, i), "expected a value, got null")
                result.append(_stand_in(item_type))
            else:
                result.append(self.any(item_type, item, (*path, i)))
        return tuple(result)

    def _dict(self, value_type: mi.Type, value: Value, path: Path) -> dict[str, object]:
        if not isinstance(value, dict):
            self._problems.add(path, f"expected a mapping, got {shown(value)}")
            return {}
        return {key: self.any(value_type, item, (*path, key)) for key, item in value.items()}

    def _duration(self, inner: mi.Type, value: Value, path: Path) -> float:
        seconds = parse_duration(value) if isinstance(value, str) else None
        if seconds is None:
            unit = f'; did you mean "{value}s"?' if _is_number(value) else ""
            self._problems.add(path, f"expected {DURATION_EXPECTED}, got {shown(value)}{unit}")
            return cast("float", _stand_in(inner))
        return seconds

    def _enum(self, choices: type[Enum], value: Value, path: Path) -> Enum:
        for choice in choices:
            if type(choice.value) is type(value) and choice.value == value:
                return choice
        known = [str(choice.value) for choice in choices]
        self._problems.add(path, not_among(value, known, self._problems))
        return next(iter(choices))

    def _scalar(self, described: mi.Type, value: Value, path: Path) -> object:  # noqa: C901, PLR0912 - one case per kind of type
        match described:
            case mi.BoolType():
                if isinstance(value, bool):
                    return value
                expected = "true or false"
            case mi.IntType(ge=least, le=most):
                return self._int(value, path, least, most)
            case mi.FloatType(ge=least, le=most):
                if _is_number(value):
                    return self._in_range(float(cast("float", value)), path, least, most)
                expected = "a number"
            case mi.StrType():
                if isinstance(value, str):
                    return value
                expected = "a text"
                if _is_number(value) or isinstance(value, bool):
                    expected += f' (write "{shown(value)}" with quotes if it is meant so)'
            case mi.BytesType():
                return self._bytes(value, path)
            case _:
                raise TypeError(described)
        self._problems.add(path, f"expected {expected}, got {shown(value)}")
        return _stand_in(described)

    def _int(self, value: Value, path: Path, least: int | None, most: int | None) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self._problems.add(path, f"expected a whole number, got {shown(value)}")
            return 0
        return self._in_range(value, path, least, most)

    def _in_range(
        self, value: NumberT, path: Path, least: float | None, most: float | None
    ) -> NumberT:
        if least is not None and value < least:
            self._problems.add(path, f"expected {shown(least)} or more, got {shown(value)}")
        elif most is not None and value > most:
            self._problems.add(path, f"expected {shown(most)} or less, got {shown(value)}")
        return value

    def _bytes(self, value: Value, path: Path) -> bytes:
        try:
            # Go ignores line breaks, as `base64` and PEM tools write them.
            text = re.sub("[\r\n]", "", cast("str", value))
            return base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError):
            self._problems.add(path, "expected base64 text")
            return b""


def _said(problem: Exception) -> str:
    """Return the message of a type's own check; of another error than ValueError also its type."""
    return (
        str(problem) if isinstance(problem, ValueError) else f"{type(problem).__name__}: {problem}"
    )


def _no_mapping(value: Value, fields: Mapping[str, mi.Field]) -> str:
    if isinstance(value, str):
        for name, field in fields.items():
            if field.required and isinstance(field.type, mi.StrType):
                return f'expected "{name}: {value}", got {shown(value)}'
    some = _listing(fields, 3)
    return f"expected a mapping with fields such as {some}, got {shown(value)}"


def _choices_of(described: mi.Type) -> str:
    if not isinstance(described, mi.EnumType):
        return ""
    return f": one of {', '.join(str(choice.value) for choice in described.cls)}"


def _refuses_null(described: mi.Type) -> bool:
    """Return whether an explicit null is an error: Go's Duration decoder refuses it."""
    return isinstance(described, mi.Metadata) and described.extra == DURATION.extra


def _has_default_if_empty(described: mi.Type) -> bool:
    return isinstance(described, mi.Metadata) and described.extra == DEFAULT_IF_EMPTY.extra


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _listing(names: Iterable[str], limit: int) -> str:
    ordered = sorted(names)
    rest = f" and {len(ordered) - limit} more" if len(ordered) > limit else ""
    return ", ".join(ordered[:limit]) + rest


def _stand_in(described: mi.Type) -> Any:
    """Return Go's zero value of a type."""
    match described:
        case mi.Metadata(type=inner):
            return _stand_in(inner)
        case mi.StructType(cls=cls, fields=fields):
            # The type's own checks say nothing about the file here, whatever they raise.
            with suppress(Exception):
                return cls(**{f.name: _stand_in(f.type) for f in fields if f.required})
            return None
        case mi.EnumType(cls=choices):
            return next(iter(choices))
        case _:
            return _ZERO.get(type(described))


_ZERO: Final[Mapping[type[mi.Type], object]] = {
    mi.BoolType: False,
    mi.IntType: 0,
    mi.FloatType: 0.0,
    mi.StrType: "",
    mi.BytesType: b"",
    mi.VarTupleType: (),
    mi.ListType: (),
    mi.DictType: {},
}
_READABLE: Final = (
    mi.BoolType,
    mi.IntType,
    mi.FloatType,
    mi.StrType,
    mi.BytesType,
    mi.EnumType,
    mi.AnyType,
)
