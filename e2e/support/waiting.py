"""Polls until a condition is true, with a timeout and a message that names the condition."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

PATIENCE_SECONDS = 180
"""Default timeout: on a slow machine a step of a few seconds may take a minute."""


class WaitTimeoutError(AssertionError):
    """The condition did not become true within the timeout."""


def wait_for(
    condition: Callable[[], Result],
    what: str,
    timeout_seconds: float = PATIENCE_SECONDS,
    every_seconds: float = 0.05,
) -> Result:
    """Call ``condition`` until it returns a truthy value, and return that value.

    The last call begins after the timeout: this process may have been suspended meanwhile.

    Raises:
        WaitTimeoutError: no truthy value within ``timeout_seconds``.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        is_last = time.monotonic() > deadline
        result = condition()
        if result:
            return result
        if is_last:
            raise WaitTimeoutError(
                f"waited {timeout_seconds:g} s for {what}; last result: {result!r}"
            )
        time.sleep(every_seconds)
