"""Groups of waiting pods that an event affects alike.

Pods of one kind differ in nothing that in-tree plugins read. Where a profile's plugins judge
them alike, the rejection of one holds for all: an event requeues only one of them, the probe. The
others follow one by one, as long as the probe is not rejected like them; see `FOLLOWERS`.
"""

from enum import Enum
from typing import Final, TypeAlias

import msgspec

from scheduler.api.pods import PodKind
from scheduler.kernel.framework.types import Excess, Failure, QueuedPodInfo
from scheduler.kernel.queue.hints import Interest, QueueingStrategy


class EquivalenceKey(msgspec.Struct, frozen=True):
    """All properties of a pod that queueing hints and its requeueing may depend on.

    Attributes:
        kind: the kind of the pods.
        unschedulable_plugins: the plugins that rejected them.
        pending_plugins: the plugins that returned Pending.
        gating_plugin: the PreEnqueue plugin that gates them, or empty.
        excess: the request that exceeds every node, or None.
        shares: whether the rejection of one stands for all.
    """

    kind: PodKind
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    gating_plugin: str
    excess: Excess | None
    shares: bool


def key_of(queued: QueuedPodInfo, *, shares: bool) -> EquivalenceKey:
    """The key of a pod; it `shares` if plugins judge equal pods alike and it is not nominated.

    A pod that an extender, Reserve or Permit has rejected shares nothing: they may answer
    differently about an equal pod, and a chain of probes would not end.
    """
    shares &= queued.fits_nowhere and not (queued.pending_plugins or queued.gating_plugin)
    return EquivalenceKey(
        queued.pod_info.kind,
        queued.unschedulable_plugins,
        queued.pending_plugins,
        queued.gating_plugin,
        queued.excess,
        shares,
    )


class WokenBy(Enum):
    """The reason for which a probe was requeued."""

    EVENT = "an event"
    DEADLINE = "its deadline"


class ProbeEnd(Enum):
    """The end of a probe's attempt."""

    REJECTED = "is rejected by the same plugins"
    OTHER = "is placed, gated, changed, deleted, or rejected by other plugins"


class Follower(Enum):
    """The pod of a group that is tried after the probe."""

    NONE = "no pod"
    LATE = "the next pod, if its deadline is over"
    NEXT = "the next pod"


FOLLOWERS: Final[dict[tuple[WokenBy, ProbeEnd], Follower]] = {
    (WokenBy.EVENT, ProbeEnd.REJECTED): Follower.NONE,
    (WokenBy.EVENT, ProbeEnd.OTHER): Follower.NEXT,
    (WokenBy.DEADLINE, ProbeEnd.REJECTED): Follower.LATE,
    (WokenBy.DEADLINE, ProbeEnd.OTHER): Follower.NEXT,
}
"""The pod that becomes the next probe, woken in the same way."""


class Wake(msgspec.Struct, frozen=True):
    """The way in which pods of a group are requeued.

    Attributes:
        strategy: at once, or after backoff.
        label: the label of the event.
        late_before: for pods requeued by their deadline, the time of the check; each pod that was
            late then is retried. None for pods requeued by an event.
    """

    strategy: QueueingStrategy
    label: str
    late_before: float | None = None

    @property
    def woken_by(self) -> WokenBy:
        """The reason for which the pods are requeued."""
        return WokenBy.EVENT if self.late_before is None else WokenBy.DEADLINE


Step: TypeAlias = tuple[QueuedPodInfo, Wake]
"""A pod to requeue, and the way in which it is requeued."""


class EquivalentPods:
    """Waiting pods of the same key.

    Attributes:
        key: the key that they share.
        excess: the request that exceeds every node; None also for gated pods.
        members: the pods by UID, in order of arrival.
        probe: UID of the probe that was requeued and has not ended; empty while there is none.
        wake: the way in which the probe was requeued; the next probe is requeued alike.
        rejection: the last failure of a member that fits nowhere; None before the first.
        node_changes: the number of node changes before the latest member came.
    """

    __slots__ = (
        "excess",
        "key",
        "members",
        "node_changes",
        "priority",
        "probe",
        "profile",
        "rejection",
        "rejectors",
        "wake",
    )

    def __init__(self, key: EquivalenceKey) -> None:
        spec = key.kind.shape.spec
        self.key = key
        self.profile = spec.scheduler_name
        self.priority = spec.priority or 0
        self.rejectors = key.unschedulable_plugins | key.pending_plugins
        self.excess = None if key.gating_plugin else key.excess
        self.members: dict[str, QueuedPodInfo] = {}
        self.probe = ""
        self.wake = Wake(QueueingStrategy.SKIP, "")
        self.rejection: Failure | None = None
        self.node_changes = 0

    def may_wake(self, interest: Interest) -> bool:
        """Whether an event may move these pods.

        A gated pod stays until its gating plugin admits it, so only the events that this plugin
        registered for may move it.
        """
        gating_plugin = self.key.gating_plugin
        if gating_plugin:
            return gating_plugin in interest.of(self.profile).hints
        return interest.concerns(self.profile, self.rejectors)
