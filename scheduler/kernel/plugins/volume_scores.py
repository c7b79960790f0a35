"""The storage utilization of nodes with the pod's claims, as scores.

Source: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go (Score), scorer.go (v1.36).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.config.args import UtilizationShapePoint
from scheduler.kernel.framework.interface import Scores
from scheduler.kernel.plugins.resource_scores import MAX_UTILIZATION, shape_score
from scheduler.kernel.volumes.decision import VolumeDecision


class VolumeScores:
    """Scores nodes by a utilization shape, as the mean over the storage classes of the claims."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        by_utilization = [shape_score(shape, p) for p in range(MAX_UTILIZATION + 1)]
        self._by_utilization = np.array(by_utilization, np.float64)

    def score(self, decision: VolumeDecision) -> Scores:
        """Score each row from 0 to 100.

        Where existing volumes match any of the claims, only those count; else the volumes to
        provision, as far as drivers publish their capacity.
        """
        size = len(decision.bits)
        static, dynamic = _Use(size), _Use(size)
        for class_name, requested, found, capacity in decision.static_use():
            static.add(class_name, requested, found, capacity)
        for class_name, requested, where in decision.dynamic_use():
            dynamic.add(class_name, requested, where, None)
            dynamic.capacity[class_name] = decision.room[class_name]
        return np.where(
            static.is_used, static.mean(self._by_utilization), dynamic.mean(self._by_utilization)
        )


class _Use:
    """The requested amount and the capacity of each storage class, by row."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._requested: dict[str, NDArray[np.float64]] = {}
        self._where: dict[str, NDArray[np.bool_]] = {}
        self.capacity: dict[str, NDArray[np.float64]] = {}
        self.is_used = np.zeros(size, np.bool_)

    def add(
        self,
        class_name: str,
        requested: int,
        where: NDArray[np.bool_],
        capacity: NDArray[np.float64] | None,
    ) -> None:
        """Add one claim on the given rows."""
        if class_name not in self._requested:
            self._requested[class_name] = np.zeros(self._size)
            self._where[class_name] = np.zeros(self._size, np.bool_)
            self.capacity[class_name] = np.zeros(self._size)
        self._requested[class_name] += requested * where
        self._where[class_name] |= where
        self.is_used |= where
        if capacity is not None:
            self.capacity[class_name] += capacity * where

    def mean(self, by_utilization: NDArray[np.float64]) -> Scores:
        """The mean score of the classes used on each row; 0 where none is."""
        total, count = np.zeros(self._size), np.zeros(self._size)
        for class_name, requested in self._requested.items():
            capacity = self.capacity[class_name]
            is_over = (capacity <= 0) | (requested > capacity)
            share = np.floor(requested * MAX_UTILIZATION / np.maximum(capacity, 1))
            utilization = np.where(is_over, MAX_UTILIZATION, share).astype(np.intp)
            total += by_utilization[utilization] * self._where[class_name]
            count += self._where[class_name]
        # Halves are rounded away from zero, which is up.
        rounded: Scores = np.floor(total / np.maximum(count, 1) + 0.5)
        return rounded
