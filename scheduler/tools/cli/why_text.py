"""The reasons why a pod fits nowhere, as text: each check, the nearest nodes, helpful changes."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from scheduler.kernel.answers.model import Check, PodAnswer
from scheduler.kernel.answers.words import (
    change_text,
    guess_text,
    near_text,
    nodes_text,
    obstacle_details,
    obstacle_text,
    untried_text,
)

_OBSTACLES_SHOWN: Final = 5
_NEAREST_SHOWN: Final = 3
_NO_CHANGE: Final = "Nothing that was tried would help."


def say_why(answer: PodAnswer, say: Callable[[str], None]) -> None:
    """Output the reasons line by line."""
    for line in _lines(answer):
        say(line)


def _lines(answer: PodAnswer) -> Iterator[str]:
    yield from _titled("Each check by itself:", chain(*map(_check, answer.checks or ())))
    nearest = (answer.nearest or ())[:_NEAREST_SHOWN]
    yield from _titled("Nearest nodes:", (f"  {near_text(near)}" for near in nearest))
    for guess in answer.guesses or ():
        yield f"Misspelt: {guess_text(guess)}"
    if isinstance(answer.changes, tuple) and not answer.changes and not answer.frees:
        yield _NO_CHANGE
    changes = (f"  {change_text(change)}" for change in answer.changes or ())
    yield from _titled("What would help (each was tried):", changes)
    if untried := untried_text(answer):
        yield untried


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield a title and lines; nothing if there are no lines."""
    for number, line in enumerate(lines):
        if not number:
            yield title
        yield line


def _check(check: Check) -> Iterator[str]:
    without = f"{nodes_text(check.fits_without)} would fit without it"
    yield f"  {check.plugin} rejects {nodes_text(check.rejects)}; {without}"
    for obstacle in check.obstacles[:_OBSTACLES_SHOWN]:
        yield f"    {obstacle_text(obstacle)}"
        for detail in obstacle_details(obstacle):
            yield f"      {detail}"
    if len(check.obstacles) > _OBSTACLES_SHOWN:
        yield f"    and {len(check.obstacles) - _OBSTACLES_SHOWN} more"
