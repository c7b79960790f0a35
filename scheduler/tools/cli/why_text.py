"""Why a pod fits nowhere, for people: each check by itself, the nearest nodes, what would help."""

from collections.abc import Callable, Iterator
from typing import Final

from scheduler.kernel.answers.model import Check, PodAnswer
from scheduler.kernel.answers.words import (
    change_text,
    guess_text,
    near_text,
    nodes_text,
    obstacle_details,
    obstacle_text,
)

_OBSTACLES_SHOWN: Final = 5
_NEAREST_SHOWN: Final = 3
_NO_CHANGE: Final = "Nothing that was tried would help."


def say_why(answer: PodAnswer, say: Callable[[str], None]) -> None:
    """Say everything, line by line."""
    for line in _lines(answer):
        say(line)


def _lines(answer: PodAnswer) -> Iterator[str]:
    checks = answer.checks or ()
    if checks:
        yield "Each check by itself:"
        for check in checks:
            yield from _check(check)
    nearest = answer.nearest or ()
    if nearest:
        yield "Nearest nodes:"
        for near in nearest[:_NEAREST_SHOWN]:
            yield f"  {near_text(near)}"
    for guess in answer.guesses or ():
        yield f"Misspelt: {guess_text(guess)}"
    if answer.changes:
        yield "What would help (each was tried):"
        for text in map(change_text, answer.changes):
            yield f"  {text}"
    elif isinstance(answer.changes, tuple):
        yield _NO_CHANGE


def _check(check: Check) -> Iterator[str]:
    without = f"{nodes_text(check.fits_without)} would fit without it"
    yield f"  {check.plugin} rejects {nodes_text(check.rejects)}; {without}"
    for obstacle in check.obstacles[:_OBSTACLES_SHOWN]:
        yield f"    {obstacle_text(obstacle)}"
        for detail in obstacle_details(obstacle):
            yield f"      {detail}"
    if len(check.obstacles) > _OBSTACLES_SHOWN:
        yield f"    and {len(check.obstacles) - _OBSTACLES_SHOWN} more"
