"""Request bodies in Kubernetes' protobuf form, which kubectl uses for the kinds it knows.

Only reading: answers are JSON, which every client takes.
Source: k8s.io/apimachinery pkg/runtime/serializer/protobuf; the encoding guide
of protobuf.dev.
"""

import base64
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import msgspec

from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.schema.types import LIST, MAP, Field, object_type
from scheduler.sandbox.status import bad_request
from scheduler.sandbox.timestamps import micro_time_text, time_text

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN_BIT: Final = 1 << 63
_ZERO_IS_ABSENT: Final = frozenset({"generation", "hostPort", "observedGeneration"})
"""Numbers that Go writes although nobody set them. Other zeros may have been set on purpose."""

Value = int | bytes
Fields = Mapping[int, list[Value]]
"""The values of a message by field number, in the order they come."""
_Numbered = Mapping[int, "Field | _Numbered"]
"""What each number of a message stands for: a field, or a message inlined in JSON."""


def decode_object(body: bytes) -> Object:
    """The object in a protobuf body.

    Raises:
        StatusError: 400, it is not one.
    """
    if not body.startswith(_MAGIC):
        raise bad_request("the body is not in Kubernetes' protobuf form")
    try:
        return _object(body[len(_MAGIC) :])
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding protobuf: {error}") from error


def _object(envelope: bytes) -> Object:
    unknown = _fields(envelope)
    type_meta = _fields(_bytes(unknown, 1))
    api_version, kind = _bytes(type_meta, 1).decode(), _bytes(type_meta, 2).decode()
    content: Object = {"apiVersion": api_version, "kind": kind}
    content.update(_message(_bytes(unknown, 2), _numbered(_type_name(api_version, kind))))
    return content


def _type_name(api_version: str, kind: str) -> str:
    """The type in the table of fields: `rbac.authorization.k8s.io/v1` Role is `rbac.Role`."""
    if kind == "DeleteOptions":
        return "meta.DeleteOptions"
    group = api_version.rpartition("/")[0]
    return f"{group.split('.')[0] or 'core'}.{kind}"


@cache
def _numbered(type_name: str) -> _Numbered:
    numbered: dict[int, Any] = {}
    for field in object_type(type_name).values():
        *outer, last = field.proto_path
        level = numbered
        for number in outer:
            level = level.setdefault(number, {})
        if last:
            level[last] = field
    return numbered


def _message(raw: bytes, numbered: _Numbered) -> Object:
    content: Object = {}
    for number, values in _fields(raw).items():
        meaning = numbered.get(number)
        if isinstance(meaning, Field):
            value = _field_value(meaning.type_text, values)
            if not _is_absent(meaning, value):
                content[meaning.name] = value
        elif meaning is not None:
            content.update(_message(_as_bytes(values[-1]), meaning))
    return content


def _is_absent(field: Field, value: Any) -> bool:
    """Whether JSON would leave the value out, as Go's protobuf does not."""
    return value in ("", None) or (value == 0 and field.name in _ZERO_IS_ABSENT)


def _field_value(type_text: str, values: list[Value]) -> Any:
    if type_text.startswith(LIST):
        inner = type_text.removeprefix(LIST)
        return [_single(inner, value) for value in values]
    if type_text.startswith(MAP):
        inner = type_text.removeprefix(MAP)
        entries = [_fields(_as_bytes(value)) for value in values]
        return {
            _bytes(entry, 1).decode(): _field_value(inner, entry.get(2, [b""])) for entry in entries
        }
    return _single(type_text, values[-1])


def _single(type_text: str, value: Value) -> Any:  # noqa: PLR0911 - a table of types
    match type_text:
        case "int" | "bool":
            number = value if isinstance(value, int) else 0
            return bool(number) if type_text == "bool" else _signed(number)
        case "number":
            return struct.unpack("<d", _as_bytes(value))[0]
        case "string":
            return _as_bytes(value).decode()
        case "bytes":
            return base64.b64encode(_as_bytes(value)).decode()
        case "quantity":
            return _bytes(_fields(_as_bytes(value)), 1).decode()
        case "intstr":
            return _int_or_string(_fields(_as_bytes(value)))
        case "time" | "microtime":
            text = time_text if type_text == "time" else micro_time_text
            return text(_moment(_fields(_as_bytes(value)))) if value else None
        case "any":
            return _raw_extension(_fields(_as_bytes(value)))
        case _:
            return _message(_as_bytes(value), _numbered(type_text))


def _moment(fields: Fields) -> datetime:
    return _EPOCH + timedelta(seconds=_int(fields, 1), microseconds=_int(fields, 2) // 1000)


def _int_or_string(fields: Fields) -> int | str:
    return _bytes(fields, 3).decode() if _int(fields, 1) else _int(fields, 2)


def _raw_extension(fields: Fields) -> Any:
    """Embedded JSON; what is not is of no interest here."""
    try:
        return msgspec.json.decode(_bytes(fields, 1))
    except msgspec.DecodeError:
        return {}


def _fields(raw: bytes) -> Fields:
    fields: dict[int, list[Value]] = {}
    for number, value in _read(raw):
        fields.setdefault(number, []).append(value)
    return fields


def _read(raw: bytes) -> Iterator[tuple[int, Value]]:
    position, value = 0, 0
    while position < len(raw):
        tag, position = _varint(raw, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = _varint(raw, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, position = _varint(raw, position)
        elif wire_type in {_FIXED64, _FIXED32}:
            length = 8 if wire_type == _FIXED64 else 4
        else:
            raise IndexError(f"wire type {wire_type} of field {number} is not in use")
        if position + length > len(raw):
            raise IndexError(f"field {number} ends after the message")
        yield number, raw[position : position + length]
        position += length


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = raw[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follows
            return number, position
        shift += 7


def _signed(number: int) -> int:
    return number - (1 << 64) if number & _SIGN_BIT else number


def _as_bytes(value: Value) -> bytes:
    return value if isinstance(value, bytes) else b""


def _bytes(fields: Fields, number: int) -> bytes:
    return _as_bytes(fields.get(number, [b""])[-1])


def _int(fields: Fields, number: int) -> int:
    value = fields.get(number, [0])[-1]
    return _signed(value) if isinstance(value, int) else 0
