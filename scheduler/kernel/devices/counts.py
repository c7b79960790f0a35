"""Device counts per node: all devices of a class, and the allocated ones.

Source: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go
(calculateResourceAllocatableRequest with DRAExtendedResource, v1.36.3). As there, slices of old
generations, of invalid pools and of incomplete pools count too.
Differs: a device that has changed is matched again; upstream caches each match forever.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.api.devices import DeviceClass
from scheduler.kernel.cel import ERROR, PENDING, TRUE
from scheduler.kernel.devices.places import Places
from scheduler.kernel.devices.plan import selectors_of_class
from scheduler.kernel.devices.pools import NO_ROWS, PlacedSlice, Rows
from scheduler.kernel.devices.selectors import Selectors
from scheduler.kernel.devices.usage import Usage


class DeviceCounts(NamedTuple):
    """Devices of a class, by node row.

    Attributes:
        allocatable: devices that the node sees; 0 where a selector fails on one of them.
        allocated: those of them that claims have, or have shares of.
    """

    allocatable: NDArray[np.float64]
    allocated: NDArray[np.float64]


class DeviceCounting:
    """Counts devices of classes.

    The nodes that see each device are cached until slices change.
    """

    def __init__(self, usage: Usage, selectors: Selectors) -> None:
        self._usage = usage
        self._selectors = selectors
        self._rows: Rows = NO_ROWS
        self._numbers: Rows = NO_ROWS
        self._built_at: tuple[int, int] | None = None

    def count(self, device_class: DeviceClass, places: Places) -> DeviceCounts:
        """Count the devices of a class on every node.

        Args:
            device_class: the class.
            places: the devices visible to each node, after `refresh`.
        """
        self._locate()
        table = self._usage.table
        every = np.arange(table.columns.size)
        verdicts = self._selectors.select(selectors_of_class(device_class), every)
        has = verdicts == TRUE
        fails = (verdicts == ERROR) | (verdicts == PENDING)
        allocated = has & self._usage.allocated[: len(has)]
        found = [self._per_node(mask, places) for mask in (has, allocated, fails)]
        clean = found[2] == 0
        return DeviceCounts(found[0] * clean, found[1] * clean)

    def _per_node(self, mask: NDArray[np.bool_], places: Places) -> NDArray[np.float64]:
        size = len(self._usage.table.node_names)
        own = np.bincount(self._numbers[mask[self._rows]], minlength=size + 1).astype(np.float64)
        # `NO_NUMBER` is the last place, at which no device is counted.
        totals = own[places.number]
        for number, area in enumerate(places.areas):
            seen = [one for slices in area.seen.values() for one in slices]
            count = sum(
                int((mask[s.placed.rows] if s.here is None else mask[s.placed.rows] & s.here).sum())
                for s in seen
            )
            if count:
                totals[places.area == number] += count
        return totals

    def _locate(self) -> None:
        """Find the nodes of devices whose slices name them."""
        table = self._usage.table
        version = (table.device_log.position, table.node_log.position)
        if self._built_at == version:
            return
        self._built_at = version
        rows, numbers = [NO_ROWS], [NO_ROWS]
        for placed in table.slices.values():
            for number in placed.nodes or ():
                here = _here(placed, number)
                rows.append(here)
                numbers.append(np.full(len(here), number, np.intp))
        self._rows, self._numbers = np.concatenate(rows), np.concatenate(numbers)


def _here(placed: PlacedSlice, number: int) -> Rows:
    mask = placed.here.get(number)
    return placed.rows if mask is None else placed.rows[mask]
