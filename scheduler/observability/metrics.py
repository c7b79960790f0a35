"""Every metric of the scheduler, declared once.

Names, labels and buckets are kube-scheduler's, so that its dashboards and alerts work; texts are
ours. What kube-scheduler has no word for begins with `stowage_`.

Source: pkg/scheduler/metrics metrics.go; k8s.io/component-base/metrics/prometheus/clientgo,
restclient (1.36.3). Differs: metrics of parts that do not exist here are absent (opportunistic
batching, the asynchronous API dispatcher, pod groups, devices, volume binder cache).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry

from scheduler.observability.build_info import declare_build_info, declare_process_metrics
from scheduler.observability.feature_gates import declare_feature_gates
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import (
    EMPTY,
    Counter,
    Family,
    Histogram,
    Instruments,
    exponential,
)
from scheduler.observability.volume_metrics import VolumeMetrics

_EVALUATED_AT: Final = frozenset(("PreFilter", "Filter", "PreScore", "Score"))
"""The extension points plugin_evaluation_total counts."""

_REST_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_REVIEW_SECONDS: Final = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
_REST_BYTES: Final = tuple(float(size) for size in (64, 256, 512, *(4**k for k in range(5, 13))))

Sizes = Callable[[], Mapping[str, float]]
"""Gives numbers by label value when metrics are scraped; must be quick."""


class SchedulerMetrics:
    """The scheduler's metrics on one registry.

    Each attribute is a family; index it with label values in the order of its declaration:
    `metrics.schedule_attempts["scheduled", profile].inc()`. Keep the child where it is written
    often. Families without labels are bound to their only child.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.instruments = Instruments(registry)
        declare_build_info(self.instruments)
        declare_feature_gates(self.instruments)
        declare_process_metrics(registry)
        self._declare_attempts()
        self._declare_queue()
        self.framework = FrameworkMetrics(self.instruments)
        VolumeMetrics(self.instruments)
        self._declare_preemption()
        self._declare_client()
        self._declare_own()

    def reset(self) -> None:
        """Set everything that accumulates to zero, as DELETE /metrics does."""
        self.instruments.reset()

    def watch_queue(self, pending: Sizes, in_flight_events: Sizes) -> None:
        """Take queue lengths at each scrape.

        Args:
            pending: pods by queue: active, backoff, unschedulable, gated.
            in_flight_events: events kept for pods in flight, by label.
        """
        self.pending_pods.from_source(pending)
        self.inflight_events.from_source(in_flight_events)

    def watch_cache(self, sizes: Sizes) -> None:
        """Take what the cache holds at each scrape: nodes, pods, assumed_pods."""
        self.cache_size.from_source(sizes)

    def watch_binds(self, in_flight: Callable[[], int]) -> None:
        """Take the number of bindings under way at each scrape."""
        self.goroutines.from_source(lambda: {"binding": in_flight()})
        self.binds_in_flight.from_source(lambda: {EMPTY: in_flight()})

    def watch_class_cache(self, requests: Sizes, size_bytes: Callable[[], int]) -> None:
        """Take hits and misses, and the size in bytes, of the equivalence classes."""
        self.class_cache_requests.from_source(requests)
        self.class_cache_bytes.from_source(lambda: {EMPTY: size_bytes()})

    def declare_plugins(self, profile: str, plugins: Mapping[str, Iterable[str]]) -> None:
        """Begin counting at zero for every plugin of a profile, so that a first error shows.

        Args:
            profile: its name.
            plugins: plugin names by extension point, as in `PreFilter`.
        """
        for point, names in plugins.items():
            for name in names:
                self.framework.plugin_errors[name, point].inc(0)
                if point in _EVALUATED_AT:
                    self.framework.plugin_evaluation[name, point, profile].inc(0)

    def declare_kinds(self, kinds: Iterable[str], reasons: Iterable[str]) -> None:
        """Begin counting at zero for every kind of object that is watched.

        Args:
            kinds: their names, as in `pods`.
            reasons: why a watch may have to be started again.
        """
        every = tuple(reasons)
        for kind in kinds:
            self.malformed_objects[kind].inc(0)
            for reason in every:
                self.watch_restarts[kind, reason].inc(0)

    def _declare_attempts(self) -> None:
        add = self.instruments
        self.schedule_attempts = add.counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule a pod by how they ended: scheduled, unschedulable (no node "
            "fits) or error (something went wrong).",
            "result",
            "profile",
        )
        self.scheduling_attempt_duration = add.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of an attempt from taking the pod off the queue to its binding or rejection.",
            "result",
            "profile",
            bounds=exponential(0.001, 2, 15),
        )
        self.scheduling_algorithm_duration = add.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time to choose a node, without binding.",
            bounds=exponential(0.001, 2, 15),
        )[()]
        self.pod_scheduling_sli_duration = add.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from when a pod was first ready to be scheduled until it was bound, over all "
            "its attempts.",
            "attempts",
            bounds=exponential(0.01, 2, 20),
        )
        self.pod_scheduling_attempts = add.histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts it took to schedule a pod.",
            bounds=exponential(1, 2, 5),
        )[()]
        self.pod_scheduled_after_flush = add.counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods that were scheduled only because they had waited for too long without being "
            "woken; points to a queueing hint that misses an event.",
        )[()]
        self.goroutines = add.gauge(
            "scheduler_goroutines", "Work that goes on beside the scheduling loop.", "operation"
        )

    def _declare_queue(self) -> None:
        add = self.instruments
        self.pending_pods = add.gauge(
            "scheduler_pending_pods",
            "Waiting pods: active (to be tried next), backoff (tried, resting), unschedulable "
            "(tried, waiting for a change), gated (held back by a PreEnqueue plugin).",
            "queue",
        )
        self.inflight_events = add.gauge(
            "scheduler_inflight_events",
            "Events kept for pods that are being scheduled.",
            "event",
        )
        self.queue_incoming_pods = add.counter(
            "scheduler_queue_incoming_pods_total",
            "Pods that came into a queue, by what brought them there.",
            "queue",
            "event",
        )
        self.unschedulable_pods = add.gauge(
            "scheduler_unschedulable_pods",
            "Waiting pods that a plugin rejected; a pod counts for each plugin that did.",
            "plugin",
            "profile",
        )
        self.event_handling_duration = add.histogram(
            "scheduler_event_handling_duration_seconds",
            "Time to take a change of the cluster over into cache and queue.",
            "event",
            bounds=exponential(0.0001, 2, 12),
        )
        self.cache_size = add.gauge(
            "scheduler_cache_size",
            "Nodes, pods, and assumed pods (chosen, not yet confirmed) in the cache.",
            "type",
        )

        self.permit_wait_duration = add.histogram(
            "scheduler_permit_wait_duration_seconds",
            "Time a pod was held by a Permit plugin.",
            "result",
            bounds=exponential(0.001, 2, 15),
        )

    def _declare_preemption(self) -> None:
        add = self.instruments
        self.preemption_attempts = add.counter(
            "scheduler_preemption_attempts_total",
            "Attempts to make room for a pod by evicting others.",
        )[()]
        self.preemption_victims = add.histogram(
            "scheduler_preemption_victims",
            "Pods chosen to be evicted for one pod.",
            bounds=exponential(1, 2, 7),
        )[()]
        self.preemption_goroutines_duration = add.histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Time to evict the victims of one pod.",
            "result",
            bounds=exponential(0.01, 2, 20),
        )
        self.preemption_goroutines_execution = add.counter(
            "scheduler_preemption_goroutines_execution_total",
            "Evictions of the victims of one pod, by how they ended.",
            "result",
        )

    def _declare_client(self) -> None:
        add = self.instruments
        self.leader_election_master_status = add.gauge(
            "leader_election_master_status",
            "1 while this instance leads, 0 while it stands by.",
            "name",
        )
        self.rest_client_requests = add.counter(
            "rest_client_requests_total",
            "Requests to the API server by status code, method and host.",
            "code",
            "method",
            "host",
        )
        self.rest_client_request_duration = add.histogram(
            "rest_client_request_duration_seconds",
            "Time of a request to the API server until its answer.",
            "verb",
            "host",
            bounds=_REST_SECONDS,
        )
        self.rest_client_rate_limiter_duration = add.histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Time a request waited because clientConnection.qps limits them.",
            "verb",
            "host",
            bounds=_REST_SECONDS,
        )
        self.delegated = {about: _delegated(add, about) for about in ("authn", "authz")}
        self.rest_client_request_size = add.histogram(
            "rest_client_request_size_bytes",
            "Size of the bodies sent to the API server.",
            "verb",
            "host",
            bounds=_REST_BYTES,
        )
        self.rest_client_response_size = add.histogram(
            "rest_client_response_size_bytes",
            "Size of the bodies that came back, watches left out.",
            "verb",
            "host",
            bounds=_REST_BYTES,
        )

    def _declare_own(self) -> None:
        add = self.instruments
        self.loop_stall = add.histogram(
            "stowage_loop_stall_seconds",
            "How much later than asked for the event loop ran a timer.",
            bounds=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
        )[()]
        self.watch_restarts = add.counter(
            "stowage_watch_restarts_total",
            "Watches that had to be started again, by kind of object and reason.",
            "kind",
            "reason",
        )
        self.binds_in_flight = add.gauge("stowage_binds_in_flight", "Bindings under way.")
        self.events_dropped = add.counter(
            "stowage_events_dropped_total",
            "Events that were not sent because too many were waiting.",
        )[()]
        self.config_reload_success = add.gauge(
            "stowage_config_reload_success",
            "1 when the file of --config is in force as it was read last, 0 when that was refused.",
        )[()]
        self.config_reload_seconds = add.gauge(
            "stowage_config_reload_seconds",
            "When the configuration in force was found good last, in seconds since 1970.",
        )[()]
        self.config_info = add.gauge(
            "stowage_config_info",
            "Always 1; the label is the checksum of the file that is in force, as of sha256sum.",
            "sha256",
        )
        self.malformed_objects = add.counter(
            "stowage_malformed_objects_total",
            "Objects that could not be read and were left out, by kind.",
            "kind",
        )
        self.class_cache_requests = add.counter(
            "stowage_class_cache_requests_total",
            "Pods whose equivalence class was known (hit) or not (miss).",
            "result",
        )
        self.class_cache_bytes = add.gauge(
            "stowage_class_cache_bytes", "Memory used by results kept per equivalence class."
        )


def _delegated(add: Instruments, about: str) -> tuple[Family[Counter], Family[Histogram]]:
    """Reviews of callers by status code: how many, and how long each took.

    Source: k8s.io/apiserver pkg/authentication/authenticatorfactory, pkg/authorization/
    authorizerfactory metrics.go v0.36.
    """
    return (
        add.counter(
            f"apiserver_delegated_{about}_request_total",
            "Reviews of callers that the API server was asked for.",
            "code",
        ),
        add.histogram(
            f"apiserver_delegated_{about}_request_duration_seconds",
            "Time of a review of a caller.",
            "code",
            bounds=_REVIEW_SECONDS,
        ),
    )
