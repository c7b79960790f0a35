"""NodeVolumeLimits: a node holds at most as many volumes of a CSI driver as the driver allows.

Extension points: PreFilter, Filter.
Events: a CSI node is added or its limits grow. A pod with volumes is deleted. A claim of the pod is
added. A volume is detached.
Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go (v1.36).
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from scheduler.api.pod_shape import VOLUMES
from scheduler.api.pods import PodInfo
from scheduler.api.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from scheduler.api.volume_sources import Volume
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
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status
from scheduler.kernel.plugins.volume_binding_hints import queue_if, uses_claim
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.volumes.attachments import (
    OVER_LIMIT,
    Attached,
    MissingClaimError,
    by_driver,
)
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.translation import TranslationError, inline_volume, plugin_of

_REASONS: Final = (Reason(OVER_LIMIT),)
_OVER: Final = np.uint64(1)
_MISSING: Final = np.uint64(2)
_FIRST_DRIVER: Final = 2
_MOST_DRIVERS: Final = 32
"""Largest number of drivers with a reason of their own; further drivers share one."""


class _Wanted:
    """The volumes a pod brings to a node.

    Attributes:
        volumes: by driver.
        required: drivers that must be installed, and whether also on nodes without a CSINode.
        missing: the message about a claim that does not exist, or empty.
    """

    __slots__ = ("missing", "required", "volumes")

    def __init__(
        self, volumes: Attached, missing: str = "", required: tuple[tuple[str, bool], ...] = ()
    ) -> None:
        self.volumes = volumes
        self.required = required
        self.missing = missing


_WANTED: Final[StateKey[_Wanted]] = StateKey("NodeVolumeLimits/wanted")


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin, Shortcuts):
    """Rejects nodes that would hold too many volumes."""

    NAME: ClassVar[str] = "NodeVolumeLimits"
    READS: ClassVar[Reads] = Reads.CLUSTER
    NEEDS: ClassVar[int] = VOLUMES
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = VolumeCatalog.WATCHES
    REQUIRES_DRIVERS: ClassVar[bool] = False
    """The gate VolumeLimitScaling: drivers may demand to be installed where their volumes go."""

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle
        handle.shared(VolumeCatalog)

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.CSI_NODE, ActionType.ADD)),
            ClusterEventWithHint(
                ClusterEvent(EventResource.CSI_NODE, ActionType.UPDATE), after_csi_node_updated
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.DELETE), after_pod_deleted
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
                after_claim_added,
                reads_pod_shape_only=False,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE),
                after_volume_detached,
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
        """Skip pods without volumes that are attached."""
        if not any(map(_is_attached, pod.pod.volumes)):
            return None, SKIP
        self._handle.shared(VolumeCatalog).refresh(snapshot)
        return None, SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        """See `FilterPlugin.filter`.

        Raises:
            ForeignClaimError: another object owns an ephemeral claim of the pod.
            TranslationError: a volume of a migrated type has no counterpart.
        """
        wanted = state.get(_WANTED)
        if wanted is None:
            # A profile may have no PreFilter, which refreshes the catalog otherwise.
            self._handle.shared(VolumeCatalog).refresh(snapshot)
            wanted = self._wanted(pod)
            state.write(_WANTED, wanted)
        if wanted.missing:
            return np.full(len(snapshot.table.alive[rows]), _MISSING)
        catalog = self._handle.shared(VolumeCatalog)
        over = catalog.attachments.rows_over_limit(wanted.volumes, snapshot, rows)[rows]
        bits = over.astype(np.uint64)
        for i, (driver, everywhere) in enumerate(wanted.required):
            lacks = ~catalog.rows_with_driver(driver, snapshot)
            if not everywhere:
                lacks &= catalog.rows_with_csi_node(snapshot)
            bit = np.uint64(1) << np.uint64(_FIRST_DRIVER + min(i, _MOST_DRIVERS))
            bits[(bits <= _OVER) & lacks[rows]] = bit
        return bits if bits.any() else None

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        wanted = state.get(_WANTED) or self._wanted(pod)
        missing = Reason(wanted.missing, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        lacking = [
            Reason(f"{driver} CSI driver is not installed on the node")
            for driver, _ in wanted.required
        ]
        return (*_REASONS, missing, *lacking)

    def _wanted(self, pod: PodInfo) -> _Wanted:
        catalog = self._handle.shared(VolumeCatalog)
        try:
            volumes = catalog.attachments.wanted(pod)
        except MissingClaimError as problem:
            return _Wanted({}, str(problem))
        if not self.REQUIRES_DRIVERS:
            return _Wanted(volumes)
        own = catalog.attachments.own_drivers(pod)
        demanded = filter(catalog.must_be_installed, by_driver(volumes))
        return _Wanted(volumes, required=tuple((driver, driver in own) for driver in demanded))


class NodeVolumeLimitsWithScaling(NodeVolumeLimits):
    """NodeVolumeLimits with the feature gate VolumeLimitScaling."""

    REQUIRES_DRIVERS: ClassVar[bool] = True


def after_csi_node_updated(
    pod: PodInfo,  # noqa: ARG001 - hints share a signature
    old: CSINode,
    new: CSINode,
) -> QueueingHint:
    """Queue if the node can hold more volumes of some driver than before."""
    before = {driver.name: driver.limit or 0 for driver in old.spec.drivers}
    return queue_if(
        any((driver.limit or 0) > before.get(driver.name, 0) for driver in new.spec.drivers)
    )


def after_pod_deleted(
    pod: PodInfo,  # noqa: ARG001 - hints share a signature
    old: PodInfo,
    new: None,  # noqa: ARG001 - hints share a signature
) -> QueueingHint:
    """Queue if the deleted pod was bound or nominated, and had volumes that are attached."""
    had_node = old.node_name or old.pod.status.nominated_node_name
    return queue_if(bool(had_node) and any(map(_is_attached, old.pod.volumes)))


def after_claim_added(
    pod: PodInfo,
    old: None,  # noqa: ARG001 - hints share a signature
    new: PersistentVolumeClaim,
) -> QueueingHint:
    """Queue if the claim is the pod's."""
    return queue_if(uses_claim(pod, new))


def after_volume_detached(
    pod: PodInfo,
    old: VolumeAttachment,
    new: None,  # noqa: ARG001 - hints share a signature
) -> QueueingHint:
    """Queue if the pod has a claim, or a volume of the driver that has just detached one.

    Also queue if a migrated volume of the pod has no counterpart: its driver is not known.
    """
    return queue_if(any(_may_be_of(old.spec.attacher, volume) for volume in pod.pod.volumes))


def _may_be_of(driver: str, volume: Volume) -> bool:
    plugin = plugin_of(volume)
    try:
        inline_volume(volume)
    except TranslationError:
        return True
    is_of_driver = plugin is not None and plugin.driver == driver
    return is_of_driver or volume.persistent_volume_claim is not None


def _is_attached(volume: Volume) -> bool:
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or plugin_of(volume) is not None
    )
