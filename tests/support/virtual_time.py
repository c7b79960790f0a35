"""An event loop in which waiting takes no time: its clock jumps to when the next timer is due."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from typing_extensions import override

from tests.support.clock import FakeClock

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Lets time pass instead of waiting for it."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everybody waits, and nobody for the time")
        self._clock.now += timeout
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__(_Selector(clock))
        self._clock = clock

    @override
    def time(self) -> float:
        return self._clock.now


def run_in(clock: FakeClock, story: Coroutine[Any, Any, T]) -> T:
    """Run a story whose timers follow the clock, and move it."""
    with asyncio.Runner(loop_factory=lambda: _Loop(clock)) as runner:
        return runner.run(story)
