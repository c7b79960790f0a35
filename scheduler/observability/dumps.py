"""Encodes large values as JSON in slices, between which other tasks of the event loop run.

A dump is a plain value in which an iterator stands for a list, an `Entries` for a mapping, and a
callable for its result. So large values are built only when they are encoded. An iterator that
searches for long without a result yields `REST` between.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
_SLICE_BYTES: Final = 2**15
"""Size of a slice, which takes about a millisecond."""

REST: Final = object()
"""An item without a value: other tasks may run now."""


class Entries:
    """A mapping whose entries are produced one by one."""

    def __init__(self, entries: Iterable[tuple[str, object]]) -> None:
        self.entries = entries


def json_slices(value: object) -> Iterator[bytes]:
    """Yield the value as JSON in slices; a slice is empty for `REST`."""
    slice_ = bytearray()
    for part in _parts(value):
        slice_ += part
        if not part or len(slice_) >= _SLICE_BYTES:
            yield bytes(slice_)
            slice_.clear()
    yield bytes(slice_)


def _parts(value: object) -> Iterator[bytes]:
    match value:
        case Entries(entries=entries):
            yield from _mapping(entries)
        case dict():
            yield from _mapping(value.items())
        case Iterator():
            yield from _list(value)
        case Callable():
            yield from _parts(value())
        case _:
            yield _encode(value)


def _mapping(entries: Iterable[tuple[str, object]]) -> Iterator[bytes]:
    start = b"{"
    for key, value in entries:
        yield start + _encode(key) + b":"
        yield from _parts(value)
        start = b","
    yield b"{}" if start == b"{" else b"}"


def _list(items: Iterable[object]) -> Iterator[bytes]:
    start = b"["
    for item in items:
        if item is REST:
            yield b""
            continue
        yield start
        yield from _parts(item)
        start = b","
    yield b"[]" if start == b"[" else b"]"
