"""PodTopologySpread: keeps pods of a kind evenly spread over zones, nodes or other domains.

Hard constraints (DoNotSchedule) reject nodes whose domain is too far ahead of the emptiest one;
soft ones (ScheduleAnyway) score domains by how full they are.

Extension points: PreFilter, Filter (counting), PreScore, Score, NormalizeScore.
Events: pods of the same namespace that start or stop to count; nodes that join, leave or change a
domain.
Source: kubernetes pkg/scheduler/framework/plugins/podtopologyspread (v1.36).
"""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import SelectorError
from scheduler.config.args import PodTopologySpreadArgs, PodTopologySpreadConstraintsDefaulting
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    ObjectKind,
    QueueingHint,
)
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    MAX_NODE_SCORE,
    Bits,
    Counting,
    CountingFilterPlugin,
    EnqueueExtensions,
    NormalizeScorePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Reads,
    Reason,
    ScorePlugin,
    Scores,
)
from scheduler.kernel.framework.obstacles import Obstacle
from scheduler.kernel.framework.shortcuts import Fitting, Shortcuts
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status, error
from scheduler.kernel.plugins import spread_obstacles
from scheduler.kernel.plugins.columns import Mask, count_of, has_few_domains
from scheduler.kernel.plugins.default_selector import Workloads
from scheduler.kernel.plugins.spread_constraints import (
    HARD,
    SYSTEM_DEFAULTS,
    SpreadConstraint,
    SpreadPlan,
    SpreadPlans,
    hard_paths,
)
from scheduler.kernel.plugins.topology_scope import NO_PODS, Domains
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.label_columns import ABSENT
from scheduler.kernel.snapshot.pod_kinds import OtherPods
from scheduler.kernel.snapshot.row_counts import RowCounts
from scheduler.kernel.snapshot.topology import Topology

REASON_SKEW: Final = "node(s) didn't match pod topology spread constraints"
REASON_MISSING_KEY: Final = f"{REASON_SKEW} (missing required label)"

_REASONS: Final = (
    Reason(REASON_SKEW),
    Reason(REASON_MISSING_KEY, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
)
_SKEWED: Final = np.uint64(1)
_KEY_MISSING: Final = np.uint64(2)
_FITS: Final = np.uint64(0)

Counts: TypeAlias = float | NDArray[np.float64]

_HOSTNAME: Final = "kubernetes.io/hostname"
"""The key whose domains count the pods of each node by itself when scoring."""


class _HardState:
    """How pods are spread over the domains of each hard constraint.

    Attributes:
        plan: the constraints.
        domains: per constraint.
        sums: per constraint, pods by domain.
    """

    __slots__ = ("domains", "plan", "sums")

    def __init__(
        self, plan: SpreadPlan, domains: Sequence[Domains], sums: list[NDArray[np.float64]]
    ) -> None:
        self.plan = plan
        self.domains = domains
        self.sums = sums

    def limit(self, index: int, pod: PodInfo, lowest: Counts) -> Counts:
        """How many pods a domain may hold before one more is too many."""
        constraint = self.plan.hard[index]
        return constraint.max_skew - constraint.selector.matches(pod.labels) + lowest

    def lowest(self, index: int) -> tuple[float, float, int]:
        """What the emptiest domain holds, what the emptiest of the others holds, and which it is.

        0 when there are fewer domains than demanded.
        """
        domains = self.domains[index]
        if domains.present_count < max(self.plan.hard[index].min_domains, 1):
            return 0.0, 0.0, ABSENT
        sums = self.sums[index][domains.present]
        at = int(sums.argmin())
        others = min(sums[:at].min(initial=np.inf), sums[at + 1 :].min(initial=np.inf))
        present = domains.present
        emptiest = present.start + at if isinstance(present, slice) else int(present[at])
        return float(sums[at]), float(others), emptiest


class _Skews(Counting):
    """Counts, for each hard constraint, the pods that it is about.

    Source: filtering.go updateWithPod. Like there, a pod that is being deleted is taken off
    although it was never counted.
    """

    def __init__(
        self, hard: _HardState, pod: PodInfo, rows: NDArray[np.intp], others: OtherPods
    ) -> None:
        self._hard = hard
        self._pod = pod
        self._domains = [(d.ids[rows], d.eligible[rows]) for d in hard.domains]
        self._lowest = [hard.lowest(i) for i in range(len(hard.domains))]
        self.weights = np.array(
            [
                [o.namespace == pod.namespace and c.selector.matches(o.labels) for o in others]
                for c in hard.plan.hard
            ],
            np.float64,
        )

    @override
    def judge(self, at: Rows, changes: NDArray[np.float64]) -> Bits | None:
        rejected: Bits | None = None
        hard = self._hard
        for i, (all_ids, eligible) in enumerate(self._domains):
            ids = all_ids[at]
            counts = hard.sums[i][ids] + changes[i] * eligible[at]
            lowest, next_lowest, emptiest = self._lowest[i]
            least: Counts = lowest
            if emptiest != ABSENT:
                others = np.where(ids == emptiest, next_lowest, lowest)
                least = np.where(eligible[at], np.minimum(others, counts), lowest)
            answer = np.where(counts > hard.limit(i, self._pod, least), _SKEWED, _FITS)
            answer[ids == ABSENT] = _KEY_MISSING
            rejected = answer if rejected is None else np.where(rejected, rejected, answer)
        return rejected


class _SoftState:
    """What scoring needs to know of the candidates.

    Attributes:
        plan: the constraints.
        scored: which of the candidates are scored; None when all are.
        weights: per constraint; grows with the number of domains.
    """

    __slots__ = ("plan", "scored", "weights")

    def __init__(self, plan: SpreadPlan, scored: Mask | None) -> None:
        self.plan = plan
        self.scored = scored
        self.weights: list[float] = []


_HARD_STATE: Final = StateKey[_HardState]("PreFilterPodTopologySpread")
_SOFT_STATE: Final = StateKey[_SoftState]("PreScorePodTopologySpread")


class PodTopologySpread(
    EnqueueExtensions,
    PreFilterPlugin,
    CountingFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    NormalizeScorePlugin,
    Shortcuts,
):
    """Spreads pods over topology domains."""

    NAME: ClassVar[str] = "PodTopologySpread"
    ARGS: ClassVar[type] = PodTopologySpreadArgs
    READS: ClassVar[Reads] = Reads.CLUSTER
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = Workloads.WATCHES
    COMPARES: ClassVar[bool] = False
    """The gate TaintTolerationComparisonOperators, for `nodeTaintsPolicy: Honor`."""

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.shared(Workloads)
        by_system = args.defaulting_type is PodTopologySpreadConstraintsDefaulting.SYSTEM
        defaults = SYSTEM_DEFAULTS if by_system else args.default_constraints
        self._plans = SpreadPlans(
            defaults,
            lambda pod: handle.shared(Workloads).selector_of(pod),
            requires_all_keys=not by_system,
            compares=self.COMPARES,
        )
        # Default constraints follow a pod's owner, which its shape does not tell.
        self._shape_tells_all = not any(c.when_unsatisfiable == HARD for c in defaults)

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pod_actions = (
            ActionType.ADD
            | ActionType.UPDATE_POD_LABEL
            | ActionType.UPDATE_POD_TOLERATION
            | ActionType.DELETE
        )
        node_actions = (
            ActionType.ADD
            | ActionType.DELETE
            | ActionType.UPDATE_NODE_LABEL
            | ActionType.UPDATE_NODE_TAINT
        )
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, pod_actions),
                self._is_schedulable_after_pod_change,
                self._shape_tells_all,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_actions),
                self._is_schedulable_after_node_change,
                self._shape_tells_all,
            ),
        )

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        try:
            plan = self._plans.plan_of(pod)
        except SelectorError as problem:
            return None, error(f"spec.topologySpreadConstraints: {problem}")
        if plan is None or not plan.hard:
            return None, SKIP
        scope = plan.hard_scope
        scope.refresh(snapshot)
        sums = [
            domains.sums(_counts(constraint, snapshot))
            for constraint, domains in zip(plan.hard, scope.domains, strict=True)
        ]
        state.write(_HARD_STATE, _HardState(plan, scope.domains, sums))
        return None, SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        hard = state.read(_HARD_STATE)
        rejected: Bits | None = None
        for i, domains in enumerate(hard.domains):
            skewed = hard.sums[i] > hard.limit(i, pod, hard.lowest(i)[0])
            skewed[ABSENT] = False
            if domains.is_complete and not skewed.any():
                continue
            verdicts = skewed * _SKEWED
            verdicts[ABSENT] = _KEY_MISSING
            answer = verdicts.take(domains.ids[rows])
            # The first constraint that a node fails gives the reason.
            rejected = answer if rejected is None else np.where(rejected, rejected, answer)
        return rejected

    @override
    def counting(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: NDArray[np.intp],
        others: OtherPods,
    ) -> Counting:
        return _Skews(state.read(_HARD_STATE), pod, rows, others)

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return _REASONS

    @override
    def obstacles(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Sequence[Obstacle]:
        hard = state.read(_HARD_STATE)
        paths = hard_paths(pod)
        found = []
        for i, constraint in enumerate(hard.plan.hard):
            lowest = hard.lowest(i)[0]
            found.append(
                spread_obstacles.obstacle(
                    paths[i] if i < len(paths) else "",
                    constraint,
                    hard.domains[i],
                    hard.sums[i],
                    lowest=lowest,
                    limit=float(hard.limit(i, pod, lowest)),
                    snapshot=snapshot,
                    rows=rows,
                )
            )
        return [each for each in found if each is not None]

    @override
    def skips_all(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        return not pod.spec.topology_spread_constraints and self._plans.plan_of(pod) is None

    @override
    def skips_score(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        try:
            plan = self._plans.plan_of(pod)
        except SelectorError:
            return False
        return plan is None or not plan.soft

    @override
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        try:
            plan = self._plans.plan_of(pod)
        except SelectorError as problem:
            return error(f"spec.topologySpreadConstraints: {problem}")
        if plan is None or not plan.soft:
            return SKIP
        scope = plan.soft_scope
        scope.refresh(snapshot)
        size = count_of(rows, snapshot.table.size)
        is_everywhere = size == snapshot.table.size
        scored, candidates = None, rows
        if scope.has_all_keys is not None:
            scored = scope.has_all_keys[rows]
            candidates = np.arange(snapshot.table.size)[rows][scored]
            if len(candidates) == size:
                scored = None
            size = len(candidates)
            is_everywhere = False
        soft = _SoftState(plan, scored)
        for constraint, domains in zip(plan.soft, scope.domains, strict=True):
            count = size
            if constraint.topology_key != _HOSTNAME:
                count = domains.everywhere if is_everywhere else len(domains.distinct(candidates))
            soft.weights.append(math.log(count + 2))
        state.write(_SOFT_STATE, soft)
        return SUCCESS

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        soft = state.read(_SOFT_STATE)
        first, *others = (_soft_column(soft, i, snapshot, rows) for i in range(len(soft.plan.soft)))
        for column in others:
            first += column
        scores = _rounded(first) if others else first
        if soft.scored is not None:
            scores[~soft.scored] = 0
        return scores

    @override
    def score_by_domain(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, fitting: Fitting
    ) -> tuple[Topology, Scores] | None:
        plan = self._plans.plan_of(pod)
        if plan is None or len(plan.soft) != 1 or plan.soft[0].topology_key == _HOSTNAME:
            return None
        scope = plan.soft_scope
        scope.refresh(snapshot)
        topology = snapshot.topology(plan.soft[0].topology_key)
        if not (scope.domains[0].is_complete and has_few_domains(topology)):
            return None
        fits = fitting(topology)
        soft = _SoftState(plan, None)
        soft.weights.append(math.log(int(np.count_nonzero(fits)) + 2))
        by_domain = _by_domain(soft, 0, snapshot)
        return topology, _normalized(by_domain, by_domain[fits])

    @override
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        soft = state.read(_SOFT_STATE)
        scored = scores if soft.scored is None else scores[soft.scored]
        normalized = _normalized(scores, scored)
        if soft.scored is not None:
            normalized[~soft.scored] = 0
        return normalized

    # --- queueing hints -------------------------------------------------------------------------

    def _is_schedulable_after_pod_change(
        self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None
    ) -> QueueingHint:
        """Source: plugin.go isSchedulableAfterPodChange."""
        changed = [p for p in (old, new) if p is not None]
        if not all(_is_involved(p, pod) for p in changed):
            return QueueingHint.SKIP
        constraints = self._hard_constraints(pod)
        if old is None or new is None:
            counts = any(c.selector.matches(p.labels) for c in constraints for p in changed)
            return _queue_if(counts)
        plan = self._plans.plan_of(pod)
        if (
            plan is not None
            and pod.uid == new.uid
            and new.spec.tolerations != old.spec.tolerations
            and any(key.honors_taints for key in plan.hard_scope.keys)
        ):
            return QueueingHint.QUEUE
        return _queue_if(
            any(
                c.selector.matches(old.labels) != c.selector.matches(new.labels)
                for c in constraints
            )
        )

    def _is_schedulable_after_node_change(
        self, pod: PodInfo, old: Node | None, new: Node | None
    ) -> QueueingHint:
        """Source: plugin.go isSchedulableAfterNodeChange."""
        keys = [c.topology_key for c in self._hard_constraints(pod)]
        was_in = old is not None and _has_all(old.metadata.labels, keys)
        is_in = new is not None and _has_all(new.metadata.labels, keys)
        if was_in != is_in or old is None or new is None:
            return _queue_if(was_in or is_in)
        before, now = old.metadata.labels, new.metadata.labels
        moved = any(before.get(key) != now.get(key) for key in keys)
        return _queue_if(is_in and (moved or old.spec.taints != new.spec.taints))

    def _hard_constraints(self, pod: PodInfo) -> tuple[SpreadConstraint, ...]:
        plan = self._plans.plan_of(pod)
        return () if plan is None else plan.hard


class PodTopologySpreadWithComparisons(PodTopologySpread):
    """With the feature gate TaintTolerationComparisonOperators."""

    COMPARES: ClassVar[bool] = True


def _counts(constraint: SpreadConstraint, snapshot: Snapshot) -> RowCounts:
    return NO_PODS if constraint.counted is None else snapshot.pod_counts(constraint.counted)


def _soft_column(soft: _SoftState, index: int, snapshot: Snapshot, rows: Rows) -> Scores:
    """What one constraint has against rows."""
    constraint, domains = soft.plan.soft[index], soft.plan.soft_scope.domains[index]
    if constraint.topology_key != _HOSTNAME:
        return _by_domain(soft, index, snapshot).take(domains.ids[rows])
    found = _weighted(soft, index, _counts(constraint, snapshot).column(snapshot.table.size)[rows])
    if not domains.is_complete:
        found[domains.ids[rows] == ABSENT] = 0
    return found


def _by_domain(soft: _SoftState, index: int, snapshot: Snapshot) -> Scores:
    """What a constraint has against domains that are not single nodes."""
    constraint, domains = soft.plan.soft[index], soft.plan.soft_scope.domains[index]
    found = _weighted(soft, index, domains.sums(_counts(constraint, snapshot)))
    found[ABSENT] = 0
    return found


def _weighted(soft: _SoftState, index: int, counts: NDArray[np.float64]) -> Scores:
    """The raw score of counts; rounded when there is no other constraint to add."""
    found = counts * soft.weights[index]
    found += soft.plan.soft[index].max_skew - 1
    return _rounded(found) if len(soft.plan.soft) == 1 else found


def _normalized(scores: Scores, of_candidates: Scores) -> Scores:
    """The lowest score of the candidates becomes the best, in shares of their highest."""
    highest = float(of_candidates.max(initial=0))
    if not highest:
        return np.full(len(scores), float(MAX_NODE_SCORE))
    normalized: Scores = highest + float(of_candidates.min()) - scores
    normalized *= MAX_NODE_SCORE
    normalized /= highest
    return np.floor(normalized, out=normalized)


def _rounded(scores: Scores) -> Scores:
    """Whole numbers, halves away from zero, of scores that are not negative."""
    whole = np.floor(scores)
    whole += (scores - whole) >= 0.5  # noqa: PLR2004 - a half
    return whole


def _is_involved(changed: PodInfo, pod: PodInfo) -> bool:
    """Whether a change of a pod can matter: it is the pod itself, or one placed in its namespace.

    Source: plugin.go involvedInTopologySpreading.
    """
    if changed.uid == pod.uid:
        return True
    placed = changed.node_name or changed.pod.status.nominated_node_name
    return bool(placed) and changed.namespace == pod.namespace


def _has_all(labels: Mapping[str, str], keys: Sequence[str]) -> bool:
    return all(key in labels for key in keys)


def _queue_if(condition: bool) -> QueueingHint:  # noqa: FBT001 - the condition is the point
    return QueueingHint.QUEUE if condition else QueueingHint.SKIP
