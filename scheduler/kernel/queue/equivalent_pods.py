"""Groups of waiting pods that an event affects alike.

Pods of one kind differ in nothing that in-tree plugins read. Where a profile's plugins judge
them alike, the rejection of one holds for all: an event requeues only one of them, the probe. The
others follow one by one, unless the probe is rejected like them (`UnschedulablePods.end_probe`).
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from scheduler.api.objects import Node
from scheduler.api.pods import PodKind
from scheduler.api.resources import whole_units
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

    A pod that an extender, Reserve or Permit has rejected shares nothing. They may answer
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


_Line: TypeAlias = list[tuple[int, int, EquivalentPods]]
"""Amounts, numbers and groups, in order of amount."""
_IN_ORDER: Final = itemgetter(0, 1)
"""The sort key of an entry: numbers differ, so groups are never compared."""


class UnfittablePods:
    """Groups that no node can hold, by resource and by requested amount.

    No pod that leaves a node can help them. So the queue checks no events about pods for them, and
    only nodes that have as much of the resource as they request. Events about other objects are
    checked as for any pod.

    Cost: O(log groups) comparisons to add, remove and find.
    """

    def __init__(self) -> None:
        self._by_resource: dict[str, _Line] = {}
        self._numbers: dict[int, int] = {}
        """The number of each group, by its identity."""
        self._last = 0

    def __iter__(self) -> Iterator[EquivalentPods]:
        return (group for line in self._by_resource.values() for _, _, group in line)

    def add(self, group: EquivalentPods, excess: Excess) -> None:
        """Add a group."""
        self._last += 1
        self._numbers[id(group)] = self._last
        line = self._by_resource.setdefault(excess.resource, [])
        insort(line, (excess.amount, self._last, group), key=_IN_ORDER)

    def remove(self, group: EquivalentPods, excess: Excess) -> None:
        """Remove a group."""
        line = self._by_resource[excess.resource]
        wanted = (excess.amount, self._numbers.pop(id(group)))
        del line[bisect_left(line, wanted, key=_IN_ORDER)]
        if not line:
            del self._by_resource[excess.resource]

    def offers(self, node: Node) -> dict[str, int]:
        """The resources of a node that are enough for at least one group, with their amounts.

        Cost: O(resources of the node), however many groups wait.
        """
        has = whole_units(node.status.allocatable) if self._by_resource else {}
        return {
            resource: amount
            for resource, amount in has.items()
            if (line := self._by_resource.get(resource)) and line[0][0] <= amount
        }

    def that_fit(self, resource: str, amount: int) -> list[EquivalentPods]:
        """The groups that lacked a resource and request at most this amount of it."""
        line = self._by_resource.get(resource, [])
        return [group for _, _, group in line[: bisect_right(line, amount, key=itemgetter(0))]]
