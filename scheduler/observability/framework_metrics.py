"""Metrics of the framework; the pattern for the metrics of every package.

A package gets the struct of its families and writes into them: `metrics.plugin_errors[plugin,
point].inc()`. Without a registry (`FrameworkMetrics(Instruments())`) the values are counted and
not served, so no package checks whether metrics are enabled.
"""

from scheduler.observability.instruments import Instruments, exponential


class FrameworkMetrics:
    """The families of the framework; indexed by label values in the order of declaration."""

    def __init__(self, add: Instruments) -> None:
        self.extension_point_duration = add.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Time of all plugins of an extension point for one pod.",
            "extension_point",
            "status",
            "profile",
            bounds=exponential(0.0001, 2, 12),
        )
        self.plugin_execution_duration = add.histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Time of one plugin at an extension point, for a sample of the pods.",
            "plugin",
            "extension_point",
            "status",
            bounds=exponential(0.00001, 1.5, 20),
        )
        self.plugin_evaluation = add.counter(
            "scheduler_plugin_evaluation_total",
            "How often a plugin took part at PreFilter, Filter, PreScore or Score.",
            "plugin",
            "extension_point",
            "profile",
        )
        self.queueing_hint_execution_duration = add.histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Time of a plugin to say whether an event helps a pod.",
            "plugin",
            "event",
            "hint",
            bounds=exponential(0.00001, 1.5, 20),
        )
        self.plugin_errors = add.counter(
            "stowage_plugin_errors_total",
            "Calls of a plugin that raised, or answered what is not allowed.",
            "plugin",
            "extension_point",
        )
