"""Room is left for nominated pods: verdicts on their nodes as if they ran there already.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go
(RunFilterPluginsWithNominatedPods) v1.36.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.framework.interface import Reads, Reason
from scheduler.framework.runtime.changed_rows import ChangedRows, Indices
from scheduler.framework.runtime.judging import FilterAttempt, Reasons
from scheduler.framework.runtime.nominated_pods import Nominated, NominatedPods
from scheduler.framework.runtime.pod_class import PodClass
from scheduler.framework.runtime.verdicts import FEASIBLE, First, ReasonTable, Verdicts
from scheduler.snapshot import Snapshot
from scheduler.snapshot.pod_kinds import OtherPods, kinds_used

_Key: TypeAlias = tuple[object, int, int]
"""The nominations, the epoch of the kinds, the pod's priority."""


class _Differences(msgspec.Struct, frozen=True):
    """What nominated pods change about some verdicts.

    Attributes:
        places: which verdicts.
        first: the filter that rejects each together with the nominated pods.
        bits: its answer.
    """

    places: Indices
    first: First
    bits: NDArray[np.uint64]


class Room(msgspec.Struct):
    """Where nominated pods are in the way of one class of pods, kept up to date by row.

    Attributes:
        key: what it holds for.
        first: by row, the filter that rejects it together with the nominated pods, where the row
            alone would get another answer; FEASIBLE where they make no difference.
        bits: by row, the answer of this filter.
        positions: up to where changes of nodes, of pods and of nominations are taken over.
    """

    key: _Key
    first: First
    bits: NDArray[np.uint64]
    positions: tuple[int, int, int]

    def differences(self) -> _Differences:
        """All of them."""
        places = np.flatnonzero(self.first != FEASIBLE)
        return _Differences(places, self.first[places], self.bits[places])


class _Together(ReasonTable):
    """What answers mean where nominated pods run as well; these are placed when somebody asks."""

    def __init__(self, attempt: FilterAttempt, snapshot: Snapshot, found: Nominated) -> None:
        self._attempt = attempt
        self._snapshot = snapshot
        self._found = found

    @cached_property
    def _reasons(self) -> Reasons:
        attempt = self._attempt
        fork = self._snapshot.fork(self._found.pods_on(self._snapshot))
        return Reasons(attempt.calls, attempt.filters, attempt.state, attempt.pod, fork)

    @override
    def reasons(self, index: int, answer: int, row: int | None = None) -> Sequence[Reason]:
        table = self._attempt.reasons if row is None else self._reasons
        return table.reasons(index, answer, row)

    @override
    def name(self, index: int) -> str:
        return self._attempt.reasons.name(index)


def with_nominated_pods(
    attempt: FilterAttempt,
    snapshot: Snapshot,
    alone: Verdicts,
    nominated: NominatedPods | None,
    pod_class: PodClass | None = None,
) -> Verdicts:
    """Reject nodes that would not fit once the pods nominated to them run there.

    Upstream looks with these pods first and without them only when that passes. So where they
    are in the way, their verdict is the one reported, whatever was found without them.

    Args:
        attempt: the pod, and the filters that look at nodes for it.
        snapshot: the cluster.
        alone: the verdicts without nominated pods.
        nominated: all nominated pods.
        pod_class: the class whose own columns `alone` is; None when it is anything else.

    Returns:
        `alone` itself where nominated pods make no difference, else a copy.
    """
    found = None if nominated is None else nominated.before(attempt.pod, snapshot)
    if nominated is None or found is None:
        return alone
    # Numbers are told as they are with the nominated pods.
    alone.table = _Together(attempt, snapshot, found)
    if pod_class is not None:
        every = _in_the_way(attempt, snapshot, alone, nominated, pod_class)
        own = nominated.row_of(attempt.pod.uid)
        if own is not None:
            every = _but_for_its_own(every, own, _judged(attempt, snapshot, alone, found.on(own)))
    else:
        looked_at = None if alone.rows is None else np.isin(found.rows, alone.rows)
        here = found if looked_at is None else found.of(looked_at)
        every = _judged(attempt, snapshot, alone, here)
    if not len(every.places):
        return alone
    first, bits = alone.first.copy(), alone.bits.copy()
    first[every.places], bits[every.places] = every.first, every.bits
    return Verdicts(first, bits, alone.rows, alone.table, alone.failures)


def _in_the_way(
    attempt: FilterAttempt,
    snapshot: Snapshot,
    alone: Verdicts,
    nominated: NominatedPods,
    pod_class: PodClass,
) -> _Differences:
    """The differences for a class; only rows that changed since its last pod are judged again.

    A pod of the class that is nominated itself counts here as any other.
    """
    size, priority = snapshot.table.size, attempt.pod.priority
    key = (nominated, snapshot.kinds.epoch, priority)
    logs = snapshot.node_log, snapshot.pod_log, nominated.row_log
    positions = (logs[0].position, logs[1].position, logs[2].position)
    found = nominated.of_at_least(priority, snapshot)
    room = pod_class.room
    if isinstance(room, Room) and room.key == key:
        is_stale = _stale_rows(room, snapshot, nominated, attempt)
    else:
        is_stale = None
    if is_stale is None or not isinstance(room, Room):
        room = Room(key, np.full(size, FEASIBLE, np.int16), np.zeros(size, np.uint64), positions)
        pod_class.room = room
    elif found is not None:
        room.first[is_stale] = FEASIBLE
        found = found.of(is_stale[found.rows])
    room.positions = positions
    if found is not None:
        new = _judged(attempt, snapshot, alone, found)
        room.first[new.places], room.bits[new.places] = new.first, new.bits
    return room.differences()


def _stale_rows(
    room: Room, snapshot: Snapshot, nominated: NominatedPods, attempt: FilterAttempt
) -> NDArray[np.bool_] | None:
    """Which rows have changed; None where that is not known, or may be all."""
    nodes, pods, nominations = room.positions
    if snapshot.node_log.position != nodes:
        return None
    if any(each.plugin.READS & Reads.IMAGES for each in attempt.filters):
        return None
    changed = snapshot.pod_log.since(pods), nominated.row_log.since(nominations)
    is_stale = np.zeros(len(room.first), np.bool_)
    for rows in changed:
        if rows is None:
            return None
        is_stale[rows] = True
    return is_stale


def _but_for_its_own(every: _Differences, row: int, own: _Differences) -> _Differences:
    """The differences for a pod that is nominated to a row: there its own place is free for it."""
    kept = every.places != row
    return _Differences(
        np.append(every.places[kept], own.places),
        np.append(every.first[kept], own.first),
        np.append(every.bits[kept], own.bits),
    )


def _judged(
    attempt: FilterAttempt, snapshot: Snapshot, alone: Verdicts, found: Nominated
) -> _Differences:
    """The differences that some nominated pods make, each on the row it is nominated to."""
    rows, at = kinds_used(found.rows)
    places = rows if alone.rows is None else np.searchsorted(alone.rows, rows)
    if not len(rows):
        return _Differences(places, alone.first[:0], alone.bits[:0])
    kinds, of_kind = kinds_used(found.kinds)
    known = alone.at(places)
    changed = ChangedRows(attempt, snapshot, rows, OtherPods(snapshot.kinds, kinds), known)
    changed.nominate(at, of_kind, lambda: found.pods_on(snapshot))
    together = changed.judge_with_nominated()
    differs = together.first != FEASIBLE
    differs &= (together.first != known.first) | (together.bits != known.bits)
    return _Differences(places[differs], together.first[differs], together.bits[differs])
