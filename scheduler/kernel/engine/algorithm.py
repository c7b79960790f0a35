"""The choice of a node for one pod: a pure decision over a snapshot.

Source: kubernetes pkg/scheduler/schedule_one.go (schedulePod, findNodesThatFitPod,
numFeasibleNodesToFind, prioritizeNodes) v1.36.
Differs: all nodes are evaluated unless percentageOfNodesToScore is set. Upstream samples because
each node costs it a plugin call; here it costs an array element.
"""

from random import Random
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.limits import exceeded_limit
from scheduler.api.pods import PodInfo
from scheduler.kernel.extender import Advice
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.runtime import AttemptDiagnosis, Feasibility, Framework
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.runtime.scoring import Best
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.snapshot import Snapshot

MIN_FEASIBLE_NODES_TO_FIND: Final = 100
"""Sampling never stops before this many. Source: minFeasibleNodesToFind."""

NO_NODES: Final = Failure("no nodes available to schedule pods", is_rejection=True)
"""No plugin rejects a pod where there are no nodes: the queue tries it again after backoff."""

_ALL_NODES: Final = 100
"""Percent."""


class ScheduleResult(msgspec.Struct):
    """A node for a pod.

    Attributes:
        state: the attempt's state, for Reserve and what follows.
        suggested_host: the node.
        row: the row of the node.
        best: the nodes that it was chosen from; valid until the snapshot changes.
        found: the result of filtering for the pod, or for an equal one before it.
    """

    state: CycleState
    suggested_host: str
    row: int
    best: Best
    found: Feasibility


Found: TypeAlias = ScheduleResult | AttemptDiagnosis | Failure
"""The result of a search for a node."""


class SchedulingAlgorithm:
    """Chooses nodes; remembers only the position of sampling.

    Attributes:
        next_start_node_index: the index in the node order at which the next sample starts.
        percentage_of_nodes_to_score: the default for profiles without one of their own.
    """

    def __init__(self, random: Random, percentage_of_nodes_to_score: int = 0) -> None:
        self._random = random
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.next_start_node_index = 0

    def schedule_pod(
        self,
        framework: Framework,
        pod: PodInfo,
        snapshot: Snapshot,
        nominated: NominatedPods | None = None,
        within: NDArray[np.intp] | None = None,
        advice: Advice | None = None,
    ) -> Found:
        """Choose the node for the pod, or return the reason for none.

        The choice is among the rows `within`, and among those that extenders let pass if they have
        been asked for `advice`.

        Raises:
            PluginError: a plugin failed.
        """
        too_much = exceeded_limit(pod)
        if too_much:
            return Failure(too_much, is_rejection=True)
        if not snapshot.table.count:
            return NO_NODES
        found = framework.filtering.find_nodes_that_fit(
            pod, snapshot, nominated, nominated_first=within is None
        )
        if advice is not None:
            return self._advised(framework, pod, snapshot, found, advice, within)
        rows = None
        if pod.pod.status.nominated_node_name:
            rows = nominated_row(found, pod, snapshot)
            if rows is not None and within is not None and rows[0] not in within:
                rows = None
        percentage = self._percentage_in(framework) if within is None else 0
        if rows is None and percentage:
            rows = self._sampled(found, pod, snapshot, percentage)
        best = framework.scoring.best_nodes(found, pod, snapshot, rows, within=within)
        if not best.feasible:
            return found.diagnosis(snapshot, within=within)
        return self._pick(found.state, best, snapshot, found)

    def schedule_equal(
        self,
        framework: Framework,
        found: Feasibility,
        snapshot: Snapshot,
        within: NDArray[np.intp] | None = None,
    ) -> ScheduleResult | None:
        """Choose the node for a pod equal to the last one, from the columns of their class.

        `found` is the filter result of the first such pod; the snapshot may lack the others.

        Returns:
            None where no node fits any more.
        """
        framework.classes.hits += 1
        best = framework.scoring.best_of_class(found.pod_class, snapshot, within)
        if not best.feasible:
            return None
        return self._pick(CycleState(found.state), best, snapshot, found)

    def nodes_to_ask_about(
        self,
        framework: Framework,
        pod: PodInfo,
        snapshot: Snapshot,
        nominated: NominatedPods | None,
        *,
        tries_nominated: bool,
        evaluated: int = 0,
    ) -> tuple[tuple[str, ...], bool]:
        """The nodes that extenders filter and prioritize; none where no node fits.

        With `tries_nominated` it is the nominated node alone, if it fits. `evaluated` is 1 if an
        extender gave a reason for that node before: then it counts once more for the next sample.

        Returns:
            Their names, and whether they are a sample: other nodes that fit are left out.

        Raises:
            PluginError: a plugin failed.
        """
        found = framework.filtering.find_nodes_that_fit(
            pod, snapshot, nominated, nominated_first=tries_nominated
        )
        if not len(found.feasible_rows()):
            # The start of the next sample moves when the attempt fails.
            return (), False
        rows = nominated_row(found, pod, snapshot) if tries_nominated else None
        is_sample = False
        if rows is None:
            rows = self._sampled(found, pod, snapshot, self._percentage_in(framework), evaluated)
            is_sample = len(rows) < len(found.feasible_rows())
        names = snapshot.table.names
        return tuple([names[row] for row in rows.tolist()]), is_sample

    def _advised(
        self,
        framework: Framework,
        pod: PodInfo,
        snapshot: Snapshot,
        found: Feasibility,
        advice: Advice,
        within: NDArray[np.intp] | None,
    ) -> Found:
        """Choose among the nodes that fit now and that extenders let pass."""
        table = snapshot.table
        feasible = found.feasible_rows(within)
        if advice.problem and len(feasible):
            return Failure(advice.problem)
        rows = advice.allowed(feasible, table)
        best = framework.scoring.best_nodes(found, pod, snapshot, rows, advice.bonus(rows, table))
        if best.feasible:
            return self._pick(found.state, best, snapshot, found)
        diagnosis = found.diagnosis(snapshot, advice.refused(), within)
        diagnosis.unasked = sum(table.names[row] not in advice.sent for row in feasible.tolist())
        return diagnosis

    def pick_placement(self, best: NDArray[np.intp]) -> int:
        """Pick one of several equally good placements at random."""
        return best.item(int(self._random.random() * len(best)) if len(best) > 1 else 0)

    def _pick(
        self, state: CycleState, best: Best, snapshot: Snapshot, found: Feasibility
    ) -> ScheduleResult:
        """Pick one of the best nodes at random."""
        rows, at = best.rows, 0
        if len(rows) > 1:
            at = int(self._random.random() * len(rows))
        row = rows.item(at)
        return ScheduleResult(state, snapshot.table.names[row], row, best, found)

    def _percentage_in(self, framework: Framework) -> int:
        """The percentage of nodes that a profile needs; 0 when all are evaluated."""
        own = framework.percentage_of_nodes_to_score
        percentage = self.percentage_of_nodes_to_score if own is None else own
        return percentage if percentage < _ALL_NODES else 0

    def _sampled(
        self,
        found: Feasibility,
        pod: PodInfo,
        snapshot: Snapshot,
        percentage: int,
        evaluated: int = 0,
    ) -> NDArray[np.intp]:
        """The feasible rows, or a sample of them if sampling is on.

        The sample is the first feasible rows from a rotating start in the zone-interleaved order.
        The next start is beyond the nodes that were looked at and `evaluated` others.
        """
        rows, verdicts = found.feasible_rows(), found.verdicts
        if not percentage or verdicts is None:
            return rows
        if verdicts.rows is not None:
            self._move_start(len(verdicts.rows) + evaluated, snapshot)
            return rows
        order = snapshot.table.node_order()
        wanted = num_feasible_nodes_to_find(len(order), percentage)
        rotated = np.roll(order, -(self.next_start_node_index % len(order)))
        feasible_at = np.flatnonzero(verdicts.first[rotated] == FEASIBLE)
        # Upstream passes the nodes that do not fit, up to the first one that it no longer wants.
        looked_at = feasible_at.item(wanted) if len(feasible_at) > wanted else len(order)
        nominated = snapshot.table.row_of.get(pod.pod.status.nominated_node_name)
        if nominated is not None and nominated in rotated[looked_at:]:
            # It was evaluated before the others, and counts if it does not fit.
            looked_at += int(verdicts.first[nominated] != FEASIBLE)
        self._move_start(looked_at + evaluated, snapshot)
        return rotated[feasible_at[:wanted]]

    def _move_start(self, evaluated: int, snapshot: Snapshot) -> None:
        start = self.next_start_node_index + evaluated
        self.next_start_node_index = start % snapshot.table.count


def nominated_row(found: Feasibility, pod: PodInfo, snapshot: Snapshot) -> NDArray[np.intp] | None:
    """The row of the pod's nominated node, if it fits: then no other node is evaluated."""
    row = snapshot.table.row_of.get(pod.pod.status.nominated_node_name)
    if row is None or row not in found.feasible_rows():
        return None
    return np.array([row], np.intp)


def num_feasible_nodes_to_find(num_all_nodes: int, percentage: int) -> int:
    """The number of feasible nodes at which sampling may stop."""
    if num_all_nodes < MIN_FEASIBLE_NODES_TO_FIND or percentage >= _ALL_NODES:
        return num_all_nodes
    return max(num_all_nodes * percentage // 100, MIN_FEASIBLE_NODES_TO_FIND)
