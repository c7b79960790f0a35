"""Work in short steps, between which other work runs."""

from collections.abc import Generator, Iterator
from typing import Generic, TypeAlias, TypeVar

_T = TypeVar("_T")

Steps: TypeAlias = Generator[None, None, _T]
"""A generator of short steps, which returns the answer at its end."""


class Walk(Generic[_T]):
    """Steps as an iterator for a loop.

    Attributes:
        answer: the answer of the steps; set when the loop has ended.
    """

    answer: _T

    def __init__(self, steps: Steps[_T]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[None]:
        self.answer = yield from self._steps


def finished(steps: Steps[_T]) -> _T:
    """Run all steps at once; return the answer."""
    walk = Walk(steps)
    for _ in walk:
        pass
    return walk.answer
