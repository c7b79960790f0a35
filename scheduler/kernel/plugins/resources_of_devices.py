"""Extended resources that device classes serve, for the plugins about resources.

Source: pkg/scheduler/framework/plugins/noderesources/fit.go (shouldDelegateResourceToDRA) v1.36.
"""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from scheduler.api.pod_shape import DEVICES
from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.devices.counts import DeviceCounts
from scheduler.kernel.devices.extended_resources import resources_asked
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.plugins.resource_columns import Amounts
from scheduler.kernel.snapshot import Rows, Snapshot

_NONE: Final = frozenset[str]()


class ResourcesOfDevices:
    """The resources of a pod that devices may serve."""

    def __init__(self, handle: Handle | None) -> None:
        self._handle = handle
        if handle is not None:
            handle.shared(ClaimCatalog)

    @property
    def version(self) -> int:
        """Grows with each change of the mapping from classes to resources."""
        return 0 if self._handle is None else self._handle.shared(ClaimCatalog).class_names.version

    def of(self, pod: PodInfo) -> frozenset[str]:
        """The requested resources of the pod that a class serves."""
        if self._handle is None or not pod.needs & DEVICES:
            return _NONE
        names = self._handle.shared(ClaimCatalog).class_names
        if not names:
            return _NONE
        return frozenset(n for n in resources_asked(pod) if names.class_of(n) is not None)

    def scored(self, pod: PodInfo, names: Collection[str], snapshot: Snapshot) -> "ScoredDevices":
        """Count the devices of nodes for those of some resources that a class serves.

        Source: plugins/noderesources/resource_allocation.go (calculateDRAResourceTotals, v1.36.3).
        Cost: O(devices) per resource that devices may serve.
        """
        found = ScoredDevices()
        if self._handle is None:
            return found
        for name in self.of(pod).intersection(names):
            catalog = self._handle.shared(ClaimCatalog)
            device_class = catalog.class_names.class_of(name)
            if device_class is None:
                continue
            counts = catalog.devices.counts(device_class.metadata.name, snapshot)
            if counts is not None:
                found[name] = counts
        return found


class ScoredDevices(dict[str, DeviceCounts]):
    """Devices by the extended resource that they serve on nodes that offer none of it."""

    def added(
        self, names: Sequence[str], allocatable: Amounts, taken: Amounts, rows: Rows
    ) -> tuple[Amounts, Amounts]:
        """The allocatable and requested amounts, by resource and row, devices included.

        Args:
            names: the resources, one per line.
            allocatable: the amounts that nodes offer.
            taken: the amounts that pods request of them.
            rows: the rows of the nodes.
        """
        allocatable, taken = allocatable.copy(), taken.copy()
        for line, name in enumerate(names):
            if name in self:
                counts = self[name]
                serves = (allocatable[line] == 0) & (counts.allocatable[rows] > 0)
                allocatable[line] = np.where(serves, counts.allocatable[rows], allocatable[line])
                taken[line] = np.where(serves, counts.allocated[rows], taken[line])
        return allocatable, taken
