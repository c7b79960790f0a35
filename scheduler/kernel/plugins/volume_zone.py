"""VolumeZone: the pod's volumes lie in the node's zone and region, as their labels say.

Extension points: PreFilter, Filter.
Events: a class that waits for its first consumer is added. Claims of the pod change. A volume is
added or its zone labels change. A node is added or its labels change.
Source: pkg/scheduler/framework/plugins/volumezone/volume_zone.go (v1.36).
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from scheduler.api.pod_shape import VOLUMES
from scheduler.api.pods import PodInfo
from scheduler.api.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    ObjectKind,
    QueueingHint,
)
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    Bits,
    EnqueueExtensions,
    FilterPlugin,
    PreFilterPlugin,
    Reads,
    SignPlugin,
)
from scheduler.kernel.framework.results import PreFilterResult, Reason
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from scheduler.kernel.plugins.volume_binding_hints import queue_if, uses_claim
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.claims import claim_names, not_found
from scheduler.kernel.volumes.zones import OUTSIDE_ZONE, VolumeTopology, rows_outside, topologies_of

REASONS: Final = (Reason(OUTSIDE_ZONE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),)

_TOPOLOGIES: Final[StateKey[tuple[VolumeTopology, ...]]] = StateKey("VolumeZone/topologies")


class VolumeZone(PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin, Shortcuts):
    """Rejects nodes outside the zones of the pod's volumes."""

    NAME: ClassVar[str] = "VolumeZone"
    READS: ClassVar[Reads] = Reads.CLUSTER
    NEEDS: ClassVar[int] = VOLUMES
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = VolumeCatalog.WATCHES

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle
        handle.shared(VolumeCatalog)

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        add_or_update = ActionType.ADD | ActionType.UPDATE
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD), after_class_added
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, add_or_update),
                after_claim_change,
                reads_pod_shape_only=False,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME, add_or_update), after_volume_change
            ),
        )

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """Return no part: the runtime caches answers of row-local plugins only."""
        return ()

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        """Skip pods whose volumes have no zone; reject pods with unbound or missing claims."""
        if not pod.pod.volumes:
            return None, SKIP
        found = self._topologies(pod)
        if isinstance(found, Status):
            return None, found
        if not found:
            return None, SKIP
        state.write(_TOPOLOGIES, found)
        return None, SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        """See `FilterPlugin.filter`. If PreFilter did not run, its rejection rejects every node."""
        topologies = state.get(_TOPOLOGIES) or self._topologies(pod)
        if isinstance(topologies, Status):
            return np.full(len(snapshot.table.alive[rows]), 2, np.uint64)
        if not topologies:
            return None
        outside = rows_outside(topologies, snapshot)[rows]
        return outside.astype(np.uint64) if outside.any() else None

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        if state.get(_TOPOLOGIES):
            return REASONS
        found = self._topologies(pod)
        if not isinstance(found, Status):
            return REASONS
        return (*REASONS, Reason(found.message, found.code))

    def _topologies(self, pod: PodInfo) -> tuple[VolumeTopology, ...] | Status:
        """The topology labels that the pod's volumes demand, or a status if they are unknown."""
        catalog = self._handle.shared(VolumeCatalog)
        found: list[VolumeTopology] = []
        for name in claim_names(pod, ephemeral=False):
            claim = catalog.claims.get(name.key)
            if claim is None:
                return unresolvable(not_found(name.name))
            if claim.volume_name:
                volume = catalog.volumes.get(claim.volume_name)
                if volume is None:
                    return unresolvable(f'persistentvolume "{claim.volume_name}" not found')
                found.extend(topologies_of(volume.metadata.labels))
                continue
            problem = _unbound(claim, catalog)
            if problem is not None:
                return unresolvable(problem)
        return tuple(found)


def after_class_added(
    pod: PodInfo,  # noqa: ARG001 - hints share a signature
    old: None,  # noqa: ARG001 - hints share a signature
    new: StorageClass,
) -> QueueingHint:
    """Queue if the class waits for its first consumer."""
    return queue_if(new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def after_claim_change(
    pod: PodInfo,
    old: PersistentVolumeClaim | None,  # noqa: ARG001 - hints share a signature
    new: PersistentVolumeClaim,
) -> QueueingHint:
    """Queue if the pod names the claim."""
    return queue_if(uses_claim(pod, new, ephemeral=False))


def after_volume_change(
    pod: PodInfo,  # noqa: ARG001 - hints share a signature
    old: PersistentVolume | None,
    new: PersistentVolume,
) -> QueueingHint:
    """Queue if the volume is new, or its zone or region labels changed."""
    return queue_if(
        old is None or topologies_of(old.metadata.labels) != topologies_of(new.metadata.labels)
    )


def _unbound(claim: PersistentVolumeClaim, catalog: VolumeCatalog) -> str | None:
    """The reason why an unbound claim rejects the pod; None if it waits for its first consumer."""
    if not claim.class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    found = catalog.classes.get(claim.class_name)
    if found is None:
        return f'storageclass.storage.k8s.io "{claim.class_name}" not found'
    if found.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{claim.class_name}"'
    if found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return None
    return "PersistentVolume had no name"
