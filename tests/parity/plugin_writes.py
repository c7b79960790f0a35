"""The part of the API server that plugins write to in PreBind, for histories."""

from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar

from scheduler.errors import RequestError
from scheduler.kernel.framework.services import Wake

T = TypeVar("T")


class PluginWrites:
    """What every such API server has; see `framework.services.Api`."""

    async def bind(self, *_: object) -> None:
        raise AssertionError

    @staticmethod
    async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
        return await work

    @staticmethod
    def turn(uid: str) -> AbstractAsyncContextManager[None]:
        del uid
        return nullcontext()


class Pause:
    """Waits for the step that lets PreBind go on."""

    def __await__(self) -> Generator[None, None, None]:
        yield


async def until_it_holds(
    holds: Callable[[], bool], listen: Callable[[Wake], Wake], woken: dict[str, bool], key: str
) -> bool:
    """Ask after each pause until a condition holds; `woken[key]` becomes true when a change wakes.

    The caller says beforehand whether the first look counts as woken.
    """

    def wake() -> None:
        woken[key] = True

    stop = listen(wake)
    try:
        while True:
            await Pause()
            if holds():
                return True
    finally:
        stop()


def refusal(status: int, message: str) -> RequestError:
    """Make the error of a write that the API server refuses."""
    problem = RequestError(message)
    problem.status, problem.is_certain = status, status != 409
    return problem
