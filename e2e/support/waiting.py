"""Waiting for something to become true, with a limit and a message that says what was awaited."""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


class WaitedTooLongError(AssertionError):
    """What was awaited did not happen in time."""


def wait_for(
    ask: Callable[[], Answer], what: str, timeout_seconds: float = 60, every_seconds: float = 0.05
) -> Answer:
    """Asks until the answer is truthy, and returns it.

    Raises:
        WaitedTooLongError: no truthy answer came within ``timeout_seconds``.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise WaitedTooLongError(
                f"waited {timeout_seconds:g} s for {what}; last answer: {answer!r}"
            )
        time.sleep(every_seconds)
