"""The filter state of NodeResourcesFit for one pod: its requests against the free resources."""

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.pods import PodInfo, PodKind
from scheduler.kernel.framework.counting import Counting
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.interface import Bits
from scheduler.kernel.framework.results import Reason
from scheduler.kernel.framework.status import Code
from scheduler.kernel.plugins.resource_columns import ResourceColumns
from scheduler.kernel.snapshot import Mask, Rows, Snapshot
from scheduler.kernel.snapshot.interning import Interner
from scheduler.kernel.snapshot.pod_kinds import OtherPods

TOO_MANY_PODS: Final = Reason("Too many pods")
HOPELESS: Final = Reason("", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
"""Added to the reasons if a request exceeds the node's allocatable, so that no eviction helps."""

MAX_BITS: Final = 64
"""The most reasons that an answer has a bit of its own for."""
_PODS: Final = 0
"""The line of `TOO_MANY_PODS`; the resources follow, `HOPELESS` is last."""


class FitState(msgspec.Struct, frozen=True, eq=False):
    """The input of the filter for one pod.

    Attributes:
        names: the resources that are checked.
        columns: those of them that some node offers.
        of_devices: those of them that devices may serve where a node offers none.
        combinations: for a pod that requests more resources than an answer has bits, the sets of
            reasons found so far, by answer; the first set is empty.
    """

    names: tuple[str, ...]
    columns: ResourceColumns
    of_devices: frozenset[str]
    combinations: Interner[bytes] | None

    @property
    def lines(self) -> int:
        """Number of possible reasons."""
        return len(self.names) + 2

    @property
    def lacks_column(self) -> bool:
        """Whether neither nodes nor devices offer some of the requested resources."""
        if not self.of_devices:
            return len(self.columns.names) < len(self.names)
        return not self.of_devices.union(self.columns.names).issuperset(self.names)

    def is_checked(self, allocatable: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        """By column and row, whether the request must fit; None where it always must.

        A resource that devices serve is not checked on nodes that offer none of it.
        """
        if self.of_devices.isdisjoint(self.columns.names):
            return None
        is_of_devices = [[name in self.of_devices] for name in self.columns.names]
        return ~np.array(is_of_devices) | (allocatable > 0)

    def answers(self, is_full: Mask, is_short: NDArray[np.bool_], is_hopeless: Mask) -> Bits:
        """The reasons by row: too many pods, too little of an offered resource, and `HOPELESS`."""
        masks = np.ones((self.lines, len(is_full)), np.bool_)
        masks[_PODS] = is_full
        masks[[1 + self.names.index(name) for name in self.columns.names]] = is_short
        masks[
            [1 + self.names.index(name) for name in self.of_devices.difference(self.columns.names)]
        ] = False
        masks[-1] = is_hopeless
        return _bits(masks) if self.combinations is None else _answers(masks, self.combinations)

    def reasons(self) -> tuple[Reason, ...]:
        """Too many pods, then one per resource, then `HOPELESS`."""
        return (TOO_MANY_PODS, *(Reason(f"Insufficient {n}") for n in self.names), HOPELESS)


FIT: Final[StateKey[FitState]] = StateKey("NodeResourcesFit/fit")


def prepare_fit(
    state: CycleState,
    pod: PodInfo,
    snapshot: Snapshot,
    names: tuple[str, ...],
    of_devices: frozenset[str],
) -> FitState:
    """Find the columns of the requests, and store the input of the filter.

    Args:
        state: of the attempt.
        pod: the pod.
        snapshot: the cluster.
        names: the resources that are checked.
        of_devices: those of them that devices may serve.
    """
    known = state.get(FIT)
    combinations = None if known is None else known.combinations
    if combinations is None and len(names) + 2 > MAX_BITS:
        combinations = Interner((bytes((len(names) + 2 + 7) // 8),))
    columns = ResourceColumns(snapshot.table, names, pod.shape.requests)
    prepared = FitState(names, columns, of_devices, combinations)
    state.write(FIT, prepared)
    return prepared


class FitCounting(Counting):
    """Counts pods and their use of the requested resources.

    The constructor computes the free amounts of each row with the pod on it: pods, then resources.
    """

    def __init__(
        self, fit: FitState, snapshot: Snapshot, rows: NDArray[np.intp], others: OtherPods
    ) -> None:
        table = snapshot.table
        allocatable = fit.columns.allocatable(table, rows)
        self._fit = fit
        free = allocatable - fit.columns.requested(table, rows)
        places = table.max_pods[rows] - table.pod_count[rows]
        exceeds, rest = fit.columns.amounts > allocatable, free - fit.columns.amounts
        checked = fit.is_checked(allocatable)
        if checked is not None:
            exceeds &= checked
            rest[~checked] = np.inf
        self._most = np.vstack((places - 1, rest))
        self._is_hopeless: Mask = np.any(exceeds, axis=0)
        self._is_hopeless |= fit.lacks_column
        taken = [others.column(("occupied", name), _taker(name)) for name in fit.columns.names]
        self.weights = np.array([np.ones(len(others)), *taken])

    @override
    def judge(self, at: Rows, changes: NDArray[np.float64]) -> Bits | None:
        exceeds = changes > self._most[:, at]
        fit = self._fit
        if not (fit.lacks_column or exceeds.any()):
            return None
        return fit.answers(exceeds[0], exceeds[1:], self._is_hopeless[at])

    @override
    def rejects(self, at: Rows, changes: NDArray[np.float64]) -> Mask | None:
        rejected: Mask = np.any(changes > self._most[:, at], axis=0)
        rejected |= self._is_hopeless[at]
        return rejected


def _taker(name: str) -> Callable[[PodKind], float]:
    return lambda kind: kind.shape.occupied.get(name, 0)


def _bits(masks: NDArray[np.bool_]) -> Bits:
    """One bit per line, in order."""
    bits: Bits = masks[0].astype(np.uint64)
    for i, mask in enumerate(masks[1:], 1):
        bits |= mask.astype(np.uint64) << np.uint64(i)
    return bits


def _answers(masks: NDArray[np.bool_], combinations: Interner[bytes]) -> Bits:
    """Per row the number of its set of lines."""
    packed = np.packbits(masks, axis=0).T
    distinct, which = np.unique(packed, axis=0, return_inverse=True)
    numbers = [combinations.intern(line.tobytes()) for line in distinct]
    answers: Bits = np.array(numbers, np.uint64)[which.reshape(-1)]
    return answers
