"""Allocations: the devices in use, the claims that hold them, and the use of shared devices.

Source: pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go
(foreachAllocatedDevice); k8s.io/dynamic-resource-allocation structured/internal/allocatedstate.go
(IsDeviceAllocated, v0.36.3).
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

import numpy as np

from scheduler.api.devices import AllocationResult, DeviceId, DeviceRequestAllocationResult
from scheduler.api.quantity import parse
from scheduler.kernel.devices.capacities import Amounts
from scheduler.kernel.devices.pools import CounterTable, Pool
from scheduler.kernel.devices.remaining_counters import NO_COUNTERS, RemainingCounters
from scheduler.kernel.devices.table import SliceTable
from scheduler.kernel.snapshot.changes import RowLog
from scheduler.kernel.snapshot.interning import InternedColumn

_NOTHING: Final[Amounts] = {}
UNTOUCHED: Final = 0
"""The state of a device of which nothing is consumed."""


class Usage:
    """Allocations by claim, and their effect on the devices.

    A device may be allocated before a slice lists it, and after.

    Attributes:
        allocations: by the claim's UID.
        in_use: by row, whether a claim has the device exclusively.
        allocated: by row, whether a claim has the device or a share of it.
        state: by row, the consumed amounts of a shared device, with their names.
        remaining_counters: the remaining counters of pools.
        node_log: numbers of nodes on which devices were allocated or released.
        broad_changes: number of such changes of devices that many nodes may see.
    """

    def __init__(self, table: SliceTable) -> None:
        self.table = table
        self.allocations: dict[str, AllocationResult] = {}
        self.in_use = np.zeros(table.columns.capacity, np.bool_)
        self.allocated = np.zeros(table.columns.capacity, np.bool_)
        self.state = InternedColumn[tuple[tuple[str, Decimal], ...]]((), table.columns.capacity)
        self.remaining_counters = RemainingCounters()
        self.node_log = RowLog()
        self.broad_changes = 0
        self._holders: dict[DeviceId, tuple[str, ...]] = {}
        self._shares: dict[DeviceId, int] = {}
        self._consumed: dict[DeviceId, Amounts] = {}

    # --- questions ------------------------------------------------------------------------------

    def holders(self, device: DeviceId) -> tuple[str, ...]:
        """The UIDs of the claims that have a device, or a share of it."""
        return self._holders.get(device, ())

    def is_allocated(self, device: DeviceId) -> bool:
        """Whether a device is allocated in any way, except for admin access."""
        return device in self._holders

    def is_dedicated(self, device: DeviceId) -> bool:
        """Whether a claim has the device exclusively, not a share of it."""
        return len(self._holders.get(device, ())) > self._shares.get(device, 0)

    def consumed(self, device: DeviceId) -> Amounts | None:
        """The consumed amounts of a shared device; None if nothing is consumed."""
        return self._consumed.get(device)

    def is_touched(self, row: int) -> bool:
        """Whether anything of a shared device is consumed."""
        return bool(self.state.value_of(row))

    def availability_of(self, pool: Pool, generation: int) -> int:
        """The number of a pool's remaining counters; see `availability`."""
        if not pool.counting:
            return NO_COUNTERS
        return self.remaining_counters.number(pool, generation, self._remaining)

    def availability(self, number: int) -> CounterTable:
        """The amounts with a number in `remaining_counters`; they may be negative."""
        return self.remaining_counters.amounts(number)

    # --- changes --------------------------------------------------------------------------------

    def allocate(self, uid: str, allocation: AllocationResult) -> None:
        """Record the allocation of a claim; a claim that has one already keeps it."""
        if uid in self.allocations:
            return
        self.allocations[uid] = allocation
        for result in allocation.devices.results:
            if not result.admin_access:
                self._count(uid, result, 1)

    def release(self, uid: str) -> None:
        """Remove the allocation of a claim, if it has one."""
        allocation = self.allocations.pop(uid, None)
        if allocation is None:
            return
        for result in allocation.devices.results:
            if not result.admin_access:
                self._count(uid, result, -1)

    def devices_changed(self, came: Iterable[int], went: Iterable[int]) -> None:
        """Handle rows of the table that got or lost a device."""
        capacity = self.table.columns.capacity
        if capacity > len(self.in_use):
            self._grow(capacity)
        for row in went:
            self.in_use[row] = self.allocated[row] = False
            self.state.set(row, (), capacity)
        for row in came:
            self._set_row(row, self.table.id_of(row))
        self.remaining_counters.forget_gone(self.table.pools)

    def fork(self, table: SliceTable) -> "Usage":
        """An independent copy that reads `table`."""
        copy = object.__new__(Usage)
        copy.__dict__.update(self.__dict__)
        copy.table = table
        copy.allocations = self.allocations.copy()
        copy.in_use = self.in_use.copy()
        copy.allocated = self.allocated.copy()
        copy.remaining_counters = self.remaining_counters.copy()
        copy.state = self.state.copy()
        copy.node_log = RowLog(self.node_log.position)
        copy._holders = self._holders.copy()
        copy._shares = self._shares.copy()
        copy._consumed = self._consumed.copy()
        return copy

    def _count(self, uid: str, result: DeviceRequestAllocationResult, sign: int) -> None:
        device = result.id
        holders = self.holders(device)
        if sign > 0:
            holders = (*holders, uid)
        else:
            # A claim may have several shares of one device; remove one of them.
            index = holders.index(uid)
            holders = holders[:index] + holders[index + 1 :]
        if holders:
            self._holders[device] = holders
        else:
            del self._holders[device]
        if result.share_id is not None:
            shares = self._shares.get(device, 0) + sign
            self._shares[device] = shares
            if not shares:
                del self._shares[device]
            if result.consumed_capacity:
                self._consume(device, _amounts(result), sign)
        for row in self.table.rows_of(device):
            self._set_row(row, device)
            self._note(row)

    def _consume(self, device: DeviceId, amounts: Amounts, sign: int) -> None:
        consumed = dict(self._consumed.get(device, {}))
        for name, amount in amounts.items():
            consumed[name] = consumed.get(name, Decimal(0)) + sign * amount
        if sign > 0 or any(consumed.values()):
            self._consumed[device] = consumed
        else:
            self._consumed.pop(device, None)

    def _set_row(self, row: int, device: DeviceId) -> None:
        self.in_use[row] = self.is_dedicated(device)
        self.allocated[row] = self.is_allocated(device)
        consumed = self._consumed.get(device, _NOTHING)
        self.state.set(row, tuple(sorted(consumed.items())), len(self.in_use))

    def _note(self, row: int) -> None:
        """Log the nodes that see the device; all nodes of the pool if it consumes counters.

        Nodes that slices of a pool name see its slices with conditions as well.
        """
        table = self.table
        placed = table.placed[row]
        if placed is None:
            return
        keep = len(table.node_names)
        pool = table.pools[placed.pool_id]
        consumes = bool(table.columns.consumption.value_of(row))
        if consumes:
            self.remaining_counters.note(pool.id, table.pools)
        for node in pool.local if consumes or placed.nodes is None else placed.nodes:
            self.node_log.append(node, keep)
        self.broad_changes += placed.nodes is None or (consumes and bool(pool.broad))

    def _remaining(self, pool: Pool, generation: int) -> dict[tuple[str, str], Decimal]:
        """The counters of a pool without what its allocated devices consume."""
        columns = self.table.columns
        left = dict(pool.counters(generation))
        for placed in pool.placed.values():
            if placed.generation != generation:
                continue
            rows = placed.rows[self.allocated[placed.rows]]
            for row in rows.tolist():
                for consumed in columns.consumption.value_of(row):
                    counter = (consumed.counter_set, consumed.counter)
                    if counter in left:
                        left[counter] -= consumed.amount
        return left

    def _grow(self, capacity: int) -> None:
        for name in ("in_use", "allocated"):
            old = getattr(self, name)
            new = np.zeros(capacity, old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)


def _amounts(result: DeviceRequestAllocationResult) -> Mapping[str, Decimal]:
    return {name: parse(text) for name, text in result.consumed_capacity.items()}
