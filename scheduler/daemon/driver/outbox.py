"""All writes to the API server about pods and groups: binds first, events last.

The number of unsent writes is bounded. A bind or an eviction is sent only while there is room for
its event, and no pod is decided while there is none. So a process that is killed loses few events,
and decisions slow down to the pace of the API server.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from sys import maxsize
from typing import Any

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.clock import Clock
from scheduler.daemon.client.writes import PodWrites
from scheduler.daemon.driver.event_broadcaster import EventBroadcaster
from scheduler.daemon.driver.lanes import (
    AHEAD,
    BIND,
    EVENT,
    EVICT,
    LANES,
    PATCH,
    READ,
    ConcurrencyShare,
    InFlightWrite,
    Lane,
    LaneKind,
    OutboxSettings,
)
from scheduler.daemon.driver.loop_rest import rest_for_ever
from scheduler.daemon.driver.write_requests import WriteRequests
from scheduler.daemon.informers.kinds import PODS, Kind
from scheduler.kernel.engine.events import BindFailed, Event as EngineEvent, EvictFailed
from scheduler.kernel.engine.instructions import (
    Bind,
    Evict,
    PatchGroupStatus,
    PatchStatus,
    ReadPod,
    RecordEvent,
)
from scheduler.observability.loop_shares import LoopShares
from scheduler.observability.work_queues import WorkQueueMetrics


class Outbox:
    """Sends the engine's writes, and reports their results to it.

    Args:
        writes: sends the requests to the API server.
        clock: the clock of timestamps, waits and metrics.
        settings: limits and pauses.
        answer: passes the results of writes to the engine, as events.
        ask_others: has Bind plugins or an extender carry out a binding; never raises.
        shares: adds up the loop's time by kind of work.
        queues: the metrics of waiting writes.
        on_sent: called after each request: there may be room again.
        on_dropped: called for each lost event with its reason, one of `event_broadcaster.DROPPED`.
        is_held: whether bindings and evictions wait, because the stores may be obsolete.
        pods: the kind that decodes pods.

    Attributes:
        events: records and sends events.
    """

    def __init__(  # noqa: PLR0913 - the requests, and the callbacks
        self,
        writes: PodWrites,
        clock: Clock,
        settings: OutboxSettings,
        *,
        answer: Callable[[EngineEvent], None],
        ask_others: Callable[[Bind], Awaitable[EngineEvent]],
        shares: LoopShares,
        queues: WorkQueueMetrics,
        on_sent: Callable[[], None] = lambda: None,
        on_dropped: Callable[[str], None] = lambda _: None,
        is_held: Callable[[], bool] = lambda: False,
        pods: Kind[PodInfo] = PODS,
    ) -> None:
        self._writes = writes
        self._clock = clock
        self._settings = settings
        self._answer = answer
        self._timed = shares.timed
        self._on_sent = on_sent
        self._is_held = is_held
        self._lanes: list[Lane[Any]] = [
            Lane(kind, queues, clock.monotonic, self._wake) for kind in LANES
        ]
        lanes = {lane.kind: lane for lane in self._lanes}
        self._binds: Lane[Bind] = lanes[BIND]
        self._reads: Lane[ReadPod] = lanes[READ]
        self._evictions: Lane[Evict] = lanes[EVICT]
        self._patches: Lane[PatchStatus | PatchGroupStatus] = lanes[PATCH]
        self.events = EventBroadcaster(
            writes,
            clock,
            settings,
            lanes[EVENT],
            has_room=lambda: self._room_for_events() > 0,
            wake=self._wake_all,
            on_dropped=on_dropped,
        )
        requests = WriteRequests(writes, clock, ask_others, pods)
        self._senders: dict[str, Callable[[Any], Awaitable[EngineEvent | None]]] = {
            BIND.name: requests.bind,
            READ.name: requests.read,
            EVICT.name: requests.evict,
            PATCH.name: requests.patch,
            EVENT.name: self.events.send,
        }
        self._beside: set[asyncio.Task[None]] = set()
        """Binds of extenders and Bind plugins: they may take long, and delay no other request."""
        self._idle: deque[asyncio.Future[None]] = deque()
        """Futures of workers that wait for a write to send."""
        self._working = 0
        self._changed = asyncio.Event()

    @property
    def binds_owed(self) -> int:
        """Number of bindings that wait or are under way."""
        return self._binds.owed

    @property
    def awaits_answers(self) -> bool:
        """Whether a write about pods or groups, or a plugin's request, is under way."""
        return bool(self._binds.under_way or self._changes or self._writes.plugin_requests)

    @property
    def _changes(self) -> int:
        """Number of evictions and patches under way."""
        return len(self._evictions.under_way) + len(self._patches.under_way)

    @property
    def has_room_again(self) -> bool:
        """Whether there is room for half of the pods that may be decided ahead."""
        most = self._settings.concurrency * AHEAD
        return 2 * self.room >= min(most, self._settings.max_owed or most)

    @property
    def room(self) -> int:
        """Number of further pods that may be decided; none if it is not positive."""
        if self._is_held():
            return 0
        # Waiting evictions do not count: their preemptors stay out of the active queue.
        room = min(self._settings.concurrency * AHEAD, self._room_for_events())
        return room - len(self._binds.waiting)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits and nothing is under way but reads."""
        lanes = (self._binds, self._evictions, self._patches, self.events)
        return not any(lane.owed for lane in lanes)

    # --- taking in ------------------------------------------------------------------------------

    def bind(self, bind: Bind) -> None:
        """Queue a binding; drop the waiting status patch of an earlier failure of its pod."""
        self._patches.waiting.pop(bind.uid, None)
        self._binds.put(bind.uid, bind)

    def cancel(self, attempt: int) -> None:
        """Remove the bindings of an attempt that are not sent yet."""
        if self._binds.remove(lambda bind: bind.attempt == attempt):
            self._changed.set()

    def refuse_decided(self, reason: str) -> None:
        """Fail the bindings and evictions that are not sent yet; their pods are tried again."""
        for bind in [write for _, write in self._binds.waiting.values()]:
            self.cancel(bind.attempt)
            self._answer(BindFailed(bind.attempt, reason))
        evictions = [write for _, write in self._evictions.waiting.values()]
        self._evictions.waiting.clear()
        self._changed.set()
        for evict in evictions:
            self._answer(EvictFailed(evict.uid, reason))

    def resume(self) -> None:
        """Send the held bindings and evictions: `is_held` has become false."""
        self._wake_all()
        self._on_sent()

    def record_event(self, event: RecordEvent) -> None:
        """Record an event about an object."""
        self.events.record(event)

    def read(self, read: ReadPod) -> None:
        """Queue a read of a pod; the answer is an event of the engine."""
        self._reads.put(read.uid, read)

    def evict(self, evict: Evict) -> None:
        """Queue the eviction of a victim."""
        self._evictions.put(evict.uid, evict)

    def patch(self, patch: PatchStatus) -> None:
        """Queue a patch of a pod's status, in place of a patch of this pod that still waits.

        Fields that the new patch does not set keep the value of the replaced one.
        """
        before = self._patches.get(patch.uid)
        if isinstance(before, PatchStatus):
            nominated = patch.nominated_node_name
            patch = msgspec.structs.replace(
                patch,
                condition=patch.condition or before.condition,
                nominated_node_name=before.nominated_node_name if nominated is None else nominated,
            )
        self._patches.put(patch.uid, patch)

    def patch_group(self, patch: PatchGroupStatus) -> None:
        """Queue a patch of a group's status, in place of one of this group that still waits."""
        self._patches.put(patch.uid, patch)

    # --- sending --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send writes until cancelled; run it as a task."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.events.sweep_for_ever())
                group.create_task(rest_for_ever(self._clock, self._under_way))
                for _ in range(self._settings.concurrency):
                    group.create_task(self._work())
        finally:
            for task in self._beside:
                task.cancel()
            await asyncio.gather(*self._beside, return_exceptions=True)

    def _under_way(self) -> int:
        """Return the number of requests without an answer yet, plugins' requests included."""
        return self._working + self._writes.plugin_requests

    async def drain(self, timeout: float, *, binds_only: bool = False) -> None:
        """Wait until all writes, or all binds, are answered, at most `timeout` seconds.

        Args:
            timeout: seconds.
            binds_only: do not wait for events, nor for evictions and status that have not left.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self.binds_owed or self._changes if binds_only else not self.is_empty:
                    self._changed.clear()
                    await self._changed.wait()

    def _wake(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():  # a worker's future is cancelled when the process ends
                self._working += 1
                idle.set_result(None)
                return

    def _wake_all(self) -> None:
        for _ in range(len(self._idle)):
            self._wake()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        self._working += 1
        while True:
            found = self._next()
            if found is None:
                self._working -= 1
                idle: asyncio.Future[None] = loop.create_future()
                self._idle.append(idle)
                await idle
                continue
            lane, taken = found
            if lane is self._binds and taken.write.is_by_others:
                task = loop.create_task(self._send(lane, taken))
                self._beside.add(task)
                task.add_done_callback(self._came_back)
            else:
                await self._timed(lane.kind.work, self._send(lane, taken))
                self._sent()

    def _next(self) -> tuple[Lane[Any], InFlightWrite[Any]] | None:
        """Return the first write, in the order of the lanes, that may be sent now."""
        for lane in self._lanes:
            if lane.waiting and self._may_send(lane.kind):
                # A pod's status patch must not reach the API server after its bind.
                taken = lane.take(self._patches.under_way if lane is self._binds else ())
                if taken is not None:
                    return lane, taken
        return None

    def _may_send(self, kind: LaneKind) -> bool:
        """Return whether the limits of a lane allow one more request."""
        if kind.brings_event and (self._is_held() or self._room_for_events() <= 0):
            return False
        if kind.share is ConcurrencyShare.ALL:
            return True
        concurrency = self._settings.concurrency
        if self._changes + self.events.under_way >= ConcurrencyShare.EVENTS.at_a_time(concurrency):
            return False
        if kind.share is ConcurrencyShare.CHANGES:
            return self._changes < kind.share.at_a_time(concurrency)
        waits_for_binds = not self._settings.max_owed and self._binds.owed
        return not waits_for_binds and self.events.may_send(concurrency)

    def _room_for_events(self) -> int:
        """Return how many more events may wait; a bind or eviction under way takes one place."""
        if not self._settings.max_owed:
            return maxsize
        brought = len(self._binds.under_way) + len(self._evictions.under_way)
        return self._settings.max_owed - self.events.owed - brought

    async def _send(self, lane: Lane[Any], taken: InFlightWrite[Any]) -> None:
        answer = await lane.work(taken, self._senders[lane.kind.name](taken.write))
        if answer is not None:
            self._answer(answer)
        if not (self._settings.max_owed or self._binds.owed):
            self._wake_all()

    def _came_back(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        self._wake()
        self._sent()

    def _sent(self) -> None:
        self._changed.set()
        self._on_sent()
