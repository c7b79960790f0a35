"""The requests for each write of the outbox about pods and groups; their results as events."""

from collections.abc import Awaitable, Callable

import msgspec

from scheduler.api.objects import is_terminal
from scheduler.api.pods import PodInfo
from scheduler.clock import Clock
from scheduler.daemon.client.errors import NotFoundError
from scheduler.daemon.client.status_tries import in_tries
from scheduler.daemon.client.writes import PodWrites
from scheduler.daemon.driver.group_status import write_group_status
from scheduler.daemon.informers.kinds import PODS, Kind, MalformedObjectError
from scheduler.errors import RequestError
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Event,
    Evicted,
    EvictFailed,
    GroupStatusFailed,
    PodRead,
    ReadFailed,
)
from scheduler.kernel.engine.instructions import (
    Bind,
    Evict,
    PatchGroupStatus,
    PatchStatus,
    ReadPod,
)
from scheduler.observability.logs import get_logger

log = get_logger(__name__)


class WriteRequests:
    """Carries out single writes; a request that fails makes an event or a log line.

    Args:
        writes: sends the requests to the API server.
        clock: the clock of timestamps.
        ask_others: has Bind plugins or an extender carry out a binding; never raises.
        pods: the kind that decodes pods.
    """

    def __init__(
        self,
        writes: PodWrites,
        clock: Clock,
        ask_others: Callable[[Bind], Awaitable[Event]],
        pods: Kind[PodInfo] = PODS,
    ) -> None:
        self._writes = writes
        self._clock = clock
        self._ask_others = ask_others
        self._pods = pods

    async def bind(self, bind: Bind) -> Event:
        """Bind a pod."""
        if bind.is_by_others:
            return await self._ask_others(bind)
        try:
            await self._writes.bind(bind.namespace, bind.name, bind.uid, bind.node)
        except RequestError as problem:
            # A pod that is not found is not retried, even if the watch does not show its end yet.
            is_certain = problem.is_certain and not isinstance(problem, NotFoundError)
            return BindFailed(bind.attempt, str(problem), is_certain=is_certain)
        return Bound(bind.attempt)

    async def read(self, read: ReadPod) -> PodRead | ReadFailed:
        """Read a pod."""
        try:
            body = await self._writes.read(read.namespace, read.name)
            pod = None if body is None else self._pods.decode(body)
        except (RequestError, MalformedObjectError, msgspec.DecodeError) as problem:
            log.warning("Cannot read pod", pod=f"{read.namespace}/{read.name}", err=str(problem))
            return ReadFailed(read.attempt)
        is_there = pod is not None and pod.uid == read.uid and not is_terminal(pod.pod)
        return PodRead(read.attempt, pod if is_there else None)

    async def evict(self, evict: Evict) -> Event:
        """Evict a victim."""
        try:
            was_there = await self._writes.evict(
                evict.namespace, evict.name, evict.uid, self._clock.wall(), evict.condition
            )
        except RequestError as problem:
            if problem.is_certain or not await self._is_leaving(evict):
                return EvictFailed(evict.uid, str(problem))
            was_there = True
        return Evicted(evict.uid, was_there)

    async def _is_leaving(self, evict: Evict) -> bool:
        """Return whether a victim is gone or terminating, although its eviction had no answer."""
        read = await self.read(ReadPod(0, evict.namespace, evict.name, evict.uid))
        return isinstance(read, PodRead) and (read.pod is None or read.pod.is_terminating)

    async def patch(self, patch: PatchStatus | PatchGroupStatus) -> GroupStatusFailed | None:
        """Patch the status of a pod or group."""
        if isinstance(patch, PatchGroupStatus):
            return await write_group_status(self._writes, patch, self._clock)
        problem = await in_tries(
            lambda: self._writes.patch_status(
                patch.namespace,
                patch.name,
                patch.uid,
                self._clock.wall(),
                condition=patch.condition,
                nominated_node_name=patch.nominated_node_name,
            )
        )
        if problem is not None and not isinstance(problem, NotFoundError):
            pod = f"{patch.namespace}/{patch.name}"
            log.warning("Error updating pod", pod=pod, err=str(problem))
        return None
