"""Keeps the store of one kind equal to the API server's objects: list, watch, and relist.

The table of states is in `informers/states.py`; the work in each of them is here.
No bytes from the server can end an informer: it counts an object that cannot be decoded, leaves it
out, and continues after its version.

Source: k8s.io/client-go tools/cache/reflector.go v0.36; kube-rs kube-runtime/src/watcher.rs.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Generic, TypeVar

from scheduler.api.resource_versions import is_older_version
from scheduler.clock import Clock
from scheduler.daemon.client.errors import (
    ApiError,
    GoneError,
    InvalidError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
)
from scheduler.daemon.client.lines import Lines
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.informers.backoff import BASE_SECONDS, CAP_SECONDS, Backoff
from scheduler.daemon.informers.doubts import Doubts
from scheduler.daemon.informers.intake import Intake
from scheduler.daemon.informers.kinds import Kind
from scheduler.daemon.informers.metadata_peek import MetadataPeek
from scheduler.daemon.informers.pages import PageReader
from scheduler.daemon.informers.paging import FIRST, PageSize
from scheduler.daemon.informers.reports import Outage, Reports
from scheduler.daemon.informers.states import State, StepResult, next_state
from scheduler.daemon.informers.store import Handler, Store
from scheduler.daemon.informers.wire import watch_query
from scheduler.kernel.framework.events import POD_KIND
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.logs import get_logger

T = TypeVar("T")

MAX_FAILURES: Final = 4
"""Watches from one version that may break off, or end at once, before the kind is listed again."""

BLIND_SECONDS: Final = 30.0
"""Without a watch for longer than this, the store counts as stale."""

ABSENT_SECONDS: Final = 60.0
"""Interval between checks whether the server serves a kind that it did not serve before."""

_GRACE_SECONDS: Final = 30.0
"""Time by which a watch may exceed its `timeoutSeconds` before it is closed as stuck."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerOptions:
    """Times, in seconds, and the size of pages.

    Attributes:
        list_timeout: time limit for one page, from its request until all its objects are stored.
        read_timeout: time without any byte on a watch after which the connection counts as dead.
            API servers send a bookmark about every minute; a server without bookmarks costs one
            reconnection per `read_timeout`.
        watch_timeout: least and greatest `timeoutSeconds` of a watch; drawn at random, so that
            watches of many clients do not end together.
        short_watch: a watch that ends sooner counts as a failure.
        backoff_base: first pause after a failure.
        backoff_cap: longest pause.
        page_size: objects on the first page of a list; see `scheduler.daemon.informers.paging`.
    """

    list_timeout: float = 60.0
    read_timeout: float = 150.0
    watch_timeout: tuple[float, float] = (300.0, 600.0)
    short_watch: float = 1.0
    backoff_base: float = BASE_SECONDS
    backoff_cap: float = CAP_SECONDS
    page_size: int = FIRST


class Informer(Generic[T]):
    """Lists and watches one kind.

    Attributes:
        kind: the watched kind, with the API version that the server serves.
        store: the known objects of the kind.
        state: see `scheduler.daemon.informers.states.State`.
        version: the resource version of the store, or empty.
        blind_since: the monotonic time from which changes may have been missed; None while a watch
            is open, or if the server does not serve the kind.
    """

    def __init__(  # noqa: PLR0913, PLR0915 - its ports, and the state of one watch
        self,
        kind: Kind[T],
        session: ApiSession,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: InformerMetrics,
        options: InformerOptions | None = None,
        on_set_back: Callable[[], None] = lambda: None,
        outage: Outage | None = None,
        doubts: Doubts | None = None,
    ) -> None:
        """Create an informer with an empty store.

        All kinds share `outage`, `doubts` and `on_set_back`, which is called when the server was
        set back to an older state.
        """
        self.kind = kind
        self.store: Store[T] = Store(kind.meta_of)
        self.state = State.EMPTY
        self.version = ""
        self.blind_since: float | None = clock.monotonic()
        self._session = session
        self._clock = clock
        self._rng = rng
        self._reports = Reports(kind.name, metrics, clock, outage)
        self._intake = Intake(kind, self.store, self._reports, clock)
        self._options = options or InformerOptions()
        times = (self._options.backoff_base, self._options.backoff_cap)
        self._backoff = Backoff(rng, *times)
        self._anew = Backoff(rng, *times)
        """The pauses before relists: failed requests do not lengthen them."""
        self._on_set_back = on_set_back
        self._doubts = doubts or Doubts()
        self._is_in_doubt = False
        """Whether a request failed, so that the server may have been restored meanwhile."""
        self._set_back = asyncio.Event()
        """Set by `list_again`."""
        self._limit: asyncio.Timeout | None = None
        """The deadline of the watch that is open or being opened."""
        self._synced = asyncio.Event()
        self._page_size = PageSize(self._options.page_size)
        self._continue = ""
        self._places = deque(kind.places or (kind,))
        self._places_asked = 0
        """Number of API versions in a row at which the server does not serve the kind."""
        self._failures = 0
        """Number of watches in a row that broke off, or ended at once, and delivered nothing."""
        self._has_failed = False
        """Whether a step failed since the last event."""
        self._has_gap = False
        """Whether a watch failed or showed nothing, and neither list nor event has come since."""

    @property
    def has_synced(self) -> bool:
        """Whether the first list is complete, and the handlers have received its objects."""
        return self._synced.is_set()

    @property
    def is_watching(self) -> bool:
        """Whether a watch is open."""
        return self.state is State.WATCHING

    def is_blind(self, now: float) -> bool:
        """Return whether no watch was open for `BLIND_SECONDS`, so that the store is stale."""
        return self.blind_since is not None and now - self.blind_since > BLIND_SECONDS

    async def wait_synced(self) -> None:
        """Wait until `has_synced`."""
        await self._synced.wait()

    def add_handler(self, handler: Handler[T]) -> None:
        """Add a handler; it receives the objects in the store at once."""
        self.store.add_handler(handler)

    def catch_up(self) -> None:
        """List again if changes may have been missed so far; bindings wait for the list.

        That no watch is open is enough: the request for one may have had no answer for long.
        """
        if self._has_gap or self.blind_since is not None:
            self.list_again()

    def list_again(self) -> None:
        """Relist: stored objects and versions may be obsolete, as after a restore."""
        self._set_back.set()
        if self.state is not State.EMPTY or self.blind_since is not None:
            # A kind that the server does not serve has no objects to relist.
            self._doubts.begin(self.kind.name)
        # End the watch by its deadline, unless the deadline has passed already.
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """List and watch until cancelled. Run it as a task; only a bug in a handler ends it."""
        while True:
            pause = await self._step()
            if pause > 0:
                await self._sleep(pause)

    async def _sleep(self, seconds: float) -> None:
        if not (self._is_in_doubt or self._has_gap):
            await asyncio.sleep(seconds)
            return
        # `list_again` ends the pause: another kind has detected a restore, or this instance has
        # become the leader.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._set_back.wait()

    async def _step(self) -> float:
        """Do the work of the present state; return the seconds to wait before the next step."""
        try:
            self._heed_set_back()
            if self.state is State.LISTED and self._is_in_doubt:
                await self._ask_whether_set_back()
                self._heed_set_back()
            if self.state is State.LISTED:
                return await self._watch()
            await self._list_page()
        except GoneError as problem:
            return self._expired(problem)
        except NotFoundError as problem:
            return self._not_found(problem)
        except ApiError as problem:
            return self._failed(problem)
        return 0.0

    # --- a server that was set back -------------------------------------------------------------

    def _heed_set_back(self) -> None:
        """Raise GoneError if the store may be obsolete; see `list_again`."""
        if self._set_back.is_set():
            self._forget_versions()
            raise GoneError(f"watch {self.kind.name}", message="known objects may be obsolete")

    def _found_set_back(self, message: str) -> GoneError:
        """Make all kinds relist; return the error to raise for this kind."""
        is_known = self._set_back.is_set()
        self._forget_versions()
        if not is_known:
            self._on_set_back()
            self._set_back.clear()
        return GoneError(f"watch {self.kind.name}", message=f"the server was set back: {message}")

    def _forget_versions(self) -> None:
        self._set_back.clear()
        self.version = ""
        self._intake.restores.forget()
        self._doubts.begin(self.kind.name)

    async def _ask_whether_set_back(self) -> None:
        """Check by one small request that a new watch can continue from the store's version.

        Raises:
            GoneError: the server is at an older version, or its newest object is older than in the
                store: all kinds relist. If that object is gone, only this kind relists.
            ApiError: the request failed.
        """
        ask, timeout = self._intake.restores.ask, self._options.list_timeout
        older = await ask(self._session, timeout, self.store, self.version)
        if older:
            raise self._found_set_back(older)
        self._is_in_doubt = False
        self._doubts.end(self.kind.name)

    # --- lists ----------------------------------------------------------------------------------

    async def _list_page(self) -> None:
        intake = self._intake
        if self.state is State.EMPTY:
            self._continue = ""
            intake.begin_list()
        reader = PageReader(self.kind, self._page_size, self._continue)
        before = intake.taken
        try:
            rest = await reader.read(self._session, self._options.list_timeout, intake.take_items)
        except TooLargeError:
            if self._page_size.shrink():
                return
            raise
        page, problem = reader.page(rest)
        if problem is not None:
            if self._page_size.shrink():
                # Smaller pages isolate the object that cannot be decoded.
                return
            intake.malformed(MetadataPeek(), problem)
        await intake.take_items(page.items or ())
        self._page_size.took(intake.taken - before, reader.received)
        self._continue = page.metadata.continue_
        if self._continue:
            self.state = next_state(self.state, StepResult.PAGE)
        else:
            await self._complete_list(page.metadata.resource_version)

    async def _complete_list(self, version: str) -> None:
        await self._intake.end_list()
        self._page_size = PageSize(self._options.page_size)
        self._is_in_doubt = self._has_gap = False
        self._places_asked = 0
        if is_older_version(version, self.version):
            self._found_set_back(f"version {version} follows {self.version}")
        if self.blind_since is None:
            # The kind was not served before.
            self.blind_since = self._clock.monotonic()
        self.version = version
        self._doubts.end(self.kind.name)
        self.state = next_state(self.state, StepResult.LIST_COMPLETE)
        if not self.has_synced:
            log.info("Listed", kind=self.kind.name, count=len(self.store), version=version)
            self._synced.set()

    # --- watches --------------------------------------------------------------------------------

    async def _watch(self) -> float:
        options = self._options
        seconds = int(self._rng.uniform(*options.watch_timeout))
        query = watch_query(self.kind.field_selector, self.version, seconds)
        path = f"{self.kind.path}?{query}"
        started, before = self._clock.monotonic(), (self.version, self.blind_since)
        try:
            # Close a watch that the server does not end after `timeoutSeconds`.
            async with asyncio.timeout(seconds + _GRACE_SECONDS) as self._limit:
                async with self._session.stream(path, read_timeout=options.read_timeout) as lines:
                    self.state = next_state(self.state, StepResult.OPENED)
                    self.blind_since = None
                    await self._read(lines)
        except TimeoutError as problem:
            self._heed_set_back()
            raise UnavailableError(f"watch {self.kind.name}", message="does not end") from problem
        finally:
            self._limit = None
            is_short = self._clock.monotonic() - started < options.short_watch
            came_to_nothing = is_short and self.version == before[0]
            if self.blind_since is None:
                self.blind_since = before[1] if came_to_nothing else self._clock.monotonic()
        return self._ended(is_short=is_short, came_to_nothing=came_to_nothing)

    async def _read(self, lines: Lines) -> None:
        """Apply events until the server ends the watch.

        Cost: about 10 us per pod event without its handlers; most events are decoded in one pass.
        """
        intake, pacer = self._intake, self._intake.pacer
        while batch := await lines.read():
            for line in batch:
                self._pass(intake.take_line(line))
                if pacer.is_due:
                    await pacer.pause()

    def _pass(self, version: str) -> None:
        """Note the version that the watch has reached: a new watch begins there.

        Raises:
            GoneError: the version is older than the store's, as after a restore.
        """
        if not version:
            return
        if is_older_version(version, self.version):
            raise self._found_set_back(f"version {version} follows {self.version}")
        self.version = version
        self._has_gap = False
        if self._has_failed:
            self._has_failed = False
            self._failures = 0
            self._reports.all_is_well()
            self._reset_pauses()

    def _reset_pauses(self) -> None:
        self._backoff.reset()
        self._anew.reset()

    # --- outcomes -------------------------------------------------------------------------------

    def _ended(self, *, is_short: bool, came_to_nothing: bool) -> float:
        if came_to_nothing:
            # A proxy that closes every watch at once hides all that happens.
            self._has_gap = True
            self._failures += 1
            if self._failures >= MAX_FAILURES:
                raise GoneError(f"watch {self.kind.name}", message="watches end at once")
        self.state = next_state(self.state, StepResult.ENDED)
        self._reports.restart("ended")
        if is_short:
            self._has_failed = True
            return self._backoff.pause()
        self._reset_pauses()
        return 0.0

    def _not_found(self, problem: ApiError) -> float:
        """Handle a 404: the server does not serve the kind in this API version."""
        if self.state is not State.EMPTY:
            # The relist finds the version that is served, if any.
            return self._expired(problem) if self.kind.may_be_absent else self._failed(problem)
        if self._asks_elsewhere():
            return 0.0
        if self.kind.may_be_absent and not self.store:
            return self._absent()
        return self._failed(problem)

    def _asks_elsewhere(self) -> bool:
        """Switch to the next API version of the kind; return False when all were tried."""
        self._places.rotate(-1)
        self._places_asked = (self._places_asked + 1) % len(self._places)
        if self._places[0] is not self.kind:
            self.kind = self._places[0]
            self._intake.move_to(self.kind)
        return self._places_asked > 0

    def _absent(self) -> float:
        """Wait before the next try of a kind that the server may serve after an upgrade."""
        self.state = next_state(self.state, StepResult.FAILED)
        if self.blind_since is not None:
            self.blind_since = None
            tell = log.warning if self.kind.is_missed else log.info
            places = ", ".join(sorted(place.declared.api_version for place in self._places))
            tell("Not served", kind=self.kind.name, apis=places)
        self._doubts.end(self.kind.name)
        self._synced.set()
        return ABSENT_SECONDS

    def _expired(self, problem: ApiError) -> float:
        """Begin a relist; handlers are notified only of differences from the store."""
        if self.state is State.PAGING:
            self._page_size.grow()
        self._failures = 0
        self._has_failed = self._has_gap = True
        self.state = next_state(self.state, StepResult.EXPIRED)
        self._reports.restart("expired")
        log.info("Version expired; listing again", kind=self.kind.name, reason=str(problem))
        return self._anew.pause(problem.retry_after_seconds)

    def _failed(self, problem: ApiError) -> float:
        is_refused = isinstance(problem, InvalidError)
        # The server may be restored before it answers again: it, or a proxy, may say 503 till then.
        self._is_in_doubt = True
        is_down = problem.status == 0 or problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        if is_down and self.kind.declared is POD_KIND:
            # Pods change most often, so their informer detects nearly every restore.
            self._doubts.begin(self.kind.name)
        self._has_failed = True
        self._has_gap = self.has_synced
        if self.blind_since is None:
            # The kind was not served; it may be now, without a watch.
            self.blind_since = self._clock.monotonic()
        if self.state is State.WATCHING:
            self._failures += 1
        if self._failures >= MAX_FAILURES or (is_refused and self.state is not State.EMPTY):
            # The server refuses our version or continue token, or fails each time it gets it.
            return self._expired(problem)
        self.state = next_state(self.state, StepResult.FAILED)
        self._reports.restart("failed")
        pause = self._backoff.pause(problem.retry_after_seconds)
        self._reports.failed(str(problem), pause, is_answer=problem.status > 0)
        return pause
