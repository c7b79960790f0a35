"""The units that may leave for a pod group: single pods and whole groups, by importance.

Source: kubernetes pkg/scheduler/framework/preemption/types.go (newDomainForWorkloadPreemption),
podgrouppreemption.go (moreImportantVictim) v1.36.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.preemption.budgets import Budgets
from scheduler.kernel.preemption.importance import Importance, PodsAt
from scheduler.kernel.preemption.whole_groups import WholeGroups, group_name_of, priority_of
from scheduler.kernel.snapshot import Indices, Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods, kinds_used


class Units:
    """Pods that leave together, most important ones first; unit `i` is one pod or more.

    Attributes:
        pods: all of them, unit by unit.
        starts: the index of each unit's first pod in `pods`, and at the end the number of pods.
    """

    def __init__(self, pods: PodsAt, starts: Indices, snapshot: Snapshot) -> None:
        self.pods = pods
        self.starts = starts
        self._snapshot = snapshot

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, units: Sequence[int]) -> list[PodInfo]:
        """The pods of some units."""
        starts, places = self.starts, [np.arange(0)]
        places += [np.arange(starts[unit], starts[unit + 1]) for unit in units]
        return self.pods.pods(np.concatenate(places))

    def violating(self, budgets: Budgets) -> NDArray[np.bool_]:
        """A mask of the units for which a budget has nothing left, if all left in this order."""
        distinct, places = kinds_used(self.pods.kinds)
        of_pod = np.repeat(np.arange(len(self)), np.diff(self.starts))
        kinds = OtherPods(self._snapshot.kinds, distinct)
        return budgets.violating_together(self.pods, kinds, places, of_pod)


def units_below(
    priority: int,
    snapshot: Snapshot,
    importance: Importance,
    whole: WholeGroups,
    but: Collection[PodInfo],
) -> Units:
    """All units of a lower priority.

    The priority of a group is its own, that of a single pod the pod's. Of equal priority, pods that
    are members of any group are more important than others; then larger units, then those that
    started earlier. Pods that have not started come in the order of nodes and arrival.

    Args:
        priority: the priority of the preemptor.
        snapshot: the cluster.
        importance: the order of the pods of each node.
        whole: the groups that leave whole.
        but: pods that cannot be victims: members of the preemptor that are assumed.

    Cost: a few operations on columns of all pods.
    """
    every = importance.ranked(snapshot, rows := snapshot.table.live_rows()).by_node()
    distinct, places = kinds_used(every.kinds)
    kinds = list(OtherPods(snapshot.kinds, distinct))
    numbers: dict[int, int] = {}
    groups, values = np.full(len(kinds), -1, np.intp), np.zeros(len(kinds), np.int64)
    for place, kind in enumerate(kinds):
        group = whole.of(kind)
        if group is not None:
            groups[place] = numbers.setdefault(id(group), len(numbers))
            values[place] = priority_of(group)
    is_member = np.array([bool(group_name_of(kind)) for kind in kinds], np.bool_)
    group_of = groups[places]
    worth = np.where(group_of >= 0, values[places], every.priorities)
    lower = np.flatnonzero((worth < priority) & ~_among(every, but, rows, snapshot))
    pods, group_of = every.take(lower), group_of[lower]
    order = _as_met(pods, group_of, rows, snapshot)
    pods, group_of, lower = pods.take(order), group_of[order], lower[order]
    unit_of, firsts, sizes = _numbered(group_of, len(numbers))
    return _sorted(pods, unit_of, firsts, sizes, worth[lower], is_member[places][lower], snapshot)


def _among(
    every: PodsAt, pods: Collection[PodInfo], rows: Indices, snapshot: Snapshot
) -> NDArray[np.bool_]:
    """A mask of the pods in `every` that are among `pods`; only the nodes of these are scanned."""
    found = np.zeros(len(every), np.bool_)
    uids = {pod.uid for pod in pods}
    theirs = [snapshot.table.row_of.get(pod.node_name, -1) for pod in pods]
    near = np.flatnonzero(np.isin(rows[every.at], theirs))
    found[near] = [pod.uid in uids for pod in every.pods(near)]
    return found


def _as_met(pods: PodsAt, group_of: Indices, rows: Indices, snapshot: Snapshot) -> Indices:
    """The order of the pods by node; members of groups also by their arrival there."""
    ranks = np.zeros(snapshot.table.capacity, np.intp)
    ranks[snapshot.table.node_order()] = np.arange(snapshot.table.count)
    places = np.zeros(len(pods), np.intp)
    members = np.flatnonzero(group_of >= 0)
    orders: dict[int, dict[str, int]] = {}
    for at, row, pod in zip(
        members, rows[pods.at[members]].tolist(), pods.pods(members), strict=True
    ):
        if row not in orders:
            orders[row] = {uid: place for place, uid in enumerate(snapshot.info(row).pods)}
        places[at] = orders[row][pod.uid]
    return np.lexsort((places, ranks[rows[pods.at]]))


def _numbered(group_of: Indices, groups: int) -> tuple[Indices, Indices, Indices]:
    """The unit of each pod, the first pod of each unit, and the size of each unit."""
    single = group_of < 0
    unit_of = group_of.copy()
    unit_of[single] = groups + np.arange(np.count_nonzero(single))
    _, firsts, unit_of, sizes = np.unique(
        unit_of, return_index=True, return_inverse=True, return_counts=True
    )
    return unit_of, firsts, sizes


def _sorted(  # noqa: PLR0913, PLR0917 - columns of one table
    pods: PodsAt,
    unit_of: Indices,
    firsts: Indices,
    sizes: Indices,
    worth: NDArray[np.int64],
    is_member: NDArray[np.bool_],
    snapshot: Snapshot,
) -> Units:
    """The units, most important ones first."""
    order = np.lexsort((firsts, pods.starts[firsts], -sizes, ~is_member[firsts], -worth[firsts]))
    rank = np.empty(len(order), np.intp)
    rank[order] = np.arange(len(order))
    by_unit = np.argsort(rank[unit_of], kind="stable")
    starts = np.concatenate(([0], np.cumsum(sizes[order])))
    return Units(pods.take(by_unit), starts, snapshot)
