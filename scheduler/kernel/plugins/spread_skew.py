"""Hard spread constraints of one pod: the counts by domain, and the limit of each domain."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.counting import Counting
from scheduler.kernel.framework.interface import Bits
from scheduler.kernel.plugins.spread_constraints import SpreadConstraint, SpreadPlan
from scheduler.kernel.plugins.topology_scope import NO_PODS, Domains
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.label_columns import ABSENT
from scheduler.kernel.snapshot.pod_kinds import OtherPods
from scheduler.kernel.snapshot.row_counts import RowCounts

SKEWED: Final = np.uint64(1)
KEY_MISSING: Final = np.uint64(2)
_FITS: Final = np.uint64(0)

Counts: TypeAlias = float | NDArray[np.float64]


def counts_of(constraint: SpreadConstraint, snapshot: Snapshot) -> RowCounts:
    """Number of pods on each row that a constraint counts."""
    return NO_PODS if constraint.counted is None else snapshot.pod_counts(constraint.counted)


class HardState:
    """The matching pods by domain, for each hard constraint.

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
        """Return the largest number of pods in a domain at which it admits the pod."""
        constraint = self.plan.hard[index]
        return constraint.max_skew - constraint.selector.matches(pod.labels) + lowest

    def lowest(self, index: int) -> tuple[float, float, int]:
        """The counts of the two emptiest domains, and the emptiest domain itself.

        Both counts are 0 when there are fewer domains than `minDomains`.
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


class Skews(Counting):
    """Counts, for each hard constraint, the pods that it selects.

    Source: filtering.go updateWithPod. As there, a removed pod that is being deleted is subtracted
    although it was never counted.
    """

    def __init__(
        self, hard: HardState, pod: PodInfo, rows: NDArray[np.intp], others: OtherPods
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
            answer = np.where(counts > hard.limit(i, self._pod, least), SKEWED, _FITS)
            answer[ids == ABSENT] = KEY_MISSING
            rejected = answer if rejected is None else np.where(rejected, rejected, answer)
        return rejected
