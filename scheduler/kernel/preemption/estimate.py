"""The node on which a pod could start first if no other pod came there, as far as ends are known.

The ends of pods are estimated in `kernel.ends`. Pods of DaemonSets do not end.
"""

from math import inf
from sys import float_info
from typing import Final

import msgspec
import numpy as np

from scheduler.api.pods import PodInfo
from scheduler.kernel.ends import RunDurations, end_if_started, expected_end, never_ends
from scheduler.kernel.framework.runtime.changed_rows import ChangedRows
from scheduler.kernel.framework.runtime.diagnosis import AttemptDiagnosis
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE
from scheduler.kernel.preemption.importance import Importance, PodsAt
from scheduler.kernel.snapshot import Indices, Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods, kinds_used

NEVER: Final = inf
UNKNOWN: Final = float_info.max
"""The ends of pods that never end, and of pods whose end is unknown; both sort after all times."""


class Start(msgspec.Struct, frozen=True):
    """A possible start of a pod on a node.

    Attributes:
        node_name: the node.
        time: the time at which enough pods have left, in seconds since 1970; 0 where unknown.
        unknown: number of pods without a known end among those that have to end.
    """

    node_name: str
    time: float
    unknown: int


def end_of(pod: PodInfo, now: float, durations: RunDurations | None = None) -> float:
    """The expected end of a pod, in seconds since 1970; see `expected_end`.

    A pod that has a node and has not started counts as starting now.
    """
    if never_ends(pod):
        return NEVER
    end = expected_end(pod, now, durations)
    if end is not None:
        return end.time
    is_starting = pod.pod.start_time is None and not pod.is_terminating
    return min(UNKNOWN, end_if_started(pod, now, durations)) if is_starting else UNKNOWN


def soonest_start(
    diagnosis: AttemptDiagnosis,
    snapshot: Snapshot,
    importance: Importance,
    rows: Indices,
    now: float,
    durations: RunDurations | None = None,
) -> Start | None:
    """The node of `rows` on which the pod could start first; None when it could start on none.

    The criteria: the fewest pods of unknown end, the earliest time, the fewest pods that leave.
    `now` is the time of day, in seconds since 1970; `durations` holds the run times of ended pods.

    Raises:
        PluginError: a plugin failed.
    """
    if diagnosis.attempt is None or not len(rows):
        return None
    ranked = importance.ranked(snapshot, rows).by_node()
    ends = np.array([end_of(pod, now, durations) for pod in ranked.pods()], np.float64)
    stays = ends == NEVER
    ranked, ends = ranked.take(~stays), ends[~stays]
    order = np.lexsort((ends, ranked.at))
    ranked, ends = ranked.take(order), ends[order]
    distinct, kinds = kinds_used(ranked.kinds)
    changed = ChangedRows(diagnosis.attempt, snapshot, rows, OtherPods(snapshot.kinds, distinct))
    starts = _leave(changed, ranked, kinds)
    best: tuple[int, float, int] | None = None
    place = -1
    for row, last in starts.items():
        first = int(np.searchsorted(ranked.at, row))
        gone = ends[first : last + 1].tolist()
        known = [end for end in gone if end != UNKNOWN]
        unknown = len(gone) - len(known)
        found = (unknown, max(known, default=0.0), len(gone))
        if best is None or found < best:
            best, place = found, row
    if best is None:
        return None
    unknown, time, _ = best
    name = snapshot.table.names[int(rows[place])]
    return Start(name, 0.0 if unknown else max(time, now), unknown)


def _leave(changed: ChangedRows, pods: PodsAt, kinds: Indices) -> dict[int, int]:
    """Remove pods from all rows one by one in the order given, until the pod fits.

    Returns:
        By position of the row, the index of the last pod that had to leave.
    """
    starts: dict[int, int] = {}
    first = np.flatnonzero(np.diff(pods.at, prepend=-1))
    end = np.append(first, len(pods))[1:]
    at = first
    while len(at):
        places = pods.at[at]
        taken = at
        changed.remove(places, kinds[at], lambda taken=taken: pods.pods(taken))  # type: ignore[misc] # the pods of this step
        fits = changed.judge(places).first == FEASIBLE
        starts.update(zip(places[fits].tolist(), at[fits].tolist(), strict=True))
        left = ~fits & (at + 1 < end)
        at, end = at[left] + 1, end[left]
    return starts
