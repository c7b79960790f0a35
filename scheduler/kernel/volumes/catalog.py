"""All storage of the cluster: the API server's objects, assumed ones, and derived indexes.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go, assume_cache.go v1.36.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, Self, TypeAlias

import numpy as np
from typing_extensions import override

from scheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.handle import SharedState
from scheduler.kernel.framework.listeners import Listeners
from scheduler.kernel.framework.services import Wake
from scheduler.kernel.snapshot import Mask, Snapshot
from scheduler.kernel.volumes.assume_cache import AssumeCache
from scheduler.kernel.volumes.attachments import Attachments
from scheduler.kernel.volumes.capacities import Capacities
from scheduler.kernel.volumes.free_volumes import FreeVolumes
from scheduler.kernel.volumes.in_use import VolumesInUse
from scheduler.kernel.volumes.reach import Area, RememberedAreas

_STORAGE: Final = "storage.k8s.io/v1"
CLAIM: Final = ObjectKind("PersistentVolumeClaim")
VOLUME: Final = ObjectKind("PersistentVolume")
STORAGE_CLASS: Final = ObjectKind("StorageClass", _STORAGE)
CSI_NODE: Final = ObjectKind("CSINode", _STORAGE)
CSI_DRIVER: Final = ObjectKind("CSIDriver", _STORAGE)
CSI_STORAGE_CAPACITY: Final = ObjectKind("CSIStorageCapacity", _STORAGE)
VOLUME_ATTACHMENT: Final = ObjectKind("VolumeAttachment", _STORAGE)

_ByCSINode: TypeAlias = dict[str, tuple[tuple[object, int, int], Mask]]
"""Row masks for a name looked up on CSINodes, with the version of the nodes that they hold for."""


class VolumeCatalog(SharedState):
    """The storage of the cluster; shared by the four volume plugins.

    Attributes:
        claims: stored claims by `namespace/name`.
        volumes: stored volumes by name.
        classes: classes by name.
        csi_nodes: by the node's name.
        drivers: CSI drivers by name.
        assumed_claims: claims after pending writes.
        assumed_volumes: volumes after pending writes.
        in_use: the volumes that the pods of each node use.
        attachments: volumes per node and driver.
    """

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (
        CLAIM,
        VOLUME,
        STORAGE_CLASS,
        CSI_NODE,
        CSI_DRIVER,
        CSI_STORAGE_CAPACITY,
        VOLUME_ATTACHMENT,
    )

    def __init__(self, in_use: VolumesInUse | None = None) -> None:
        """Start without objects; `in_use` has what is known of pods, if anything is."""
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self._capacity_objects: defaultdict[str, dict[str, CSIStorageCapacity]] = defaultdict(dict)
        self.in_use = in_use or VolumesInUse()
        self.attachments = Attachments(
            self.claims, self.volumes, self.classes, self.csi_nodes, self.in_use
        )
        self._listeners = Listeners()
        self._takers: dict[ObjectKind, Callable[[Any, Any], None]] = {
            CLAIM: self._take_claim,
            VOLUME: self._take_volume,
            STORAGE_CLASS: self._take_class,
            CSI_NODE: self._take_csi_node,
            CSI_DRIVER: self._take_driver,
            CSI_STORAGE_CAPACITY: self._take_capacity,
            VOLUME_ATTACHMENT: self.attachments.attachment_changed,
        }
        self.assumed_claims: AssumeCache[PersistentVolumeClaim] = AssumeCache(self.claims.get)
        self.assumed_volumes: AssumeCache[PersistentVolume] = AssumeCache(
            self.volumes.get, self._volume_changed
        )
        self._free: dict[str, FreeVolumes] = {}
        self._seen: dict[str, PersistentVolume] = {}
        self._reserved: dict[str, tuple[str, ...]] = {}
        self._capacities: dict[str, Capacities] = {}
        self._areas = RememberedAreas()
        self._migrated: _ByCSINode = {}
        self._installed: _ByCSINode = {}
        self._csi_node_epoch = 0

    # --- questions --------------------------------------------------------------------------------

    def refresh(self, snapshot: Snapshot) -> None:
        """Process changes of pods and nodes in the snapshot; call it before a decision."""
        self.attachments.refresh(snapshot, self.in_use.refresh(snapshot))

    def volume(self, name: str) -> PersistentVolume | None:
        """The assumed version of a volume, or else the stored one."""
        return self.assumed_volumes.get(name)

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """The assumed version of a claim, or else the stored one."""
        return self.assumed_claims.get(key)

    def free_volumes(self, class_name: str) -> FreeVolumes | None:
        """The free volumes of a class; None if there are none."""
        found = self._free.get(class_name)
        return found if found is not None and len(found) else None

    def reserved_to(self, claim: PersistentVolumeClaim) -> Sequence[PersistentVolume]:
        """The volumes that are reserved to the claim, those known longest first."""
        names = self._reserved.get(claim.key, ())
        found = (self._seen[name] for name in names)
        return [volume for volume in found if volume.is_bound_to(claim)]

    def capacities(self, class_name: str) -> Capacities | None:
        """The remaining capacity of a class; None when no capacity is published."""
        return self._capacities.get(class_name)

    def rows_in(self, area: Area, snapshot: Snapshot) -> Mask:
        """Per row whether its node lies in the area."""
        return self._areas.rows_in(area, snapshot)

    def rows_migrated(self, plugin_name: str, snapshot: Snapshot) -> Mask:
        """Per row whether its node mounts volumes of the in-tree plugin through CSI."""
        return self._rows_where(
            self._migrated, plugin_name, snapshot, lambda node: plugin_name in node.migrated_plugins
        )

    def must_be_installed(self, driver: str) -> bool:
        """Whether volumes of a CSI driver may only go where it is installed."""
        found = self.drivers.get(driver)
        return found is not None and bool(found.spec.prevent_pod_scheduling_if_missing)

    def rows_with_csi_node(self, snapshot: Snapshot) -> Mask:
        """Per row whether its node has a CSINode; no driver has an empty name."""
        return self._rows_where(self._installed, "", snapshot, lambda _: True)

    def rows_with_driver(self, driver: str, snapshot: Snapshot) -> Mask:
        """Per row whether the CSI driver is installed on its node."""
        return self._rows_where(
            self._installed,
            driver,
            snapshot,
            lambda node: any(each.name == driver for each in node.spec.drivers),
        )

    def _rows_where(
        self,
        known: _ByCSINode,
        key: str,
        snapshot: Snapshot,
        holds: Callable[[CSINode], bool],
    ) -> Mask:
        """Per row whether a condition holds for its CSINode; computed again when nodes change."""
        log = snapshot.node_log
        epoch = (log, log.position, self._csi_node_epoch)
        found = known.get(key)
        if found is not None and found[0] == epoch:
            return found[1]
        rows = np.zeros(snapshot.table.size, np.bool_)
        for name, csi_node in self.csi_nodes.items():
            row = snapshot.table.row_of.get(name)
            if row is not None and holds(csi_node):
                rows[row] = True
        known[key] = epoch, rows
        return rows

    # --- events -----------------------------------------------------------------------------------

    def listen(self, keys: Iterable[str], listener: Wake) -> Wake:
        """Call a function after every event about some claims, their volumes, or other volumes.

        Claims are given as `namespace/name`, volumes by name. A claim's volumes are those whose
        claimRef names it. A volume reserved for a claim may be deleted before an event shows that.

        Returns:
            A function that ends the subscription.
        """
        return self._listeners.listen(keys, listener)

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        """Handle an event about a storage object."""
        self._takers[kind](old, new)

    @override
    def fork(self) -> Self:
        """An independent copy.

        Cost: copies of dictionaries; free volumes and attachments come one by one.
        """
        copy = type(self)(self.in_use.copy())
        copy.claims.update(self.claims)
        copy.volumes.update(self.volumes)
        copy.classes.update(self.classes)
        copy.csi_nodes.update(self.csi_nodes)
        copy.drivers.update(self.drivers)
        copy.assumed_claims.copy_from(self.assumed_claims)
        copy.assumed_volumes.copy_from(self.assumed_volumes)
        copy._seen.update(self._seen)  # noqa: SLF001 - its own
        copy._reserved.update(self._reserved)  # noqa: SLF001 - its own
        free = copy._free  # noqa: SLF001 - its own
        for name in self.volumes:
            volume = self._seen[name]
            if _is_free(volume):
                free.setdefault(volume.class_name, FreeVolumes()).put(volume)
        for attachment in self.attachments.attached:
            copy.on_event(VOLUME_ATTACHMENT, None, attachment)
        for capacities in self._capacity_objects.values():
            for capacity in capacities.values():
                copy.on_event(CSI_STORAGE_CAPACITY, None, capacity)
        return copy

    def _take_claim(
        self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> None:
        key = _put(self.claims, old, new)
        self.assumed_claims.stored_changed(key)
        self.attachments.object_changed(CLAIM.kind, key)
        self._listeners.notify(key)

    def _take_volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        key = _put(self.volumes, old, new)
        self.assumed_volumes.stored_changed(key)
        self.attachments.object_changed(VOLUME.kind, key)
        self._listeners.notify(key)
        for claim in {v.claim.key for v in (old, new) if v is not None and v.claim is not None}:
            self._listeners.notify(claim)

    def _take_class(self, old: StorageClass | None, new: StorageClass | None) -> None:
        key = _put(self.classes, old, new)
        self.attachments.object_changed(STORAGE_CLASS.kind, key)

    def _take_csi_node(self, old: CSINode | None, new: CSINode | None) -> None:
        key = _put(self.csi_nodes, old, new)
        self._csi_node_epoch += 1
        self.attachments.node_changed(key)

    def _take_driver(self, old: CSIDriver | None, new: CSIDriver | None) -> None:
        _put(self.drivers, old, new)

    def _take_capacity(
        self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None
    ) -> None:
        if old is not None and (new is None or new.storage_class_name != old.storage_class_name):
            self._capacity_objects[old.storage_class_name].pop(_key(old), None)
            found = self._capacities.get(old.storage_class_name)
            if found is not None:
                found.drop(_key(old))
        if new is not None:
            objects = self._capacity_objects[new.storage_class_name]
            objects[_key(new)] = new
            found = self._capacities.get(new.storage_class_name)
            if found is None or found.is_worn:
                found = self._capacities[new.storage_class_name] = Capacities()
                for key, capacity in objects.items():
                    found.put(key, capacity)
            else:
                found.put(_key(new), new)

    def _volume_changed(self, name: str) -> None:  # noqa: C901 - removes the old entries, adds the new ones
        """Update the free and reserved volumes with the assumed or stored version of a volume."""
        old, new = self._seen.pop(name, None), self.assumed_volumes.get(name)
        if old is not None and old.claim is not None:
            others = tuple(n for n in self._reserved.pop(old.claim.key) if n != name)
            if others:
                self._reserved[old.claim.key] = others
        if old is not None and not (
            new is not None and _is_free(new) and new.class_name == old.class_name
        ):
            free = self._free.get(old.class_name)
            if free is not None:
                free.drop(name)
                if not len(free):
                    del self._free[old.class_name]
        if new is not None:
            self._seen[name] = new
            if new.claim is not None:
                others = self._reserved.get(new.claim.key, ())
                self._reserved[new.claim.key] = (*others, name)
            elif _is_free(new):
                self._free.setdefault(new.class_name, FreeVolumes()).put(new)


def _is_free(volume: PersistentVolume) -> bool:
    return (
        volume.claim is None and volume.is_available and volume.metadata.deletion_timestamp is None
    )


def _key(obj: Any) -> str:
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name)


def _put(objects: dict[str, Any], old: Any, new: Any) -> str:
    """Store, replace or remove one object; returns its key."""
    key = _key(old if new is None else new)
    if new is None:
        objects.pop(key, None)
    else:
        objects[key] = new
    return key
