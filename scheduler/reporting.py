"""Tells the API server what came of an attempt: events and status patches, behind the binds.

Source: kubernetes pkg/scheduler/schedule_one.go (updatePod), profile.NewRecorderFactory v1.36.
"""

import asyncio
from typing import Final

import msgspec
from typing_extensions import override

from scheduler.api.objects import PodCondition
from scheduler.api.pods import PodInfo
from scheduler.client.binding import PodClient
from scheduler.client.errors import ApiError, FencedError, NotFoundError
from scheduler.client.event_recorder import EventRecorder
from scheduler.client.events import WARNING, ObjectReference
from scheduler.client.patches import ConditionPatch
from scheduler.clock import Clock
from scheduler.cycle.status_writer import StatusWriter
from scheduler.observability.logs import get_logger

POD_SCHEDULED: Final = "PodScheduled"
_WORKERS: Final = 8

log = get_logger(__name__)


class _StatusPatch(msgspec.Struct, frozen=True):
    """What a pod's status should become."""

    pod: PodInfo
    condition: ConditionPatch | None
    nominated_node_name: str | None


class StatusReporter(StatusWriter):
    """Sends events through the recorder and patches through a few workers of its own.

    Of several patches that wait for one pod only the newest is sent.
    """

    def __init__(self, pods: PodClient, recorder: EventRecorder, clock: Clock) -> None:
        self._pods = pods
        self._recorder = recorder
        self._clock = clock
        self._waiting: dict[str, _StatusPatch] = {}
        self._has_work = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    # --- recording ------------------------------------------------------------------------------

    @override
    def scheduled(self, pod: PodInfo) -> None:
        """See `StatusWriter.scheduled`; an earlier failure that is not told yet is out of date."""
        self._waiting.pop(pod.uid, None)
        self._recorder.record(
            _reference(pod),
            reason="Scheduled",
            action="Binding",
            note=f"Successfully assigned {pod.key} to {pod.node_name}",
            reporting_controller=pod.spec.scheduler_name,
            is_repeatable=False,
        )

    @override
    def failed_scheduling(self, pod: PodInfo, note: str) -> None:
        """See `StatusWriter.failed_scheduling`."""
        self._recorder.record(
            _reference(pod),
            reason="FailedScheduling",
            action="Scheduling",
            note=note,
            reporting_controller=pod.spec.scheduler_name,
            event_type=WARNING,
        )

    @override
    def pod_failed(
        self, pod: PodInfo, reason: str, message: str, nominated_node_name: str | None
    ) -> None:
        """See `StatusWriter.pod_failed`; writes nothing when nothing would change."""
        nominated = nominated_node_name
        if nominated == pod.pod.status.nominated_node_name:
            nominated = None
        condition = self._changed_condition(pod, reason, message)
        if condition is None and nominated is None:
            self._waiting.pop(pod.uid, None)
            return
        self._waiting[pod.uid] = _StatusPatch(pod, condition, nominated)
        self._has_work.set()
        self._is_idle.clear()

    def _changed_condition(self, pod: PodInfo, reason: str, message: str) -> ConditionPatch | None:
        known = _condition(pod)
        if known is not None and (known.status, known.reason, known.message) == (
            "False",
            reason,
            message,
        ):
            return None
        moved = known is None or known.status != "False"
        return ConditionPatch(
            type=POD_SCHEDULED,
            status="False",
            reason=reason,
            message=message,
            last_transition_time=self._clock.wall() if moved else None,
            observed_generation=pod.pod.metadata.generation,
        )

    # --- sending --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send patches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._work())

    async def drain(self, timeout: float) -> None:
        """Wait until nothing waits to be sent (what is under way may still be), at most so long.

        Args:
            timeout: seconds; what still waits then is not sent.
        """
        if not self._waiting:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._is_idle.wait()
        except TimeoutError:
            log.warning("Status patches not sent before the end", count=len(self._waiting))

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._is_idle.set()
                self._has_work.clear()
                await self._has_work.wait()
            uid = next(iter(self._waiting))
            await self._send(self._waiting.pop(uid))

    async def _send(self, patch: _StatusPatch) -> None:
        pod = patch.pod
        try:
            await self._pods.patch_status(
                pod.namespace,
                pod.name,
                pod.uid,
                condition=patch.condition,
                nominated_node_name=patch.nominated_node_name,
            )
        except NotFoundError:
            pass  # the pod is gone; nobody is left to tell
        except (ApiError, FencedError) as problem:
            log.warning("Status patch refused", pod=pod.key, err=str(problem))


def _condition(pod: PodInfo) -> PodCondition | None:
    return next((c for c in pod.pod.status.conditions if c.type == POD_SCHEDULED), None)


def _reference(pod: PodInfo) -> ObjectReference:
    return ObjectReference(
        kind="Pod",
        name=pod.name,
        namespace=pod.namespace,
        uid=pod.uid,
        resource_version=pod.pod.metadata.resource_version,
    )
