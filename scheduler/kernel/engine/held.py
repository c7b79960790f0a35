"""Pods that a Permit plugin holds.

Source: kubernetes pkg/scheduler/framework/runtime/waiting_pods_map.go v1.36.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.config.duration import format_duration
from scheduler.errors import encodable
from scheduler.kernel.engine.events import Allowed, Event, Rejected
from scheduler.kernel.framework.types import Failure


class WaitingPod(msgspec.Struct):
    """A pod that has a node and waits for every pending plugin to allow it.

    Attributes:
        pod: the pod, assumed on its node.
        attempt: the number of the pod's attempt.
        since: the start of the wait.
        timeouts: the seconds that each plugin asked to wait.
        deadlines: the end of the timeout of each plugin that has not allowed the pod yet.
        rejection: the rejection, or the failure, of a pod that is no longer held; None when it is
            to be bound.
    """

    pod: PodInfo
    attempt: int
    since: float
    timeouts: Mapping[str, float]
    deadlines: dict[str, float]
    rejection: Rejected | Failure | None = None

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the pod yet."""
        return sorted(self.deadlines)

    @property
    def deadline(self) -> float:
        """The end of the first of the plugins' timeouts."""
        return min(self.deadlines.values())

    def timed_out(self, now: float) -> Rejected | None:
        """The rejection by the first plugin that has timed out, if any."""
        plugin, deadline = min(self.deadlines.items(), key=lambda item: (item[1], item[0]))
        if deadline > now:
            return None
        waited = format_duration(self.timeouts[plugin])
        message = f"rejected due to timeout after waiting {waited} at plugin {plugin}"
        return Rejected(self.pod.uid, plugin, message)


class WaitingPods:
    """All pods held by Permit plugins, of all profiles, by UID; plugins see this.

    A pod is *settled*, and no longer held, when all plugins allowed it or one rejected it. The
    engine continues settled pods a few at a time, so that a large group takes no long step. A later
    `allow` or `reject` of a settled pod has no effect.

    Attributes:
        settled: the settled pods, by UID, in the order in which they were settled.
        deciding: UID of the pod in its scheduling cycle, which Permit may hold afterwards.

    Args:
        post: takes `allow` and `reject` as events; the engine handles them after the current event.
    """

    def __init__(self, post: Callable[[Event], None]) -> None:
        self._post = post
        self._pods: dict[str, WaitingPod] = {}
        self.settled: dict[str, WaitingPod] = {}
        self.deciding = ""

    def add(
        self, pod: PodInfo, attempt: int, timeouts: Mapping[str, float], now: float
    ) -> WaitingPod:
        """Hold a pod; timeouts in seconds by plugin."""
        deadlines = {plugin: now + seconds for plugin, seconds in timeouts.items()}
        self._pods[pod.uid] = waiting = WaitingPod(pod, attempt, now, timeouts, deadlines)
        return waiting

    def get(self, uid: str) -> WaitingPod | None:
        """The held pod with this UID, or None."""
        return self._pods.get(uid)

    def allow(self, uid: str, plugin: str) -> bool:
        """Allow a pod on behalf of one plugin; returns whether the pod is held."""
        return self._say(uid, Allowed(uid, plugin))

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        """Reject a pod; returns whether the pod is held."""
        return self._say(uid, Rejected(uid, plugin, encodable(message)))

    def _say(self, uid: str, event: Allowed | Rejected) -> bool:
        is_held = uid in self._pods
        if is_held or uid == self.deciding:
            self._post(event)
        return is_held

    def allowed(self, uid: str, plugin: str) -> None:
        """Record that a plugin has allowed a held pod; settle it after the last plugin."""
        waiting = self._pods.get(uid)
        if waiting is not None:
            waiting.deadlines.pop(plugin, None)
            if not waiting.deadlines:
                self.settle(uid)

    def settle(self, uid: str, rejection: Rejected | None = None) -> None:
        """Settle a held pod, for the engine to continue; do nothing if the pod is not held."""
        waiting = self._pods.pop(uid, None)
        if waiting is not None:
            waiting.rejection = rejection
            self.settled[uid] = waiting

    def fail_all(self, failure: Failure) -> None:
        """Settle all held pods with a failure, and give it to all pods settled before."""
        for uid in list(self._pods):
            self.settle(uid)
        for waiting in self.settled.values():
            waiting.rejection = failure

    def remove(self, uid: str) -> WaitingPod | None:
        """Forget a held or settled pod."""
        return self.settled.pop(uid, None) or self._pods.pop(uid, None)

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))
