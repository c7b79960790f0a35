"""VolumeRestrictions: disks for one pod per node only, and claims for one pod only.

Extension points: PreFilter (with AddPod, RemovePod), Filter.
Events: a pod with such a disk or claim is deleted; a node is added; a claim of the pod is added.
Source: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go (v1.36).
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from scheduler.api.pod_shape import VOLUMES
from scheduler.api.pods import PodInfo
from scheduler.api.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import (
    NODE_ADD,
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
    PreFilterExtensions,
    PreFilterPlugin,
    Reads,
    SignPlugin,
)
from scheduler.kernel.framework.results import PreFilterResult, Reason
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.framework.status import SKIP, SUCCESS, Status, unresolvable
from scheduler.kernel.plugins.volume_binding_hints import queue_if, uses_claim
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.claims import claim_names, not_found
from scheduler.kernel.volumes.disks import DISK_TAKEN, ByIdentity, by_identity, conflict, disks_of
from scheduler.kernel.volumes.in_use import CLAIM_IN_USE

REASONS: Final = (Reason(DISK_TAKEN), Reason(CLAIM_IN_USE))
_DISK: Final = np.uint64(1)
_CLAIM: Final = np.uint64(2)


class _Exclusive:
    """The disks and claims of a pod that no other pod may use at the same time.

    Attributes:
        disks: its disks.
        claims: names of its claims that one pod may use at a time.
        conflicting_pvc_ref_count: number of uses of these claims by other pods.
    """

    __slots__ = ("claims", "conflicting_pvc_ref_count", "disks")

    def __init__(self, disks: ByIdentity, claims: frozenset[str], ref_count: int) -> None:
        self.disks = disks
        self.claims = claims
        self.conflicting_pvc_ref_count = ref_count

    def clone(self) -> "_Exclusive":
        """A copy for trials that add or remove pods."""
        return _Exclusive(self.disks, self.claims, self.conflicting_pvc_ref_count)

    def count(self, pod: PodInfo, sign: int) -> None:
        """Add the uses of another pod (`sign` 1) or subtract them (-1); compare claims by name."""
        names = (name.name for name in claim_names(pod, ephemeral=False))
        self.conflicting_pvc_ref_count += sign * sum(name in self.claims for name in names)


_EXCLUSIVE: Final[StateKey[_Exclusive]] = StateKey("VolumeRestrictions/exclusive")


class VolumeRestrictions(
    PreFilterPlugin, PreFilterExtensions, FilterPlugin, EnqueueExtensions, SignPlugin, Shortcuts
):
    """Rejects nodes on which another pod uses a volume that the pod needs exclusively."""

    NAME: ClassVar[str] = "VolumeRestrictions"
    READS: ClassVar[Reads] = Reads.CLUSTER
    NEEDS: ClassVar[int] = VOLUMES
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = VolumeCatalog.WATCHES

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle
        handle.shared(VolumeCatalog)

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.DELETE),
                after_pod_deleted,
                reads_pod_shape_only=False,
            ),
            ClusterEventWithHint(NODE_ADD),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
                after_claim_added,
                reads_pod_shape_only=False,
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
        """Skip a pod without disks if no pod uses any of its exclusive claims."""
        if not pod.pod.volumes:
            return None, SKIP
        catalog = self._handle.shared(VolumeCatalog)
        catalog.refresh(snapshot)
        exclusive: dict[str, str] = {}
        for name in claim_names(pod, ephemeral=False):
            claim = catalog.claims.get(name.key)
            if claim is None:
                return None, unresolvable(not_found(name.name))
            if READ_WRITE_ONCE_POD in claim.access_modes:
                exclusive[name.name] = name.key
        ref_count = sum(bool(catalog.in_use.pvc_ref_counts[key]) for key in exclusive.values())
        disks = by_identity(disks_of(pod.pod.volumes))
        if not disks and not ref_count:
            return None, SKIP
        state.write(_EXCLUSIVE, _Exclusive(disks, frozenset(exclusive), ref_count))
        return None, SUCCESS

    @override
    def add_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, added: PodInfo, row: int
    ) -> Status:
        state.read(_EXCLUSIVE).count(added, 1)
        return SUCCESS

    @override
    def remove_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, removed: PodInfo, row: int
    ) -> Status:
        state.read(_EXCLUSIVE).count(removed, -1)
        return SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        exclusive = state.read(_EXCLUSIVE)
        bits = np.zeros(snapshot.table.size, np.uint64)
        if exclusive.conflicting_pvc_ref_count > 0:
            bits[:] = _CLAIM
        if exclusive.disks:
            in_use = self._handle.shared(VolumeCatalog).in_use
            bits[in_use.rows_with_conflict(exclusive.disks, snapshot, rows)] = _DISK
        found: Bits = bits[rows]
        return found if found.any() else None

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return REASONS


def after_pod_deleted(
    pod: PodInfo,
    old: PodInfo,
    new: None,  # noqa: ARG001 - hints share a signature
) -> QueueingHint:
    """Queue if the deleted pod is of the pod's namespace and used one of its disks or claims."""
    if old.namespace != pod.namespace or not (old.pod.volumes and pod.pod.volumes):
        return QueueingHint.SKIP
    claims = {name.name for name in claim_names(pod, ephemeral=False)}
    disks = by_identity(disks_of(pod.pod.volumes))
    return queue_if(
        (bool(disks) and conflict(disks, disks_of(old.pod.volumes)))
        or any(name.name in claims for name in claim_names(old, ephemeral=False))
    )


def after_claim_added(
    pod: PodInfo,
    old: None,  # noqa: ARG001 - hints share a signature
    new: PersistentVolumeClaim,
) -> QueueingHint:
    """Queue if the pod names the claim."""
    return queue_if(uses_claim(pod, new, ephemeral=False))
