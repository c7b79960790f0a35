"""The pod groups that leave whole: all members of one are evicted together, or none is.

Source: kubernetes pkg/scheduler/framework/preemption/types.go (isPodGroupPreemptiblePod) v1.36.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod_groups import MODE_POD_GROUP, PodGroup
from scheduler.api.pods import PodInfo, PodKind
from scheduler.kernel.groups import PodGroups
from scheduler.kernel.preemption.importance import Importance
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods, kinds_used


def group_name_of(kind: PodKind) -> str:
    """The name of the group that pods of a kind are members of; empty for none."""
    group = kind.shape.spec.scheduling_group
    return "" if group is None else group.pod_group_name


class WholeGroups:
    """The groups with the disruption mode `PodGroup`."""

    def __init__(self, groups: PodGroups) -> None:
        self._groups = groups

    def of(self, kind: PodKind) -> PodGroup | None:
        """The group that pods of a kind leave with; None where each may leave alone."""
        name = group_name_of(kind)
        known = self._groups.of(kind.namespace, name) if name else None
        group = None if known is None else known.group
        return None if group is None or group.disruption_mode != MODE_POD_GROUP else group

    def members(self, kinds: OtherPods) -> NDArray[np.bool_]:
        """The kinds that leave with a group, as a mask."""
        return np.array([self.of(kind) is not None for kind in kinds], np.bool_)

    def stay(self, kinds: OtherPods, priority: int) -> NDArray[np.bool_]:
        """The kinds that a preemptor of this priority cannot evict: their group's is too high."""
        groups = map(self.of, kinds)
        return np.array(
            [group is not None and priority_of(group) >= priority for group in groups], np.bool_
        )

    def completed(
        self, victims: Sequence[PodInfo], snapshot: Snapshot, importance: Importance
    ) -> tuple[PodInfo, ...]:
        """The victims, and after them all other members of their groups, on any node.

        Cost: a few operations on columns of all pods, if any of them leaves with a group.
        """
        wanted = {id(group) for victim in victims if (group := self.of(victim.kind)) is not None}
        if not wanted:
            return tuple(victims)
        every = importance.ranked(snapshot, snapshot.table.live_rows())
        distinct, places = kinds_used(every.kinds)
        kinds = OtherPods(snapshot.kinds, distinct)
        leaves = np.array([id(self.of(kind)) in wanted for kind in kinds], np.bool_)
        known = {victim.uid for victim in victims}
        others = every.pods(np.flatnonzero(leaves[places]))
        return (*victims, *(pod for pod in others if pod.uid not in known))


def priority_of(group: PodGroup) -> int:
    """The priority of a group in a preemption, whatever the priorities of its members.

    Source: pkg/scheduler/util/utils.go (PodGroupPriority).
    """
    return group.priority or 0
