"""TaintToleration: keeps pods away from nodes with taints that they do not tolerate.

Rejects nodes with an untolerated NoSchedule or NoExecute taint; prefers nodes with few untolerated
PreferNoSchedule taints. Taints are judged once per distinct list of taints.

Extension points: Filter, PreScore, Score, NormalizeScore.
Events: a node is added or its taints change; the pod's own tolerations change.
Source: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go (v1.36).
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import partial
from typing import ClassVar, Final, TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.objects import Node, Taint
from scheduler.api.pods import PodInfo
from scheduler.api.taints import PREFER_NO_SCHEDULE, Tolerations, taint_text
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.interface import (
    Bits,
    EnqueueExtensions,
    FilterPlugin,
    NormalizeScorePlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Scores,
    SignPlugin,
)
from scheduler.kernel.framework.obstacles import Obstacle, TaintObstacle
from scheduler.kernel.framework.results import Reason, Untolerated
from scheduler.kernel.framework.status import SUCCESS, Code, Status
from scheduler.kernel.plugins.columns import Judged, distance_from_highest
from scheduler.kernel.plugins.node_predicates import has_untolerated_taint
from scheduler.kernel.snapshot import Rows, Snapshot

REASONS: Final = (Reason("node(s) had untolerated taint(s)", Code.UNSCHEDULABLE_AND_UNRESOLVABLE),)

_Taints: TypeAlias = tuple[Taint, ...]

_REJECTED: Final[StateKey[Judged[_Taints, np.uint64]]] = StateKey("TaintToleration/rejected")
_DISLIKED: Final[StateKey[Judged[_Taints, np.float64]]] = StateKey("TaintToleration/disliked")


class TaintToleration(
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    NormalizeScorePlugin,
    EnqueueExtensions,
    SignPlugin,
):
    """Rejects nodes, or scores them lower, for taints that the pod does not tolerate."""

    NAME: ClassVar[str] = "TaintToleration"
    READS: ClassVar[Reads] = Reads.NODE
    COMPARES: ClassVar[bool] = False
    """The gate TaintTolerationComparisonOperators."""

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        after_node_change = is_schedulable_after_node_change
        if self.COMPARES:
            after_node_change = partial(after_node_change, compares=True)
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_changes),
                after_node_change,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION),
                is_schedulable_after_pod_toleration_change,
            ),
        )

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's tolerations."""
        return pod.spec.tolerations

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        judged = state.get(_REJECTED)
        if judged is None:
            tolerations = self.tolerations_of(pod)
            judged = Judged(lambda taints: has_untolerated_taint(taints, tolerations), np.uint64)
            state.write(_REJECTED, judged)
        table = snapshot.table
        bits = judged.of(table.taint_sets, table.taint_set[rows])
        return bits if bits.any() else None

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return REASONS

    @override
    def reasons_on(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, row: int
    ) -> Sequence[Reason]:
        """The untolerated taints."""
        table = snapshot.table
        tolerations = self.tolerations_of(pod)
        taints = table.taint_sets.values[int(table.taint_set[row])]
        return (replace(REASONS[0], data=Untolerated(untolerated(taints, tolerations))),)

    @override
    def obstacles(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Sequence[Obstacle]:
        """The untolerated taints, the most frequent first; see `FilterPlugin.obstacles`."""
        table = snapshot.table
        tolerations = self.tolerations_of(pod)
        counts: Counter[str] = Counter()
        for number, nodes in enumerate(np.bincount(table.taint_set[rows]).tolist()):
            if nodes:
                kept_away = untolerated(table.taint_sets.values[number], tolerations)
                counts.update(dict.fromkeys(map(taint_text, kept_away), nodes))
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return [TaintObstacle(taint, nodes) for taint, nodes in ordered]

    @override
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Prepare counting taints; never skips."""
        tolerations = self.tolerations_of(pod)
        judged: Judged[_Taints, np.float64] = Judged(
            lambda taints: count_disliked(taints, tolerations), np.float64
        )
        state.write(_DISLIKED, judged)
        return SUCCESS

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """The number of PreferNoSchedule taints that the pod does not tolerate."""
        judged = state.read(_DISLIKED)
        table = snapshot.table
        return judged.of(table.taint_sets, table.taint_set[rows])

    @override
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Scale counts to scores: the fewer taints the higher; 100 everywhere if there are none."""
        return distance_from_highest(scores)

    def tolerations_of(self, pod: PodInfo) -> Tolerations:
        """The pod's tolerations, with comparison operators if the feature gate is on."""
        return Tolerations(pod.spec.tolerations, compares=self.COMPARES)


class TaintTolerationWithComparisons(TaintToleration):
    """TaintToleration with the feature gate TaintTolerationComparisonOperators."""

    COMPARES: ClassVar[bool] = True


def untolerated(taints: _Taints, tolerations: Tolerations) -> _Taints:
    """The NoSchedule and NoExecute taints that no toleration matches."""
    return tuple(taint for taint in taints if has_untolerated_taint((taint,), tolerations))


def count_disliked(taints: _Taints, tolerations: Tolerations) -> int:
    """Number of PreferNoSchedule taints that no toleration matches."""
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not tolerations.tolerate(taint) for taint in taints
    )


def is_schedulable_after_node_change(
    pod: PodInfo, old: Node | None, new: Node, *, compares: bool = False
) -> QueueingHint:
    """Queue if the pod tolerates the node's taints, and did not before or the node is new."""
    tolerations = Tolerations(pod.spec.tolerations, compares=compares)
    was_rejected = old is None or has_untolerated_taint(old.spec.taints, tolerations)
    if was_rejected and not has_untolerated_taint(new.spec.taints, tolerations):
        return QueueingHint.QUEUE
    return QueueingHint.SKIP


def is_schedulable_after_pod_toleration_change(
    pod: PodInfo,
    old: PodInfo,  # noqa: ARG001 - hints share a signature
    new: PodInfo,
) -> QueueingHint:
    """Queue if the pod itself has a new toleration."""
    return QueueingHint.QUEUE if new.uid == pod.uid else QueueingHint.SKIP
