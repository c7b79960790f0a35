"""Reports the progress of a long computation to a receiver, which may end the computation."""

from collections.abc import Callable, Generator, Iterable
from typing import TypeAlias, TypeVar

_T = TypeVar("_T")

Progress: TypeAlias = Callable[[float], None]
"""Called repeatedly with the share done, 0 to 1; it ends the computation by raising."""


def no_progress(_share: float) -> None:
    """Ignore the progress."""


def with_progress(
    shares: Iterable[tuple[float, _T]], progress: Progress
) -> Generator[_T, None, None]:
    """Yield the items; report the share of each one before it is processed, and 1 at the end."""
    for share, item in shares:
        progress(share)
        yield item
    progress(1.0)


def part(progress: Progress, start: float, end: float) -> Progress:
    """Return a receiver for the progress of a part of the whole."""
    return lambda share: progress(start + (end - start) * share)
