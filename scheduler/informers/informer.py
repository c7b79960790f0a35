"""Keeps the store of one kind equal to what the API server holds: list, watch, and start over.

The states and their transitions are in `scheduler.informers.states`; here is what is done in each.

Source: k8s.io/client-go tools/cache/reflector.go v0.36; kube-rs kube-runtime/src/watcher.rs.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from scheduler.client.errors import (
    ApiError,
    GoneError,
    InvalidError,
    UnavailableError,
    error_from_event,
)
from scheduler.client.session import ApiSession, Lines
from scheduler.clock import Clock
from scheduler.informers.backoff import BASE_SECONDS, CAP_SECONDS, Backoff
from scheduler.informers.kinds import Kind, MalformedObjectError
from scheduler.informers.pacer import Pacer
from scheduler.informers.states import Outcome, State, next_state
from scheduler.informers.store import Handler, Store, key_of
from scheduler.informers.wire import (
    BOOKMARK,
    CHANGES,
    DELETED,
    ERROR,
    INITIAL_EVENTS_END,
    PartialMeta,
    event_decoder,
    list_query,
    page_decoder,
    partial_decoder,
    watch_query,
)
from scheduler.observability.logs import get_logger, verbose

T = TypeVar("T")

UNKNOWN: Final = "unknown"
MAX_FAILURES: Final = 4
"""Watches from one version that may break off before the list is asked for again."""

COMPLAIN_AGAIN_SECONDS: Final = 60.0
"""A problem that lasts is logged this often."""

log = get_logger(__name__)


class InformerHooks(Protocol):
    """Hears what is worth counting."""

    def on_restart(self, kind: str, reason: str) -> None:
        """A watch is over: `ended` in good order, `failed`, or `expired` (a new list follows)."""
        ...

    def on_malformed(self, kind: str) -> None:
        """An object was left out because it cannot be read."""
        ...


class NoHooks:
    """Counts nothing."""

    def on_restart(self, kind: str, reason: str) -> None:
        """See `InformerHooks.on_restart`."""

    def on_malformed(self, kind: str) -> None:
        """See `InformerHooks.on_malformed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerOptions:
    """Times, in seconds, and how lists are asked for.

    Attributes:
        list_timeout: for one page.
        read_timeout: without any byte on a watch, after which the connection counts as dead.
            API servers send a bookmark about every minute; a server that does not costs one
            reconnection every so often.
        watch_timeout: shortest and longest life asked for a watch; drawn at random, so that
            watches of many clients do not end together.
        short_watch: a watch that lived less counts as a failure when it ends.
        backoff_base: first pause after a failure.
        backoff_cap: longest pause.
        is_list_streamed: ask for initial lists as a watch (WatchList); falls back to pages when
            the server does not know how.
    """

    list_timeout: float = 60.0
    read_timeout: float = 150.0
    watch_timeout: tuple[float, float] = (300.0, 600.0)
    short_watch: float = 1.0
    backoff_base: float = BASE_SECONDS
    backoff_cap: float = CAP_SECONDS
    is_list_streamed: bool = False


class Informer(Generic[T]):
    """One kind's list and watch.

    Attributes:
        kind: what is watched.
        store: what the server holds, as far as is known.
        state: see `scheduler.informers.states.State`.
        version: the resource version the store is at, or empty.
    """

    def __init__(
        self,
        kind: Kind[T],
        session: ApiSession,
        *,
        clock: Clock,
        rng: random.Random,
        hooks: InformerHooks | None = None,
        options: InformerOptions | None = None,
    ) -> None:
        self.kind = kind
        self.store: Store[T] = Store(kind.meta_of)
        self.state = State.EMPTY
        self.version = ""
        self._session = session
        self._clock = clock
        self._rng = rng
        self._hooks = hooks or NoHooks()
        self._options = options or InformerOptions()
        self._backoff = Backoff(
            rng,
            base_seconds=self._options.backoff_base,
            cap_seconds=self._options.backoff_cap,
        )
        self._pacer = Pacer(clock)
        self._synced = asyncio.Event()
        self._is_list_streamed = self._options.is_list_streamed
        self._page_size = kind.page_size
        self._continue = ""
        self._failures = 0
        """Watches in a row that broke off before anything came of them."""
        self._complaint = ""
        self._complain_again = 0.0
        self._seen: set[str] = set()
        """Keys that the list in progress has named: what it does not name is gone."""

    @property
    def has_synced(self) -> bool:
        """Whether a first list is complete and the handlers have heard of all of it."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Waits for `has_synced`."""
        await self._synced.wait()

    def add_handler(self, handler: Handler[T]) -> None:
        """Adds a handler; it hears at once of what is in the store already."""
        self.store.add_handler(handler)

    async def run(self) -> None:
        """Lists and watches for ever. Run it as a task; only a bug in a handler ends it."""
        while True:
            pause = await self._step()
            if pause > 0:
                await asyncio.sleep(pause)

    async def _step(self) -> float:
        """Does what the state asks for; answers how many seconds to wait before the next step."""
        try:
            if self.state is State.LISTED or self._begins_streamed():
                return await self._watch()
            await self._list_page()
        except GoneError as problem:
            return self._expired(problem)
        except ApiError as problem:
            return self._failed(problem)
        return 0.0

    # --- lists ----------------------------------------------------------------------------------

    async def _list_page(self) -> None:
        kind = self.kind
        if self.state is State.EMPTY:
            self._begin_list()
        query = list_query(kind.field_selector, self._page_size, self._continue)
        path = f"{kind.path}?{query}" if query else kind.path
        answer = await self._session.request("GET", path, timeout=self._options.list_timeout)
        self._pacer.restart()
        try:
            page = page_decoder.decode(answer.body)
        except msgspec.DecodeError as problem:
            raise UnavailableError(f"GET {path}", message=f"not a list: {problem}") from problem
        for raw in page.items or ():
            self._take_listed(raw)
            if self._pacer.is_due:
                await self._pacer.pause()
        self._continue = page.metadata.continue_
        if self._continue:
            self._advance(Outcome.PAGE)
        else:
            self._complete_list(page.metadata.resource_version)

    def _begin_list(self) -> None:
        self._continue = ""
        self._seen = set()

    def _take_listed(self, raw: msgspec.Raw) -> None:
        try:
            self._seen.add(self.store.apply(self.kind.decode(raw)))
        except MalformedObjectError as problem:
            meta = _partial(raw)
            self._leave_out(meta, problem)
            if meta is not None:
                # What we knew of it is better than nothing: a pod that cannot be read any more
                # still uses its node.
                self._seen.add(key_of(meta))

    def _complete_list(self, version: str) -> None:
        for key in [key for key in self.store if key not in self._seen]:
            self.store.remove(key)
        self._seen = set()
        self._page_size = self.kind.page_size
        self.version = version
        self._advance(Outcome.LIST_COMPLETE)
        if not self.has_synced:
            log.info("Listed", kind=self.kind.name, count=len(self.store), version=version)
            self._synced.set()

    # --- watches --------------------------------------------------------------------------------

    def _begins_streamed(self) -> bool:
        return self.state is State.EMPTY and self._is_list_streamed

    async def _watch(self) -> float:
        is_list_streamed = self._begins_streamed()
        if is_list_streamed:
            self._begin_list()
        query = watch_query(
            self.kind.field_selector,
            self.version,
            int(self._rng.uniform(*self._options.watch_timeout)),
            is_list_streamed=is_list_streamed,
        )
        started = self._clock.monotonic()
        path = f"{self.kind.path}?{query}"
        async with self._session.stream(path, read_timeout=self._options.read_timeout) as lines:
            self._advance(Outcome.OPENED)
            await self._read(lines)
        self._advance(Outcome.ENDED)
        self._hooks.on_restart(self.kind.name, "ended")
        is_short = self._clock.monotonic() - started < self._options.short_watch
        return self._backoff.pause() if is_short else 0.0

    async def _read(self, lines: Lines) -> None:
        """Applies events until the server ends the watch.

        Cost: about 10 us per pod event without its handlers; the common case is one decoding pass.
        """
        kind, store, pacer = self.kind, self.store, self._pacer
        while line := await lines.readline():
            try:
                event_type, obj = kind.decode_event(line)
            except (MalformedObjectError, msgspec.DecodeError) as problem:
                self._take_unusual(line, problem)
                continue
            if event_type == DELETED:
                store.remove(store.key_of(obj))
            elif event_type in CHANGES:
                key = store.apply(obj)
                if self.state is State.STREAMING:
                    self._seen.add(key)
            else:
                self._take_unusual(line, None)
                continue
            self._pass(kind.meta_of(obj).resource_version)
            if pacer.is_due:
                await pacer.pause()

    def _take_unusual(self, line: bytes, problem: Exception | None) -> None:
        """A line that is no change of a readable object: bookmark, error, malformed, or noise."""
        try:
            event = event_decoder.decode(line)
        except msgspec.DecodeError as broken:
            if line.strip():
                raise UnavailableError(
                    f"watch {self.kind.name}", message=f"not a watch event: {broken}"
                ) from broken
            return
        if event.type == ERROR:
            raise error_from_event(f"watch {self.kind.name}", bytes(event.object))
        meta = _partial(event.object)
        if event.type == BOOKMARK:
            self._take_bookmark(meta)
            return
        if event.type == DELETED and meta is not None:
            self.store.remove(key_of(meta))
        else:
            self._leave_out(meta, problem or ValueError(f"unknown event type {event.type!r}"))
        if meta is not None:
            if self.state is State.STREAMING:
                self._seen.add(key_of(meta))
            self._pass(meta.resource_version)

    def _take_bookmark(self, meta: PartialMeta | None) -> None:
        if meta is None:
            return
        ends_list = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
        if self.state is State.STREAMING and ends_list:
            self._complete_list(meta.resource_version)
        self._pass(meta.resource_version)

    def _pass(self, version: str) -> None:
        """The watch has got beyond a version: a new one begins there, and all is well."""
        if version and self.state is State.WATCHING:
            self.version = version
            self._failures = 0
            self._complaint = ""
            self._backoff.reset()

    # --- outcomes -------------------------------------------------------------------------------

    def _advance(self, outcome: Outcome) -> None:
        self.state = next_state(self.state, outcome)

    def _expired(self, problem: ApiError) -> float:
        """Starts over with a list, which tells handlers only what has really changed.

        A continue token that expired would expire again: the next list comes in one piece.
        """
        if self.state is State.PAGING:
            self._page_size = 0
        self._failures = 0
        self._advance(Outcome.EXPIRED)
        self._hooks.on_restart(self.kind.name, "expired")
        log.info("Version expired; listing again", kind=self.kind.name, reason=str(problem))
        return self._backoff.pause(problem.retry_after_seconds)

    def _failed(self, problem: ApiError) -> float:
        if self._begins_streamed() and isinstance(problem, InvalidError):
            self._is_list_streamed = False
            log.info("Server does not stream lists; listing in pages", kind=self.kind.name)
            return 0.0
        if self.state is State.WATCHING:
            self._failures += 1
            if self._failures >= MAX_FAILURES:
                # The server accepts our version and then fails on it every time.
                return self._expired(problem)
        self._advance(Outcome.FAILED)
        self._hooks.on_restart(self.kind.name, "failed")
        pause = self._backoff.pause(problem.retry_after_seconds)
        self._complain(str(problem), pause)
        return pause

    def _complain(self, reason: str, pause: float) -> None:
        """Say what is wrong once, and again when it changes or has lasted for long."""
        now = self._clock.monotonic()
        if reason == self._complaint and now < self._complain_again and not verbose(3):
            return
        self._complaint, self._complain_again = reason, now + COMPLAIN_AGAIN_SECONDS
        log.warning(
            "Cannot list or watch; trying again",
            kind=self.kind.name,
            reason=reason,
            retry_in_seconds=round(pause, 1),
        )

    def _leave_out(self, meta: PartialMeta | None, problem: Exception) -> None:
        self._hooks.on_malformed(self.kind.name)
        log.warning(
            "Object cannot be read; leaving it out",
            kind=self.kind.name,
            object=UNKNOWN if meta is None else key_of(meta),
            reason=str(problem),
        )


def _partial(raw: msgspec.Raw) -> PartialMeta | None:
    try:
        return partial_decoder.decode(raw).metadata
    except msgspec.DecodeError:
        return None
