"""Read access to the pods of the queue; nothing here moves a pod to another place."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from scheduler.api.pods import PodInfo, PodKind
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.queue.backoff import backoff_end
from scheduler.kernel.queue.moves import QueuePlaces
from scheduler.kernel.queue.values import (
    ACTIVE,
    BACKOFF,
    GATED,
    IN_FLIGHT,
    UNSCHEDULABLE,
    QueueCounts,
    QueuePosition,
)


class QueueInvariantError(SchedulerError):
    """An invariant of the queue does not hold; a programming error."""


class QueuedPods(QueuePlaces):
    """The pods by place; `SchedulingQueue` moves them."""

    def get(self, uid: str) -> PodInfo | None:
        """The newest version of a pod that waits or is in flight, or None."""
        queued = self._known.get(uid)
        if queued is None or (self._readmission and self._is_forgotten(uid, queued)):
            return None
        return self.in_flight.changed.get(uid, queued.pod_info)

    def equal_to(self, kind: PodKind, uid: str) -> str:
        """UID of a waiting pod of a kind: this one, or else a rejected one; empty for none."""
        known = self.get(uid)
        if known is not None and known.kind is kind:
            return uid
        return self._unschedulable.any_of(kind)

    def _is_forgotten(self, uid: str, queued: QueuedPodInfo) -> bool:
        """Whether a pod waits for readmission, and its profile is gone."""
        is_gone = queued.pod_info.spec.scheduler_name not in self._hints.profiles
        return is_gone and uid in self._readmission

    def _to_readmit(self) -> Iterator[QueuedPodInfo]:
        """The pods that wait for readmission."""
        return (queued for queued, _ in self._readmission.values())

    def place_of(self, uid: str) -> QueuePosition | None:
        """The position of a pod; None for one that is not in this queue."""
        queued = self._known.get(uid)
        if queued is None or self._is_forgotten(uid, queued):
            return None
        if uid in self._active:
            return QueuePosition(ACTIVE, queued)
        if uid in self.in_flight:
            return QueuePosition(IN_FLIGHT, queued)
        if uid not in self._unschedulable:
            return QueuePosition(BACKOFF, queued, backoff_end(queued))
        if queued.is_gated:
            return QueuePosition(GATED, queued)
        return QueuePosition(UNSCHEDULABLE, queued, self._unschedulable.deadlines.of(uid))

    def registered_events(self, pod: PodInfo, plugin: str) -> tuple[str, ...]:
        """The labels of the events that a plugin of the pod's profile registered for."""
        registered = self._hints.events.get(pod.spec.scheduler_name, {}).get(plugin, ())
        return tuple(dict.fromkeys(each.event.label for each in registered))

    def backing_off(
        self, popped: QueuedPodInfo, uids: Iterable[str], *, may_help: bool
    ) -> dict[str, float]:
        """The rejected pods that are not to be tried yet, each with the end of its backoff.

        If the popped pod may help the others, or came early, these are only those that wait theirs
        out.
        """
        found = dict[str, float]()
        may_come_early = may_help or self._backoff.is_backing_off(popped)
        for uid in uids:
            queued = self._known.get(uid)
            if queued is None or (may_come_early and not queued.waits_out):
                continue
            is_waiting = uid in self._backoff or uid in self._unschedulable
            if is_waiting and not queued.is_gated and self._backoff.is_backing_off(queued):
                found[uid] = queued.backoff_expiration
        return found

    @property
    def has_ready(self) -> bool:
        """Whether `pop` has a pod to return, or pods to move."""
        return bool(
            len(self._active)
            or len(self._backoff.early)
            or self._waking.has_more
            or self._is_flushing
            or self._readmission
        )

    def counts(self) -> QueueCounts:
        """Number of pods in each place; pods that wait for readmission count as in backoff."""
        gated = self._unschedulable.gated_count
        return QueueCounts(
            active=len(self._active),
            backoff=len(self._backoff) + len(self._readmission),
            unschedulable=len(self._unschedulable) - gated,
            gated=gated,
            in_flight=len(self.in_flight),
        )

    def pending_pods(self) -> list[PodInfo]:
        """All pods that wait."""
        waiting = chain(self._active, self._backoff, self._unschedulable, self._to_readmit())
        return [queued.pod_info for queued in waiting]

    def dump(self) -> list[dict[str, object]]:
        """All pods with the history of their attempts, as plain values for people."""
        return list(self.rows())

    def rows(self) -> Iterator[dict[str, object]]:
        """The rows of `dump`, made one by one as they are read; active pods in order."""
        now, waiting = self._clock.now, list(self._unschedulable)
        places = {
            IN_FLIGHT: list(self.in_flight),
            ACTIVE: self._active.in_order(),
            BACKOFF: [*self._backoff.in_order(), *self._to_readmit()],
            UNSCHEDULABLE: [queued for queued in waiting if not queued.is_gated],
            GATED: [queued for queued in waiting if queued.is_gated],
        }
        return (_row_of(place, queued, now) for place, pods in places.items() for queued in pods)

    def validate(self) -> None:
        """Check every invariant.

        Raises:
            QueueInvariantError: one does not hold.

        Cost: O(pods).
        """
        places = (
            self._active,
            self._backoff,
            self._unschedulable,
            self.in_flight,
        )
        pods = [*chain(*places, self._to_readmit())]
        counts = Counter(queued.pod_info.uid for queued in pods)
        problems = [f"pod {uid} is in {n} places" for uid, n in counts.items() if n > 1]
        if self._known != {queued.pod_info.uid: queued for queued in pods}:
            problems.append("the pods that are known are not those that wait or are in flight")
        for part in (*places, self.nominator):
            problems.extend(part.validate())
        if problems:
            raise QueueInvariantError("; ".join(problems))

    def valid_rejection(
        self, queued: QueuedPodInfo, version: Callable[[], tuple[int, ...]]
    ) -> Failure | None:
        """An equal pod's rejection that holds for this pod too; None if the pod must be evaluated.

        `version` returns the version of the cluster; it is called only if there is a rejection.
        """
        group = self._unschedulable.last_rejected.get(queued.pod_info.kind)
        rejection = None if group is None else group.rejection
        if rejection is None or rejection.version != version():
            return None
        is_late = self._clock.now - rejection.since > self._max_in_unschedulable
        return rejection if not is_late and self._shares_rejections(queued) else None


def _row_of(place: str, queued: QueuedPodInfo, now: float) -> dict[str, object]:
    """A pod with its place, as plain values."""
    pod = queued.pod_info
    return {
        "pod": pod.key,
        "uid": pod.uid,
        "profile": pod.spec.scheduler_name,
        "priority": pod.priority,
        "queue": place,
        "attempts": queued.attempts,
        "waitingSeconds": round(now - queued.timestamp, 3),
        "backoffSecondsLeft": round(max(0.0, backoff_end(queued) - now), 3),
        "unschedulablePlugins": sorted(queued.unschedulable_plugins),
        "pendingPlugins": sorted(queued.pending_plugins),
        "gatingPlugin": queued.gating_plugin,
        "message": queued.last_failure,
    }
