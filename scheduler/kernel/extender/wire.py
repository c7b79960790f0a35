"""Answers of extenders, read as Go's encoding/json reads them.

Field names are case-insensitive, unknown fields are ignored, null equals an absent value, bytes
after the value are ignored, and invalid UTF-8 is replaced. A value of another type, a number that
is no int64, or an empty body is an error.

Source: kubernetes pkg/scheduler/extender.go (send), Go encoding/json (1.26). Differs: the last
value of a repeated field counts; Go merges maps.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from scheduler.kernel.extender.questions import (
    Answer,
    Filtered,
    MetaVictims,
    NoAnswer,
    Preempted,
    Prioritized,
    Verb,
)

MAX_TEXT: Final = 1024
"""Largest number of characters kept of a reason or an error."""

T = TypeVar("T")

_Fields = dict[str, msgspec.Raw]

_SPACE: Final = b" \t\r\n"
_INTEGER: Final = re.compile(rb"-?(?:0|[1-9][0-9]{0,18})")
_INT64: Final = range(-(2**63), 2**63)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NULL: Final = b"null"


class UnreadableAnswerError(ValueError):
    """The answer is not of the expected form; the message names the place."""


class _Named(msgspec.Struct, gc=False):
    name: str | None = None


class _Item(msgspec.Struct, gc=False):
    metadata: _Named | None = None


class _Priority(msgspec.Struct, gc=False, rename="pascal"):
    host: str | msgspec.UnsetType = msgspec.UNSET
    score: int | msgspec.UnsetType = msgspec.UNSET


def read_answer(verb: Verb, body: bytes, *, by_name: bool) -> Answer:
    """Parse an extender's answer.

    `by_name`: whether the extender knows nodes by name (nodeCacheCapable).

    Raises:
        UnreadableAnswerError: it cannot be parsed.
    """
    if verb is Verb.FILTER:
        return _read(body, lambda value: _filtered(value, by_name=by_name))
    return _read(body, _prioritized if verb is Verb.PRIORITIZE else _preempted)


def read_binding(body: bytes) -> str:
    """The error of an extender's answer to a binding; empty if it has bound the pod.

    Raises:
        UnreadableAnswerError: the answer cannot be parsed.
    """
    return _read(body, lambda value: _text(_fields(value, ""), "Error"))


def _read(body: bytes, read: Callable[[bytes], T]) -> T:
    body = body.strip(_SPACE)
    if not body:
        raise UnreadableAnswerError("the answer is empty")
    try:
        return read(body)
    except UnreadableAnswerError:
        raise
    except (ValueError, RecursionError):
        # Not JSON, more than one value, or invalid UTF-8: this is rare, so it may be slow.
        salvaged = _salvaged(body)
    try:
        return read(salvaged)
    except UnreadableAnswerError:
        raise
    except (ValueError, RecursionError) as problem:
        raise UnreadableAnswerError(f"not valid JSON: {_cut(str(problem))}") from problem


# --- verbs ----------------------------------------------------------------------------------------


def _filtered(value: bytes, *, by_name: bool) -> Answer:
    fields = _fields(value, "")
    names, nodes = _list_of_names(fields), _node_names(fields)
    failed = _texts(fields, "FailedNodes")
    unresolvable = _texts(fields, "FailedAndUnresolvableNodes")
    problem = _text(fields, "Error")
    if problem:
        return NoAnswer(problem)
    if names is None or not by_name:
        # An answer without NodeNames and Nodes lets no node pass.
        names = nodes or ()
    return Filtered(names, failed, unresolvable)


def _list_of_names(fields: _Fields) -> tuple[str, ...] | None:
    raw = _field(fields, "NodeNames")
    return None if raw is None else tuple(n or "" for n in _as(raw, list[str | None], "NodeNames"))


def _node_names(fields: _Fields) -> tuple[str, ...] | None:
    """The names of full node objects, whose other fields are not read."""
    raw = _field(fields, "Nodes")
    if raw is None:
        return None
    items = _field(_fields(raw, "Nodes"), "items")
    if items is None:
        return ()
    try:
        read = msgspec.json.decode(items, type=list[_Item])
        names = [item.metadata.name if item.metadata else None for item in read]
    except msgspec.ValidationError:
        names = [None]
    if None not in names:
        return tuple(name or "" for name in names)
    # The JSON is not in the form that Go writes: read it item by item.
    return tuple(_node_name(item) for item in _as(items, list[msgspec.Raw], "Nodes.items"))


def _node_name(item: msgspec.Raw) -> str:
    metadata = _field(_fields(item, "Nodes.items"), "metadata")
    return "" if metadata is None else _text(_fields(metadata, "Nodes.items.metadata"), "name")


def _prioritized(value: bytes) -> Answer:
    if value == _NULL:
        return Prioritized(())
    try:
        read = msgspec.json.decode(value, type=list[_Priority])
    except msgspec.ValidationError:
        read = []
    if read and all(
        isinstance(each.host, str) and isinstance(each.score, int) and each.score in _INT64
        for each in read
    ):
        return Prioritized(tuple((each.host, each.score) for each in read))  # type: ignore[misc] # both were looked at
    # The JSON is not in the form that Go writes: read it field by field.
    return Prioritized(tuple(map(_priority, _as(value, list[msgspec.Raw], "the list"))))


def _priority(raw: msgspec.Raw) -> tuple[str, int]:
    fields = _fields(raw, "an entry")
    return _text(fields, "Host"), _integer(fields, "Score")


def _preempted(value: bytes) -> Answer:
    raw = _field(_fields(value, ""), "NodeNameToMetaVictims")
    if raw is None:
        return Preempted({})
    return Preempted({node: _victims(each) for node, each in _fields(raw, "victims").items()})


def _victims(raw: msgspec.Raw) -> MetaVictims:
    fields = _fields(raw, "MetaVictims")
    pods = _field(fields, "Pods")
    listed = [] if pods is None else _as(pods, list[msgspec.Raw], "Pods")
    uids = tuple(_text(_fields(pod, "Pods"), "UID") for pod in listed)
    return MetaVictims(uids, _integer(fields, "NumPDBViolations"))


# --- values ---------------------------------------------------------------------------------------


def _salvaged(body: bytes) -> bytes:
    """The first value of bytes that Go's decoder accepts and msgspec does not, as valid JSON."""
    text = body.decode(errors="replace")
    try:
        value, _ = json.JSONDecoder(parse_constant=_refuse).raw_decode(text)
    except (ValueError, RecursionError) as problem:
        raise UnreadableAnswerError(f"not valid JSON: {_cut(str(problem))}") from problem
    return _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False)).encode()


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _fields(raw: bytes | msgspec.Raw, place: str) -> _Fields:
    return {} if bytes(raw) == _NULL else _as(raw, _Fields, place)


def _field(fields: Mapping[str, msgspec.Raw], name: str) -> msgspec.Raw | None:
    """The field of a name, whatever its case; None when it is not there, or null."""
    folded = name.casefold()
    found = None
    for key, raw in fields.items():
        if key.casefold() == folded and bytes(raw) != _NULL:
            found = raw
    return found


def _text(fields: _Fields, name: str) -> str:
    raw = _field(fields, name)
    return "" if raw is None else _cut(_as(raw, str, name))


def _texts(fields: _Fields, name: str) -> dict[str, str]:
    raw = _field(fields, name)
    if raw is None:
        return {}
    return {key: _cut(text or "") for key, text in _as(raw, dict[str, str | None], name).items()}


def _integer(fields: _Fields, name: str) -> int:
    raw = _field(fields, name)
    if raw is None:
        return 0
    digits = bytes(raw).strip(_SPACE)
    if _INTEGER.fullmatch(digits) is None or int(digits) not in _INT64:
        raise UnreadableAnswerError(f"{name}: expected a whole number, got {_cut(digits.decode())}")
    return int(digits)


def _as(raw: bytes | msgspec.Raw, wanted: type[T], place: str) -> T:
    try:
        return msgspec.json.decode(raw, type=wanted)
    except msgspec.ValidationError as problem:
        prefix = f"{place}: " if place else ""
        raise UnreadableAnswerError(prefix + _cut(str(problem))) from problem


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ..."
