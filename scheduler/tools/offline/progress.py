"""How far a long computation has come; what is told may end it."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

_T = TypeVar("_T")

Progress: TypeAlias = Callable[[float], None]
"""Hears again and again which share is done, 0 to 1; it ends the computation by raising."""


def no_progress(_share: float) -> None:
    """Hears nothing of it."""


def told(shares: Iterable[tuple[float, _T]], progress: Progress) -> Iterator[_T]:
    """The same items, each told of before it is worked on."""
    for share, item in shares:
        progress(share)
        yield item
    progress(1.0)


def part(progress: Progress, start: float, end: float) -> Progress:
    """What hears of a part of the whole."""
    return lambda share: progress(start + (end - start) * share)
