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
from scheduler.framework.runtime.verdicts import FEASIBLE, ReasonTable, Verdicts
from scheduler.snapshot import Snapshot
from scheduler.snapshot.pod_kinds import OtherPods, kinds_used

_Key: TypeAlias = tuple[object, int, int, int]
"""The nominations and their version, the epoch of the kinds, the pod's priority."""


class Room(msgspec.Struct):
    """Where nominated pods are in the way of one class of pods, kept up to date by row.

    Attributes:
        key: what it holds for.
        found: the nominated pods.
        rows: the distinct rows they are nominated to.
        together: the verdicts on these rows with the nominated pods.
        differs: which of these are rejections that the rows alone would not give.
        pod_position: up to where changes of pods are taken over.
        node_position: up to where changes of nodes are.
    """

    key: _Key
    found: Nominated
    rows: Indices
    together: Verdicts
    differs: NDArray[np.bool_]
    pod_position: int
    node_position: int


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
    if nominated is None or not len(nominated):
        return alone
    if pod_class is not None and nominated.node_of(attempt.pod.uid) is None:
        room = _room_of(attempt, snapshot, alone, nominated, pod_class)
    else:
        found = nominated.before(attempt.pod, snapshot)
        if found is not None and alone.rows is not None:
            found = found.of(np.isin(found.rows, alone.rows))
        room = _new_room((nominated, -1, -1, 0), attempt, snapshot, alone, found)
    if room is None:
        return alone
    # Numbers are told as they are with the nominated pods.
    alone.table = _Together(attempt, snapshot, room.found)
    if not room.differs.any():
        return alone
    first, bits = alone.first.copy(), alone.bits.copy()
    places = _places(alone, room.rows[room.differs])
    first[places] = room.together.first[room.differs]
    bits[places] = room.together.bits[room.differs]
    return Verdicts(first, bits, alone.rows, alone.table, alone.failures)


def _room_of(
    attempt: FilterAttempt,
    snapshot: Snapshot,
    alone: Verdicts,
    nominated: NominatedPods,
    pod_class: PodClass,
) -> Room | None:
    """The room of a class: only rows that changed since its last pod are judged again."""
    key = (nominated, nominated.version, snapshot.kinds.epoch, attempt.pod.priority)
    room = pod_class.room
    if isinstance(room, Room) and room.key == key and _catch_up(room, attempt, snapshot, alone):
        return room
    found = nominated.before(attempt.pod, snapshot)
    pod_class.room = new = _new_room(key, attempt, snapshot, alone, found)
    return new


def _new_room(
    key: _Key,
    attempt: FilterAttempt,
    snapshot: Snapshot,
    alone: Verdicts,
    found: Nominated | None,
) -> Room | None:
    if found is None or not len(found.rows):
        return None
    rows, at = kinds_used(found.rows)
    together, differs = _judge(attempt, snapshot, alone, found, rows, at)
    pods, nodes = snapshot.pod_log.position, snapshot.node_log.position
    return Room(key, found, rows, together, differs, pods, nodes)


def _catch_up(room: Room, attempt: FilterAttempt, snapshot: Snapshot, alone: Verdicts) -> bool:
    """Judge the rows again that changed; says whether that was possible."""
    changed = snapshot.pod_log.since(room.pod_position)
    if changed is None or snapshot.node_log.position != room.node_position:
        return False
    if any(each.plugin.READS & Reads.IMAGES for each in attempt.filters):
        return False
    room.pod_position = snapshot.pod_log.position
    places = np.searchsorted(room.rows, changed)
    places = places[room.rows[np.minimum(places, len(room.rows) - 1)] == changed]
    if not len(places):
        return True
    rows = room.rows[places]
    order = np.argsort(rows)
    rows, places = rows[order], places[order]
    found = room.found.of(np.isin(room.found.rows, rows))
    at = np.searchsorted(rows, found.rows)
    together, differs = _judge(attempt, snapshot, alone, found, rows, at)
    room.together.first[places] = together.first
    room.together.bits[places] = together.bits
    room.differs[places] = differs
    return True


def _judge(
    attempt: FilterAttempt,
    snapshot: Snapshot,
    alone: Verdicts,
    found: Nominated,
    rows: Indices,
    at: Indices,
) -> tuple[Verdicts, NDArray[np.bool_]]:
    kinds, of_kind = kinds_used(found.kinds)
    known = alone.at(_places(alone, rows))
    changed = ChangedRows(attempt, snapshot, rows, OtherPods(snapshot.kinds, kinds), known)
    changed.nominate(at, of_kind, lambda: found.pods_on(snapshot))
    together = changed.judge_with_nominated()
    differs = together.first != FEASIBLE
    differs &= (together.first != known.first) | (together.bits != known.bits)
    return together, differs


def _places(alone: Verdicts, rows: Indices) -> Indices:
    return rows if alone.rows is None else np.searchsorted(alone.rows, rows)
