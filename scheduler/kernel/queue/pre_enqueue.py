"""Whether a pod may become active: what the PreEnqueue plugins say, and what is noted of it."""

from collections.abc import Mapping

from scheduler.kernel.framework.status import Code
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.settings import QueueProfile
from scheduler.observability.queue_metrics import QueueMetrics


class Gates:
    """The PreEnqueue plugins of all profiles."""

    def __init__(self, profiles: Mapping[str, QueueProfile], metrics: QueueMetrics) -> None:
        self._profiles = profiles
        self._metrics = metrics

    def admit(self, queued: QueuedPodInfo) -> bool:
        """Whether all plugins let the pod pass; else the first that does not gates it.

        The plugin that gated the pod before is asked first, as it is the likeliest to do so again.
        """
        pod = queued.pod_info
        name = pod.spec.scheduler_name
        profile = self._profiles.get(name)
        if profile is None:
            return True
        gating = queued.gating_plugin
        status = profile.pre_enqueue(pod, gating)
        queued.gate_failed = status.code is Code.ERROR
        if status.is_success:
            if gating:
                queued.gating_plugin = ""
                queued.last_failure = ""
            return True
        plugin = status.plugin
        if plugin not in queued.unschedulable_plugins:
            if plugin not in queued.pending_plugins:
                self._metrics.unschedulable_pods[plugin, name].inc()
            queued.unschedulable_plugins |= {plugin}
        queued.gating_plugin = plugin
        queued.last_failure = status.message
        return False
