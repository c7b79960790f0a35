"""Verdicts that leave room for nominated pods, as if they ran on their nodes already.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go
(RunFilterPluginsWithNominatedPods) v1.36.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.kernel.framework.interface import Reads
from scheduler.kernel.framework.runtime.changed_rows import ChangedRows
from scheduler.kernel.framework.runtime.nominated_pods import Nominated, NominatedPods
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE, FilterAttempt, First, Verdicts
from scheduler.kernel.snapshot import Indices, Rows, Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods, kinds_used

_Key: TypeAlias = tuple[object, int, int, int, int]
"""The nominations, the epoch of the kinds, the position in the log of nodes, the pod's priority,
and `NominatedPods.passes` of the pod."""

_ALL: Final = slice(None)


class _Differences(NamedTuple):
    """The verdicts that change because of nominated pods.

    Attributes:
        rows: the rows.
        first: the filter that rejects each together with the nominated pods.
        bits: its answer.
    """

    rows: Indices
    first: First
    bits: NDArray[np.uint64]

    def at(self, chosen: NDArray[np.bool_]) -> "_Differences":
        return _Differences(self.rows[chosen], self.first[chosen], self.bits[chosen])


_NO_DIFFERENCES: Final = _Differences(
    np.zeros(0, np.intp), np.zeros(0, np.int16), np.zeros(0, np.uint64)
)


class NominatedLayer:
    """The rows on which nominated pods exclude a class of pods, kept up to date by row."""

    def __init__(self) -> None:
        self._key: _Key | None = None
        """The inputs that the layer holds for; None before the first use."""
        self._positions = (0, 0)
        """The positions in the logs of pods and nominations that it is current to."""
        self._has_nominated = np.zeros(0, np.bool_)
        self._first: First = np.zeros(0, np.int16)
        self._bits = np.zeros(0, np.uint64)
        self._differences = _NO_DIFFERENCES

    def differences(
        self, attempt: FilterAttempt, alone: Verdicts, nominated: NominatedPods
    ) -> _Differences:
        """The differences for the class; only rows that changed since its last pod are judged.

        A nominated pod of the class counts here like any other nominated pod.
        """
        pod, snapshot = attempt.pod, attempt.snapshot
        kinds, nodes = snapshot.kinds.epoch, snapshot.node_log.position
        key = (nominated, kinds, nodes, pod.priority, nominated.passes(pod))
        changed = self._changed(snapshot, nominated) if key == self._key else _ALL
        if isinstance(changed, slice):
            size, self._key = snapshot.table.size, None
            self._has_nominated = np.zeros(size, np.bool_)
            self._first, self._bits = np.full(size, FEASIBLE, np.int16), np.zeros(size, np.uint64)
        if isinstance(changed, slice) or len(changed):
            found = nominated.before(pod, snapshot, on=changed, counts_itself=True)
            self._replace(changed, found, _judged(attempt, alone, found))
        if isinstance(changed, slice) and not alone.failures:
            # No row log records which nodes have which images, or that a filter works again.
            reads_images = any(each.reads & Reads.IMAGES for each in attempt.filters)
            self._key = None if reads_images else key
        self._positions = snapshot.pod_log.position, nominated.row_log(snapshot).position
        return self._differences

    def _changed(self, snapshot: Snapshot, nominated: NominatedPods) -> Rows:
        """The rows with changed pods or nominations; all if a log is too short."""
        with_other_pods = snapshot.pod_log.since(self._positions[0])
        renominated = nominated.row_log(snapshot).since(self._positions[1])
        if with_other_pods is None or renominated is None:
            return _ALL
        if len(renominated):
            return np.concatenate((with_other_pods, renominated))
        return with_other_pods if self._has_nominated[with_other_pods].any() else renominated

    def _replace(self, changed: Rows, found: Nominated | None, new: _Differences) -> None:
        """Set the nominated pods and their differences on rows that have changed."""
        self._has_nominated[changed] = False
        if found is not None:
            self._has_nominated[found.rows] = True
        self._first[changed] = FEASIBLE
        self._first[new.rows], self._bits[new.rows] = new.first, new.bits
        rows = np.flatnonzero(self._first != FEASIBLE)
        self._differences = _Differences(rows, self._first[rows], self._bits[rows])


def with_nominated_pods(
    attempt: FilterAttempt,
    alone: Verdicts,
    nominated: NominatedPods,
    layer: NominatedLayer | None = None,
) -> Verdicts:
    """Reject nodes that would not fit once the pods nominated to them run there.

    Upstream filters with these pods first, and without them only when that passes. So where they
    cause a rejection, it is the one reported, whatever the verdict without them.

    `layer` is that of the class whose own columns `alone` is; None when it is anything else.

    Returns:
        `alone` itself where nominated pods make no difference, else a copy.
    """
    pod, snapshot = attempt.pod, attempt.snapshot
    # Numbers in reasons include the nominated pods.
    alone.attempt = replace(attempt, nominated=nominated)
    if layer is None:
        parts = [_judged(attempt, alone, nominated.before(pod, snapshot, on=alone.rows))]
    else:
        every, own = layer.differences(attempt, alone, nominated), nominated.row_of(pod.uid)
        parts = [every]
        if own is not None:
            # Its own nomination does not count for the pod itself.
            others = nominated.before(pod, snapshot, on=np.array([own], np.intp))
            parts = [every.at(every.rows != own), _judged(attempt, alone, others)]
    if not any(len(part.rows) for part in parts):
        return alone
    first, bits = alone.first.copy(), alone.bits.copy()
    for part in parts:
        places = _places(alone, part.rows)
        first[places], bits[places] = part.first, part.bits
    return Verdicts(first, bits, alone.rows, alone.attempt, alone.failures)


def _judged(attempt: FilterAttempt, alone: Verdicts, found: Nominated | None) -> _Differences:
    """The differences that some nominated pods make, each on the row it is nominated to."""
    if found is None:
        return _NO_DIFFERENCES
    snapshot = attempt.snapshot
    rows, at = kinds_used(found.rows)
    kinds, of_kind = kinds_used(found.kinds)
    changed = ChangedRows(attempt, snapshot, rows, OtherPods(snapshot.kinds, kinds))
    changed.nominate(at, of_kind, lambda: found.pods_on(snapshot))
    together, known = changed.judge_with_nominated(), alone.at(_places(alone, rows))
    differs = together.first != FEASIBLE
    differs &= (together.first != known.first) | (together.bits != known.bits)
    return _Differences(rows, together.first, together.bits).at(differs)


def _places(alone: Verdicts, rows: Indices) -> Indices:
    """The positions of rows among the judged ones."""
    return rows if alone.rows is None else np.searchsorted(alone.rows, rows)
