"""Verdicts that leave room for nominated pods, as if they ran on their nodes already.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go
(RunFilterPluginsWithNominatedPods) v1.36.
"""

from typing import Final, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.kernel.framework.interface import Reads
from scheduler.kernel.framework.runtime.changed_rows import ChangedRows
from scheduler.kernel.framework.runtime.nominated_pods import Nominated, NominatedPods
from scheduler.kernel.framework.runtime.pod_class import PodClass
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE, FilterAttempt, First, Verdicts
from scheduler.kernel.snapshot import Indices, Rows
from scheduler.kernel.snapshot.changes import RowLog
from scheduler.kernel.snapshot.pod_kinds import OtherPods, kinds_used

_Key: TypeAlias = tuple[object, int, int, int, int]
"""The nominations, the epoch of the kinds, the position in the log of nodes, the pod's priority,
and `NominatedPods.passes` of the pod."""


class _Differences(msgspec.Struct, frozen=True):
    """The verdicts that change because of nominated pods.

    Attributes:
        places: the positions of these verdicts.
        first: the filter that rejects each together with the nominated pods.
        bits: its answer.
    """

    places: Indices
    first: First
    bits: NDArray[np.uint64]


_NO_DIFFERENCES: Final = _Differences(
    np.zeros(0, np.intp), np.zeros(0, np.int16), np.zeros(0, np.uint64)
)


class NominatedLayer:
    """The rows on which nominated pods exclude a class of pods, kept up to date by row.

    Attributes:
        key: the inputs that it holds for.
        differences: the differences that nominated pods make, pods of the class included.
        positions: the positions in the logs of pods and nominations that it is current to.
    """

    def __init__(self, key: _Key, positions: tuple[int, int], size: int) -> None:
        self.key = key
        self.positions = positions
        self.differences = _NO_DIFFERENCES
        self._has_nominated = np.zeros(size, np.bool_)
        self._first: First = np.full(size, FEASIBLE, np.int16)
        self._bits = np.zeros(size, np.uint64)

    def concerns(self, rows: Rows) -> bool:
        """Whether pods that count here were nominated to any of these rows."""
        return bool(self._has_nominated[rows].any())

    def replace(self, changed: Rows, found: Nominated | None, new: _Differences) -> None:
        """Set the nominated pods and their differences on rows that have changed."""
        self._has_nominated[changed] = False
        if found is not None:
            self._has_nominated[found.rows] = True
        self._first[changed] = FEASIBLE
        self._first[new.places], self._bits[new.places] = new.first, new.bits
        places = np.flatnonzero(self._first != FEASIBLE)
        self.differences = _Differences(places, self._first[places], self._bits[places])


def with_nominated_pods(
    attempt: FilterAttempt,
    alone: Verdicts,
    nominated: NominatedPods,
    pod_class: PodClass | None = None,
) -> Verdicts:
    """Reject nodes that would not fit once the pods nominated to them run there.

    Upstream filters with these pods first, and without them only when that passes. So where they
    cause a rejection, it is the one reported, whatever the verdict without them.

    `pod_class` is the class whose own columns `alone` is; None when it is anything else.

    Returns:
        `alone` itself where nominated pods make no difference, else a copy.
    """
    # Numbers in reasons include the nominated pods.
    alone.attempt = replace(attempt, nominated=nominated)
    if pod_class is None:
        found = nominated.before(attempt.pod, attempt.snapshot, on=alone.rows)
        every = _judged(attempt, alone, found)
    else:
        every = _in_the_way(attempt, alone, nominated, pod_class)
        own = nominated.row_of(attempt.pod.uid)
        if own is not None:
            every = _but_for_its_own(every, own, attempt, alone, nominated)
    if not len(every.places):
        return alone
    first, bits = alone.first.copy(), alone.bits.copy()
    first[every.places], bits[every.places] = every.first, every.bits
    return Verdicts(first, bits, alone.rows, alone.attempt, alone.failures)


def _in_the_way(
    attempt: FilterAttempt, alone: Verdicts, nominated: NominatedPods, pod_class: PodClass
) -> _Differences:
    """The differences for a class; only rows that changed since its last pod are judged again.

    A nominated pod of the class counts here like any other nominated pod.
    """
    pod, snapshot = attempt.pod, attempt.snapshot
    kinds, nodes = snapshot.kinds.epoch, snapshot.node_log.position
    key = (nominated, kinds, nodes, pod.priority, nominated.passes(pod))
    pods, nominations = snapshot.pod_log, nominated.row_log(snapshot)
    positions = pods.position, nominations.position
    layer, changed = pod_class.nominated_layer, None
    if isinstance(layer, NominatedLayer) and layer.key == key:
        changed = _changed(layer, pods, nominations)
    if changed is None or not isinstance(layer, NominatedLayer):
        layer = NominatedLayer(key, positions, snapshot.table.size)
        found = nominated.before(pod, snapshot, counts_itself=True)
        layer.replace(slice(None), found, _judged(attempt, alone, found))
        # No row log records which nodes have which images, or that a filter works again.
        reads_images = any(each.reads & Reads.IMAGES for each in attempt.filters)
        pod_class.nominated_layer = None if reads_images or alone.failures else layer
    elif len(changed):
        found = nominated.before(pod, snapshot, on=changed, counts_itself=True)
        layer.replace(changed, found, _judged(attempt, alone, found))
    layer.positions = positions
    return layer.differences


def _changed(layer: NominatedLayer, pods: RowLog, nominations: RowLog) -> Indices | None:
    """The rows with changed pods or nominations; None if a log is too short."""
    with_other_pods = pods.since(layer.positions[0])
    renominated = nominations.since(layer.positions[1])
    if with_other_pods is None or renominated is None:
        return None
    if not len(renominated):
        return with_other_pods if layer.concerns(with_other_pods) else renominated
    return np.concatenate((with_other_pods, renominated))


def _but_for_its_own(
    every: _Differences,
    row: int,
    attempt: FilterAttempt,
    alone: Verdicts,
    nominated: NominatedPods,
) -> _Differences:
    """The differences for a pod nominated to a row: its own nomination does not count there."""
    others = nominated.before(attempt.pod, attempt.snapshot, on=np.array([row], np.intp))
    own = _judged(attempt, alone, others)
    kept = every.places != row
    return _Differences(
        np.append(every.places[kept], own.places),
        np.append(every.first[kept], own.first),
        np.append(every.bits[kept], own.bits),
    )


def _judged(attempt: FilterAttempt, alone: Verdicts, found: Nominated | None) -> _Differences:
    """The differences that some nominated pods make, each on the row it is nominated to."""
    if found is None:
        return _NO_DIFFERENCES
    snapshot = attempt.snapshot
    rows, at = kinds_used(found.rows)
    places = rows if alone.rows is None else np.searchsorted(alone.rows, rows)
    kinds, of_kind = kinds_used(found.kinds)
    known = alone.at(places)
    changed = ChangedRows(attempt, snapshot, rows, OtherPods(snapshot.kinds, kinds), known)
    changed.nominate(at, of_kind, lambda: found.pods_on(snapshot))
    together = changed.judge_with_nominated()
    differs = together.first != FEASIBLE
    differs &= (together.first != known.first) | (together.bits != known.bits)
    return _Differences(places[differs], together.first[differs], together.bits[differs])
