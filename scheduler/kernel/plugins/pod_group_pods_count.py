"""PodGroupPodsCount: prefers the placements that hold more members of a group.

Members that run already count, so that one more makes little difference in a large group.

Extension points: PlacementScore.
Source: pkg/scheduler/framework/plugins/podgrouppodscount/podgroup_pods_count.go (v1.36).
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import MAX_NODE_SCORE, Scores
from scheduler.kernel.framework.placements import FeasiblePlacements, PlacementScorePlugin
from scheduler.kernel.groups import PodGroups
from scheduler.kernel.snapshot import Snapshot


class PodGroupPodsCount(PlacementScorePlugin):
    """Prefers placements with room for more members."""

    NAME: ClassVar[str] = "PodGroupPodsCount"
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = PodGroups.WATCHES

    def __init__(self, args: Any, handle: Handle) -> None:
        del args
        self._handle = handle
        handle.shared(PodGroups)

    @override
    def score_placements(
        self, pods: Sequence[PodInfo], candidates: FeasiblePlacements, snapshot: Snapshot
    ) -> Scores:
        known = self._handle.shared(PodGroups).of_pod(pods[0])
        counts = candidates.placed.sum(axis=0) + (0 if known is None else known.scheduled)
        scores: Scores = np.floor(counts * MAX_NODE_SCORE / max(counts.max(), 1))
        return scores
