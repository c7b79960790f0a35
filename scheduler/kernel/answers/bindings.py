"""Judges one binding of another scheduler, given one state of the cluster."""

from enum import Enum
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.algorithm import nominated_row
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.snapshot import Snapshot


class BindingAgreement(Enum):
    """This scheduler's verdict on a binding."""

    AGREED = "agreed"
    """Its node has the highest total score, or is the feasible nominated node."""
    ONLY = "only"
    """Its node is the only feasible one."""
    RACED = "raced"
    """Agreed or only, if the changes around the binding happened in another order."""
    LOWER = "lower"
    """The pod fits on its node, but this scheduler would choose another one."""
    UNFIT = "unfit"
    """The pod does not fit on its node."""
    FAILED = "failed"
    """A plugin failed."""


AGREEMENT: Final = (BindingAgreement.AGREED, BindingAgreement.ONLY)
DISAGREEMENT: Final = (BindingAgreement.LOWER, BindingAgreement.UNFIT)


class Unjudged(Enum):
    """The reason why the binding of an assigned pod is not judged."""

    BEFORE = "before"
    """The pod had its node when the watch began."""
    UNSEEN = "unseen"
    """The pod had its node when first seen: set by its owner, or bound between two watches."""


class BindingVerdict(msgspec.Struct, frozen=True):
    """The verdict on a binding, given one state of the cluster.

    Attributes:
        result: the verdict.
        rank: the rank of its node among the feasible ones by total; 0 if the pod does not fit.
    """

    result: BindingAgreement
    rank: int = 0


def judge_binding(
    framework: Framework, pod: PodInfo, node: str, snapshot: Snapshot, nominated: NominatedPods
) -> BindingVerdict:
    """Judge whether this scheduler could have chosen a node.

    `pod` is in its state before the binding; `snapshot` does not contain it.

    Raises:
        PluginError: a plugin failed.
    """
    row = snapshot.table.row_of.get(node)
    if row is None:
        return BindingVerdict(BindingAgreement.UNFIT)
    found = framework.filtering.find_nodes_that_fit(pod, snapshot, nominated)
    fitting = found.feasible_rows()
    if row not in fitting:
        return BindingVerdict(BindingAgreement.UNFIT)
    if len(fitting) == 1:
        return BindingVerdict(BindingAgreement.ONLY, 1)
    totals = framework.scoring.totals(found, pod, snapshot, fitting)
    rank = 1 + int((totals > totals[fitting == row]).sum())
    alone = nominated_row(found, pod, snapshot)
    is_ours = rank == 1 if alone is None else row == alone[0]
    return BindingVerdict(BindingAgreement.AGREED if is_ours else BindingAgreement.LOWER, rank)
