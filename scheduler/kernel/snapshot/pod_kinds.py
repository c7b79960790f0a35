"""Numbers for kinds of pods that no filter can tell apart; a result per kind is a column.

Preemption simulates the removal of thousands of pods at a time. Pods of one kind (equal
specification, labels and namespace) add the same amount to every sum. So an amount is computed once
per kind and looked up for pods by the number of their kind.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Final
from weakref import WeakKeyDictionary, ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo, PodKind

_FEW_GONE: Final = 1024
"""The most numbers of kinds without pods that are kept; above it all kinds are renumbered."""


class PodKinds:
    """Numbers for kinds of pods, and columns of results per kind.

    Attributes:
        epoch: grows when all numbers become invalid.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._kinds: list[ref[PodKind]] = []
        """The kinds by number."""
        self._numbers: WeakKeyDictionary[PodKind, int] = WeakKeyDictionary()
        self._columns: dict[Hashable, NDArray[np.float64]] = {}

    def number_of(self, pod: PodInfo) -> int:
        """The number of the pod's kind."""
        kind = pod.kind
        found = self._numbers.get(kind)
        if found is None:
            found = self._numbers[kind] = len(self._kinds)
            self._kinds.append(ref(kind))
        return found

    def kind(self, number: int) -> PodKind | None:
        """The kind of a number; None once it has no pod."""
        return self._kinds[number]()

    def column(self, key: Hashable, judge: Callable[[PodKind], float]) -> NDArray[np.float64]:
        """The results of `judge` for each kind, kept under `key`. Read-only."""
        known = self._columns.get(key)
        start = 0 if known is None else len(known)
        if known is None or start < len(self._kinds):
            kinds = [each() for each in self._kinds[start:]]
            new = np.array([0 if kind is None else judge(kind) for kind in kinds], np.float64)
            known = self._columns[key] = new if known is None else np.concatenate((known, new))
        return known

    def trim(self) -> None:
        """Drop all numbers and columns once most kinds have no pods; only between attempts."""
        if len(self._kinds) > 2 * len(self._numbers) + _FEW_GONE:
            self._kinds.clear()
            self._numbers.clear()
            self._columns.clear()
            self.epoch += 1


class OtherPods(msgspec.Struct, frozen=True, eq=False):
    """Some kinds of pods to be added or removed, in a fixed order.

    Attributes:
        kinds: the kinds of all pods.
        numbers: the numbers of these kinds among them.
    """

    kinds: PodKinds
    numbers: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[PodKind]:
        """The kinds, all of which have pods."""
        found = map(self.kinds.kind, self.numbers.tolist())
        return (kind for kind in found if kind is not None)

    def column(self, key: Hashable, judge: Callable[[PodKind], float]) -> NDArray[np.float64]:
        """The result of `judge` for each kind; it is kept, so it must depend on the kind only."""
        return self.kinds.column(key, judge)[self.numbers]


def kinds_used(numbers: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The distinct numbers in ascending order, and the position of each given one among them."""
    if not len(numbers):
        return numbers, numbers
    distinct = np.flatnonzero(np.bincount(numbers))
    place = np.zeros(int(distinct[-1]) + 1, np.intp)
    place[distinct] = np.arange(len(distinct))
    return distinct, place[numbers]
