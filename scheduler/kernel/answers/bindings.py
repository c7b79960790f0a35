"""How one binding looks on one state of the cluster."""

from enum import Enum
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.algorithm import nominated_row
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.snapshot import Snapshot


class BindingAgreement(Enum):
    """What we think of a binding."""

    AGREED = "agreed"
    """It is one of the nodes that we would choose among."""
    ONLY = "only"
    """The same, and no other node fits."""
    RACED = "raced"
    """It looks so if what happened around it is counted in another way."""
    LOWER = "lower"
    """It fits, and we would choose another."""
    UNFIT = "unfit"
    """It does not fit there."""
    FAILED = "failed"
    """A plugin failed."""


AGREEMENT: Final = (BindingAgreement.AGREED, BindingAgreement.ONLY)
DISAGREEMENT: Final = (BindingAgreement.LOWER, BindingAgreement.UNFIT)


class Unjudged(Enum):
    """Why we think nothing of a pod with a node."""

    BEFORE = "before"
    """It had it when the watch began."""
    UNSEEN = "unseen"
    """It had it when it was first seen: set by its owner, or bound while the watch was away."""


class Look(msgspec.Struct, frozen=True):
    """What a binding looks like on one state of the cluster.

    Attributes:
        result: what we think of it.
        rank: of its node among those that fit, by total; 0 where it does not fit.
    """

    result: BindingAgreement
    rank: int = 0


def look_at(
    framework: Framework, pod: PodInfo, node: str, snapshot: Snapshot, nominated: NominatedPods
) -> Look:
    """Whether a node is among those that we would choose from, in columns.

    The pod is given as it waited, the cluster without it.

    Raises:
        PluginError: a plugin failed.
    """
    row = snapshot.table.row_of.get(node)
    if row is None:
        return Look(BindingAgreement.UNFIT)
    found = framework.filtering.find_nodes_that_fit(pod, snapshot, nominated)
    fitting = found.feasible_rows()
    if row not in fitting:
        return Look(BindingAgreement.UNFIT)
    if len(fitting) == 1:
        return Look(BindingAgreement.ONLY, 1)
    totals = framework.scoring.totals(found, pod, snapshot, fitting)
    rank = 1 + int((totals > totals[fitting == row]).sum())
    alone = nominated_row(found, pod, snapshot)
    is_ours = rank == 1 if alone is None else row == alone[0]
    return Look(BindingAgreement.AGREED if is_ours else BindingAgreement.LOWER, rank)
