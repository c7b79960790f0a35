"""The sources of the screen's engine: a cluster that is watched, or a recording."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from typing_extensions import override

from scheduler.clock import Clock
from scheduler.daemon.informers.informers import Informers
from scheduler.daemon.recording.files import Recording
from scheduler.daemon.recording.records import Record
from scheduler.daemon.recording.replay import restore
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Event
from scheduler.tools.cli.live import ClusterAddress
from scheduler.tools.cli.recordings import until_cut
from scheduler.tools.cli.top.view import Rates
from scheduler.tools.cli.watching import watching
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.recorded import recorded_engine, recorded_profiles

LOOK_SECONDS: Final = 0.05
"""Interval between checks whether the user wants another moment."""


class TopSource(Protocol):
    """The source of the screen.

    Attributes:
        profiles: the profiles that decide.
        engine: the engine with the cluster's state.
        rates: recent arrivals and placements.
        decides: whether the engine has made the decisions; its queue is the scheduler's then.
    """

    profiles: Profiles
    engine: Engine
    rates: Rates
    decides: bool

    @property
    def title(self) -> str:
        """A short title of the source; it changes with time."""
        ...

    @property
    def now(self) -> float:
        """Seconds of the clock of `rates`."""
        ...

    def running(self) -> Any:
        """An asynchronous context in which the engine is kept up to date."""
        ...

    def move(self, seconds: float) -> None:
        """Go forward or back in time, where that is possible."""
        ...


class ClusterSource(TopSource):
    """A cluster, watched. The engine decides nothing, and nothing is written."""

    def __init__(self, place: ClusterAddress, profiles: Profiles, clock: Clock) -> None:
        self.profiles = profiles
        self.engine = profiles.engine(0)
        self.rates = Rates()
        self.decides = False
        self._place = place
        self._clock = clock
        self._server = ""
        self._notice: Callable[[], str] = lambda: "waiting for everything"

    @property
    @override
    def title(self) -> str:
        notice = self._notice()
        return f"{self._server}  ({notice})" if notice else self._server

    @property
    @override
    def now(self) -> float:
        return self._clock.monotonic()

    @asynccontextmanager
    @override
    async def running(self) -> AsyncIterator[None]:
        """Watch the cluster; raises ConnectionConfigError before the first request."""
        async with watching(self._place, self.profiles, self._submit, self._clock) as watched:
            self._server = f"{watched.server}  {self._place.kubeconfig}".rstrip()
            self._notice = lambda: watched.notice(self._clock.monotonic())
            synced = asyncio.create_task(self._forget_when_synced(watched.informers))
            try:
                yield
            finally:
                synced.cancel()
                await asyncio.gather(synced, return_exceptions=True)

    async def _forget_when_synced(self, informers: Informers) -> None:
        await informers.wait_synced()
        self.rates.forget()

    def _submit(self, event: Event) -> None:
        now = self._clock.monotonic()
        self.rates.note(event, now)
        self.engine.handle(event, now)

    @override
    def move(self, seconds: float) -> None:
        """A cluster has no past."""


class RecordingSource(TopSource):
    """A recording; the user moves through its time.

    Attributes:
        records: all of it.

    Raises:
        SchedulerError: it cannot be read.
    """

    def __init__(self, recording: Recording) -> None:
        self._header = recording.header
        self.decides = self._header.is_complete
        self.records: list[Record] = list(until_cut(recording, recording))
        self._start = self._header.clock
        self._end = self.records[-1].time if self.records else self._start
        self._at = self._start
        self._wanted = self._end
        self._next = 0
        self._begin()

    def _begin(self) -> None:
        self.profiles = recorded_profiles(self._header)
        self.engine = recorded_engine(self.profiles, self._header)
        self.rates = Rates()
        self._next = 0

    @property
    @override
    def title(self) -> str:
        at, length = self._at - self._start, self._end - self._start
        bar = round(20 * at / length) if length else 20
        return f"recording  {at:.1f} s of {length:.1f} s  [{'=' * bar}{' ' * (20 - bar)}]"

    @property
    @override
    def now(self) -> float:
        return self._at

    @override
    def move(self, seconds: float) -> None:
        """Go to another moment; going back begins at the beginning."""
        self._wanted = min(max(self._wanted + seconds, self._start), self._end)
        if self._wanted < self._at:
            self._begin()

    @asynccontextmanager
    @override
    async def running(self) -> AsyncIterator[None]:
        """Replay up to the moment wanted, at once and whenever it changes."""
        self.catch_up()
        task = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            self.catch_up()
            await asyncio.sleep(LOOK_SECONDS)

    def catch_up(self) -> None:
        """Pass the events up to the requested moment to the engine."""
        until = self._wanted
        while self._next < len(self.records):
            record = self.records[self._next]
            if record.time > until:
                break
            self._next += 1
            self.rates.note(record.event, record.time)
            if self._header.is_complete:
                self.engine.handle(record.event, record.time)
            else:
                restore([record], self.engine)
        # The configuration may have changed since the recording began.
        self.profiles.frameworks = dict(self.engine.core.frameworks)
        self._at = until
