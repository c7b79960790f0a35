"""Turns of plugins: a few requests are under way at a time, and one writer of a shared object.

The most important pod goes first; pods of low priority can wait for long, as in the scheduling
queue. The pod comes from the context of the task: plugins do not pass it with each request.

These requests are not in the outbox. So decisions do not wait for pods in PreBind: if writes of
claims hang, pods without claims are still bound. Binds in the outbox need no such order: few wait.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

from typing_extensions import override

from scheduler.daemon.client.errors import NotSentError

TURN_SECONDS: Final = 60.0
"""The longest turn to write an object: then its writer counts as stuck, and the next one begins."""

_Turn = asyncio.Future[None]
_Rank = tuple[Any, ...]
_FIRST: Final[_Rank] = ()


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
        place = _PLACE.get()
        await place.wait(self)
        place.has_sent = True
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


class ObjectTurns(RequestTurns):
    """The line of those that want to write one object: one writes at a time.

    The requests of a writer are as urgent as the first one that waits for it. Otherwise that one
    would also wait for all that go before the writer.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self._writers: dict[object, Place] = {}
        """The one whose turn it is, if it has begun."""

    @property
    def is_free(self) -> bool:
        """Whether no task has the turn, and so none waits."""
        return self._free > 0

    @override
    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn; it ends with the context, or when it has lasted too long.

        Raises:
            NotSentError: the attempt was cancelled meanwhile, and has sent nothing.
        """
        place, turn = _PLACE.get(), object()
        await place.wait(self)
        self._writers[turn] = place
        if self._line:
            place.hurry(self._line[0][0])
        limit = asyncio.get_running_loop().call_later(TURN_SECONDS, self._end, turn)
        try:
            yield
        finally:
            limit.cancel()
            self._end(turn)

    @override
    def put(self, rank: _Rank, turn: _Turn) -> None:
        super().put(rank, turn)
        for writer in self._writers.values():
            writer.hurry(rank)

    def _end(self, turn: object) -> None:
        if self._writers.pop(turn, None) is not None:
            self.pass_on()


class Place:
    """The place of an attempt in each line where it waits.

    Of equal pods, the one decided first sends all its requests first. So it is bound before later
    pods send any.

    Args:
        rank: smaller goes first; see `of`.

    Attributes:
        has_sent: whether a request of the attempt was sent.
    """

    def __init__(self, rank: _Rank) -> None:
        self._rank = rank
        self._waiting: dict[_Turn, RequestTurns] = {}
        self.has_sent = False

    @classmethod
    def of(cls, order: Any, attempt: int) -> "Place":
        """Make the place of an attempt from the pod's place in the queue and its own number.

        Args:
            order: smaller for the pod that goes first; see `Attempt.order`.
            attempt: the number of the attempt.
        """
        return cls((order, attempt))

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
        if not self.has_sent:
            for turn in self._waiting:
                if not turn.done():
                    turn.set_exception(NotSentError("not sent: the attempt was cancelled"))
        self.hurry(_FIRST)

    def hurry(self, rank: _Rank) -> None:
        """Go by this rank from now on, also where it waits already, if it is a better one."""
        if rank < self._rank:
            self._rank = rank
            for turn, turns in self._waiting.items():
                if not turn.done():
                    turns.put(rank, turn)

    async def wait(self, turns: RequestTurns) -> None:
        """Wait for a turn; see `RequestTurns.turn`."""
        if turns.take():
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = turns
        turns.put(self._rank, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not (turn.cancelled() or turn.exception()):
                turns.pass_on()
            raise
        finally:
            del self._waiting[turn]


FIRST: Final = Place(_FIRST)
"""The place of requests of no attempt in progress: they free what pods wait for."""
_PLACE: Final = ContextVar("place", default=FIRST)
