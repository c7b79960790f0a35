"""Large values for people, written as JSON in slices that leave the event loop room to work.

A dump is a plain value in which an iterator stands for a list, an `Entries` for a mapping, and a
callable for its result: large values are built only when they are written. An iterator that
searches for long without a result yields `REST` now and then.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
_SLICE_BYTES: Final = 2**15
"""About a millisecond of work."""

REST: Final = object()
"""Yielded by an iterator: there is nothing to write, but other tasks may run now."""


class Entries:
    """A mapping whose entries are produced one by one."""

    def __init__(self, entries: Iterable[tuple[str, object]]) -> None:
        self.entries = entries


def json_slices(value: object) -> Iterator[bytes]:
    """The value as JSON, a slice at a time, now and then an empty one."""
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
