"""The devices of the cluster: slices, the pools they make, and one row per device.

The cost of an update is that of the changed devices: the others keep their rows, and with them all
cached verdicts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
from msgspec.structs import replace

from scheduler.api.devices import Device, DeviceId, ResourceSlice, ResourceSliceSpec
from scheduler.api.objects import ObjectMeta
from scheduler.api.quantity import QuantityError
from scheduler.kernel.devices.columns import DeviceColumns
from scheduler.kernel.devices.conditions import leaves_it_to_devices
from scheduler.kernel.devices.pools import NO_ROWS, PlacedSlice, Pool, PoolId
from scheduler.kernel.snapshot.changes import RowLog

_NO_ROWS: Final[tuple[int, ...]] = ()


class SliceTable:
    """All slices, without any allocations.

    Nodes have numbers of their own here: a slice may be published before its node exists.

    Attributes:
        columns: the properties of devices.
        pools: by name.
        slices: by name, as they are placed.
        node_names: by number, the nodes that slices name; empty for a number that is free.
        placed: by row, the slice of the device.
        device_log: rows of devices added or removed.
        node_log: numbers of nodes that see other devices than before.
        broad: pools that matter to nodes which none of their slices names.
        broad_changes: number of changes of those.
        numberings: number of times a node got or lost its number.
    """

    def __init__(self) -> None:
        self.columns = DeviceColumns()
        self.pools: dict[PoolId, Pool] = {}
        self.slices: dict[str, PlacedSlice] = {}
        self.node_names: list[str] = []
        self.placed: list[PlacedSlice | None] = []
        self.device_log = RowLog()
        self.node_log = RowLog()
        self.broad: set[PoolId] = set()
        self.broad_changes = 0
        self.numberings = 0
        self._rows_of: dict[DeviceId, tuple[int, ...]] = {}
        self._numbers: dict[str, int] = {}
        self._users: list[list[PlacedSlice]] = []
        self._free_numbers: list[int] = []
        self._pool_changes = 0
        """The largest number of changes of any removed pool."""

    def rows_of(self, device: DeviceId) -> tuple[int, ...]:
        """The rows of a device: one per generation and slice that lists it."""
        return self._rows_of.get(device, _NO_ROWS)

    def id_of(self, row: int) -> DeviceId:
        """The device of a row."""
        placed, device = self.placed[row], self.columns.devices[row]
        if placed is None or device is None:
            raise KeyError(row)
        return DeviceId(placed.spec.driver, placed.spec.pool.name, device.name)

    def number_of(self, node_name: str) -> int | None:
        """The number of a node that slices name."""
        return self._numbers.get(node_name)

    def pools_of(self, number: int) -> set[PoolId]:
        """The pools of which slices name the node of a number."""
        return {placed.pool_id for placed in self._users[number]}

    def published(self, pools: Iterable[PoolId]) -> Iterator[ResourceSlice]:
        """The slices of some pools."""
        for pool_id in pools:
            for placed in self.pools[pool_id].placed.values():
                yield ResourceSlice(ObjectMeta(name=placed.name), placed.spec)

    # --- changes --------------------------------------------------------------------------------

    def set_slice(self, published: ResourceSlice) -> tuple[list[int], list[int]]:
        """Add a slice, or replace it by another version.

        Returns:
            The rows of added devices, and those of removed ones.

        Raises:
            QuantityError: an amount does not parse; nothing has changed.
        """
        name, spec = published.metadata.name, published.spec
        old = self.slices.get(name)
        if old is not None and old.spec == spec:
            return [], []
        kept = _kept_rows(old, spec)
        came: list[int] = []
        rows: list[int] = []
        try:
            # Slices with counters hold no devices that can be allocated.
            for device in () if spec.shared_counters else spec.devices:
                row = kept.pop(device.name, None)
                if row is None:
                    row = self.columns.add(spec.driver, device)
                    came.append(row)
                rows.append(row)
        except QuantityError:
            for row in came:
                self.columns.remove(row)
            raise
        placed = PlacedSlice(name, spec, np.array(rows, np.intp) if rows else NO_ROWS)
        went = [] if old is None else sorted({*old.rows.tolist()} - {*rows})
        if old is not None:
            self._displace(old, went)
        self._place(placed, came)
        self._note_change(old, placed)
        return came, went

    def remove_slice(self, name: str) -> list[int]:
        """Remove a slice.

        Returns:
            The rows of its devices.
        """
        old = self.slices.get(name)
        if old is None:
            return []
        went: list[int] = old.rows.tolist()
        self._displace(old, went)
        self._note_change(old, None)
        return went

    def copy(self) -> "SliceTable":
        """An independent copy that numbers rows and nodes alike."""
        copy = object.__new__(SliceTable)
        copy.__dict__.update(self.__dict__)
        copy.columns = self.columns.copy()
        copy.pools = {pool_id: pool.copy() for pool_id, pool in self.pools.items()}
        copy.slices = self.slices.copy()
        copy.node_names = self.node_names.copy()
        copy.placed = self.placed.copy()
        copy.broad = self.broad.copy()
        copy.device_log = RowLog(self.device_log.position)
        copy.node_log = RowLog(self.node_log.position)
        copy._rows_of = self._rows_of.copy()
        copy._numbers = self._numbers.copy()
        copy._users = [users.copy() for users in self._users]
        copy._free_numbers = self._free_numbers.copy()
        return copy

    def _place(self, placed: PlacedSlice, came: Iterable[int]) -> None:
        self.slices[placed.name] = placed
        names = _nodes_named(placed.spec)
        if names is not None:
            placed.nodes = tuple(self._take_number(name, placed) for name in names)
            if not placed.spec.node_name:
                for name, number in zip(names, placed.nodes, strict=True):
                    here = [device.node_name == name for device in placed.spec.devices]
                    placed.here[number] = np.array(here, np.bool_)
        pool = self.pools.get(placed.pool_id)
        if pool is None:
            pool = self.pools[placed.pool_id] = Pool(placed.pool_id, self._pool_changes)
        pool.add(placed)
        missing = self.columns.size - len(self.placed)
        self.placed.extend([None] * missing)
        for row in placed.rows.tolist():
            self.placed[row] = placed
        keep = self.columns.capacity
        for row in came:
            device = self.id_of(row)
            self._rows_of[device] = (*self.rows_of(device), row)
            self.device_log.append(row, keep)

    def _displace(self, old: PlacedSlice, went: Iterable[int]) -> None:
        for row in went:
            device = self.id_of(row)
            others = tuple(r for r in self._rows_of[device] if r != row)
            if others:
                self._rows_of[device] = others
            else:
                del self._rows_of[device]
            self.columns.remove(row)
            self.placed[row] = None
            self.device_log.append(row, self.columns.capacity)
        del self.slices[old.name]
        pool = self.pools[old.pool_id]
        pool.remove(old)
        if not pool.placed:
            self._pool_changes = max(self._pool_changes, pool.changes)
            del self.pools[old.pool_id]
        # Log the nodes before their numbers are freed, as a freed number may be reused.
        self._note_nodes(old.nodes or ())
        for node in old.nodes or ():
            self._give_number_back(node, old)

    def _note_change(self, old: PlacedSlice | None, new: PlacedSlice | None) -> None:
        """Log the nodes whose view changes: those of the slice, or of its whole pool."""
        if new is not None:
            self._note_nodes(new.nodes or ())
        pools = {placed.pool_id for placed in (old, new) if placed is not None}
        if old is not None and new is not None and _count_alike(old, new):
            pools = {pool_id for pool_id in pools if self._matters_to_others(pool_id)}
        for pool_id in pools:
            pool = self.pools.get(pool_id)
            is_broad = pool is not None and pool.is_seen_everywhere
            self.broad_changes += is_broad or pool_id in self.broad
            if is_broad:
                self.broad.add(pool_id)
            else:
                self.broad.discard(pool_id)
            if pool is not None:
                self._note_nodes(pool.local)

    def _matters_to_others(self, pool_id: PoolId) -> bool:
        """Whether one slice of a pool affects nodes that see other slices of it."""
        pool = self.pools[pool_id]
        return bool(pool.counting) or bool(pool.broad)

    def _note_nodes(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self.node_log.append(node, len(self.node_names))

    def _take_number(self, name: str, user: PlacedSlice) -> int:
        number = self._numbers.get(name)
        if number is None:
            self.numberings += 1
            if self._free_numbers:
                number = self._free_numbers.pop()
                self.node_names[number] = name
            else:
                number = len(self.node_names)
                self.node_names.append(name)
                self._users.append([])
            self._numbers[name] = number
        self._users[number].append(user)
        return number

    def _give_number_back(self, number: int, user: PlacedSlice) -> None:
        self._users[number].remove(user)
        if not self._users[number]:
            self.numberings += 1
            del self._numbers[self.node_names[number]]
            self.node_names[number] = ""
            self._free_numbers.append(number)


def _kept_rows(old: PlacedSlice | None, spec: ResourceSliceSpec) -> dict[str, int]:
    """By name, the rows of unchanged devices."""
    if old is None or not old.rows.size or old.pool_id != (spec.driver, spec.pool.name):
        return {}
    before: Mapping[str, tuple[Device, int]] = {
        device.name: (device, row)
        for device, row in zip(old.spec.devices, old.rows.tolist(), strict=True)
    }
    kept: dict[str, int] = {}
    for device in spec.devices:
        known = before.get(device.name)
        if known is not None and known[0] == device:
            kept[device.name] = known[1]
    return kept


def _count_alike(one: PlacedSlice, other: PlacedSlice) -> bool:
    """Whether two versions of a slice are equal for nodes that neither of them names."""
    return (
        one.nodes is not None
        and other.nodes is not None
        and one.spec.driver == other.spec.driver
        and one.spec.pool == other.spec.pool
        # A device that consumes unknown counters makes the pool invalid on all nodes.
        and not (one.consumes or other.consumes)
    )


def _nodes_named(spec: ResourceSliceSpec) -> list[str] | None:
    """The nodes that a slice names, if it names any; upstream checks counters first."""
    if spec.shared_counters:
        return None
    if spec.node_name:
        return [spec.node_name]
    if not leaves_it_to_devices(spec):
        return None
    names = {device.node_name or "" for device in spec.devices}
    return None if "" in names else sorted(names)


def slices_like(slices: Iterable[ResourceSlice], node_name: str, other: str) -> list[ResourceSlice]:
    """The slices that a copy of a node would publish, in pools of its own.

    They include the counters that the nodes of a pool share, as if the copy had its own.
    """
    slices = [*slices]
    own = (each for each in slices if each.spec.node_name == node_name)
    newest = dict.fromkeys(map(_pool_of, own), 0)
    for each in slices:
        pool_id = _pool_of(each)
        if pool_id in newest:
            newest[pool_id] = max(newest[pool_id], each.spec.pool.generation)
    copied = [
        each
        for each in slices
        if each.spec.pool.generation == newest.get(_pool_of(each))
        and (each.spec.node_name == node_name or each.spec.shared_counters)
    ]
    sizes = Counter(map(_pool_of, copied))
    found = []
    for each in copied:
        name = f"{each.spec.pool.name}-of-{other}"
        pool = replace(each.spec.pool, name=name, resource_slice_count=sizes[_pool_of(each)])
        metadata = ObjectMeta(name=f"{each.metadata.name}-of-{other}")
        place = {"node_name": other, "node_selector": None, "all_nodes": False}
        found.append(ResourceSlice(metadata, replace(each.spec, pool=pool, **place)))
    return found


def _pool_of(published: ResourceSlice) -> PoolId:
    return PoolId(published.spec.driver, published.spec.pool.name)
