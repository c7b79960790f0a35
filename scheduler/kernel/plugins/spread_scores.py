"""Soft spread constraints of one pod, as scores by row; higher is worse until normalized."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.framework.interface import MAX_NODE_SCORE, Scores
from scheduler.kernel.plugins.spread_constraints import SpreadPlan
from scheduler.kernel.plugins.spread_skew import counts_of
from scheduler.kernel.snapshot import Mask, Rows, Snapshot
from scheduler.kernel.snapshot.label_columns import ABSENT

HOSTNAME: Final = "kubernetes.io/hostname"
"""The key whose domains count the pods of each node by itself when scoring."""


class SoftState:
    """The scoring state of the candidates.

    Attributes:
        plan: the constraints.
        scored: the candidates that are scored, as a mask; None when all are.
        weights: per constraint; grows with the number of domains.
    """

    __slots__ = ("plan", "scored", "weights")

    def __init__(self, plan: SpreadPlan, scored: Mask | None) -> None:
        self.plan = plan
        self.scored = scored
        self.weights: list[float] = []


def soft_column(soft: SoftState, index: int, snapshot: Snapshot, rows: Rows) -> Scores:
    """The raw score of one constraint by row."""
    constraint, domains = soft.plan.soft[index], soft.plan.soft_scope.domains[index]
    if constraint.topology_key != HOSTNAME:
        return by_domain_of(soft, index, snapshot).take(domains.ids[rows])
    found = _weighted(
        soft, index, counts_of(constraint, snapshot).column(snapshot.table.size)[rows]
    )
    if not domains.is_complete:
        found[domains.ids[rows] == ABSENT] = 0
    return found


def by_domain_of(soft: SoftState, index: int, snapshot: Snapshot) -> Scores:
    """The raw score of a constraint by domain, where domains are not single nodes."""
    constraint, domains = soft.plan.soft[index], soft.plan.soft_scope.domains[index]
    found = _weighted(soft, index, domains.sums(counts_of(constraint, snapshot)))
    found[ABSENT] = 0
    return found


def _weighted(soft: SoftState, index: int, counts: NDArray[np.float64]) -> Scores:
    """The raw score of counts; rounded when there is no other constraint to add."""
    found = counts * soft.weights[index]
    found += soft.plan.soft[index].max_skew - 1
    return rounded(found) if len(soft.plan.soft) == 1 else found


def normalized_of(scores: Scores, of_candidates: Scores) -> Scores:
    """Invert scores: the lowest of the candidates becomes the best, in shares of their highest."""
    highest = float(of_candidates.max(initial=0))
    if not highest:
        return np.full(len(scores), float(MAX_NODE_SCORE))
    normalized: Scores = highest + float(of_candidates.min()) - scores
    normalized *= MAX_NODE_SCORE
    normalized /= highest
    return np.floor(normalized, out=normalized)


def rounded(scores: Scores) -> Scores:
    """Whole numbers, halves away from zero, of scores that are not negative."""
    whole = np.floor(scores)
    whole += (scores - whole) >= 0.5  # noqa: PLR2004 - a half
    return whole
