"""Events that wait until every pod that they may help has been checked against them.

Where very many different pods wait, checking all of them takes longer than the next events take to
come. So groups of equivalent pods are checked in requeue passes, some groups at a time: each
against all events that had happened when the pass began. Later events are for the next pass. An
event costs no more than a note, however many pods wait. The work of one pass is bounded: an event
that comes very often counts as help for all pods that wait for such events.
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
"""A pod that is to be tried, and the way in which it is woken."""
RequeuePass: TypeAlias = Iterator[Step | None]
"""The pods that are woken, computed lazily; None for each check that wakes none."""


class PendingEvents:
    """All that has happened since the last pass began.

    Attributes:
        sorts: events by sort; of a sort with more than `KEPT`, the first of them and one more.
        offered: the largest amount on a changed node of each resource that groups lack, with the
            label of the event.
        late: the time that deadlines were before, and the plugins that registered for late pods;
            None if no deadline has passed.
    """

    def __init__(self) -> None:
        self.sorts: dict[ClusterEvent, list[ObservedEvent]] = {}
        self.offered: dict[str, tuple[int, str]] = {}
        self.late: tuple[float, Interest] | None = None

    def __bool__(self) -> bool:
        """Whether anything is pending; the engine checks this after each event."""
        return bool(self.sorts or self.offered) or self.late is not None

    def add(self, observed: ObservedEvent, offers: Mapping[str, int]) -> None:
        """Note an event for the next pass, and what its node offers to groups that lack it."""
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
