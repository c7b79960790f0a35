"""Where one pod goes: pure decision over a snapshot.

Source: kubernetes pkg/scheduler/schedule_one.go (schedulePod, findNodesThatFitPod,
numFeasibleNodesToFind, prioritizeNodes) v1.36.
Differs: all nodes are looked at unless percentageOfNodesToScore is set.
"""

from random import Random
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.runtime import Diagnosis, Feasibility, Framework, Verdicts
from scheduler.framework.runtime.nominated_pods import NominatedPods
from scheduler.framework.runtime.verdicts import FEASIBLE
from scheduler.snapshot import Snapshot

MIN_FEASIBLE_NODES_TO_FIND: Final = 100
"""Sampling never stops before this many. Source: minFeasibleNodesToFind."""

_ALL_NODES: Final = 100
"""Percent."""


class ScheduleResult(msgspec.Struct):
    """A node for a pod.

    Attributes:
        state: the attempt's state, for Reserve and what follows.
        suggested_host: the node.
        evaluated_nodes: nodes looked at.
        feasible_nodes: nodes that fit.
    """

    state: CycleState
    suggested_host: str
    evaluated_nodes: int
    feasible_nodes: int


class Unschedulable(msgspec.Struct):
    """No node fits.

    Attributes:
        state: the attempt's state, for PostFilter.
        diagnosis: why.
    """

    state: CycleState
    diagnosis: Diagnosis


class NoNodesAvailable(msgspec.Struct):
    """The cluster has no nodes."""

    message: str = "no nodes available to schedule pods"


class SchedulingAlgorithm:
    """Chooses nodes; remembers only where sampling goes on.

    Attributes:
        next_start_node_index: where in the node order the next sample starts.
        percentage_of_nodes_to_score: enough for profiles that do not say it themselves.
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
    ) -> ScheduleResult | Unschedulable | NoNodesAvailable:
        """The node for the pod, or why there is none.

        Raises:
            PluginError: a plugin failed.
        """
        if not snapshot.table.count:
            return NoNodesAvailable()
        found = framework.find_nodes_that_fit(pod, snapshot, nominated)
        percentage = self._percentage_in(framework)
        rows = None
        if percentage or pod.pod.status.nominated_node_name:
            rows = self._narrowed(found, pod, snapshot, percentage)
        best = framework.best_nodes(found, pod, snapshot, rows)
        if not best.feasible:
            return Unschedulable(found.state, found.diagnosis(snapshot))
        table = snapshot.table
        row = best.rows[0]
        if len(best.rows) > 1:
            row = best.rows[int(self._random.random() * len(best.rows))]
        return ScheduleResult(found.state, table.names[row], table.count, best.feasible)

    def _percentage_in(self, framework: Framework) -> int:
        """What percentage of nodes is enough in a profile; 0 when all are looked at."""
        own = framework.percentage_of_nodes_to_score
        percentage = self.percentage_of_nodes_to_score if own is None else own
        return percentage if percentage < _ALL_NODES else 0

    def _narrowed(
        self, found: Feasibility, pod: PodInfo, snapshot: Snapshot, percentage: int
    ) -> NDArray[np.intp]:
        """The nominated node if it fits; else a sample of what fits, if sampling is on."""
        rows = found.feasible_rows()
        nominated = snapshot.table.row_of.get(pod.pod.status.nominated_node_name)
        if nominated is not None and nominated in rows:
            return np.array([nominated], np.intp)
        verdicts = found.verdicts
        if not percentage or verdicts is None or verdicts.rows is not None:
            return rows
        return self._sample(verdicts, snapshot, percentage)

    def _sample(self, verdicts: Verdicts, snapshot: Snapshot, percentage: int) -> NDArray[np.intp]:
        """The first feasible nodes from a rotating start over the zone-interleaved order."""
        order = snapshot.node_order()
        wanted = num_feasible_nodes_to_find(len(order), percentage)
        rotated = np.roll(order, -(self.next_start_node_index % len(order)))
        feasible_at = np.flatnonzero(verdicts.first[rotated] == FEASIBLE)[:wanted]
        looked_at = int(feasible_at[-1]) + 1 if len(feasible_at) == wanted else len(order)
        self.next_start_node_index = (self.next_start_node_index + looked_at) % len(order)
        return rotated[feasible_at]


def num_feasible_nodes_to_find(num_all_nodes: int, percentage: int) -> int:
    """How many feasible nodes are enough.

    Args:
        num_all_nodes: nodes in the cluster.
        percentage: percentageOfNodesToScore, 1 to 100.
    """
    if num_all_nodes < MIN_FEASIBLE_NODES_TO_FIND or percentage >= _ALL_NODES:
        return num_all_nodes
    return max(num_all_nodes * percentage // 100, MIN_FEASIBLE_NODES_TO_FIND)
