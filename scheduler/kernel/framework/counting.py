"""Filters that sum over other pods: the column form of AddPod and RemovePod.

Source: k8s.io/kube-scheduler framework/interface.go (PreFilterExtensions) v0.36. Differs: upstream
calls a plugin for each added or removed pod of a node; here a pod of each kind has a weight.
"""

from abc import abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import Bits, FilterPlugin
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods


class Counting(Protocol):
    """The counts of one filter over other pods, and its verdict on rows whose counts change.

    Made for one pod, some rows and some kinds of other pods. Each row is judged by itself: the
    changes of one row do not affect the other rows.
    """

    weights: NDArray[np.float64]
    """Amount that a pod of each kind adds to each counter. Shape (counters, kinds)."""

    @abstractmethod
    def judge(self, at: Rows, changes: NDArray[np.float64]) -> Bits | None:
        """The reasons that reject rows; None when no row is rejected.

        Args:
            at: the rows to judge, as positions among the given rows.
            changes: the change of each counter on each of them, shape (counters, rows).
        """

    def rejects(self, at: Rows, changes: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        """The rows that `judge` rejects, without the reasons; None when no row is rejected."""
        answer = self.judge(at, changes)
        return None if answer is None else answer != 0


class CountingFilterPlugin(FilterPlugin, Protocol):
    """A filter that sums over other pods: the column form of AddPod and RemovePod.

    A filter that reads pods and has no such form is called row by row, on a fork of the snapshot.
    """

    @abstractmethod
    def counting(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: NDArray[np.intp],
        others: OtherPods,
    ) -> Counting:
        """Return the counts by which to judge rows with pods of these kinds added or removed."""
