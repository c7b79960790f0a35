"""What has happened, until all waiting pods that it may help have been asked what it means to them.

Where very many different pods wait, asking all of them about each event takes longer than the next
events take to come. So equivalent pods are gone through in requeue passes, some at a time: each is
asked about all that had happened when the pass began, and what happens meanwhile is for the next
pass. An event costs no more than a note, however many pods wait. What one pass may ask is bounded:
an event that comes very often is taken to help all pods that wait for such events.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from scheduler.kernel.framework.events import ClusterEvent
from scheduler.kernel.framework.types import Excess, QueuedPodInfo
from scheduler.kernel.queue.equivalent_pods import Wake
from scheduler.kernel.queue.hints import Interest, ObservedEvent

KEPT: Final = 8
"""So many events of a sort are kept for a round."""

Step: TypeAlias = tuple[QueuedPodInfo, Wake]
"""A pod that is to be tried, and how it is woken."""
RequeuePass: TypeAlias = Iterator[Step | None]
"""The pods that are woken, found out as it goes on; None for each question that wakes none."""


class PendingEvent(msgspec.Struct, frozen=True, gc=False):
    """An event, and the pods that it does not concern.

    Attributes:
        observed: the event.
        max_priority: it concerns only pods of this priority or less.
        but: UID of a pod that it does not concern.
    """

    observed: ObservedEvent
    max_priority: int | None
    but: str


class EventsOfSort(msgspec.Struct):
    """All events of one sort since the last pass.

    Attributes:
        interest: the plugins that registered for them.
        happened: the events, unless there were too many.
        too_many: whether there were.
    """

    interest: Interest
    happened: list[PendingEvent]
    too_many: bool = False


class PendingEvents:
    """All that has happened since the last pass began.

    Attributes:
        sorts: events by sort.
        offered: of resources that groups lack, the most that a node has had; by resource, with the
            label of the event.
        late: by when the deadlines of pods were over, and which plugins registered for that; None
            if no deadline is.
    """

    def __init__(self) -> None:
        self.sorts: dict[ClusterEvent, EventsOfSort] = {}
        self.offered: dict[str, tuple[int, str]] = {}
        self.late: tuple[float, Interest] | None = None

    def __bool__(self) -> bool:
        """Whether there is anything; asked after each event of the engine."""
        return bool(self.sorts or self.offered) or self.late is not None

    def add(self, happened: PendingEvent, offers: Mapping[str, int]) -> None:
        """Something has happened.

        Args:
            happened: what.
            offers: resources of a node, as far as they help any pod for sure.
        """
        interest = happened.observed.interest
        for resource, amount in offers.items():
            known = self.offered.get(resource)
            if known is None or amount > known[0]:
                self.offered[resource] = amount, interest.label
        if not interest.exists:
            return
        sort = self.sorts.setdefault(interest.event, EventsOfSort(interest, []))
        if len(sort.happened) < KEPT:
            sort.happened.append(happened)
        else:
            sort.too_many = True

    def helps(self, excess: Excess | None) -> str:
        """The label of an event after which a node has what was lacked; empty if none has."""
        amount, label = (0, "") if excess is None else self.offered.get(excess.resource, (0, ""))
        return "" if excess is None or amount < excess.amount else label
