"""Requests to extenders for the engine: each is a task that ends in an event."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from scheduler.kernel.engine.events import Answered, BindFailed, Bound, Event
from scheduler.kernel.engine.instructions import Ask, Bind
from scheduler.kernel.extender import Answer, NoAnswer, Question, Verb


class ExtenderPort(Protocol):
    """The interface of the extenders' client."""

    async def ask(self, question: Question, uid: str) -> Answer:
        """Send a question about the pod with this UID, and return the answer; never raises."""
        ...

    async def bind(self, extender: int, bind: Bind) -> NoAnswer | None:
        """Have the extender at this index bind a pod; None on success. Never raises."""
        ...


class Questions:
    """All questions to extenders that are under way.

    Args:
        send: sends a question and returns the answer; never raises.
        answer: passes the answer to the engine, as an event.
    """

    def __init__(
        self, send: Callable[[Ask], Awaitable[Answer]], answer: Callable[[Event], object]
    ) -> None:
        self._send = send
        self._answer = answer
        self._tasks: dict[int, tuple[Ask, asyncio.Task[None]]] = {}

    def start(self, ask: Ask) -> None:
        """Start a task that sends a question to its extender."""
        task = asyncio.get_running_loop().create_task(self._carry(ask))
        self._tasks[ask.question] = (ask, task)
        task.add_done_callback(lambda _: self._tasks.pop(ask.question, None))

    def cancel(self, attempt: int) -> None:
        """Cancel the questions of an attempt that no longer waits for answers."""
        for ask, task in list(self._tasks.values()):
            if ask.attempt == attempt and task is not asyncio.current_task():
                task.cancel()

    def count(self, verb: Verb) -> int:
        """Return the number of questions of a verb that are under way."""
        return sum(ask.verb is verb for ask, _ in self._tasks.values())

    async def stop(self) -> None:
        """Cancel all questions, and wait until their tasks have ended."""
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, ask: Ask) -> None:
        self._answer(Answered(ask.question, await self._send(ask)))


async def bind_by_extender(port: ExtenderPort, bind: Bind, extender: int) -> Event:
    """Have an extender bind a pod; return the result as an event."""
    failed = await port.bind(extender, bind)
    if failed is None:
        return Bound(bind.attempt)
    return BindFailed(bind.attempt, failed.problem, is_certain=failed.is_certain)
