"""A scheduling queue for tests, with plugins that do what the test says."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.interface import EnqueueExtensions, PreEnqueuePlugin
from scheduler.kernel.framework.status import SUCCESS, Status, unschedulable
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.queue import BackoffSettings, QueueingHints, SchedulingQueue
from scheduler.observability.instruments import Instruments
from scheduler.observability.queue_metrics import QueueMetrics
from tests.support.clock import FakeClock
from tests.support.fake_plugins import make_framework


def by_priority(queued: QueuedPodInfo) -> tuple[int, float]:
    """The order of PrioritySort."""
    return (-queued.pod_info.priority, queued.timestamp)


def registered(
    resource: EventResource, action: ActionType, hint: Callable[..., object] | None = None
) -> ClusterEventWithHint:
    """One registration of a plugin."""
    return ClusterEventWithHint(ClusterEvent(resource, action), hint)


def own_update(pod: PodInfo, old: PodInfo, new: PodInfo) -> QueueingHint:
    """A hint that takes updates of the pod itself."""
    return QueueingHint.QUEUE if new.uid == pod.uid else QueueingHint.SKIP


def gate(pod: PodInfo) -> Status:
    """The rule of SchedulingGates."""
    return unschedulable("waiting for scheduling gates") if pod.spec.scheduling_gates else SUCCESS


GATES_GONE: Final = registered(
    EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, own_update
)


Check: TypeAlias = Callable[[PodInfo], Status]


def _passes(_: PodInfo) -> Status:
    return SUCCESS


class Gate(PreEnqueuePlugin, EnqueueExtensions):
    """Lets pods pass, and waits for events, as it is told."""

    def __init__(self, name: str, check: Check, events: Sequence[ClusterEventWithHint]) -> None:
        self.NAME = name
        self._check = check
        self._events = events

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._events

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        return self._check(pod)


class QueueUnderTest:
    """A queue, and what it depends on.

    Attributes:
        failed: what plugins did that they must not, in words.
        metrics: what was counted of them.
        counts: what the queue counted.
    """

    def __init__(
        self,
        events: Mapping[str, Sequence[ClusterEventWithHint]] | None = None,
        pre_enqueue: Mapping[str, Check] | None = None,
        *,
        profile: str = "stowage",
        max_in_unschedulable_seconds: float = 300.0,
        now: float = 1000.0,
        shares_rejections: Callable[[PodInfo], bool] = lambda _: False,
    ) -> None:
        self.clock = FakeClock(now)
        self.counts = QueueMetrics(Instruments())
        self.failed: list[str] = []
        events, checks = events or {}, pre_enqueue or {}
        names = dict.fromkeys((*checks, *events))
        framework = make_framework(
            *(Gate(name, checks.get(name, _passes), events.get(name, ())) for name in names),
            trusted=[*names],
            profile=profile,
            now=self.clock.monotonic,
            on_failed=lambda problem: self.failed.append(str(problem)),
        )
        self.metrics = framework.calls.metrics
        # The test says it, whatever the plugins are.
        vars(framework).update(shares_rejections=shares_rejections, sort_key=by_priority)
        self.queue = SchedulingQueue(
            QueueingHints({profile: framework}),
            self.clock,
            backoff=BackoffSettings(),
            max_in_unschedulable_seconds=max_in_unschedulable_seconds,
            metrics=self.counts,
        )

    @property
    def incoming(self) -> dict[tuple[str, str], int]:
        """How many pods came into each queue, by what brought them there."""
        return {labels: int(n.value) for labels, n in self.counts.queue_incoming_pods.items()}

    @property
    def rejected_by(self) -> dict[tuple[str, str], int]:
        """How many pods wait that each plugin of each profile rejected; none is left out."""
        waiting = self.counts.unschedulable_pods.items()
        return {labels: int(number.value) for labels, number in waiting if number.value}

    def places(self) -> dict[str, str]:
        """Where each pod is, by name; fails when a pod is in two places."""
        self.queue.validate()
        return {str(row["pod"]).partition("/")[2]: str(row["queue"]) for row in self.queue.dump()}

    def pop_names(self) -> list[str]:
        """Pop until nothing is left."""
        names = []
        while (queued := self.queue.pop()) is not None:
            names.append(queued.pod_info.name)
        return names

    def pop(self) -> QueuedPodInfo:
        """The next pod; there must be one."""
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def fail(
        self, queued: QueuedPodInfo, *plugins: str, pending: tuple[str, ...] = ()
    ) -> QueuedPodInfo:
        """End an attempt: rejected by these plugins, or with an error when none is given."""
        failure = Failure(
            "",
            unschedulable_plugins=frozenset(plugins),
            pending_plugins=frozenset(pending),
            fits_nowhere=bool(plugins),
        )
        assert self.queue.add_unschedulable_if_not_present(queued, failure)
        return queued

    def add_rejected(self, pod: PodInfo, *plugins: str, pending: tuple[str, ...] = ()) -> None:
        """Add a pod, try it, and have it rejected."""
        self.queue.add(pod)
        queued = self.pop()
        assert queued.pod_info is pod
        self.fail(queued, *plugins, pending=pending)
