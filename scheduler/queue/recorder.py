"""What the queue reports while it works; metrics and logs listen here."""

from typing import Protocol

from typing_extensions import override

from scheduler.api.pods import PodInfo


class QueueRecorder(Protocol):
    """Receives what happens in the queue. Must be quick and must not call the queue."""

    def pre_enqueue_done(self, profile: str, status: str, seconds: float) -> None:
        """The PreEnqueue plugins have let a pod pass (`Success`), or not.

        Source: metric framework_extension_point_duration_seconds.
        """

    def incoming_pod(self, queue: str, event: str) -> None:
        """A pod came to `active`, `backoff` or `unschedulable` because of an event.

        Source: metric queue_incoming_pods_total.
        """

    def unschedulable_pods_changed(self, plugin: str, profile: str, change: int) -> None:
        """One pod more (1) or less (-1) in the queue was rejected by the plugin.

        Source: metric unschedulable_pods.
        """

    def queueing_hint_executed(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A hint answered `Queue` or `QueueSkip`, or ended in `Error`.

        Source: metric queueing_hint_execution_duration_seconds.
        """

    def plugin_raised(
        self, plugin: str, extension_point: str, pod: PodInfo, error: Exception
    ) -> None:
        """A hint or PreEnqueue call raised; the queue goes on as if it had said Queue, or Error."""


class NoRecorder(QueueRecorder):
    """Listens to nothing."""

    @override
    def pre_enqueue_done(self, profile: str, status: str, seconds: float) -> None:
        pass

    @override
    def incoming_pod(self, queue: str, event: str) -> None:
        pass

    @override
    def unschedulable_pods_changed(self, plugin: str, profile: str, change: int) -> None:
        pass

    @override
    def queueing_hint_executed(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        pass

    @override
    def plugin_raised(
        self, plugin: str, extension_point: str, pod: PodInfo, error: Exception
    ) -> None:
        pass
