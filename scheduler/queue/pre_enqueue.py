"""Whether a pod may become active, asked of the PreEnqueue plugins.

Source: kubernetes pkg/scheduler/backend/queue/scheduling_queue.go runPreEnqueuePlugins v1.36.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.framework.status import SUCCESS, Status, error
from scheduler.framework.types import QueuedPodInfo
from scheduler.queue.recorder import QueueRecorder

PreEnqueueCheck: TypeAlias = Callable[[PodInfo], Status]
"""Success lets a pod become active; see `scheduler.framework.interface.PreEnqueuePlugin`."""


class Gates:
    """The PreEnqueue plugins of all profiles."""

    def __init__(
        self,
        profiles: Mapping[str, Mapping[str, PreEnqueueCheck]],
        recorder: QueueRecorder,
        now: Callable[[], float],
    ) -> None:
        self._checks = profiles
        self._recorder = recorder
        self._now = now

    def admit(self, queued: QueuedPodInfo) -> bool:
        """Whether all plugins let the pod pass; else the first that does not gates it.

        The plugin that gated the pod before is asked first, as it is the likeliest to do so again.
        """
        profile = queued.pod_info.shape.spec.scheduler_name
        start = self._now()
        status = self._ask(queued, self._checks.get(profile, {}))
        self._recorder.pre_enqueue_done(profile, status.code.upstream_name, self._now() - start)
        return status.is_success

    def _ask(self, queued: QueuedPodInfo, checks: Mapping[str, PreEnqueueCheck]) -> Status:
        """Success, or the first rejection."""
        gating = queued.gating_plugin
        if gating:
            check = checks.get(gating)
            if check is not None:
                status = self._ask_one(gating, check, queued)
                if not status.is_success:
                    return status
        for plugin, check in checks.items():
            if plugin != gating:
                status = self._ask_one(plugin, check, queued)
                if not status.is_success:
                    return status
        if gating:
            queued.gating_plugin = ""
            queued.last_failure = ""
        return SUCCESS

    def _ask_one(self, plugin: str, check: PreEnqueueCheck, queued: QueuedPodInfo) -> Status:
        pod = queued.pod_info
        try:
            status = check(pod)
        except Exception as raised:  # noqa: BLE001 - foreign code; one pod's problem only
            self._recorder.plugin_raised(plugin, "PreEnqueue", pod, raised)
            status = error(_message(plugin, raised))
        if status.is_success:
            return status
        if plugin not in queued.unschedulable_plugins:
            if plugin not in queued.pending_plugins:
                self._recorder.unschedulable_pods_changed(plugin, pod.spec.scheduler_name, 1)
            queued.unschedulable_plugins |= {plugin}
        queued.gating_plugin = plugin
        queued.last_failure = status.message
        return status


def _message(plugin: str, raised: Exception) -> str:
    if isinstance(raised, SchedulerError):
        return str(raised)
    return f'running PreEnqueue plugin "{plugin}": {type(raised).__name__}: {raised}'
