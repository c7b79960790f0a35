"""The scoring strategies of NodeResourcesFit: three, all by utilization.

Every strategy scores each resource on its own and takes the mean by weight. Amounts are whole
numbers. With float64, a division followed by rounding down is exact while a hundred times an amount
stays below 2**53 (80 TiB). Division of int64 in numpy is ten times slower.

Source: pkg/scheduler/framework/plugins/noderesources least_allocated.go, most_allocated.go,
requested_to_capacity_ratio.go; plugins/helper/shape_score.go (v1.36).
"""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.config.args import ScoringStrategy, ScoringStrategyType, UtilizationShapePoint
from scheduler.kernel.framework.interface import MAX_NODE_SCORE, Scores
from scheduler.kernel.plugins.resource_columns import Amounts

MAX_UTILIZATION: Final = 100
MAX_SHAPE_SCORE: Final = 10
"""Shapes are written in scores from 0 to 10."""


class Weights:
    """The weight of each resource.

    Attributes:
        by_resource: the weights in the order of the resources.
        total: their sum; 1 if there are none, as it is a divisor.
    """

    __slots__ = ("by_resource", "total")

    def __init__(self, weights: Sequence[int]) -> None:
        self.by_resource = np.array(weights, np.float64)
        self.total = float(sum(weights)) or 1.0

    def total_where(self, counts: NDArray[np.bool_]) -> Scores:
        """By row the sum of the weights of resources that count there; 1 where none does."""
        total: Scores = np.maximum(self.by_resource @ counts, 1)
        return total


class ResourceScorer(Protocol):
    """Scores nodes by how full they would be with the pod."""

    def score(self, requested: Amounts, allocatable: Amounts, weights: Weights) -> Scores:
        """Score each row from 0 to 100.

        Args:
            requested: the use of the node, the pod included; shape (resources, rows).
            allocatable: the capacity; a resource that a node lacks does not count there.
            weights: by resource.
        """
        ...


class LeastAllocated(ResourceScorer):
    """Prefers nodes with the largest free share."""

    @override
    def score(self, requested: Amounts, allocatable: Amounts, weights: Weights) -> Scores:
        free = allocatable - requested
        free *= MAX_NODE_SCORE
        return _mean(free, allocatable, weights)


class MostAllocated(ResourceScorer):
    """Prefers nodes with the smallest free share."""

    @override
    def score(self, requested: Amounts, allocatable: Amounts, weights: Weights) -> Scores:
        used = np.minimum(requested, allocatable)
        used *= MAX_NODE_SCORE
        return _mean(used, allocatable, weights)


class RequestedToCapacityRatio(ResourceScorer):
    """Prefers nodes whose utilisation scores high on a given shape."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        by_utilization = [shape_score(shape, p) for p in range(MAX_UTILIZATION + 1)]
        self._by_utilization = np.array(by_utilization, np.float64)

    @override
    def score(self, requested: Amounts, allocatable: Amounts, weights: Weights) -> Scores:
        """See `ResourceScorer.score`; a resource that scores 0 is left out of the mean as well."""
        used = np.minimum(requested, allocatable)
        used *= MAX_UTILIZATION
        utilization = np.floor(used / np.maximum(allocatable, 1)).astype(np.intp)
        scores = self._by_utilization[utilization]
        scores *= allocatable > 0
        mean = weights.by_resource @ scores / weights.total_where(scores > 0)
        # Halves are rounded away from zero, which is up.
        rounded: Scores = np.floor(mean + 0.5)
        return rounded


def strategy_of(strategy: ScoringStrategy) -> ResourceScorer:
    """The scorer of a profile's strategy."""
    match strategy.type:
        case ScoringStrategyType.LEAST_ALLOCATED:
            return LeastAllocated()
        case ScoringStrategyType.MOST_ALLOCATED:
            return MostAllocated()
        case ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO:
            ratio = strategy.requested_to_capacity_ratio
            return RequestedToCapacityRatio(ratio.shape if ratio is not None else ())


def _mean(parts: Amounts, allocatable: Amounts, weights: Weights) -> Scores:
    """The mean by weight of `parts` per `allocatable`, rounded down at every step.

    Negative parts count as 0. Where nothing is allocatable, `parts` are not positive.
    """
    total: float | Scores = weights.total
    if np.count_nonzero(allocatable) < allocatable.size:
        total = weights.total_where(allocatable > 0)
        allocatable = np.maximum(allocatable, 1)
    scores = parts / allocatable
    np.floor(scores, out=scores)
    np.maximum(scores, 0, out=scores)
    mean = weights.by_resource @ scores
    mean /= total
    return np.floor(mean, out=mean)


def shape_score(shape: Sequence[UtilizationShapePoint], utilization: int) -> int:
    """The score of a utilisation on the broken line through the points of the shape."""
    scale = MAX_NODE_SCORE // MAX_SHAPE_SCORE
    points = [(point.utilization, point.score * scale) for point in shape]
    for i, (x, y) in enumerate(points):
        if utilization <= x:
            if i == 0:
                return y
            x_before, y_before = points[i - 1]
            rise = (y - y_before) * (utilization - x_before)
            return y_before + _truncated(rise, x - x_before)
    return points[-1][1] if points else 0


def _truncated(dividend: int, divisor: int) -> int:
    """The quotient rounded toward zero, as Go divides whole numbers."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient
