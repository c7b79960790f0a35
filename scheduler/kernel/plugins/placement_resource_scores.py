"""The utilization of a placement with a group's members: NodeResourcesFit's PlacementScore.

It is always MostAllocated over the resources of the profile's strategy, so that gangs leave whole
domains free for others. A scalar resource counts where members request it.

Source: pkg/scheduler/framework/plugins/noderesources resource_allocation.go (scorePlacement),
most_allocated.go (v1.36).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from scheduler.api.resources import is_scalar_resource
from scheduler.kernel.framework.interface import MAX_NODE_SCORE, Scores
from scheduler.kernel.framework.placements import FeasiblePlacements
from scheduler.kernel.plugins.resource_columns import ResourceColumns
from scheduler.kernel.snapshot import Snapshot


def placement_scores(
    weight_of: Mapping[str, int], candidates: FeasiblePlacements, snapshot: Snapshot
) -> Scores:
    """Score each candidate from 0 to 100.

    Args:
        weight_of: the weights of resources by name.
        candidates: the placements.
        snapshot: the cluster without the members.
    """
    table = snapshot.table
    columns = ResourceColumns(table, tuple(weight_of), {})
    names, rows = columns.names, table.all_rows
    if not names:
        return np.zeros(len(candidates.placements.numbers))
    offered = columns.allocatable(table, rows)
    taken, counts_there = columns.non_zero_requested(table, rows), offered > 0
    if not counts_there.all():
        # A node that offers none of a resource does not count for it, whatever its pods request.
        taken = np.where(counts_there, taken, 0.0)
    allocatable = _whole(candidates.placements.sums(offered))
    each = [
        [kind.shape.scoring_requests.get(name, 0) for kind in candidates.kinds] for name in names
    ]
    asked = _whole(np.array(each, np.float64) @ candidates.placed)
    requested = _whole(candidates.placements.sums(taken)) + asked
    counts = allocatable > 0
    for line, name in enumerate(names):
        if is_scalar_resource(name):
            counts[line] &= asked[line] > 0
    full = np.minimum(requested, allocatable) * MAX_NODE_SCORE // np.maximum(allocatable, 1)
    weights = np.array([[weight_of[name]] for name in names]) * counts
    scores: Scores = ((full * weights).sum(axis=0) // np.maximum(weights.sum(axis=0), 1)) + 0.0
    return scores


def _whole(amounts: NDArray[np.float64]) -> NDArray[np.int64]:
    return amounts.astype(np.int64)
