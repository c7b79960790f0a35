"""The remaining storage capacity that drivers publish, by class.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (hasEnoughCapacity) v1.36.
Differs: of several pools that are large enough the largest is taken; upstream takes any.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.quantity import ceil, parse
from scheduler.api.storage import CSIStorageCapacity
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.volumes.reach import AreaIndex, area_of_selector

TOO_SMALL: Final = -1.0
_SPARE_AREAS: Final = 64


class Capacities:
    """The CSIStorageCapacity objects of one class, a slot each."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._unused: list[int] = []
        self._areas = AreaIndex()
        self._area: list[int] = []
        self._limit: list[int] = []
        self._size: list[int] = []

    def put(self, key: str, capacity: CSIStorageCapacity) -> None:
        """Add a capacity, or replace it by its newest version."""
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = self._new_slot()
        limit = capacity.limit
        self._limit[slot] = int(TOO_SMALL) if limit is None else ceil(limit)
        self._size[slot] = ceil(parse(capacity.capacity or 0))
        self._area[slot] = self._areas.intern(area_of_selector(capacity.node_topology))

    def drop(self, key: str) -> None:
        """Remove a capacity, if it is known."""
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._limit[slot] = int(TOO_SMALL)
            self._unused.append(slot)

    @property
    def is_worn(self) -> bool:
        """Whether most areas belong to removed capacities."""
        return self._areas.count > 2 * len(self._slots) + _SPARE_AREAS

    def room_for(self, size_bytes: int, snapshot: Snapshot) -> NDArray[np.float64]:
        """Per row the bytes of the largest pool that can hold such a volume, or TOO_SMALL."""
        by_area = np.full(self._areas.count, TOO_SMALL)
        fits = np.array(self._limit, np.float64) >= size_bytes
        areas = np.array(self._area, np.intp)[fits]
        np.maximum.at(by_area, areas, np.array(self._size, np.float64)[fits])
        return self._areas.groups(snapshot).highest(by_area)

    def _new_slot(self) -> int:
        if self._unused:
            return self._unused.pop()
        for column in (self._area, self._limit, self._size):
            column.append(0)
        return len(self._limit) - 1
