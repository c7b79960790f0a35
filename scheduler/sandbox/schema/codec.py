"""Bytes or dicts into checked objects: types enforced, unknown fields dropped or refused.

The check runs in msgspec: one struct type per API type, built when its kind is first used.
"""

import keyword
import re
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

import msgspec

from scheduler.sandbox.quantities import canonical_quantity
from scheduler.sandbox.schema.types import LIST, MAP, object_type
from scheduler.sandbox.status import StatusError, bad_request
from scheduler.sandbox.timestamps import canonical_micro_time, canonical_time

Object = dict[str, Any]
"""An API object as plain dicts and lists."""


class FieldValidation(Enum):
    """What to do with fields nobody knows (`?fieldValidation=`)."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


class Quantity(str):
    """A quantity in canonical form."""

    __slots__ = ()


class Time(str):
    """An RFC 3339 time in whole seconds."""

    __slots__ = ()


class MicroTime(str):
    """An RFC 3339 time in microseconds."""

    __slots__ = ()


_SCALARS: Final[Mapping[str, Any]] = {
    "string": str,
    "bytes": str,
    "int": int,
    "number": float,
    "bool": bool,
    "any": Any,
    "intstr": int | str,
    "quantity": Quantity,
    "time": Time,
    "microtime": MicroTime,
}
_UNKNOWN_FIELD: Final = re.compile(r"unknown field `(?P<name>[^`]+)`(?: - at `\$\.?(?P<path>.*)`)?")
_AT: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_WRONG_TYPE: Final = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<given>[^`]+)`")
_GO_NAMES: Final = {
    "str": "string", "int": "number", "float": "number", "array": "array",
    "object": "object", "bool": "bool", "null": "null",
}  # fmt: skip


def _plain(kind: type[Any], given: object) -> Any:
    """Makes the three text types from what JSON holds (msgspec's decoding hook)."""
    if kind is Quantity and isinstance(given, str | int | float) and not isinstance(given, bool):
        return Quantity(canonical_quantity(str(given)))
    if isinstance(given, str):
        if kind is Time:
            return Time(canonical_time(given))
        if kind is MicroTime:
            return MicroTime(canonical_micro_time(given))
    raise ValueError(f"Expected `{kind.__name__}`, got `{type(given).__name__}`")


@cache
def _struct(name: str, *, strict: bool) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any, Any]] = []
    renamed: dict[str, str] = {}
    for field in object_type(name).values():
        attribute = f"{field.name}_" if keyword.iskeyword(field.name) else field.name
        attribute = attribute.replace("$", "").replace("-", "_")
        if attribute != field.name:
            renamed[attribute] = field.name
        fields.append((attribute, _python_type(field.type_text, strict=strict) | None, None))
    return msgspec.defstruct(
        name.replace(".", "_"),
        fields,
        rename=renamed or None,
        omit_defaults=True,
        forbid_unknown_fields=strict,
        gc=False,
    )


def _python_type(text: str, *, strict: bool) -> Any:
    if text.startswith(LIST):
        return list[_python_type(text.removeprefix(LIST), strict=strict)]  # type: ignore[misc]
    if text.startswith(MAP):
        return dict[str, _python_type(text.removeprefix(MAP), strict=strict)]  # type: ignore[misc]
    return _SCALARS[text] if text in _SCALARS else _struct(text, strict=strict)


class Codec:
    """Decodes one type.

    Args:
        type_name: the type in the table of fields, such as `core.Pod`.
        kind: the kind as messages name it.
        version: the API version as messages name it.
    """

    def __init__(self, type_name: str, *, kind: str, version: str) -> None:
        self._subject = f'{kind} in version "{version}" cannot be handled as a {kind}'
        self._kind = kind
        self._strict = msgspec.json.Decoder(_struct(type_name, strict=True), dec_hook=_plain)
        self._lenient = msgspec.json.Decoder(_struct(type_name, strict=False), dec_hook=_plain)

    def decode(self, body: bytes, mode: FieldValidation) -> tuple[Object, list[str]]:
        """The object in a request's body, and warnings about fields that were dropped.

        Raises:
            StatusError: 400, naming the field.
        """
        try:
            return _builtins(self._strict.decode(body)), []
        except msgspec.ValidationError as error:
            warnings = self._judge(error, mode)
        except msgspec.DecodeError as error:
            raise bad_request(f"{self._subject}: {_json_error(error)}") from error
        try:
            return _builtins(self._lenient.decode(body)), warnings
        except msgspec.ValidationError as error:
            raise self._wrong_type(error) from error

    def convert(self, value: Object, mode: FieldValidation) -> tuple[Object, list[str]]:
        """The same for an object that is decoded already."""
        try:
            return _builtins(_converted(value, self._strict.type)), []
        except msgspec.ValidationError as error:
            warnings = self._judge(error, mode)
        try:
            return _builtins(_converted(value, self._lenient.type)), warnings
        except msgspec.ValidationError as error:
            raise self._wrong_type(error) from error

    def _judge(self, error: msgspec.ValidationError, mode: FieldValidation) -> list[str]:
        match = _UNKNOWN_FIELD.search(str(error))
        if match is None:
            raise self._wrong_type(error) from error
        path = ".".join(part for part in (match["path"], match["name"]) if part)
        warning = f'unknown field "{path}"'
        if mode is FieldValidation.STRICT:
            raise bad_request(f"{self._subject}: strict decoding error: {warning}") from error
        return [warning] if mode is FieldValidation.WARN else []

    def _wrong_type(self, error: msgspec.ValidationError) -> StatusError:
        match = _AT.fullmatch(str(error))
        what, path = (match["what"], match["path"]) if match else (str(error), "")
        wrong = _WRONG_TYPE.fullmatch(what)
        if wrong is None:
            where = f" (at {path})" if path else ""
            return bad_request(f"{self._subject}: {what}{where}")
        given = _GO_NAMES.get(wrong["given"], wrong["given"])
        wanted = wrong["wanted"].replace(" | null", "").replace("str", "string")
        field = f"{self._kind}.{path}" if path else self._kind
        return bad_request(
            f"{self._subject}: json: cannot unmarshal {given} into Go struct field {field} "
            f"of type {wanted}"
        )


def _converted(value: Object, target: type[msgspec.Struct]) -> msgspec.Struct:
    return msgspec.convert(value, target, dec_hook=_plain)


def _builtins(struct: msgspec.Struct) -> Object:
    result: Object = msgspec.to_builtins(struct, enc_hook=str)
    return result


def _json_error(error: msgspec.DecodeError) -> str:
    return f"the body is not valid JSON: {error}"
