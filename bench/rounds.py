"""Orders of the contestants in interleaved rounds."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def orders(contestants: Sequence[T], rounds: int) -> Iterator[list[T]]:
    """Yield an order for each round: rotated by one, and reversed every other time."""
    for number in range(rounds):
        shift = number % len(contestants) if contestants else 0
        turned = [*contestants[shift:], *contestants[:shift]]
        yield turned[::-1] if number % 2 and len(contestants) > 2 else turned
