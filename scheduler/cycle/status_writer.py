"""The port through which cycles tell the API server, and people, what came of an attempt."""

from typing import Protocol

from scheduler.api.pods import PodInfo


class StatusWriter(Protocol):
    """Tells the API server, and people, later; never blocks."""

    def pod_failed(
        self, pod: PodInfo, reason: str, message: str, nominated_node_name: str | None
    ) -> None:
        """Write the PodScheduled condition; a node name nominates, "" withdraws, None keeps."""
        ...

    def failed_scheduling(self, pod: PodInfo, note: str) -> None:
        """Emit the FailedScheduling event."""
        ...

    def scheduled(self, pod: PodInfo) -> None:
        """Emit the Scheduled event."""
        ...
