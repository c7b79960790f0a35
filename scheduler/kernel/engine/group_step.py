"""The amount of a pod group's attempt that is done in one step.

Work is counted, not timed: the same events give the same steps. A unit takes about 30 us of the
processor among 5,000 nodes (`python -m bench.bounds`). A gang of 1,000 takes 45 ms there, and
112 ms if each pod has labels of its own, as in an indexed Job.
"""

from typing import Final

from scheduler.api.limits import demands_on_nodes
from scheduler.api.pods import PodInfo

UNITS: Final = 2048
"""Units of a step: enough to begin, place and settle some 680 equal members, or 75 that differ."""
LOOKED: Final = 12
"""Units of a search for a node, and as many again for each demand of the pod on nodes."""
SEARCHED: Final = 768
"""Units of a search for victims. It takes 2 ms, and up to 90 ms beside very many budgets."""
COPIED: Final = 768
"""Units of a copy of the cluster: 12 ms among 5,000 nodes with six pods each, 25 ms with thirty."""
READ: Final = 8
"""Number of pods whose ends are read for one unit."""


def cost_of_look(pod: PodInfo) -> int:
    """The units of a search for the node of a pod that is unlike the one before."""
    return LOOKED * (1 + demands_on_nodes(pod))


class GroupStep:
    """Counts the work of the current step of a group's attempt.

    Attributes:
        units: the units of a step; a step may exceed them to complete work that it has begun.
        long: an attempt that spends more units has taken long.
    """

    def __init__(self) -> None:
        self.units = UNITS
        self.long = UNITS
        self._left = self._number = self._taken_up = self._settled = self._spent = 0

    def begin_group(self) -> None:
        """Begin the attempt of a group: the next step is its first."""
        self._number = self._spent = 0

    def begin(self) -> None:
        """Begin a step."""
        self._left = self.units
        self._number += 1
        self._taken_up = self._settled = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the first step, so that no other event came since the attempt began."""
        return self._number == 1

    @property
    def took_long(self) -> bool:
        """Whether the attempt has spent more than `long` units, in however many steps."""
        return self._spent > self.long

    @property
    def is_over(self) -> bool:
        """Whether the units of this step are used up."""
        return self._left <= 0

    @property
    def members(self) -> int:
        """Number of members that this step has evaluated or settled, whichever is more."""
        return max(self._taken_up, self._settled)

    def take_up(self) -> None:
        """Count a member that is evaluated."""
        self._taken_up += 1
        self.spend(1)

    def settle(self) -> None:
        """Count a member that starts its binding cycle, or fails."""
        self._settled += 1
        self.spend(1)

    def spend(self, units: int) -> None:
        """Count work of this many units."""
        self._left -= units
        self._spent += units
