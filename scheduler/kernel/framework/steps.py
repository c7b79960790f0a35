"""Work in short steps, between which others run."""

from collections.abc import Generator, Iterator
from typing import Generic, TypeAlias, TypeVar

_T = TypeVar("_T")

Steps: TypeAlias = Generator[None, None, _T]
"""Short steps to an answer, which comes with the end."""


class Walk(Generic[_T]):
    """Steps for a loop to take.

    Attributes:
        answer: theirs; there once the loop has come to the end.
    """

    answer: _T

    def __init__(self, steps: Steps[_T]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[None]:
        self.answer = yield from self._steps


def finished(steps: Steps[_T]) -> _T:
    """Make all steps at once; gives the answer."""
    walk = Walk(steps)
    for _ in walk:
        pass
    return walk.answer
