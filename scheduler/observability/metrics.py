"""Declares all metrics of the scheduler.

Names, labels and buckets are kube-scheduler's, so that its dashboards and alerts work; help texts
are not. Metrics without a counterpart in kube-scheduler begin with `stowage_`.

Source: pkg/scheduler/metrics metrics.go; k8s.io/component-base/metrics/prometheus/clientgo,
restclient (1.36.3). Differs: metrics of parts that do not exist here are absent (the
asynchronous API dispatcher, volume binder cache).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry

from scheduler.observability.build_info import declare_build_info, declare_process_metrics
from scheduler.observability.client_metrics import (
    ClientMetrics,
    InformerMetrics,
    ReviewMetrics,
)
from scheduler.observability.device_metrics import DeviceMetrics
from scheduler.observability.engine_metrics import EngineMetrics
from scheduler.observability.extender_metrics import ExtenderMetrics
from scheduler.observability.feature_gates import declare_feature_gates
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments
from scheduler.observability.loop_shares import LoopMetrics
from scheduler.observability.memory_limit import declare_memory_limit
from scheduler.observability.queue_metrics import QueueMetrics
from scheduler.observability.volume_metrics import VolumeMetrics
from scheduler.observability.work_queues import WorkQueueMetrics

_EVALUATED_AT: Final = frozenset(("PreFilter", "Filter", "PreScore", "Score"))
"""The extension points of plugin_evaluation_total."""


class SchedulerMetrics:
    """The scheduler's metrics on one registry.

    Each attribute is a family, or a package's struct of families; index a family with label values
    in the order of its declaration: `metrics.goroutines["binding"].inc()`. The attribute of a
    family without labels is its only child.
    """

    def __init__(self, registry: CollectorRegistry, feature_gates: Collection[str] = ()) -> None:
        """Declare all metrics; `feature_gates` are those that a user turned on."""
        self.registry = registry
        self.instruments = Instruments(registry)
        declare_build_info(self.instruments)
        declare_feature_gates(self.instruments, feature_gates)
        declare_process_metrics(registry)
        declare_memory_limit(self.instruments)
        self.engine = EngineMetrics(self.instruments)
        self.queue = QueueMetrics(self.instruments)
        self.framework = FrameworkMetrics(self.instruments)
        self.client = ClientMetrics(self.instruments)
        self.loop = LoopMetrics(self.instruments)
        self.work_queues = WorkQueueMetrics(self.instruments)
        self.reviews = ReviewMetrics(self.instruments)
        self.informers = InformerMetrics(self.instruments)
        self.extenders = ExtenderMetrics(self.instruments)
        VolumeMetrics(self.instruments)
        DeviceMetrics(self.instruments)
        self._declare_shared()
        self._declare_own()

    def declare_plugins(self, profile: str, plugins: Mapping[str, Iterable[str]]) -> None:
        """Set the counters of every plugin of a profile to zero, so that rates show a first error.

        `plugins` are names by extension point, such as `PreFilter`.
        """
        for point, names in plugins.items():
            for name in names:
                self.framework.plugin_errors[name, point].inc(0)
                if point in _EVALUATED_AT:
                    self.framework.plugin_evaluation[name, point, profile].inc(0)

    def _declare_shared(self) -> None:
        add = self.instruments
        self.goroutines = add.gauge(
            "scheduler_goroutines", "Work that goes on beside the scheduling loop.", "operation"
        )
        self.cache_size = add.gauge(
            "scheduler_cache_size",
            "Nodes, pods, and assumed pods (chosen, not yet confirmed) in the cache.",
            "type",
        )
        self.leader_election_master_status = add.gauge(
            "leader_election_master_status",
            "1 while this instance leads, 0 while it stands by.",
            "name",
        )

    def _declare_own(self) -> None:
        add = self.instruments
        self.binds_in_flight = add.gauge("stowage_binds_in_flight", "Bindings under way.")
        self.tasks = add.gauge("stowage_tasks", "Tasks of the event loop.")
        self.events_dropped = add.counter(
            "stowage_events_dropped_total",
            "Events that were not sent: queue_full, refused or unreachable.",
            "reason",
        )
        self.decisions_lost = add.counter(
            "stowage_decisions_lost_total",
            "Rows of --decisions that were dropped because the writer fell behind.",
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
        self.class_cache_requests = add.counter(
            "stowage_class_cache_requests_total",
            "Pods whose equivalence class was known (hit) or not (miss).",
            "result",
        )
        self.class_cache_bytes = add.gauge(
            "stowage_class_cache_bytes", "Memory used by results kept per equivalence class."
        )
