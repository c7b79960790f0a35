"""Limits plugins' requests under way; requests for pods of higher priority are sent first.

The task's context holds the pod's place: plugins do not pass it with each request.
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
    """Limits the requests under way, and keeps the waiting requests in a line.

    Args:
        most: requests under way at most.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._line: list[tuple[_Rank, int, _Turn]] = []
        self._numbers = count()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn of a request of the current task; the turn ends with the context.

        Raises:
            NotSentError: the attempt was cancelled during the wait, before its first request.
        """
        await _PLACE.get().wait(self)
        try:
            yield
        finally:
            self.pass_on()

    def take(self) -> bool:
        """Take a free turn; return whether there was one. If so, no request waits in the line."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def put(self, rank: _Rank, turn: _Turn) -> None:
        """Put a request into the line; a request may be in it twice, and gets one turn."""
        heappush(self._line, (rank, next(self._numbers), turn))

    def pass_on(self) -> None:
        """End a turn; give it to the first request in the line that still waits."""
        while self._line:
            *_, turn = heappop(self._line)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Place:
    """The place of an attempt's requests in the line.

    Of pods with equal priority, the one decided first sends all its requests first. So it is bound
    before later pods send any.

    Args:
        rank: the sort key, smallest first; see `of`.
    """

    def __init__(self, rank: _Rank) -> None:
        self._rank = rank
        self._waiting: list[tuple[RequestTurns, _Turn]] = []
        self._has_sent = False

    @classmethod
    def of(cls, priority: int, attempt: int) -> "Place":
        """Return the place of an attempt with this pod priority and attempt number."""
        return cls((-priority, attempt))

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Give this place to requests of the current task, and of tasks that it creates."""
        token = _PLACE.set(self)
        try:
            yield
        finally:
            _PLACE.reset(token)

    def cancel(self) -> None:
        """Let the attempt end soon, since other pods wait for what it has reserved.

        If the attempt has sent no request, its waiting requests fail. Otherwise its requests go
        first, later ones too: they complete a change or undo it.
        """
        self._rank = _FIRST
        for turns, turn in self._waiting:
            if self._has_sent:
                turns.put(self._rank, turn)
            elif not turn.done():
                turn.set_exception(NotSentError("not sent: the attempt was cancelled"))

    async def wait(self, turns: RequestTurns) -> None:
        """Wait for a turn for a request of this place; see `RequestTurns.turn`."""
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
"""The place of requests of no attempt in progress: they free what pods wait for."""
_PLACE: Final = ContextVar("place", default=FIRST)
