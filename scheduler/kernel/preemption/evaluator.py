"""Preemption of one pod, from its eligibility to the choice of victims.

Source: kubernetes pkg/scheduler/framework/preemption/preemption.go (Evaluator.Preempt),
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go v1.36.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

import numpy as np

from scheduler.api.disruption_budgets import DisruptionBudget
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.results import Candidate, PostFilterResult
from scheduler.kernel.framework.runtime.diagnosis import AttemptDiagnosis, no_fit_message
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.status import SUCCESS, Code, Status, error, unschedulable
from scheduler.kernel.preemption.budgets import Budgets
from scheduler.kernel.preemption.candidates import Candidates, best_of
from scheduler.kernel.preemption.dry_run import DryRun, DryRunResult
from scheduler.kernel.preemption.importance import Importance
from scheduler.kernel.preemption.whole_groups import WholeGroups
from scheduler.kernel.snapshot import Indices, Snapshot

NEVER: Final = "not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
NO_CANDIDATE: Final = "no candidate node for preemption"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"

_DISRUPTION_TARGET: Final = "DisruptionTarget"
_PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"


class Evaluator:
    """Decides about preemptions; the state kept between them is a cache.

    Args:
        min_candidate_nodes_percentage: the share of the nodes that may help to find candidates on.
        min_candidate_nodes_absolute: at least this many candidates, whatever the share.

    Attributes:
        importance: the order of the pods of each node.
        budgets: the budgets that evictions may violate.
    """

    def __init__(
        self, min_candidate_nodes_percentage: int, min_candidate_nodes_absolute: int
    ) -> None:
        self._percentage = min_candidate_nodes_percentage
        self._absolute = min_candidate_nodes_absolute
        self.importance = Importance()
        self.budgets = Budgets()

    def preempt(  # noqa: PLR0913 - what a decision is made of
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        diagnosis: AttemptDiagnosis,
        *,
        budgets: Iterable[DisruptionBudget],
        nominated: NominatedPods,
        random: Random,
        whole: WholeGroups | None = None,
    ) -> tuple[PostFilterResult | None, Status]:
        """Choose a node and its victims for a pod that fits nowhere.

        With `whole`, a group that leaves whole is evicted on all nodes. Without a result, the
        pod's nomination stays unchanged.

        Raises:
            PluginError: a filter failed.
        """
        # 1. Check whether the pod may preempt at all.
        refusal = why_not_eligible(pod, snapshot, diagnosis)
        if refusal:
            return None, unschedulable(refusal)
        if diagnosis.reviewed is not None:
            return self._take_reviewed(pod, snapshot, diagnosis, nominated, whole)
        # 2. Find the nodes on which evictions may help.
        rows = rows_that_may_help(snapshot, diagnosis)
        # 3. Do the dry run on them from a random start.
        batches: list[DryRunResult] = []
        if len(rows):
            self.budgets.refresh(budgets)
            dry_run = DryRun(
                diagnosis, snapshot, self.importance, self.budgets, nominated, whole=whole
            )
            rows = np.roll(rows, -int(random.random() * len(rows)))
            batches = dry_run.run(rows, self._wanted(len(rows)))
        # 4. Choose a candidate.
        candidates = Candidates(snapshot, batches)
        best = candidates.best()
        if best is None:
            return _nobody_helps(snapshot, batches)
        # 5. Return the victims and the nomination.
        victims = self._completed(best, snapshot, whole)
        return _result(pod, best, victims, candidates, nominated), SUCCESS

    def _completed(
        self, best: Candidate, snapshot: Snapshot, whole: WholeGroups | None
    ) -> tuple[PodInfo, ...]:
        if whole is None:
            return best.victims
        return whole.completed(best.victims, snapshot, self.importance)

    def _take_reviewed(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        diagnosis: AttemptDiagnosis,
        nominated: NominatedPods,
        whole: WholeGroups | None,
    ) -> tuple[PostFilterResult | None, Status]:
        """Choose among the candidates that extenders returned, if they still help."""
        reviewed = diagnosis.reviewed
        if reviewed is None or reviewed.problem:
            return None, error("" if reviewed is None else reviewed.problem)
        helpful = rows_that_may_help(snapshot, diagnosis)
        left = _still_there(reviewed.candidates, snapshot, helpful)
        if left:
            dry_run = DryRun(diagnosis, snapshot, self.importance, self.budgets, nominated)
            left = [each for each, helps in zip(left, dry_run.helps(left), strict=True) if helps]
        best = best_of(left)
        if best is None:
            return None, unschedulable(NO_CANDIDATE)
        victims = self._completed(best, snapshot, whole)
        return _result(pod, best, victims, left, nominated), SUCCESS

    def _wanted(self, nodes: int) -> int:
        """The number of candidates to find. Source: calculateNumCandidates."""
        return min(nodes, max(nodes * self._percentage // 100, self._absolute))


def why_not_eligible(pod: PodInfo, snapshot: Snapshot, diagnosis: AttemptDiagnosis) -> str:
    """The reason why the pod may not preempt; empty when it may.

    Source: PodEligibleToPreemptOthers.
    """
    if pod.spec.preemption_policy == "Never":
        return NEVER
    node_name = pod.pod.status.nominated_node_name
    row = snapshot.table.row_of.get(node_name)
    if row is None:
        return ""
    if diagnosis.status_of(node_name).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    others = snapshot.info(row).pods.values()
    leaving = any(o.priority < pod.priority and _is_leaving_for_another(o) for o in others)
    return VICTIMS_TERMINATING if leaving else ""


def rows_that_may_help(snapshot: Snapshot, diagnosis: AttemptDiagnosis) -> Indices:
    """The nodes on which the pod might fit if other pods left.

    Source: Evaluator.findCandidates, NodeToStatus.NodesForStatusCode.
    """
    verdicts = diagnosis.verdicts
    if diagnosis.attempt is None:
        return np.zeros(0, np.intp)
    if verdicts is None:
        return snapshot.table.live_rows()
    chosen = [at for status, at in diagnosis.groups if status.code is Code.UNSCHEDULABLE]
    places = np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, np.intp)
    return places if verdicts.rows is None else verdicts.rows[places]


def _still_there(
    candidates: Iterable[Candidate], snapshot: Snapshot, rows: Indices
) -> list[Candidate]:
    """Candidates on some rows, with the victims that are still on their nodes."""
    helpful, row_of = frozenset(rows.tolist()), snapshot.table.row_of
    left = []
    for each in candidates:
        row = row_of.get(each.node_name)
        if row is None or row not in helpful:
            continue
        there = snapshot.info(row).pods
        victims = tuple(there[victim.uid] for victim in each.victims if victim.uid in there)
        if victims:
            left.append(Candidate(each.node_name, victims, each.pdb_violations))
    return left


def _is_leaving_for_another(pod: PodInfo) -> bool:
    """Whether the pod is being deleted because a scheduler preempted it."""
    if not pod.is_terminating:
        return False
    target = next((c for c in pod.pod.status.conditions if c.type == _DISRUPTION_TARGET), None)
    return (
        target is not None and target.status == "True" and target.reason == _PREEMPTION_BY_SCHEDULER
    )


def _nobody_helps(
    snapshot: Snapshot, batches: Sequence[DryRunResult]
) -> tuple[PostFilterResult | None, Status]:
    """The result without a candidate: clear the nomination, unless an error occurred."""
    counts: Counter[str] = Counter()
    # Equal texts count once, as in upstream's aggregated errors.
    failures: dict[str, None] = {}
    tried = 0
    for status, nodes in (each for batch in batches for each in batch.rejected):
        if status.code is Code.ERROR:
            failures.update(dict.fromkeys(status.reasons))
        tried += nodes
        counts.update(dict.fromkeys(status.reasons, nodes))
    if failures:
        text = ", ".join(failures)
        return None, error(text if len(failures) == 1 else f"[{text}]")
    count = snapshot.table.count
    if tried < count:
        counts[NOT_HELPFUL] += count - tried
    return PostFilterResult(), unschedulable(no_fit_message(count, counts))


def _result(
    pod: PodInfo,
    best: Candidate,
    victims: tuple[PodInfo, ...],
    candidates: Sequence[Candidate],
    nominated: NominatedPods,
) -> PostFilterResult:
    there = nominated.nominated_pods_for_node(best.node_name)
    # If all victims are terminating already, no pod is evicted and no nomination is cleared.
    acts = not all(victim.is_terminating for victim in victims)
    cleared = tuple(other for other in there if other.priority < pod.priority) if acts else ()
    return PostFilterResult(best.node_name, victims, cleared, candidates)
