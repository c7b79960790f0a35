"""In which order contestants run: interleaved, and none always before the same other one."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def orders(contestants: Sequence[T], rounds: int) -> Iterator[list[T]]:
    """Gives an order for each round: each begins with the next one, every other is reversed."""
    for number in range(rounds):
        shift = number % len(contestants) if contestants else 0
        turned = [*contestants[shift:], *contestants[:shift]]
        yield turned[::-1] if number % 2 and len(contestants) > 2 else turned
