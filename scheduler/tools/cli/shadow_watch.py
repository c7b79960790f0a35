"""A shadow and the watch of its cluster, for `stowage shadow`."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from prometheus_client import CollectorRegistry

from scheduler.clock import SystemClock
from scheduler.config.options import RunOptions
from scheduler.config.write import to_object
from scheduler.daemon.bootstrap.explaining import times_of
from scheduler.daemon.bootstrap.recording import without_secrets
from scheduler.daemon.client.reviews import ApiReviews
from scheduler.daemon.serving.endpoints import EndpointSources
from scheduler.daemon.serving.health import scheduler_checks
from scheduler.daemon.serving.server import Server
from scheduler.kernel.answers.shadow import Shadow
from scheduler.kernel.engine.events import Event
from scheduler.observability.build_info import declare_build_info, declare_process_metrics
from scheduler.observability.client_metrics import ReviewMetrics
from scheduler.observability.instruments import Instruments
from scheduler.observability.logs import get_logger
from scheduler.observability.shadow_metrics import ShadowMetrics
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.live import ClusterAddress
from scheduler.tools.cli.options import print_line
from scheduler.tools.cli.shadow_text import summary_lines
from scheduler.tools.cli.watching import Watched, watching
from scheduler.tools.offline.cluster import Profiles

LOOK_SECONDS: Final = 0.25
"""Interval between checks for due work."""
LOOKING_SECONDS: Final = 0.05
"""Most time of one such check."""
LAST_SECONDS: Final = 8.0
"""Time for second looks at the end: a kubelet kills after 30 s, an impatient user earlier."""
SYNC_NOTICE_SECONDS: Final = 10.0
_SHOWN_NAMES: Final = 8
"""Scheduler names at most in the log line about one that no pod names."""

log = get_logger(__name__)


class ShadowWatch:
    """A shadow on a watched cluster; summaries explain so many `examples` of each disagreement."""

    def __init__(
        self,
        profiles: Profiles,
        place: ClusterAddress,
        options: RunOptions,
        clock: SystemClock,
        examples: int,
    ) -> None:
        self._profiles = profiles
        self._place = place
        self._options = options
        self._clock = clock
        self._registry = CollectorRegistry()
        self._instruments = Instruments(self._registry)
        declare_build_info(self._instruments)
        declare_process_metrics(self._registry)
        self._engine = profiles.engine(0, with_extenders=False)
        self._shadow = Shadow(
            self._engine, ShadowMetrics(self._instruments), times_of(clock), examples=examples
        )
        self._stopping = asyncio.Event()
        self._summaries = 0

    async def run(self, every: float, output: str) -> None:
        """Watch until a signal, and print a summary, as text or JSON, every so many seconds.

        Raises:
            SchedulerError: the cluster cannot be reached, or the port not be opened.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        async with (
            watching(
                self._place, self._profiles, self._submit, self._clock, self._instruments
            ) as watched,
            self._serving(watched),
        ):
            await self._sync(watched)
            next_told = self._clock.monotonic() + every
            while not self._stopping.is_set():
                await self._pause(watched, LOOK_SECONDS)
                now = self._clock.monotonic()
                while self._shadow.look_again(now):
                    if self._clock.monotonic() >= now + LOOKING_SECONDS:
                        break
                if now >= next_told:
                    next_told = now + every
                    self._tell(output)
        last = self._clock.monotonic() + LAST_SECONDS
        while self._shadow.look_at_last() and self._clock.monotonic() < last:
            pass
        self._tell(output)

    def _submit(self, event: Event) -> None:
        now = self._clock.monotonic()
        self._shadow.note(event, now)
        self._engine.handle(event, now)

    async def _sync(self, watched: Watched) -> None:
        """Wait until the caches are complete, and log the missing kinds meanwhile."""
        notice = self._clock.monotonic() + SYNC_NOTICE_SECONDS
        while missing := watched.informers.unsynced:
            if self._stopping.is_set():
                return
            await self._pause(watched, LOOK_SECONDS / 10)
            if self._clock.monotonic() >= notice:
                notice += SYNC_NOTICE_SECONDS
                log.info("Waiting for caches to sync", missing=missing)
        self._shadow.begin(self._clock.monotonic())
        log.info("Watching", server=watched.server, schedulers=list(self._profiles.frameworks))

    async def _pause(self, watched: Watched, seconds: float) -> None:
        """Let other tasks run for a while.

        Raises:
            Exception: the error of a task that should not end.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        for task in watched.tasks:
            if task.done():
                await task

    def _tell(self, output: str) -> None:
        summary = self._shadow.summary(self._clock.monotonic())
        self._shadow.forget_examples()
        self._summaries += 1
        if self._summaries == 1 and (unnamed := self._shadow.unnamed()):
            named = self._shadow.named()[:_SHOWN_NAMES]
            log.warning("No pod names this scheduler so far", scheduler=unnamed, named=named)
        if output == "json":
            print_line(summary)
        else:
            for line in summary_lines(summary):
                echo(line)
        sys.stdout.flush()

    @asynccontextmanager
    async def _serving(self, watched: Watched) -> AsyncIterator[None]:
        """The port, if one is wanted."""
        if not self._options.secure_port:
            yield
            return
        informers, shadow = watched.informers, self._shadow
        sources = EndpointSources(
            metrics=self._registry,
            reset_metrics=self._instruments.reset,
            configuration=lambda: to_object(without_secrets(self._profiles.config)),
            checks=scheduler_checks(
                leader_election=None,
                is_shutting_down=self._stopping.is_set,
                is_synced=lambda: not informers.unsynced,
                blind_kinds=lambda: informers.blind(self._clock.monotonic()),
                port=lambda: server.check_healthy(),  # noqa: PLW0108 - the server comes later
            ),
            debug={"shadow": lambda: shadow.summary(self._clock.monotonic())},
            level_can_be_set=False,
        )
        reviews = ApiReviews(watched.session, ReviewMetrics(self._instruments), self._clock)
        server = Server(self._options, sources, reviews, self._clock)
        await server.start()
        try:
            yield
        finally:
            await server.stop()
