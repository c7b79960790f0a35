"""The devices visible to each node: those of slices that name it, or whose condition it meets.

Nodes that the conditions of slices do not distinguish form one area. So devices that many nodes see
are evaluated once per area, not once per node.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/pools_incubating.go
(GatherPools, v0.36.3).
"""

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.devices.conditions import (
    NodePredicate,
    condition_of,
    conditions_of,
    leaves_it_to_devices,
)
from scheduler.kernel.devices.pools import (
    NO_ROWS,
    PlacedSlice,
    PoolId,
    PoolState,
    PoolView,
    Rows,
    Seen,
)
from scheduler.kernel.devices.table import SliceTable
from scheduler.kernel.devices.usage import Usage
from scheduler.kernel.snapshot import Mask, Snapshot
from scheduler.kernel.snapshot.changes import RowLog

NO_NUMBER: Final = -1
"""Stands for the number of a node that no slice names."""

_key_of: Final = attrgetter("key")


class Layout:
    """Devices that a node sees, in the order in which they are tried.

    Attributes:
        views: their pools in order.
        rows: the devices, without those of pools that cannot be used.
        pool_of: by position in `rows`, the position of its pool in `views`.
        here: by position in `rows`, whether the device is for the node; None for all of them.
        is_incomplete: whether a pool is being updated.
        is_invalid: whether a pool is invalid.
    """

    __slots__ = ("here", "is_incomplete", "is_invalid", "pool_of", "rows", "views")

    def __init__(self, views: Iterable[PoolView]) -> None:
        self.views = sorted(views, key=_key_of)
        states = [view.state for view in self.views]
        self.is_incomplete = PoolState.INCOMPLETE in states
        self.is_invalid = PoolState.INVALID in states
        self.rows: Rows = NO_ROWS
        self.pool_of: Rows = NO_ROWS
        self.here: Mask | None = None
        if len(states) == 1:
            self.rows, self.here = self.views[0].rows, self.views[0].here
            self.pool_of = np.zeros(len(self.rows), np.intp)
        elif states:
            self.rows = np.concatenate([v.rows for v in self.views])
            sizes = [len(v.rows) for v in self.views]
            self.pool_of = np.repeat(np.arange(len(sizes)), sizes)
            if any(v.here is not None for v in self.views):
                self.here = np.concatenate([v.mask for v in self.views])


NOTHING: Final = Layout(())


class Area:
    """Nodes that see the same part of the slices with conditions.

    Attributes:
        seen: the slices by pool.
        layout: devices of the pools of which no slice names a node of the area.
    """

    __slots__ = ("layout", "seen")

    def __init__(self, seen: Mapping[PoolId, list[Seen]], views: Iterable[PoolView]) -> None:
        self.seen = seen
        self.layout = Layout(views)


class _Areas:
    """The areas; valid until a slice with a node condition changes."""

    def __init__(self, table: SliceTable) -> None:
        self._pools = [table.pools[pool_id] for pool_id in sorted(table.broad)]
        specs = [placed.spec for pool in self._pools for placed in pool.broad.values()]
        found = {condition for spec in specs for condition in conditions_of(spec)}
        self._conditions = list(found)
        # A node that a slice of such a pool names sees the pool as one of its own.
        named: dict[int, set[PoolId]] = {}
        for pool in self._pools:
            for number in pool.local:
                named.setdefault(number, set()).add(pool.id)
        self._named = {number: frozenset(pools) for number, pools in named.items()}
        self._numbers: dict[tuple[bytes, frozenset[PoolId]], int] = {}
        self.areas: list[Area] = []

    def numbers(self, snapshot: Snapshot, rows: Rows, node_numbers: Rows) -> list[int]:
        """By given row, the index of its area in `areas`."""
        holds = np.zeros((len(rows), len(self._conditions)), np.bool_)
        for column, condition in enumerate(self._conditions):
            holds[:, column] = condition.matches(snapshot, rows)
        packed, width = np.packbits(holds, axis=1).tobytes(), -(-len(self._conditions) // 8)
        numbers: list[int] = []
        for index, number in enumerate(node_numbers.tolist()):
            bits = packed[index * width : (index + 1) * width]
            key = (bits, self._named.get(number, frozenset()))
            found = self._numbers.get(key)
            if found is None:
                found = self._numbers[key] = len(self.areas)
                self.areas.append(self._area(holds[index], key[1]))
            numbers.append(found)
        return numbers

    def _area(self, holds: NDArray[np.bool_], named: frozenset[PoolId]) -> Area:
        holding = {c for c, h in zip(self._conditions, holds.tolist(), strict=True) if h}
        seen: dict[PoolId, list[Seen]] = {}
        views: list[PoolView] = []
        for pool in self._pools:
            slices = [_seen(placed, holding) for placed in pool.broad.values()]
            seen[pool.id] = [one for one in slices if one is not None]
            if pool.id not in named:
                view = pool.view([*map(Seen, pool.counting.values()), *seen[pool.id]])
                if view is not None:
                    views.append(view)
        return Area(seen, views)


class Places:
    """The devices of every node of a snapshot.

    Attributes:
        number: by node row, the table's number of the node, or `NO_NUMBER`.
        area: by node row, the index in `areas`.
        log: rows of nodes whose visible devices changed.
        area_changes: number of changes of what areas see.
    """

    def __init__(self, table: SliceTable, usage: Usage) -> None:
        self._table = table
        self._usage = usage
        self.number: Rows = NO_ROWS
        self.area: Rows = NO_ROWS
        self.log = RowLog()
        self.area_changes = 0
        self._areas = _Areas(table)
        self._rows: dict[int, int] = {}
        self._layouts: dict[int, tuple[Area, Layout]] = {}
        self._nodes: tuple[RowLog | None, int] = (None, 0)
        self._versions = (-1, -1)
        self._positions = (table.node_log.position, usage.node_log.position)
        self._used = usage.broad_changes

    @property
    def areas(self) -> list[Area]:
        """The areas: groups of nodes that see the same part of the slices with conditions."""
        return self._areas.areas

    @property
    def is_current(self) -> bool:
        """Whether slices and allocations are as they were at the last `refresh`."""
        table, usage = self._table, self._usage
        return (
            self._positions == (table.node_log.position, usage.node_log.position)
            and self._versions == (table.numberings, table.broad_changes)
            and self._used == usage.broad_changes
        )

    def refresh(self, snapshot: Snapshot) -> None:
        """Process all changes of nodes, slices and allocations since the last call.

        Cost: O(changes); O(nodes) when a node gets its first slice or loses its last, or when
        slices with conditions change.
        """
        logs = (self._table.node_log, self._usage.node_log)
        changed = [log.since(at) for log, at in zip(logs, self._positions, strict=True)]
        self._positions = (logs[0].position, logs[1].position)
        if changed[0] is None:
            self._layouts.clear()
        else:
            for number in changed[0].tolist():
                self._layouts.pop(number, None)
        self._place(snapshot)
        for numbers in changed:
            touched = self._rows if numbers is None else numbers.tolist()
            self._note([self._rows[number] for number in touched if number in self._rows])
        if self._usage.broad_changes != self._used:
            self._used = self._usage.broad_changes
            self.area_changes += 1

    def local_layout(self, row: int) -> Layout:
        """The devices of pools of which a slice names the node of a row."""
        number, area = int(self.number[row]), self.areas[self.area[row]]
        if number == NO_NUMBER:
            return NOTHING
        known = self._layouts.get(number)
        if known is None or known[0] is not area:
            known = self._layouts[number] = (area, Layout(self._local_views(number, area)))
        return known[1]

    def layout(self, row: int) -> Layout:
        """All devices that the node of a row sees."""
        local, area = self.local_layout(row), self.areas[self.area[row]]
        return Layout([*local.views, *area.layout.views]) if area.layout.views else local

    def fork(self, table: SliceTable, usage: Usage) -> "Places":
        """A copy that reads copies of the table and the usage."""
        copy = object.__new__(Places)
        copy.__dict__.update(self.__dict__)
        copy._table, copy._usage = table, usage
        copy.number, copy.area = self.number.copy(), self.area.copy()
        copy._rows, copy._layouts = self._rows.copy(), self._layouts.copy()
        copy.log = RowLog(self.log.position)
        return copy

    def _local_views(self, number: int, area: Area) -> Iterator[PoolView]:
        for pool_id in self._table.pools_of(number):
            pool = self._table.pools[pool_id]
            view = pool.local_view(number, area.seen.get(pool_id, ()))
            if view is not None:
                yield view

    def _place(self, snapshot: Snapshot) -> None:
        """Find the numbers and the areas of new or changed nodes."""
        table, log = self._table, snapshot.node_log
        versions = (table.numberings, table.broad_changes)
        changed = None
        if self._nodes[0] is log and self._versions == versions:
            changed = log.since(self._nodes[1])
        if self._versions[1] != versions[1]:
            self._areas = _Areas(table)
            self.area_changes += 1
        self._nodes, before, self._versions = (log, log.position), self._versions, versions
        rows = np.arange(snapshot.table.size) if changed is None else changed
        if changed is None:
            self._rows = {}
        if not len(rows):
            return
        size = snapshot.table.size
        old = (_stretched(self.number, size)[rows], _stretched(self.area, size)[rows])
        self.number, self.area = _stretched(self.number, size), _stretched(self.area, size)
        names = snapshot.table.names
        numbers = [table.number_of(names[row]) for row in rows.tolist()]
        for row, number in zip(rows.tolist(), numbers, strict=True):
            if number is not None:
                self._rows[number] = row
        self.number[rows] = [NO_NUMBER if number is None else number for number in numbers]
        self.area[rows] = self._areas.numbers(snapshot, rows, self.number[rows])
        if before[1] == versions[1]:
            moved = (old[0] != self.number[rows]) | (old[1] != self.area[rows])
            rows = rows[moved]
        self._note(rows.tolist())

    def _note(self, rows: list[int]) -> None:
        self.log.extend(rows, len(self.number))


def _seen(placed: PlacedSlice, holding: set[NodePredicate]) -> Seen | None:
    """The part of a slice that nodes see for which these conditions hold; None for no part."""
    if not leaves_it_to_devices(placed.spec):
        return Seen(placed) if condition_of(placed.spec) in holding else None
    here = np.array([condition_of(device) in holding for device in placed.spec.devices], np.bool_)
    return Seen(placed, here) if here.any() else None


def _stretched(column: Rows, size: int) -> Rows:
    """A copy for more rows; new rows get `NO_NUMBER`."""
    found = np.full(size, NO_NUMBER, np.intp)
    found[: len(column)] = column
    return found
