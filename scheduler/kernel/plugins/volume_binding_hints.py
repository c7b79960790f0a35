"""Queueing hints of VolumeBinding: changes that may make a rejected pod schedulable.

Source: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go (EventsToRegister) v1.36.
"""

from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.api.quantity import ceil
from scheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.volumes.claims import claim_names


def queue_if(helps: bool) -> QueueingHint:  # noqa: FBT001 - the only argument
    """Return Queue for a change that helps, else Skip."""
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def uses_claim(pod: PodInfo, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """Whether the pod uses the claim."""
    return pod.namespace == claim.metadata.namespace and any(
        name.name == claim.metadata.name for name in claim_names(pod, ephemeral=ephemeral)
    )


def after_claim_change(
    pod: PodInfo,
    old: PersistentVolumeClaim | None,  # noqa: ARG001 - hints share a signature
    new: PersistentVolumeClaim,
) -> QueueingHint:
    """Queue if the pod uses the claim."""
    return queue_if(uses_claim(pod, new))


def after_class_change(
    pod: PodInfo,  # noqa: ARG001 - hints share a signature
    old: StorageClass | None,
    new: StorageClass,
) -> QueueingHint:
    """Queue if the class is new, or its allowed topologies changed."""
    return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def after_csi_node_change(
    pod: PodInfo,  # noqa: ARG001 - hints share a signature
    old: CSINode | None,
    new: CSINode,
) -> QueueingHint:
    """Queue if the CSINode is new, or its node migrates other in-tree plugins than before."""
    return queue_if(old is None or old.migration != new.migration)


def after_driver_change(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> QueueingHint:
    """Queue if the driver of one of the pod's own volumes no longer publishes its capacity."""
    is_used = any(
        volume.csi is not None and volume.csi.driver == new.metadata.name
        for volume in pod.pod.volumes
    )
    return queue_if(is_used and bool(old.spec.storage_capacity) and not new.spec.storage_capacity)


def after_capacity_change(
    pod: PodInfo,  # noqa: ARG001 - hints share a signature
    old: CSIStorageCapacity | None,
    new: CSIStorageCapacity,
) -> QueueingHint:
    """Queue if the capacity is new, or admits larger volumes than before."""
    if old is None:
        return QueueingHint.QUEUE
    before, after = old.limit, new.limit
    return queue_if(after is not None and (before is None or ceil(after) > ceil(before)))


_ADD_OR_UPDATE: Final = ActionType.ADD | ActionType.UPDATE

EVENTS: Final = (
    ClusterEventWithHint(
        ClusterEvent(EventResource.STORAGE_CLASS, _ADD_OR_UPDATE), after_class_change
    ),
    ClusterEventWithHint(
        ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, _ADD_OR_UPDATE),
        after_claim_change,
        reads_pod_shape_only=False,
    ),
    ClusterEventWithHint(ClusterEvent(EventResource.PERSISTENT_VOLUME, _ADD_OR_UPDATE)),
    ClusterEventWithHint(
        ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
    ),
    ClusterEventWithHint(
        ClusterEvent(EventResource.CSI_NODE, _ADD_OR_UPDATE), after_csi_node_change
    ),
    ClusterEventWithHint(
        ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE),
        after_driver_change,
        reads_pod_shape_only=False,
    ),
    ClusterEventWithHint(
        ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, _ADD_OR_UPDATE), after_capacity_change
    ),
)
