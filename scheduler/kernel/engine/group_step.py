"""How much of a pod group's attempt is done in one step.

What is done is counted, not timed: the same events give the same steps. A unit takes about 30 us of
the processor among 5,000 nodes (`python -m bench.bounds`).
"""

from typing import Final

from scheduler.api.limits import demands_on_nodes
from scheduler.api.pod_shape import PodShape

UNITS: Final = 2048
"""Of a step: some 680 equal members begin, are placed and go on in one, or 75 that differ."""
LOOKED: Final = 12
"""Of a member that is not like the one before, for each of its demands and once more."""
SEARCHED: Final = 768
"""Of a search for victims. It takes 2 ms, and up to 90 ms beside very many budgets."""
COPIED: Final = 768
"""Of a copy of the cluster: 12 ms among 5,000 nodes with six pods each, 25 ms with thirty."""
READ: Final = 8
"""Pods whose ends are read for a unit."""


def cost_of_look(shape: PodShape) -> int:
    """The units of finding a node for a pod that is not like the one before."""
    return LOOKED * (1 + demands_on_nodes(shape))


class GroupStep:
    """The step at hand.

    Attributes:
        units: how much is done in a step; what is begun is ended.
        long: an attempt of more units has taken long.
    """

    def __init__(self) -> None:
        self.units = UNITS
        self.long = UNITS
        self._left = self._number = self._taken_up = self._settled = self._spent = 0

    def begin_group(self, *, is_new: bool = True) -> None:
        """The attempt of a group begins: the next step is its first, unless it has waited."""
        self._number, self._spent = 0 if is_new else 1, 0

    def begin(self) -> None:
        """A step begins."""
        self._left = self.units
        self._number += 1
        self._taken_up = self._settled = 0

    @property
    def is_first(self) -> bool:
        """Whether nothing else has happened since the group's attempt began."""
        return self._number == 1

    @property
    def took_long(self) -> bool:
        """Whether the attempt has taken much of others' time; the steps do not matter."""
        return self._spent > self.long

    @property
    def is_over(self) -> bool:
        """Whether the rest is for the next step."""
        return self._left <= 0

    @property
    def members(self) -> int:
        """How many members the step is about."""
        return max(self._taken_up, self._settled)

    def take_up(self) -> None:
        """A member is looked at."""
        self._taken_up += 1
        self.spend(1)

    def settle(self) -> None:
        """A member goes on, or its place is given back."""
        self._settled += 1
        self.spend(1)

    def spend(self, units: int) -> None:
        """Something is done that takes longer."""
        self._left -= units
        self._spent += units
