"""Equivalent pods that request more than any node has: no pod that leaves a node can help them.

So the queue checks no events about pods for them, and only nodes that have as much of the resource
as they request. Events about other objects are checked as for any pod.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from operator import itemgetter
from typing import Final, TypeAlias

from scheduler.api.objects import Node
from scheduler.api.resources import whole_units
from scheduler.kernel.framework.types import Excess
from scheduler.kernel.queue.equivalent_pods import EquivalentPods

_Line: TypeAlias = list[tuple[int, int, EquivalentPods]]
"""Amounts, numbers and groups, in order of amount."""
_IN_ORDER: Final = itemgetter(0, 1)
"""The sort key of an entry: numbers differ, so groups are never compared."""


class UnfittablePods:
    """Groups that no node can hold, by resource and by requested amount.

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
