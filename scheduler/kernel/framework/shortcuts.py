"""Optional answers with which the runtime spares calls of a plugin; they affect speed only."""

from collections.abc import Callable
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import Scores
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.label_columns import Topology

Fitting: TypeAlias = Callable[[Topology], NDArray[np.bool_]]
"""Returns, by domain of a topology, whether any node of it fits."""


class Shortcuts(Protocol):
    """Optional methods that spare calls; without them a plugin is called for each pod and point.

    A plugin subclasses it besides the extension points; each shortcut names the calls it replaces.
    """

    NEEDS: ClassVar[int] = 0
    """VOLUMES or DEVICES if the plugin ignores pods without them. For such pods it returns Skip at
    PreFilter and PreBindPreFlight, scores all nodes alike and reserves nothing. It lets them pass
    PreEnqueue. The runtime still calls Unreserve."""

    COSTS_BY_ROW: ClassVar[bool] = False
    """Whether each row costs the filter work of its own, or may fail by itself. The runtime then
    passes only rows that no filter before it rejects."""

    ONLY_BINDS: ClassVar[bool] = False
    """Whether `bind` does nothing but write the binding. The engine then writes it."""

    def skips_all(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        """Whether both `pre_filter` and `pre_score` would return Skip, whatever nodes fit.

        Cost: must be quick, as the runtime calls it for each pod.
        """
        del pod, snapshot
        return False

    def skips_score(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        """Whether `pre_score` would return Skip, or all scores be alike, whatever nodes fit.

        If this holds for all plugins that read the cluster, the runtime does not search the rows
        that fit. Cost: must be quick, as the runtime calls it for each pod.
        """
        del pod, snapshot
        return False

    def score_by_domain(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        fitting: Fitting,
    ) -> tuple[Topology, Scores] | None:
        """A topology, and by domain the result of PreScore, Score and NormalizeScore for its nodes.

        For scores that a node's domain decides, such as its zone: rows then need not be scored one
        by one. PreScore has not run. The runtime calls this for in-tree plugins only. `fitting`
        returns the domains with nodes that fit; the scores of others are ignored.

        Returns:
            None where more than one topology counts, or it has many domains.
        """
        del state, pod, snapshot, fitting
        return None
