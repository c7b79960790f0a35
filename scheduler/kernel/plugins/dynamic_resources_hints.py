"""Queueing hints of DynamicResources: changes that may make a rejected pod schedulable.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (EventsToRegister,
isSchedulableAfterClaimChange, isSchedulableAfterPodChange) v1.36.3.
Differs: the deletion of an allocated claim requeues pods; upstream's pods wait for the flush.
"""

from collections.abc import Callable
from typing import Final

from scheduler.api.devices import ResourceClaim
from scheduler.api.objects import controller_of
from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.devices.pod_claims import ClaimProblem, claims_of
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)

_ADD_OR_UPDATE: Final = ActionType.ADD | ActionType.UPDATE
_NODE: Final = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE


def events(catalog: Callable[[], ClaimCatalog]) -> tuple[ClusterEventWithHint, ...]:
    """The events with their hints; `catalog` returns the claims at the time of an event."""

    def after_claim_change(
        pod: PodInfo, old: ResourceClaim | None, new: ResourceClaim
    ) -> QueueingHint:
        return _after_claim_change(pod, old, new, catalog())

    def after_pod_change(pod: PodInfo, old: PodInfo | None, new: PodInfo) -> QueueingHint:
        del old
        if pod.uid != new.uid:
            return QueueingHint.SKIP
        return QueueingHint.SKIP if _claims(new, catalog()) is None else QueueingHint.QUEUE

    def after_claim_deletion(pod: PodInfo, old: ResourceClaim, new: None) -> QueueingHint:
        del new
        owner = controller_of(old.metadata)
        is_its = owner is not None and owner.uid == pod.uid
        is_free = old.status.allocation is not None and _claims(pod, catalog()) is not None
        return QueueingHint.QUEUE if is_its or is_free else QueueingHint.SKIP

    return (
        ClusterEventWithHint(ClusterEvent(EventResource.NODE, _NODE)),
        ClusterEventWithHint(
            ClusterEvent(EventResource.RESOURCE_CLAIM, _ADD_OR_UPDATE),
            after_claim_change,
            reads_pod_shape_only=False,
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.RESOURCE_CLAIM, ActionType.DELETE),
            after_claim_deletion,
            reads_pod_shape_only=False,
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
            after_pod_change,
            reads_pod_shape_only=False,
        ),
        ClusterEventWithHint(ClusterEvent(EventResource.DEVICE_CLASS, _ADD_OR_UPDATE)),
        ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_SLICE, _ADD_OR_UPDATE)),
    )


def _after_claim_change(
    pod: PodInfo, old: ResourceClaim | None, new: ResourceClaim, catalog: ClaimCatalog
) -> QueueingHint:
    """Queue if the pod's claims exist, and one of them, or any allocation, has changed."""
    claims = _claims(pod, catalog)
    if claims is None:
        return QueueingHint.SKIP
    if old is not None and old.status.allocation is not None and new.status.allocation is None:
        return QueueingHint.QUEUE
    is_its = any(claim.metadata.uid == new.metadata.uid for claim in claims)
    if not is_its or (old is not None and old.status == new.status):
        return QueueingHint.SKIP
    return QueueingHint.QUEUE


def _claims(pod: PodInfo, catalog: ClaimCatalog) -> list[ResourceClaim] | None:
    """The claims of a pod; None while one of them is unusable."""
    try:
        return [claim for _, claim in claims_of(pod, catalog.claims)]
    except ClaimProblem:
        return None
