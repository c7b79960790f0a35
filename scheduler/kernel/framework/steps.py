"""Work in short steps, between which others run."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

_T = TypeVar("_T")

Steps: TypeAlias = Generator[None, None, _T]
"""Short steps to an answer, which comes with the end."""


def finished(steps: Steps[_T]) -> _T:
    """Make all steps at once; gives the answer."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: _T = end.value
            return found
