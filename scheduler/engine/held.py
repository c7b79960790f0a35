"""Pods that a Permit plugin holds.

Source: kubernetes pkg/scheduler/framework/runtime/waiting_pods_map.go v1.36.
"""

from collections.abc import Callable, Iterator, Mapping

from scheduler.api.pods import PodInfo
from scheduler.config.duration import format_duration
from scheduler.engine.events import Allowed, Event, Rejected


class WaitingPod:
    """A pod that has a node and waits for every pending plugin to allow it.

    Attributes:
        pod: the pod, assumed on its node.
        attempt: whose pod it is.
        since: when the waiting began.
        deadlines: when the patience of each plugin ends that has not allowed the pod yet.
    """

    __slots__ = ("_timeouts", "attempt", "deadlines", "pod", "since")

    def __init__(
        self, pod: PodInfo, attempt: int, timeouts: Mapping[str, float], now: float
    ) -> None:
        self.pod = pod
        self.attempt = attempt
        self.since = now
        self._timeouts = dict(timeouts)
        self.deadlines = {plugin: now + seconds for plugin, seconds in timeouts.items()}

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the pod yet."""
        return sorted(self.deadlines)

    @property
    def deadline(self) -> float:
        """When the first of them runs out of patience."""
        return min(self.deadlines.values())

    def timed_out(self, now: float) -> Rejected | None:
        """The rejection by the first plugin whose patience is at an end, if there is one."""
        plugin, deadline = min(self.deadlines.items(), key=lambda item: (item[1], item[0]))
        if deadline > now:
            return None
        waited = format_duration(self._timeouts[plugin])
        message = f"rejected due to timeout after waiting {waited} at plugin {plugin}"
        return Rejected(self.pod.uid, plugin, message)


class WaitingPods:
    """All pods held by Permit plugins, of all profiles, by UID; plugins see this.

    Args:
        post: where `allow` and `reject` go; the engine takes them up after the event at hand.
    """

    def __init__(self, post: Callable[[Event], None]) -> None:
        self._post = post
        self._pods: dict[str, WaitingPod] = {}

    def add(
        self, pod: PodInfo, attempt: int, timeouts: Mapping[str, float], now: float
    ) -> WaitingPod:
        """Hold a pod; time limits in seconds by plugin."""
        waiting = self._pods[pod.uid] = WaitingPod(pod, attempt, timeouts, now)
        return waiting

    def get(self, uid: str) -> WaitingPod | None:
        """A held pod."""
        return self._pods.get(uid)

    def allow(self, uid: str, plugin: str) -> bool:
        """Let a pod go as far as one plugin is concerned; says whether it is held."""
        is_held = uid in self._pods
        self._post(Allowed(uid, plugin))
        return is_held

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        """Turn a pod away; says whether it is held."""
        is_held = uid in self._pods
        self._post(Rejected(uid, plugin, message))
        return is_held

    def remove(self, uid: str) -> WaitingPod | None:
        """The pod is no longer held."""
        return self._pods.pop(uid, None)

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))
