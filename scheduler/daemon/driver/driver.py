"""The driver passes events and time to the engine, and carries out its instructions.

The driver has no rules: the engine decides the next steps, the requests, and their times.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from math import ceil
from typing import Any, Final, Protocol

from scheduler.clock import Clock
from scheduler.daemon.client.turns import FIRST, Place
from scheduler.daemon.driver.outbox import Outbox
from scheduler.daemon.driver.questions import ExtenderPort, Questions, bind_by_extender
from scheduler.daemon.driver.together import at_the_same_time
from scheduler.errors import SchedulerError, in_words
from scheduler.kernel.engine import AttemptState, Engine
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Decide,
    Event,
    PreBound,
    SetBack,
    SlowDecision,
    Tick,
    WriteFailed,
)
from scheduler.kernel.engine.instructions import (
    Ask,
    Bind,
    Cancel,
    Configured,
    Evict,
    Instruction,
    LogError,
    PatchGroupStatus,
    PatchStatus,
    ReadPod,
    RecordEvent,
    RunPreBind,
    SetTimer,
    Write,
)
from scheduler.kernel.engine.placing import MAX_BATCH
from scheduler.kernel.extender import Answer, NoAnswer
from scheduler.kernel.framework.runtime import PluginError
from scheduler.kernel.framework.services import Api
from scheduler.kernel.framework.status import error
from scheduler.observability.logs import get_logger, verbose

SLICE_SECONDS: Final = 0.002
"""Longest run of decisions before other tasks run; see docs/architecture.md, one loop."""
TICK_SECONDS: Final = 1.0
EARLY_SECONDS: Final = 0.005
SLOT_SECONDS: Final = 0.25
"""Times of `SetTimer` are rounded up to multiples of this, so that they share Ticks."""
END_SECONDS: Final = 5.0
"""Time limit for cancelled tasks to end; see `framework.services.Api.run_to_end`."""
LONG_SECONDS: Final = 1.0
"""A pod with two longer decisions (processor time) in a row goes behind all other pods."""

SET_BACK: Final = "the API server was set back to an older state"
"""The failure message of attempts that end because the API server was restored."""

_WORKING: Final = frozenset({AttemptState.PREBINDING, AttemptState.BINDING})

log = get_logger(__name__)


class EventLog(Protocol):
    """Receives the engine's events and the instructions that answer them."""

    def note(self, event: Event, now: float, instructions: Sequence[Instruction]) -> None:
        """Record one event and its instructions; called in the order of events."""
        ...


class Driver:
    """Connects one engine to the clock, the API server, extenders and plugins.

    Attributes:
        engine: the engine, which decides.
        outbox: sends writes to the API server; set once, before anything runs.
        extenders: the client of extenders; set once, if extenders are configured.
        plugin_api: sends plugins' requests to the API server; set once, before anything runs.
        questions: the requests to extenders that are under way.
        on_configured: called with the engine's answer to a new configuration.
    """

    outbox: Outbox
    extenders: ExtenderPort
    plugin_api: Api
    on_configured: Callable[[Configured], None]

    def __init__(
        self, engine: Engine, clock: Clock, *, event_logs: Sequence[EventLog] = ()
    ) -> None:
        self.engine = engine
        engine.from_outside = self.submit
        self._clock = clock
        self._event_logs = list(event_logs)
        self.questions = Questions(self._ask, self._submit_answer)
        self.on_configured = lambda _: None
        self._ready = asyncio.Event()
        self._ready.set()  # until `decide` first clears it, `submit` need not set it
        self._work: dict[int, asyncio.Task[None]] = {}
        """PreBind tasks by attempt; plugins' writes have numbers below 0."""
        self._write_numbers = count(-1, -1)
        self._places: dict[int, Place] = {}
        """By attempt, while PreBind runs: the place of its requests in the line."""
        self._wake_times: set[float] = set()
        """Times at which the engine needs a Tick."""
        self._woken = asyncio.Event()
        self._pod_seconds = SLICE_SECONDS
        """Seconds per pod in the last batch of decisions."""
        self._carry_out: dict[type, Callable[[Any], None]] = {
            Bind: lambda i: self.outbox.bind(i),  # noqa: PLW0108 - the outbox comes later
            Ask: self.questions.start,
            RunPreBind: lambda i: self._start(i.attempt, self._pre_bind(i.attempt)),
            Cancel: self._cancel,
            ReadPod: lambda i: self.outbox.read(i),  # noqa: PLW0108 - the outbox comes later
            Evict: lambda i: self.outbox.evict(i),  # noqa: PLW0108 - see above
            Write: lambda i: self._start(next(self._write_numbers), self._send(i)),
            PatchStatus: lambda i: self.outbox.patch(i),  # noqa: PLW0108 - see above
            PatchGroupStatus: lambda i: self.outbox.patch_group(i),  # noqa: PLW0108 - see above
            RecordEvent: self._record_event,
            SetTimer: self._wake_me_at,
            LogError: _report,
            Configured: lambda i: self.on_configured(i),  # noqa: PLW0108 - set later
        }

    def submit(self, event: Event) -> None:
        """Pass an event to the engine, and carry out its instructions."""
        now = self._clock.monotonic()
        instructions = self.engine.handle(event, now)
        self._note(event, now, instructions)
        for instruction in instructions:
            self._carry_out[type(instruction)](instruction)
        if not self._ready.is_set() and self.engine.has_ready and self.outbox.has_room_again:
            self._ready.set()

    def _note(self, event: Event, now: float, instructions: Sequence[Instruction]) -> None:
        """Pass an event to the event logs; remove a log that raises, and continue."""
        for event_log in self._event_logs.copy():
            try:
                event_log.note(event, now, instructions)
            except Exception as problem:
                self._event_logs.remove(event_log)
                log.exception(
                    "Error recording an event; recording no more",
                    recorder=type(event_log).__name__,
                    err=in_words(problem),
                )

    def _submit_answer(self, event: Event) -> None:
        """Pass an extender's answer to the engine, which continues the attempt at once."""
        self._submit_timed(event, self._clock.monotonic(), self._clock.cpu())

    def _submit_timed(self, event: Event, start: float, cpu: float) -> float:
        """Pass an event that makes the engine decide; return the monotonic time afterwards.

        Args:
            event: the event.
            start: the monotonic time in seconds.
            cpu: the thread's processor time in seconds, read at most a slice earlier: a reading is
                expensive. It tells a decision that computes for long from one during which the
                process was stopped or had no processor.
        """
        self.submit(event)
        end = self._clock.monotonic()
        if end - start > LONG_SECONDS:
            used, uid = self._clock.cpu() - cpu, self.engine.scheduler.decided
            if uid and used > LONG_SECONDS:
                self.submit(SlowDecision(uid, used))
        return end

    # --- loops ----------------------------------------------------------------------------------

    async def decide(self, is_stopping: Callable[[], bool]) -> None:
        """Decide in slices while pods are active and the outbox has room, until asked to stop."""
        now, engine, outbox = self._clock.monotonic, self.engine, self.outbox
        while not is_stopping():
            self._ready.clear()
            deadline = now() + SLICE_SECONDS
            start, cpu = now(), self._clock.cpu()
            # The first evaluation of a batch costs half a slice: less time is too short for one.
            while deadline - start >= SLICE_SECONDS / 2 and engine.has_ready:
                room = outbox.room
                if room <= 0:
                    break
                limit = min(room, self._pods_in(deadline - start))
                end = self._submit_timed(Decide(limit), start, cpu)
                self._pod_seconds = (end - start) / max(1, engine.scheduler.scheduled)
                start = end
            if engine.has_ready and outbox.room > 0:
                await asyncio.sleep(0)
            else:
                await self._ready.wait()

    def _pods_in(self, seconds: float) -> int:
        """Return the number of pods to decide in this time, at the pace of the last batch."""
        if seconds >= MAX_BATCH * self._pod_seconds:
            return MAX_BATCH
        return max(1, int(seconds / self._pod_seconds))

    def set_back(self) -> None:
        """Fail binding cycles without a sent binding: the API server was set back."""
        # The engine first: otherwise it would replace a refused extender's binding by its own.
        self.submit(SetBack(SET_BACK))
        self.outbox.refuse_decided(SET_BACK)

    def look_again(self) -> None:
        """Wake `decide`: the outbox may have room again, or the process is asked to stop."""
        self._ready.set()

    def sent(self) -> None:
        """Wake `decide` after a request of the outbox if there is room for a batch.

        Decisions run in batches: between single decisions, other work would evict the columns from
        the processor's caches.
        """
        if not self._ready.is_set() and self.outbox.has_room_again:
            self._ready.set()

    async def tick(self) -> None:
        """Submit a Tick at each second of the clock, and at the times of `SetTimer`."""
        while True:
            # Backoff ends at whole seconds of the clock. A timer that fires a little early must
            # not prolong a backoff by a second.
            now = self._clock.monotonic()
            pause = TICK_SECONDS - now % TICK_SECONDS + EARLY_SECONDS
            self._woken.clear()
            wanted = min(self._wake_times, default=now + pause) - now
            try:
                async with asyncio.timeout(min(pause, max(0.0, wanted))):
                    await self._woken.wait()
            except TimeoutError:
                self.submit(Tick())
                now = self._clock.monotonic()
                self._wake_times = {time for time in self._wake_times if time > now}

    async def drain(self, timeout: float) -> None:
        """Wait until no PreBind and no binding is under way, at most `timeout` seconds.

        Pods that wait in Permit do not count: the end of their wait is unknown.
        """
        try:
            async with asyncio.timeout(timeout):
                while work := [task for task in self._work.values() if not task.done()]:
                    await asyncio.wait(work)
                await self.outbox.drain(timeout, binds_only=True)
        except TimeoutError:
            log.warning("Binds still in flight after the drain", count=self.in_flight)

    async def stop(self) -> None:
        """Cancel the requests to extenders, and the tasks of attempts and plugins' writes."""
        await self.questions.stop()
        for place in self._places.values():
            # Else those that run to their end would go on to send what waits.
            place.cancel()
        await end_in_time(self._work.values())

    @property
    def in_flight(self) -> int:
        """Number of attempts in PreBind or binding; those that wait in Permit do not count."""
        return sum(attempt.state in _WORKING for attempt in self.engine.attempts)

    # --- instructions ---------------------------------------------------------------------------

    def _cancel(self, cancel: Cancel) -> None:
        place = self._places.get(cancel.attempt)
        if place is not None:
            place.cancel()
        task = self._work.get(cancel.attempt)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        self.questions.cancel(cancel.attempt)
        self.outbox.cancel(cancel.attempt)

    def _wake_me_at(self, wake: SetTimer) -> None:
        time = ceil(wake.time / SLOT_SECONDS) * SLOT_SECONDS
        if time not in self._wake_times:
            self._wake_times.add(time)
            self._woken.set()

    def _record_event(self, event: RecordEvent) -> None:
        if verbose(2):
            about = f"{event.regarding.namespace}/{event.regarding.name}"
            log.info(event.reason, v=2, pod=about, note=event.note)
        self.outbox.record_event(event)

    # --- plugins that may wait ------------------------------------------------------------------

    def _start(self, attempt: int, work: Any) -> None:
        task = self._work[attempt] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda done: self._ended(attempt, done))

    def _ended(self, attempt: int, task: asyncio.Task[None]) -> None:
        if self._work.get(attempt) is task:
            del self._work[attempt]
        # At the end of the process PreBind is cancelled without the engine, which needs no event.
        if task.cancelled() and self.engine.attempts.in_state(attempt, AttemptState.CANCELLED):
            self.submit(PreBound(attempt, "cancelled"))

    async def _pre_bind(self, attempt_id: int) -> None:
        attempt = self.engine.attempts.get(attempt_id)
        if attempt is None:
            return
        pod = attempt.pod
        place = self._places[attempt_id] = Place.of(attempt.order, attempt_id)
        try:
            with place.taken():
                status = await attempt.framework.run_pre_bind_plugins(
                    attempt.cycle_state, pod, at_the_same_time
                )
        except PluginError as problem:
            self.submit(PreBound(attempt_id, str(problem)))
        else:
            reason = "" if status.is_success else status.message or "?"
            self.submit(PreBound(attempt_id, reason, is_rejection=status.is_rejection))
        finally:
            del self._places[attempt_id]

    async def _send(self, write: Write) -> None:
        """Carry out a plugin's write; submit its failure if a pod waits for the write."""
        try:
            with FIRST.taken():  # goes before attempts' requests: it frees what pods wait for
                await self.plugin_api.request(write.method, write.path, write.body)
        except SchedulerError as problem:
            log.warning("Write of a plugin failed", path=write.path, err=in_words(problem))
            if write.uid:
                self.submit(WriteFailed(write.uid, in_words(problem)))

    async def bind_by_others(self, bind: Bind) -> Event:
        """Have an extender or the Bind plugins bind a pod; the outbox calls this."""
        if bind.extender is not None:
            return await bind_by_extender(self.extenders, bind, bind.extender)
        return await self._bind_by_plugins(bind)

    async def _ask(self, ask: Ask) -> Answer:
        found = self.engine.extender_calls.question(ask.question)
        if found is None:
            return NoAnswer("no longer wanted")
        question, pod = found
        return await self.extenders.ask(question, pod.uid)

    async def _bind_by_plugins(self, bind: Bind) -> Event:
        attempt = self.engine.attempts.get(bind.attempt)
        if attempt is None:
            return BindFailed(bind.attempt, "no longer wanted")
        try:
            with Place.of(attempt.order, attempt.id).taken():
                status = await attempt.framework.run_bind_plugins(attempt.cycle_state, attempt.pod)
        except PluginError as problem:
            status = error(str(problem))
        if status.is_success:
            return Bound(bind.attempt)
        # Whatever the plugin reports, its request may have succeeded and the answer been lost.
        return BindFailed(
            bind.attempt, status.message, is_certain=False, is_rejection=status.is_rejection
        )


async def end_in_time(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have cleaned up, at most `END_SECONDS`."""
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    if cancelled:
        done, left = await asyncio.wait(cancelled, timeout=END_SECONDS)
        await asyncio.gather(*done, return_exceptions=True)
        if left:
            log.error(
                "Tasks do not end: a plugin ignores its cancellation, or a write has no answer",
                count=len(left),
            )


def _report(report: LogError) -> None:
    fields = {"pod": report.pod, "err": report.problem}
    if report.trace:
        fields["trace"] = report.trace
    log.error(report.message, **fields)
