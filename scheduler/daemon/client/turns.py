"""Turns of plugins' requests: a few are under way at a time, and the most important pod goes first.

The pod comes from the context of the task: plugins do not pass it with each request.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Final

from scheduler.daemon.client.errors import NotSentError

_Turn = asyncio.Future[None]
_Rank = tuple[float, int]
_FIRST: Final[_Rank] = (-inf, 0)


class RequestTurns:
    """A limit of requests under way, and the line of those that wait.

    Args:
        most: the limit.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._line: list[tuple[_Rank, int, _Turn]] = []
        self._numbers = count()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn of a request of the current task; it ends with the context.

        Raises:
            NotSentError: the attempt was cancelled meanwhile, and has sent nothing.
        """
        await _PLACE.get().wait(self)
        try:
            yield
        finally:
            self.pass_on()

    def take(self) -> bool:
        """Take a free turn; return whether there was one, and so no request in the line."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def put(self, rank: _Rank, turn: _Turn) -> None:
        """Put a request into the line, at a second place too if it has one."""
        heappush(self._line, (rank, next(self._numbers), turn))

    def pass_on(self) -> None:
        """End a turn: the first request that still waits gets it."""
        while self._line:
            *_, turn = heappop(self._line)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Place:
    """The place of an attempt's requests in the line.

    Of equal pods the one decided first is served first: with all its requests, so that it is bound
    while others have sent none.

    Args:
        rank: smaller goes first; see `of`.
    """

    def __init__(self, rank: _Rank) -> None:
        self._rank = rank
        self._waiting: list[tuple[RequestTurns, _Turn]] = []
        self._has_sent = False

    @classmethod
    def of(cls, priority: int, attempt: int) -> "Place":
        """Make the place of an attempt from the pod's priority and the attempt's number."""
        return cls((-priority, attempt))

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Give this place to the requests of the current task, and of tasks made meanwhile."""
        token = _PLACE.set(self)
        try:
            yield
        finally:
            _PLACE.reset(token)

    def cancel(self) -> None:
        """Let the attempt end soon, since others wait for what it has reserved.

        If it has sent nothing, its requests that wait are refused. Otherwise they go first: they
        complete a change, or take it back. So do all later ones.
        """
        self._rank = _FIRST
        for turns, turn in self._waiting:
            if self._has_sent:
                turns.put(self._rank, turn)
            elif not turn.done():
                turn.set_exception(NotSentError("not sent: the attempt was cancelled"))

    async def wait(self, turns: RequestTurns) -> None:
        """Wait for a turn; see `RequestTurns.turn`."""
        if not turns.take():
            turn = asyncio.get_running_loop().create_future()
            turns.put(self._rank, turn)
            self._waiting.append((turns, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not (turn.cancelled() or turn.exception()):
                    turns.pass_on()
                raise
            finally:
                self._waiting.remove((turns, turn))
        self._has_sent = True


FIRST: Final = Place(_FIRST)
"""The place of requests that belong to no attempt under way. They free what pods wait for."""
_PLACE: Final = ContextVar("place", default=FIRST)
