"""What queue, cycle and framework report, written into metrics.

The classes fit the Protocols of those rooms (`QueueRecorder`, `CycleRecorder`, `PluginObserver`)
by shape: this room is below theirs and must not import them.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from scheduler.observability.logs import get_logger
from scheduler.observability.metrics import SchedulerMetrics
from scheduler.observability.tracing import CycleTrace, CycleTracer

_log = get_logger(__name__)

_ATTEMPTS_SHOWN: Final = 15
"""Source: pkg/scheduler/schedule_one.go getAttemptsLabel."""


class Attempted(Protocol):
    """What is read of a pod that was in the queue."""

    attempts: int
    initial_attempt_timestamp: float | None
    was_flushed: bool


class Named(Protocol):
    """What is read of a pod."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        ...


class CycleMetrics:
    """Counts how attempts end, and tells of slow cycles."""

    def __init__(self, metrics: SchedulerMetrics, tracer: CycleTracer | None = None) -> None:
        self._metrics = metrics
        self._tracer = tracer or CycleTracer(_log)

    def algorithm_done(self, seconds: float) -> None:
        """The decision on one pod took this long."""
        self._metrics.scheduling_algorithm_duration.observe(seconds)

    def cycle_done(
        self, pod: Named, start: float, end: float, steps: Sequence[tuple[float, str]]
    ) -> None:
        """A scheduling cycle has ended."""
        if self._tracer.wants(end - start):
            self._tracer.ended(CycleTrace("Scheduling", pod.key, start, end, tuple(steps)))

    def attempt_failed(self, profile: str, result: str, seconds: float) -> None:
        """An attempt ended `unschedulable` or in `error`."""
        self._attempt_ended(result, profile, seconds)

    def pod_bound(self, profile: str, queued: Attempted, seconds: float, now: float) -> None:
        """A pod is bound; `seconds` since its attempt began, `now` of the same clock."""
        metrics = self._metrics
        self._attempt_ended("scheduled", profile, seconds)
        metrics.pod_scheduling_attempts.observe(queued.attempts)
        began = queued.initial_attempt_timestamp
        if began is not None:
            metrics.pod_scheduling_sli_duration[_attempts(queued.attempts)].observe(now - began)
        if queued.was_flushed:
            metrics.pod_scheduled_after_flush.inc()

    def preempted(self, victims: int) -> None:
        """So many pods have to go for one."""
        self._metrics.preemption_victims.observe(victims)

    def evictions_done(self, result: str, seconds: float) -> None:
        """The evictions for one pod ended in `success` or `error`."""
        self._metrics.preemption_goroutines_execution[result].inc()
        self._metrics.preemption_goroutines_duration[result].observe(seconds)

    def event_handled(self, event: str, seconds: float) -> None:
        """A change in the cluster was taken over, by its label."""
        self._metrics.event_handling_duration[event].observe(seconds)

    def permit_waited(self, result: str, seconds: float) -> None:
        """A pod held by Permit was let go or rejected."""
        self._metrics.permit_wait_duration[result].observe(seconds)

    def _attempt_ended(self, result: str, profile: str, seconds: float) -> None:
        self._metrics.schedule_attempts[result, profile].inc()
        self._metrics.scheduling_attempt_duration[result, profile].observe(seconds)


class QueueMetrics:
    """Counts what comes into the queue and why."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics

    def incoming_pod(self, queue: str, event: str) -> None:
        """A pod came to `active`, `backoff` or `unschedulable` because of an event."""
        self._metrics.queue_incoming_pods[queue, event].inc()

    def unschedulable_pods_changed(self, plugin: str, profile: str, change: int) -> None:
        """One pod more (1) or less (-1) in the queue was rejected by the plugin."""
        self._metrics.unschedulable_pods[plugin, profile].inc(change)


class RequestMetrics:
    """Counts and times requests to the API server."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics

    def request_done(
        self,
        method: str,
        host: str,
        code: str,
        seconds: float,
        sent_bytes: int,
        received_bytes: int | None,
    ) -> None:
        """A request was answered; the code is `<error>` when it was not."""
        metrics = self._metrics
        metrics.rest_client_requests[code, method, host].inc()
        metrics.rest_client_request_duration[method, host].observe(seconds)
        metrics.rest_client_request_size[method, host].observe(sent_bytes)
        if received_bytes is not None:
            metrics.rest_client_response_size[method, host].observe(received_bytes)

    def throttled(self, method: str, host: str, seconds: float) -> None:
        """A request has waited for its turn."""
        self._metrics.rest_client_rate_limiter_duration[method, host].observe(seconds)

    def review_done(self, about: str, code: str, seconds: float) -> None:
        """The API server was asked about a caller; the code is `<error>` when it did not answer."""
        requests, duration = self._metrics.delegated[about]
        requests[code].inc()
        duration[code].observe(seconds)


def _attempts(attempts: int) -> str:
    return str(attempts) if attempts < _ATTEMPTS_SHOWN else f"{_ATTEMPTS_SHOWN}+"
