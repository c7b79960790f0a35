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
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import SelectorError
from scheduler.config.args import PodTopologySpreadArgs, PodTopologySpreadConstraintsDefaulting
from scheduler.kernel.framework.counting import Counting, CountingFilterPlugin
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
    Bits,
    EnqueueExtensions,
    NormalizeScorePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Scores,
)
from scheduler.kernel.framework.obstacles import Obstacle
from scheduler.kernel.framework.results import PreFilterResult, Reason
from scheduler.kernel.framework.shortcuts import Fitting, Shortcuts
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status, error
from scheduler.kernel.plugins import spread_obstacles
from scheduler.kernel.plugins.columns import count_of, has_few_domains
from scheduler.kernel.plugins.default_selector import Workloads
from scheduler.kernel.plugins.spread_constraints import (
    HARD,
    SYSTEM_DEFAULTS,
    SpreadConstraint,
    SpreadPlans,
    hard_paths,
)
from scheduler.kernel.plugins.spread_scores import (
    HOSTNAME,
    SoftState,
    by_domain_of,
    normalized_of,
    rounded,
    soft_column,
)
from scheduler.kernel.plugins.spread_skew import (
    KEY_MISSING,
    SKEWED,
    HardState,
    Skews,
    counts_of,
)
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.label_columns import ABSENT, Topology
from scheduler.kernel.snapshot.pod_kinds import OtherPods

REASON_SKEW: Final = "node(s) didn't match pod topology spread constraints"
REASON_MISSING_KEY: Final = f"{REASON_SKEW} (missing required label)"

_REASONS: Final = (
    Reason(REASON_SKEW),
    Reason(REASON_MISSING_KEY, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
)
_HARD_STATE: Final = StateKey[HardState]("PreFilterPodTopologySpread")
_SOFT_STATE: Final = StateKey[SoftState]("PreScorePodTopologySpread")


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
        # Default constraints depend on the pod's owner, which is no part of its shape.
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
            domains.sums(counts_of(constraint, snapshot))
            for constraint, domains in zip(plan.hard, scope.domains, strict=True)
        ]
        state.write(_HARD_STATE, HardState(plan, scope.domains, sums))
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
            verdicts = skewed * SKEWED
            verdicts[ABSENT] = KEY_MISSING
            answer = verdicts.take(domains.ids[rows])
            # The reason is that of the first constraint that the node fails.
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
        return Skews(state.read(_HARD_STATE), pod, rows, others)

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
        soft = SoftState(plan, scored)
        for constraint, domains in zip(plan.soft, scope.domains, strict=True):
            count = size
            if constraint.topology_key != HOSTNAME:
                count = domains.everywhere if is_everywhere else len(domains.distinct(candidates))
            soft.weights.append(math.log(count + 2))
        state.write(_SOFT_STATE, soft)
        return SUCCESS

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        soft = state.read(_SOFT_STATE)
        first, *others = (soft_column(soft, i, snapshot, rows) for i in range(len(soft.plan.soft)))
        for column in others:
            first += column
        scores = rounded(first) if others else first
        if soft.scored is not None:
            scores[~soft.scored] = 0
        return scores

    @override
    def score_by_domain(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, fitting: Fitting
    ) -> tuple[Topology, Scores] | None:
        plan = self._plans.plan_of(pod)
        if plan is None or len(plan.soft) != 1 or plan.soft[0].topology_key == HOSTNAME:
            return None
        scope = plan.soft_scope
        scope.refresh(snapshot)
        topology = snapshot.topology(plan.soft[0].topology_key)
        if not (scope.domains[0].is_complete and has_few_domains(topology)):
            return None
        fits = fitting(topology)
        soft = SoftState(plan, None)
        soft.weights.append(math.log(int(np.count_nonzero(fits)) + 2))
        by_domain = by_domain_of(soft, 0, snapshot)
        return topology, normalized_of(by_domain, by_domain[fits])

    @override
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        soft = state.read(_SOFT_STATE)
        scored = scores if soft.scored is None else scores[soft.scored]
        normalized = normalized_of(scores, scored)
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
    """PodTopologySpread with the feature gate TaintTolerationComparisonOperators."""

    COMPARES: ClassVar[bool] = True


def _is_involved(changed: PodInfo, pod: PodInfo) -> bool:
    """Whether the changed pod is the pod itself, or a bound or nominated pod of its namespace.

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
