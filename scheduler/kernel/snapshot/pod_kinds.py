"""Numbers for kinds of pods that no filter can tell apart; a result per kind is a column.

Questions of the form "what if these pods were not there" are about thousands of pods at a time.
Pods of one kind (equal specification, labels and namespace) weigh the same in every sum. So a
weight is computed once per kind and gathered for pods by the number of their kind.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Final
from weakref import WeakKeyDictionary, ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo, PodKind

_FEW_GONE: Final = 1024
"""The most numbers of kinds without pods that are kept; above it all are numbered anew."""


class PodKinds:
    """Numbers for kinds of pods, and columns of results per kind.

    Attributes:
        epoch: grows when all numbers become void.
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
        """Forget everything once most kinds have no pods; between decisions only."""
        if len(self._kinds) > 2 * len(self._numbers) + _FEW_GONE:
            self._kinds.clear()
            self._numbers.clear()
            self._columns.clear()
            self.epoch += 1


class OtherPods(msgspec.Struct, frozen=True, eq=False):
    """Some kinds of pods that come or go, in a fixed order.

    Attributes:
        kinds: the kinds of all pods.
        numbers: the numbers of these.
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
        """The results of `judge` for each; they are kept, so they must depend on the kind only."""
        return self.kinds.column(key, judge)[self.numbers]


def kinds_used(numbers: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The distinct numbers in ascending order, and the position of each given one among them."""
    if not len(numbers):
        return numbers, numbers
    distinct = np.flatnonzero(np.bincount(numbers))
    place = np.zeros(int(distinct[-1]) + 1, np.intp)
    place[distinct] = np.arange(len(distinct))
    return distinct, place[numbers]
