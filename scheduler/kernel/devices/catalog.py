"""All devices of the cluster: published slices, allocations, and the queries over both.

Source: k8s.io/dynamic-resource-allocation structured (v0.36.3).
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple
from weakref import WeakSet

import numpy as np

from scheduler.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.limits import exceeded_limit_of_claims
from scheduler.kernel.cel import TRUE
from scheduler.kernel.devices.allocator import Allocator
from scheduler.kernel.devices.candidates import AllocationError
from scheduler.kernel.devices.constraints import Attributes
from scheduler.kernel.devices.counts import DeviceCounting, DeviceCounts
from scheduler.kernel.devices.findings import Examination, Findings
from scheduler.kernel.devices.judging import Judging
from scheduler.kernel.devices.places import Places
from scheduler.kernel.devices.plan import AllocationPlan, key_of, plan_of, selectors_of_class
from scheduler.kernel.devices.selectors import Compile, Selectors
from scheduler.kernel.devices.table import SliceTable, slices_like
from scheduler.kernel.devices.usage import Usage
from scheduler.kernel.snapshot import Snapshot

_MAX_ALLOCATORS: Final = 64
"""Largest number of cached allocators; the least recently used is evicted first."""


class DeviceShare(NamedTuple):
    """Devices of a driver, or of a class.

    Attributes:
        name: the name of the driver or the class.
        is_class: whether the name is of a class.
        devices: number of devices.
        in_use: number of them that a claim has, or has a share of.
    """

    name: str
    is_class: bool
    devices: int
    in_use: int


class Devices:
    """The devices of the cluster, fed with slices, classes and allocations; source of allocators.

    A fork shares the table of devices with its original until slices change on either side.

    Attributes:
        table: the published slices.
        usage: the allocations.
        places: the devices visible to each node.
        classes: device classes by name.
    """

    def __init__(self, compile_expression: Compile) -> None:
        """Begin without slices, classes and allocations.

        Args:
            compile_expression: see `scheduler.kernel.cel.compile_expression`.
        """
        self.table = SliceTable()
        self.usage = Usage(self.table)
        self.places = Places(self.table, self.usage)
        self.classes: dict[str, DeviceClass] = {}
        self._compile_expression = compile_expression
        self._selectors = Selectors(compile_expression, self.table)
        self._attributes = Attributes(self.table)
        self._users: WeakSet[Devices]
        self._allocators: OrderedDict[bytes, Allocator] = OrderedDict()
        self._counting = DeviceCounting(self.usage, self._selectors)
        self._owns_table = True
        self._users = WeakSet((self,))

    # --- changes --------------------------------------------------------------------------------

    def set_slice(self, published: ResourceSlice) -> None:
        """Add or replace a slice.

        Raises:
            QuantityError: an amount does not parse; nothing has changed.
        """
        self._own_table()
        came, went = self.table.set_slice(published)
        self.usage.devices_changed(came, went)

    def remove_slice(self, name: str) -> None:
        """Remove a slice."""
        self._own_table()
        self.usage.devices_changed((), self.table.remove_slice(name))

    def set_class(self, device_class: DeviceClass) -> None:
        """Add or replace a device class."""
        self.classes[device_class.metadata.name] = device_class
        self._allocators.clear()

    def remove_class(self, name: str) -> None:
        """Remove a device class."""
        if self.classes.pop(name, None) is not None:
            self._allocators.clear()

    def allocate(self, uid: str, allocation: AllocationResult) -> None:
        """Record the allocation of a claim, written or in flight."""
        self.usage.allocate(uid, allocation)

    def release(self, uid: str) -> None:
        """Remove the allocation of a claim."""
        self.usage.release(uid)

    # --- questions ------------------------------------------------------------------------------

    def allocator(self, claims: Sequence[ResourceClaim], snapshot: Snapshot) -> Allocator:
        """Return the allocator for claims without an allocation, on the nodes of a snapshot.

        It is valid until anything changes.

        Raises:
            AllocationError: the claims exceed a limit.
        """
        self.places.refresh(snapshot)
        key = key_of(claims)
        found = self._allocators.get(key)
        if found is None:
            too_much = exceeded_limit_of_claims(claims, self.classes)
            if too_much:
                raise AllocationError(too_much)
            plan = plan_of(claims, self.classes)
            found = self._allocators[key] = Allocator(plan, self._judging(plan), self.places)
            if len(self._allocators) > _MAX_ALLOCATORS:
                self._allocators.popitem(last=False)
        else:
            self._allocators.move_to_end(key)
        return found

    def counts(self, class_name: str, snapshot: Snapshot) -> DeviceCounts | None:
        """Count the devices of a class on every node of a snapshot, by row.

        Returns:
            None when there is no such class.
        """
        device_class = self.classes.get(class_name)
        if device_class is None:
            return None
        self.places.refresh(snapshot)
        return self._counting.count(device_class, self.places)

    def findings(self, claims: Sequence[ResourceClaim], snapshot: Snapshot) -> Findings:
        """Count the devices that remain for each request after each step, on a snapshot's nodes.

        Cost: O(nodes and devices); meant for explanations, not for scheduling decisions.
        """
        return self.examination(claims, snapshot).findings(claims)

    def examination(self, claims: Sequence[ResourceClaim], snapshot: Snapshot) -> Examination:
        """Return the explainer for claims without an allocation.

        Cost: the same as `findings`. It is valid until anything changes.
        """
        self.places.refresh(snapshot)
        judging = self._judging(plan_of(claims, self.classes))
        return Examination(judging, self.places, snapshot)

    def shares(self) -> list[DeviceShare]:
        """Count the devices of every driver and of every class: all of them, and those in use.

        Cost: a pass over the devices per class.
        """
        columns, allocated = self.table.columns, self.usage.allocated
        alive = columns.alive[: columns.size]
        drivers = columns.drivers
        masks = [
            (False, name, alive & (drivers.codes[: columns.size] == code))
            for code, name in enumerate(drivers.values)
        ]
        rows = np.arange(columns.size)
        for name, device_class in self.classes.items():
            verdicts = self._selectors.select(selectors_of_class(device_class), rows)
            masks.append((True, name, alive & (verdicts == TRUE)))
        in_use = allocated[: columns.size]
        return [
            DeviceShare(name, is_class, int(mask.sum()), int((mask & in_use).sum()))
            for is_class, name, mask in sorted(masks, key=lambda each: each[:2])
            if is_class or mask.any()
        ]

    def fork(self) -> "Devices":
        """An independent copy."""
        copy = object.__new__(Devices)
        copy.__dict__.update(self.__dict__)
        copy._owns_table = False
        copy._users.add(copy)
        copy.usage = self.usage.fork(self.table)
        copy.places = self.places.fork(self.table, copy.usage)
        copy.classes = self.classes.copy()
        copy._counting = DeviceCounting(copy.usage, self._selectors)
        copy._allocators = OrderedDict(
            (key, known.fork(copy.usage, copy.places)) for key, known in self._allocators.items()
        )
        return copy

    def for_new_node(self, like: str, name: str) -> "Devices":
        """The devices visible to a copy of a node: copies of its own, and those of no single node.

        Cost: O(devices that the other node sees), where a fork with another slice costs O(devices).
        """
        table, number = self.table, self.table.number_of(like)
        own = () if number is None else table.pools_of(number)
        slices = [
            *slices_like(table.published(own), like, name),
            *table.published(table.broad),
        ]
        found = Devices(self._compile_expression)
        found.classes = self.classes.copy()
        for each in slices:
            found.set_slice(each)
        for row in range(found.table.columns.size):
            for uid in self.usage.holders(found.table.id_of(row)):
                found.allocate(uid, self.usage.allocations[uid])
        return found

    def _judging(self, plan: AllocationPlan) -> Judging:
        return Judging(plan, self.usage, self._selectors, self._attributes)

    def _own_table(self) -> None:
        """Stop sharing the table, before it changes.

        Forks get a copy of the table; the original keeps the table and its cached verdicts.
        """
        if not self._owns_table:
            self.detach()
        for user in list(self._users):
            if user is not self:
                user.detach()

    def detach(self) -> None:
        """Replace the shared table by a copy."""
        self._users.discard(self)
        self._users, self._owns_table = WeakSet((self,)), True
        self.table = self.table.copy()
        self.usage.table = self.table
        self.places = Places(self.table, self.usage)
        self._selectors = Selectors(self._compile_expression, self.table)
        self._attributes = Attributes(self.table)
        self._counting = DeviceCounting(self.usage, self._selectors)
        self._allocators.clear()
