"""Pods that a Permit plugin holds.

Source: kubernetes pkg/scheduler/framework/runtime/waiting_pods_map.go v1.36.
"""

import asyncio
from collections.abc import Iterator, Mapping

from scheduler.api.pods import PodInfo
from scheduler.config.duration import format_duration
from scheduler.framework.status import SUCCESS, Status, unschedulable


class WaitingPod:
    """A pod that has a node and waits for every pending plugin to allow it.

    Attributes:
        pod: the pod, assumed on its node.
    """

    def __init__(self, pod: PodInfo, timeouts: Mapping[str, float]) -> None:
        self.pod = pod
        self._pending = dict(timeouts)
        self._decided: asyncio.Future[Status] | None = None
        self._early: Status | None = None

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the pod yet."""
        return sorted(self._pending)

    def allow(self, plugin: str) -> None:
        """One plugin lets the pod go; the last one sets it free."""
        self._pending.pop(plugin, None)
        if not self._pending:
            self._decide(SUCCESS)

    def reject(self, plugin: str, message: str) -> None:
        """The pod may not be bound."""
        self._decide(unschedulable(message).by(plugin))

    async def decision(self) -> Status:
        """Waits until the pod is allowed, rejected, or the shortest time limit has passed."""
        if self._early is not None:
            return self._early
        loop = asyncio.get_running_loop()
        self._decided = loop.create_future()
        timers = [
            loop.call_later(seconds, self._time_out, plugin, seconds)
            for plugin, seconds in self._pending.items()
        ]
        try:
            return await self._decided
        finally:
            for timer in timers:
                timer.cancel()

    def _time_out(self, plugin: str, seconds: float) -> None:
        if plugin in self._pending:
            waited = format_duration(seconds)
            message = f"rejected due to timeout after waiting {waited} at plugin {plugin}"
            self.reject(plugin, message)

    def _decide(self, status: Status) -> None:
        if self._early is None:
            self._early = status
        if self._decided is not None and not self._decided.done():
            self._decided.set_result(self._early)


class WaitingPods:
    """All pods held by Permit plugins, of all profiles."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, pod: PodInfo, timeouts: Mapping[str, float]) -> WaitingPod:
        """Hold a pod; time limits in seconds by plugin."""
        waiting = self._pods[pod.uid] = WaitingPod(pod, timeouts)
        return waiting

    def get(self, uid: str) -> WaitingPod | None:
        """A held pod."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """The pod is no longer held."""
        self._pods.pop(uid, None)

    def allow(self, uid: str, plugin: str) -> bool:
        """Let a pod go if it is held; says whether it was."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return False
        waiting.allow(plugin)
        return True

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        """Reject a pod if it is held; says whether it was."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return False
        waiting.reject(plugin, message)
        return True

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))
