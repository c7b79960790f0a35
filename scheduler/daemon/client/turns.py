"""Turns of plugins: a few requests are under way at a time, and one writer of a shared object.

The most important pod goes first; pods of low priority can wait for long, as in the scheduling
queue. The pod comes from the context of the task: plugins do not pass it with each request.

These requests are not in the outbox. So decisions do not wait for pods in PreBind: if writes of
claims hang, pods without claims are still bound. Binds in the outbox need no such order: few wait.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import ContextVar, Token
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

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait for the turn of a request of the current task; the turn ends with the context.

        Raises:
            NotSentError: the attempt was cancelled during the wait, before its first request.
        """
        return _RequestTurn(self)

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


class _RequestTurn(AbstractAsyncContextManager[None]):
    # The contexts of this module are classes: each pod with a claim enters five of them, and a
    # generator as context costs three times as much.
    def __init__(self, turns: RequestTurns) -> None:
        self._turns = turns

    @override
    async def __aenter__(self) -> None:
        place = _PLACE.get()
        await place.wait(self._turns)
        place.has_sent = True

    @override
    async def __aexit__(self, *_: object) -> None:
        self._turns.pass_on()


class _Writers(RequestTurns):
    """The line of those that want to write one object: one writes at a time.

    The requests of a writer are as urgent as the first one that waits for it. Otherwise that one
    would also wait for all that go before the writer.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self._writing: dict[object, Place] = {}
        """The one whose turn it is, if it has begun."""

    @property
    def is_free(self) -> bool:
        """Whether no task has the turn, and so none waits."""
        return self._free > 0

    @override
    def put(self, rank: _Rank, turn: _Turn) -> None:
        super().put(rank, turn)
        for writer in self._writing.values():
            writer.hurry(rank)

    def begin(self, turn: object, place: "Place") -> None:
        """Begin a turn that the place has waited for."""
        self._writing[turn] = place
        if self._line:
            place.hurry(self._line[0][0])

    def end(self, turn: object) -> None:
        """End a turn, once."""
        if self._writing.pop(turn, None) is not None:
            self.pass_on()


class ObjectTurns:
    """The turns to write objects, by UID."""

    def __init__(self) -> None:
        self._lines: dict[str, _Writers] = {}
        """While any task has or wants a turn."""

    def __len__(self) -> int:
        """Number of objects that a task writes or waits for."""
        return len(self._lines)

    def turn(self, uid: str) -> AbstractAsyncContextManager[None]:
        """Wait for the turn; it ends with the context, or when it has lasted too long.

        Raises:
            NotSentError: the attempt was cancelled meanwhile, and has sent nothing.
        """
        return _ObjectTurn(self._lines, uid)


class _ObjectTurn(AbstractAsyncContextManager[None]):
    def __init__(self, lines: dict[str, _Writers], uid: str) -> None:
        self._lines, self._uid = lines, uid
        self._line: _Writers

    @override
    async def __aenter__(self) -> None:
        place = _PLACE.get()
        self._line = self._lines.setdefault(self._uid, _Writers())
        try:
            await place.wait(self._line)
        except BaseException:
            self._forget()
            raise
        self._line.begin(self, place)
        loop = asyncio.get_running_loop()
        self._limit = loop.call_later(TURN_SECONDS, self._line.end, self)

    @override
    async def __aexit__(self, *_: object) -> None:
        self._limit.cancel()
        self._line.end(self)
        self._forget()

    def _forget(self) -> None:
        # One that was stuck may end when there is another line.
        if self._line.is_free and self._lines.get(self._uid) is self._line:
            del self._lines[self._uid]


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

    def taken(self) -> AbstractContextManager[None]:
        """Give this place to requests of the current task, and of tasks that it creates."""
        return _Taken(self)

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


class _Taken(AbstractContextManager[None]):
    def __init__(self, place: Place) -> None:
        self._place = place
        self._token: Token[Place]

    @override
    def __enter__(self) -> None:
        self._token = _PLACE.set(self._place)

    @override
    def __exit__(self, *_: object) -> None:
        _PLACE.reset(self._token)


FIRST: Final = Place(_FIRST)
"""The place of requests of no attempt in progress: they free what pods wait for."""
_PLACE: Final = ContextVar("place", default=FIRST)
