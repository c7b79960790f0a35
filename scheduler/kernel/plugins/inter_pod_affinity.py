"""InterPodAffinity: places pods near to, or away from, other pods.

Required terms reject nodes, preferred ones score domains. The terms of running pods count as well:
their required anti-affinity keeps an incoming pod away, their other terms attract or repel it.

Extension points: PreFilter, Filter (counting), PreScore, Score, NormalizeScore.
Events: placed pods that start or stop to match; nodes that join or change a domain.
Source: kubernetes pkg/scheduler/framework/plugins/interpodaffinity (v1.36).
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.config.args import InterPodAffinityArgs
from scheduler.kernel.framework.counting import Counting, CountingFilterPlugin
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
)
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    MAX_NODE_SCORE,
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
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status
from scheduler.kernel.plugins.columns import count_of, has_few_domains
from scheduler.kernel.plugins.inter_pod_affinity_hints import (
    is_schedulable_after_namespace_change,
    is_schedulable_after_node_change,
    is_schedulable_after_pod_change,
)
from scheduler.kernel.plugins.inter_pod_affinity_required import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    Company,
    RequiredState,
    Sums,
    first_reason,
)
from scheduler.kernel.plugins.own_affinity_terms import OwnTermsCache, speaks_of
from scheduler.kernel.plugins.pod_term_obstacles import (
    of_affinity,
    of_anti_affinity,
    of_running_pods,
)
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.label_columns import ABSENT, Topology
from scheduler.kernel.snapshot.pod_kinds import OtherPods
from scheduler.kernel.snapshot.row_counts import RowCounts
from scheduler.kernel.snapshot.term_counts import TermKind

REASON_AFFINITY: Final = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

_REASONS: Final = (
    Reason(REASON_AFFINITY, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
    Reason(REASON_ANTI_AFFINITY),
    Reason(REASON_EXISTING_ANTI_AFFINITY),
)

_REQUIRED: Final = StateKey[RequiredState]("PreFilterInterPodAffinity")
_PREFERRED: Final = StateKey[Sums]("PreScoreInterPodAffinity")


class InterPodAffinity(
    EnqueueExtensions,
    PreFilterPlugin,
    CountingFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    NormalizeScorePlugin,
    Shortcuts,
):
    """Attracts pods to each other and keeps them apart."""

    NAME: ClassVar[str] = "InterPodAffinity"
    ARGS: ClassVar[type] = InterPodAffinityArgs
    READS: ClassVar[Reads] = Reads.CLUSTER

    def __init__(self, args: InterPodAffinityArgs, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._hard_pod_affinity_weight = args.hard_pod_affinity_weight
        self._ignores_existing = args.ignore_preferred_terms_of_existing_pods
        self._own_terms = OwnTermsCache()

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pod_actions = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        node_actions = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, pod_actions), is_schedulable_after_pod_change
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_actions), is_schedulable_after_node_change
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NAMESPACE, ActionType.ADD | ActionType.UPDATE),
                is_schedulable_after_namespace_change,
            ),
        )

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        own = self._own_terms.terms_of(pod, snapshot)
        existing: Sums = {}
        for cls in snapshot.terms_about(TermKind.REQUIRED_ANTI_AFFINITY, pod):
            _add_sums(existing, snapshot, cls.topology_key, cls.counts)
        if not own.has_required and not existing:
            return None, SKIP
        near: Sums = {}
        if own.near is not None:
            counts = snapshot.pod_counts(own.near)
            for key in dict.fromkeys(own.affinity_keys):
                _add_sums(near, snapshot, key, counts)
        away: Sums = {}
        for term in own.away:
            _add_sums(away, snapshot, term.topology_key, snapshot.pod_counts(term.pods))
        state.write(_REQUIRED, RequiredState(own, near, away, existing))
        return None, SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        required = state.read(_REQUIRED)
        verdicts = _Verdicts(snapshot)
        for key, unmet in _unmet_affinity(required, pod, snapshot).items():
            verdicts.reject(key, unmet, AFFINITY)
        for key, sums in required.away.items():
            verdicts.reject(key, sums > 0, ANTI_AFFINITY)
        for key, sums in required.existing.items():
            verdicts.reject(key, sums > 0, EXISTING_ANTI_AFFINITY)
        return verdicts.of(rows)

    @override
    def counting(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: NDArray[np.intp],
        others: OtherPods,
    ) -> Counting:
        return Company(state.read(_REQUIRED), pod, snapshot, rows, others)

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return _REASONS

    @override
    def obstacles(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Sequence[Obstacle]:
        required = state.read(_REQUIRED)
        unmet = _unmet_affinity(required, pod, snapshot)
        return (
            *of_affinity(pod, unmet, snapshot, rows),
            *of_anti_affinity(required.own, snapshot, rows),
            *of_running_pods(pod, snapshot, rows),
        )

    @override
    def skips_all(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        return pod.shape.affinity is None and not snapshot.has_terms

    @override
    def skips_score(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        if self._own_terms.terms_of(pod, snapshot).preferred:
            return False
        if self._ignores_existing:
            return True
        return not (
            snapshot.terms_about(TermKind.PREFERRED, pod)
            or (
                self._hard_pod_affinity_weight > 0
                and snapshot.terms_about(TermKind.REQUIRED_AFFINITY, pod)
            )
        )

    @override
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        if state.get(_PREFERRED) is None:
            state.write(_PREFERRED, self._preferred(pod, snapshot))
        return SUCCESS if state.read(_PREFERRED) else SKIP

    def _preferred(self, pod: PodInfo, snapshot: Snapshot) -> Sums:
        """By key and domain, the sum of the preferences of the pod and of running pods."""
        own = self._own_terms.terms_of(pod, snapshot)
        scores: Sums = {}
        if self._ignores_existing and not own.preferred:
            return scores
        for term in own.preferred:
            counts = snapshot.pod_counts(term.pods)
            _add_sums(scores, snapshot, term.topology_key, counts, term.weight)
        if self._hard_pod_affinity_weight > 0:
            weight = self._hard_pod_affinity_weight
            for cls in snapshot.terms_about(TermKind.REQUIRED_AFFINITY, pod):
                _add_sums(scores, snapshot, cls.topology_key, cls.counts, weight)
        for cls in snapshot.terms_about(TermKind.PREFERRED, pod):
            _add_sums(scores, snapshot, cls.topology_key, cls.counts, cls.weight)
        return scores

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        total: Scores | None = None
        for key, by_domain in state.read(_PREFERRED).items():
            column = by_domain.take(snapshot.topology(key).ids[rows])
            total = column if total is None else np.add(total, column, out=column)
        return np.zeros(count_of(rows, snapshot.table.size)) if total is None else total

    @override
    def score_by_domain(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, fitting: Fitting
    ) -> tuple[Topology, Scores] | None:
        preferred = self._preferred(pod, snapshot)
        state.write(_PREFERRED, preferred)
        if len(preferred) != 1:
            return None
        [(key, by_domain)] = preferred.items()
        topology = snapshot.topology(key)
        if not has_few_domains(topology):
            return None
        return topology, _normalized(by_domain, by_domain[fitting(topology)])

    @override
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        return _normalized(scores, scores)


class _Verdicts:
    """The rejected domains per topology key, with the reasons as bits."""

    __slots__ = ("_by_key", "_kinds", "_snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        # Bytes until `of` returns them: by hostname, there are as many domains as rows.
        self._by_key: dict[str, NDArray[np.uint8]] = {}
        self._kinds = 0

    def reject(self, key: str, rejected: NDArray[np.bool_], reason: np.uint64) -> None:
        """Reject domains of a topology key."""
        is_complete = self._snapshot.topology(key).is_complete
        if not rejected[ABSENT + is_complete :].any():
            return
        bits = np.multiply(rejected, reason, dtype=np.uint8, casting="unsafe")
        known = self._by_key.get(key)
        self._by_key[key] = bits if known is None else known | bits
        self._kinds += 1

    def of(self, rows: Rows) -> Bits | None:
        """Per given row the first reason, which is the lowest bit; None when there is none."""
        found: NDArray[np.uint8] | None = None
        for key, by_domain in self._by_key.items():
            bits = by_domain.take(self._snapshot.topology(key).ids[rows])
            found = bits if found is None else found | bits
        if found is not None and self._kinds > 1:
            found = first_reason(found)
        return None if found is None else found.astype(np.uint64)


def _normalized(scores: Scores, of_candidates: Scores) -> Scores:
    """Scale scores so that the candidates' lowest becomes 0 and their highest 100; round down."""
    if not len(of_candidates):
        return scores
    lowest, highest = float(of_candidates.min()), float(of_candidates.max())
    if lowest == highest:
        return np.zeros(len(scores))
    # The order of these operations is upstream's, so that results round alike.
    shares: Scores = scores - lowest
    shares /= highest - lowest
    shares *= MAX_NODE_SCORE
    return np.floor(shares, out=shares)


# --- sums by domain -----------------------------------------------------------------------------


def _add_sums(sums: Sums, snapshot: Snapshot, key: str, counts: RowCounts, weight: int = 1) -> None:
    """Add counts by domain; leave out a key whose domains have no counts."""
    if counts.is_empty:
        return
    by_domain = counts.by_domain(snapshot.topology(key))
    if by_domain[ABSENT] == counts.total:
        return
    by_domain[ABSENT] = 0
    if weight != 1:
        by_domain *= weight
    known = sums.get(key)
    sums[key] = by_domain if known is None else known + by_domain


def _unmet_affinity(
    required: RequiredState, pod: PodInfo, snapshot: Snapshot
) -> Mapping[str, NDArray[np.bool_]]:
    """By topology key, the domains where a required affinity term is not satisfied.

    While no pod in the cluster satisfies the terms, a pod that satisfies its own terms needs only
    the topology keys.
    Source: filtering.go satisfyPodAffinity.
    """
    own = required.own
    if own.near is None:
        return {}
    is_first = not required.near and speaks_of(own.near, pod, snapshot.namespaces)
    unmet: dict[str, NDArray[np.bool_]] = {}
    for key in own.affinity_keys:
        sums = required.near.get(key)
        if is_first or sums is None:
            unmet[key] = np.full(snapshot.topology(key).count, not is_first)
        else:
            unmet[key] = sums <= 0
        unmet[key][ABSENT] = True
    return unmet
