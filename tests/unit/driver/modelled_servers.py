"""Servers as a few numbers, asked by somebody who always has more to send; time is made up."""

import heapq
import random
from collections.abc import Callable
from itertools import count
from math import floor
from typing import Protocol

from scheduler.daemon.driver.concurrency import LOOK_SECONDS, MOST, ConcurrencyLimit

HANG_SECONDS = 30.0
"""For how long the client waits for an answer."""
RETRIES = 10
"""How often it comes back after a 429."""
RETRY_SECONDS = 1.0
SPREAD = 0.25


class Server(Protocol):
    """Takes requests of a world, and answers them by its `answer`."""

    def take(self, world: "World") -> None:
        """One more request."""
        ...


class World:
    """Requests at a time, as many as a limit says, at one server; nobody but the limit says less.

    Attributes:
        rng: chance.
        under_way: requests without an answer.
        limit: how many may be.
    """

    def __init__(self, server: Server, fixed: int = 0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.under_way = 0
        self.limit = ConcurrencyLimit(fixed or MOST)
        self._server = server
        self._now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._answers = [0]
        """In each second."""
        if not fixed:
            self._look()

    def replace(self, server: Server) -> None:
        """From now on another one takes the requests."""
        self._server = server

    def run(self, seconds: float) -> None:
        """Go on for so long."""
        until = self._now + seconds
        self._send()
        while self._due and self._due[0][0] < until:
            self._now, _, happen = heapq.heappop(self._due)
            happen()
        self._now = until

    def rate(self, since: int, until: int) -> float:
        """Answers per second between two moments."""
        return sum(self._answers[since:until]) / (until - since)

    def later(self, seconds: float, happen: Callable[[], None]) -> None:
        """Let something happen after a while."""
        heapq.heappush(self._due, (self._now + seconds, next(self._order), happen))

    def chance(self, mean: float) -> float:
        """Seconds, as calls last."""
        return self.rng.expovariate(1 / mean)

    @property
    def now(self) -> float:
        """The time."""
        return self._now

    def answer(self) -> None:
        """A request was carried out."""
        second = floor(self._now)
        self._answers += [0] * (second + 1 - len(self._answers))
        self._answers[second] += 1
        self.limit.answered += 1
        self.give_up()

    def give_up(self) -> None:
        """A request ends without having been carried out."""
        self.under_way -= 1
        self._send()

    def _send(self) -> None:
        while self.under_way < self.limit.limit:
            self.under_way += 1
            self._server.take(self)

    def _look(self) -> None:
        # Somebody always has more to send, also before the first look.
        self.limit.ran_dry = self._now == 0
        self.limit.look(self._now)
        self._send()
        self.later(LOOK_SECONDS, self._look)


class Seats:
    """So many requests are worked on at a time; others wait, up to a number, or are refused (429).

    Args:
        seats: how many.
        work: mean seconds of work on one.
        way: seconds to the server and back.
        line: so many may wait.
        hanging: the share of requests that nobody ever answers.
        unevenness: sigma of a log-normal distribution; 0 for an exponential one.
    """

    def __init__(
        self,
        seats: int,
        work: float,
        way: float,
        *,
        line: float = float("inf"),
        hanging: float = 0.0,
        unevenness: float = 0.0,
    ) -> None:
        self._seats = seats
        self._work, self._way = work, way
        self._line = line
        self._hanging = hanging
        self._unevenness = unevenness
        self._taken = self._waiting = 0

    def take(self, world: World, tries: int = 0) -> None:
        if self._hanging and world.rng.random() < self._hanging:
            world.later(HANG_SECONDS, world.give_up)
        else:
            way = self._way * world.rng.uniform(0.4, 0.6)
            world.later(way, lambda: self._arrive(world, tries))

    def _arrive(self, world: World, tries: int) -> None:
        if self._taken < self._seats:
            self._taken += 1
            self._begin(world)
        elif self._waiting < self._line:
            self._waiting += 1
        else:
            come_back(world, tries, self.take)

    def _begin(self, world: World) -> None:
        if self._unevenness:
            mean = self._unevenness**2 / 2
            seconds = self._work * world.rng.lognormvariate(-mean, self._unevenness)
        else:
            seconds = world.chance(self._work)
        world.later(seconds, lambda: self._end(world))

    def _end(self, world: World) -> None:
        if self._waiting:
            self._waiting -= 1
            self._begin(world)
        else:
            self._taken -= 1
        world.later(self._way / 2, world.answer)


class Thrashing:
    """Each request makes the others slower: most is done by so many at a time.

    Source: N. Gunther, universal scalability law, without contention.
    """

    def __init__(self, alone: float, best: int) -> None:
        self._alone, self._best = alone, best

    def take(self, world: World) -> None:
        others = world.under_way * (world.under_way - 1) / self._best**2
        seconds = self._alone * (1 + others)
        world.later(seconds * world.rng.uniform(0.5, 1.5), world.answer)


class Stations:
    """Each request is worked on at several places in turn, one at a time at each: no sharp knee."""

    def __init__(self, places: int, work: float) -> None:
        self._waiting = [0] * places
        self._work = work

    def take(self, world: World, place: int = 0) -> None:
        self._waiting[place] += 1
        if self._waiting[place] == 1:
            self._begin(world, place)

    def _begin(self, world: World, place: int) -> None:
        world.later(world.chance(self._work), lambda: self._end(world, place))

    def _end(self, world: World, place: int) -> None:
        self._waiting[place] -= 1
        if self._waiting[place]:
            self._begin(world, place)
        if place + 1 < len(self._waiting):
            self.take(world, place + 1)
        else:
            world.answer()


class Refusing:
    """Lets in so many a second, evenly, and refuses all others (429)."""

    def __init__(self, rate: float, work: float) -> None:
        self._pause, self._work = 1 / rate, work
        self._next = 0.0

    def take(self, world: World, tries: int = 0) -> None:
        world.later(world.chance(self._work / 2), lambda: self._arrive(world, tries))

    def _arrive(self, world: World, tries: int) -> None:
        if world.now >= self._next:
            # Nothing is saved up: a burst is one.
            self._next = world.now + self._pause
            world.later(self._work / 2, world.answer)
        else:
            come_back(world, tries, self.take)


def come_back(world: World, tries: int, take: Callable[[World, int], None]) -> None:
    """What the client does with a 429 that says when to come back."""
    if tries == RETRIES:
        world.give_up()
    else:
        pause = RETRY_SECONDS * (1 + SPREAD * world.rng.random())
        world.later(pause, lambda: take(world, tries + 1))
