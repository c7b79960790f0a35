"""What the queue reports while it works; metrics and logs listen here."""

from typing import Protocol

from typing_extensions import override


class QueueRecorder(Protocol):
    """Receives what happens in the queue. Must be quick and must not call the queue."""

    def incoming_pod(self, queue: str, event: str) -> None:
        """A pod came to `active`, `backoff` or `unschedulable` because of an event.

        Source: metric queue_incoming_pods_total.
        """

    def unschedulable_pods_changed(self, plugin: str, profile: str, change: int) -> None:
        """One pod more (1) or less (-1) in the queue was rejected by the plugin.

        Source: metric unschedulable_pods.
        """


class NoRecorder(QueueRecorder):
    """Listens to nothing."""

    @override
    def incoming_pod(self, queue: str, event: str) -> None:
        pass

    @override
    def unschedulable_pods_changed(self, plugin: str, profile: str, change: int) -> None:
        pass
