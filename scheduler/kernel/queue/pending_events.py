"""Events against which the waiting pods have not been checked yet.

With very many different waiting pods, a check of all takes longer than the time between events. So
requeue passes check groups of equivalent pods, some groups at a time, against all events that had
happened when the pass began. Later events are for the next pass. An event is only recorded, so its
cost does not grow with the waiting pods. The work of a pass is bounded: when there are very many
events of one sort, all pods that wait for this sort are requeued without hints.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from scheduler.kernel.framework.events import ClusterEvent
from scheduler.kernel.framework.types import Excess, QueuedPodInfo
from scheduler.kernel.queue.equivalent_pods import Wake
from scheduler.kernel.queue.hints import Interest, ObservedEvent

KEPT: Final = 8
"""The most events of one sort that pods are checked against in a pass."""

Step: TypeAlias = tuple[QueuedPodInfo, Wake]
"""A pod to requeue, and the way in which it is requeued."""
RequeuePass: TypeAlias = Iterator[Step | None]
"""The pods to requeue, computed lazily; None for each check that requeues none."""


class PendingEvents:
    """The events and passed deadlines since the last pass began.

    Attributes:
        sorts: events by sort; of a sort with more than `KEPT`, the first of them and one more.
        offered: the largest amount on a changed node of each resource that groups lack, with the
            label of the event.
        late: the time before which deadlines had passed, and the plugins that registered for
            UnschedulableTimeout; None if no deadline has passed.
    """

    def __init__(self) -> None:
        self.sorts: dict[ClusterEvent, list[ObservedEvent]] = {}
        self.offered: dict[str, tuple[int, str]] = {}
        self.late: tuple[float, Interest] | None = None

    def __bool__(self) -> bool:
        """Whether anything is pending; the engine checks this after each event."""
        return bool(self.sorts or self.offered) or self.late is not None

    def add(self, observed: ObservedEvent, offers: Mapping[str, int]) -> None:
        """Record an event for the next pass, and the resources on its node that groups lack."""
        interest = observed.interest
        for resource, amount in offers.items():
            known = self.offered.get(resource)
            if known is None or amount > known[0]:
                self.offered[resource] = amount, interest.label
        if interest.exists:
            of_sort = self.sorts.setdefault(interest.event, [])
            if len(of_sort) <= KEPT:
                of_sort.append(observed)

    def helps(self, excess: Excess | None) -> str:
        """The label of the event after which a node holds the excess; empty without one."""
        amount, label = (0, "") if excess is None else self.offered.get(excess.resource, (0, ""))
        return "" if excess is None or amount < excess.amount else label
