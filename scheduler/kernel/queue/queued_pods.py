"""The pods of the queue by place: the set-up of the places, and read access to them.

Nothing here moves a pod to another place.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from scheduler.api.pods import PodInfo, PodKind
from scheduler.clock import EventClock
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.queue.active import ActiveQueue, InFlightPods
from scheduler.kernel.queue.backoff import BackoffQueue
from scheduler.kernel.queue.dump import (
    ACTIVE,
    BACKOFF,
    GATED,
    IN_FLIGHT,
    UNSCHEDULABLE,
    QueuePosition,
    backoff_end,
    row_of,
)
from scheduler.kernel.queue.hints import QueueingHints, QueueingStrategy
from scheduler.kernel.queue.moves import Moves, SortKey
from scheduler.kernel.queue.settings import (
    BackoffSettings,
    QueueCounts,
    QueueProfile,
    QueueSettings,
)
from scheduler.kernel.queue.unschedulable_pods import UnschedulablePods
from scheduler.kernel.queue.waking import Waking
from scheduler.observability.queue_metrics import QueueMetrics

PUT_LAST_SECONDS: Final = 300.0
"""A pod with slow decisions sorts after all other pods for this long."""


class QueueInvariantError(SchedulerError):
    """An invariant of the queue does not hold; a programming error."""


class QueuedPods:
    """Pods by place: active, backoff, unschedulable, in flight; `SchedulingQueue` moves them.

    Attributes:
        in_flight: the pods between `pop` and `done`.
        nominator: the nominated pods, by node.
    """

    def __init__(
        self,
        sort_key: SortKey,
        profiles: Mapping[str, QueueProfile],
        clock: EventClock,
        *,
        settings: QueueSettings,
        metrics: QueueMetrics,
    ) -> None:
        """Make an empty queue; all profiles share the QueueSort plugin of the sort key."""
        self._clock = clock
        self._max_in_unschedulable = settings.max_in_unschedulable_seconds
        self._metrics = metrics
        self._slow = SlowPods(clock)
        self._known: dict[str, QueuedPodInfo] = {}
        """All pods that wait or are in flight, by UID."""
        self.in_flight = InFlightPods()
        self._readmission: dict[str, tuple[QueuedPodInfo, QueueingStrategy]] = {}
        """Pods that the current configuration has not admitted yet, in order, with their strategy.

        Upstream reads its configuration once. Here it may change while very many pods wait. To sort
        them again, and to run PreEnqueue for each, would be one long step.
        """
        self.nominator = NominatedPods()
        self._begin(sort_key, profiles, settings.backoff)

    def _begin(
        self, sort_key: SortKey, profiles: Mapping[str, QueueProfile], backoff: BackoffSettings
    ) -> None:
        """Make the queue empty, with these settings."""
        self._hints = QueueingHints(profiles)
        self._profiles = profiles
        self._active = ActiveQueue(self._clock)
        self._backoff = BackoffQueue(backoff, self._clock)
        self._unschedulable = UnschedulablePods(
            self._shares_rejections, self._clock, self._max_in_unschedulable
        )
        self._moves = Moves(
            self._active,
            self._backoff,
            self._unschedulable,
            profiles=profiles,
            sort_key=sort_key,
            clock=self._clock,
            metrics=self._metrics,
        )
        self._waking = Waking(self._hints, self._unschedulable, self._moves)

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
        is_gone = queued.pod_info.spec.scheduler_name not in self._profiles
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
        profile = self._profiles.get(pod.spec.scheduler_name)
        registered = () if profile is None else profile.events.get(plugin, ())
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
            or self._moves.is_flushing
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
        return (row_of(place, queued, now) for place, pods in places.items() for queued in pods)

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

    def _shares_rejections(self, queued: QueuedPodInfo) -> bool:
        """Whether a pod's rejection holds for equal pods; it does not if the pod is nominated."""
        pod = queued.pod_info
        profile = self._profiles.get(pod.spec.scheduler_name)
        if profile is None or pod.pod.status.nominated_node_name:
            return False
        return self.nominator.nodes.get(pod.uid) is None and profile.shares_rejections(pod)

    def took_long(self, uid: str) -> QueuedPodInfo | None:
        """Record a slow decision; after two in a row, the pod sorts last for `PUT_LAST_SECONDS`.

        Returns:
            The pod, if it sorts last now; None also for a pod that does not wait.
        """
        queued = None if uid in self.in_flight else self._known.get(uid)
        if queued is None or not self._slow.note(queued):
            return None
        self._moves.sort_anew(queued)
        return queued

    def _forgive(self) -> None:
        """Sort pods as usual again that have sorted last for `PUT_LAST_SECONDS`."""
        for uid in self._slow.forgiven():
            queued = self._known.get(uid)
            if queued is not None:
                queued.is_slow = False
                self._moves.sort_anew(queued)


class SlowPods:
    """Pods whose decisions took long, each with the time until which it sorts last."""

    def __init__(self, clock: EventClock) -> None:
        self._clock = clock
        self._until: OrderedDict[str, float] = OrderedDict()

    def note(self, queued: QueuedPodInfo) -> bool:
        """Record a slow decision; return whether it is the second in a row: the pod sorts last."""
        in_a_row = queued.slow_attempt == queued.attempts - 1
        queued.slow_attempt = queued.attempts
        if in_a_row:
            uid = queued.pod_info.uid
            self._until[uid] = self._clock.now + PUT_LAST_SECONDS
            self._until.move_to_end(uid)
            queued.is_slow = True
        return in_a_row

    def forgiven(self) -> Iterator[str]:
        """Yield the UIDs of the pods that need not sort last any more."""
        now = self._clock.now
        while self._until and next(iter(self._until.values())) <= now:
            yield self._until.popitem(last=False)[0]
