"""What the engine measures; metrics and traces listen here."""

from collections.abc import Sequence
from typing import Protocol

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.framework.types import QueuedPodInfo


class EngineRecorder(Protocol):
    """Hears the outcome of attempts. Must be quick.

    Source: kubernetes pkg/scheduler/metrics/profile_metrics.go, metrics.go v1.36.
    """

    def algorithm_done(self, seconds: float) -> None:
        """The decision on one pod took this long."""

    def cycle_done(
        self, pod: PodInfo, start: float, end: float, steps: Sequence[tuple[float, str]]
    ) -> None:
        """A scheduling cycle has ended; `steps` is only good until this returns."""

    def attempt_failed(self, profile: str, result: str, seconds: float) -> None:
        """An attempt ended `unschedulable` or in `error`."""

    def pod_bound(self, profile: str, queued: QueuedPodInfo, seconds: float, now: float) -> None:
        """A pod is bound; `seconds` since its attempt began, `now` of the same clock."""

    def permit_waited(self, result: str, seconds: float) -> None:
        """A pod held by Permit was let go or rejected."""

    def preempted(self, victims: int) -> None:
        """So many pods have to go for one."""

    def evictions_done(self, result: str, seconds: float) -> None:
        """The evictions for one pod ended in `success` or `error`."""

    def event_handled(self, event: str, seconds: float) -> None:
        """A change in the cluster was taken over, by its label."""

    def extender_left_alone(self, name: str) -> None:
        """An extender that can be ignored was late too often: it is not asked for a while."""


class NoRecorder(EngineRecorder):
    """Listens to nothing."""

    @override
    def algorithm_done(self, seconds: float) -> None:
        pass

    @override
    def cycle_done(
        self, pod: PodInfo, start: float, end: float, steps: Sequence[tuple[float, str]]
    ) -> None:
        pass

    @override
    def attempt_failed(self, profile: str, result: str, seconds: float) -> None:
        pass

    @override
    def pod_bound(self, profile: str, queued: QueuedPodInfo, seconds: float, now: float) -> None:
        pass

    @override
    def permit_waited(self, result: str, seconds: float) -> None:
        pass

    @override
    def preempted(self, victims: int) -> None:
        pass

    @override
    def evictions_done(self, result: str, seconds: float) -> None:
        pass

    @override
    def event_handled(self, event: str, seconds: float) -> None:
        pass

    @override
    def extender_left_alone(self, name: str) -> None:
        pass
