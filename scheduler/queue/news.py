"""What has happened, until everybody who waits has been asked what it means to them.

Where very many different pods wait, asking all of them about each event takes longer than the next
events take to come. So groups are gone through in rounds, some at a time: each is asked about all
that had happened when the round began, and what happens meanwhile is for the next round. What one
round may ask a group is bounded: an event that comes very often is taken to help whoever waits for
such events.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from scheduler.framework.events import ClusterEvent
from scheduler.framework.types import QueuedPodInfo
from scheduler.queue.groups import Group, Wake
from scheduler.queue.hints import Interest, ObservedEvent

KEPT: Final = 8
"""So many events of a sort are kept for a round."""

Step: TypeAlias = tuple[QueuedPodInfo, Wake]
"""A pod that is to be tried, and how it is woken."""


class Happened(msgspec.Struct, frozen=True, gc=False):
    """An event, and whom it does not concern.

    Attributes:
        observed: the event.
        max_priority: it concerns only pods of this priority or less.
        but: UID of a pod that it does not concern.
    """

    observed: ObservedEvent
    max_priority: int | None
    but: str


class Sort(msgspec.Struct):
    """All events of one sort since the last round.

    Attributes:
        interest: who registered for them.
        happened: the events, unless there were too many.
        too_many: whether there were.
    """

    interest: Interest
    happened: list[Happened]
    too_many: bool = False


class News:
    """All that has happened since the last round began.

    Attributes:
        sorts: events by sort.
        helped: groups that something helps for sure, each with the label of that event.
        late: since when pods have waited too long, and who wants to know; None if nobody looks.
    """

    def __init__(self) -> None:
        self.sorts: dict[ClusterEvent, Sort] = {}
        self.helped: dict[Group, str] = {}
        self.late: tuple[float, Interest] | None = None

    def __len__(self) -> int:
        """How much a group may have to be asked about."""
        asked = sum(1 if sort.too_many else len(sort.happened) for sort in self.sorts.values())
        return asked + bool(self.helped) + (self.late is not None)

    def __bool__(self) -> bool:
        """Whether there is anything; asked after each event of the engine."""
        return bool(self.sorts or self.helped) or self.late is not None

    def add(self, happened: Happened, helped: list[Group]) -> None:
        """Something has happened.

        Args:
            happened: what.
            helped: groups that it helps for sure.
        """
        interest = happened.observed.interest
        self.helped.update(dict.fromkeys(helped, interest.label))
        if not interest.exists:
            return
        sort = self.sorts.setdefault(interest.event, Sort(interest, []))
        if len(sort.happened) < KEPT:
            sort.happened.append(happened)
        else:
            sort.too_many = True


class Round:
    """Groups that something may have helped: who of them is woken is found out bit by bit."""

    def __init__(
        self, groups: list[Group], steps: Callable[[Group], Iterator[Step]], questions: int
    ) -> None:
        """Begin.

        Args:
            groups: all that are to be looked at.
            steps: who of a group is woken, and how; each is taken out as it is given.
            questions: how much a group may have to be asked about.
        """
        self._groups = groups
        self._steps = steps
        self._questions = questions
        self._position = 0

    @property
    def is_over(self) -> bool:
        """Whether all groups were looked at."""
        return self._position >= len(self._groups)

    def some(self, questions: int) -> Iterator[Step]:
        """Look at the next groups, with about so many questions."""
        start, self._position = self._position, self._position + 1 + questions // self._questions
        for group in self._groups[start : self._position]:
            # By now it may have gone, and its pods with it.
            if group.members:
                yield from self._steps(group)
