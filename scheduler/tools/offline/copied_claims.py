"""Creates and frees the claims of hypothetical pods, as the controllers would.

Source: kubernetes pkg/controller/resourceclaim v1.36.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from scheduler.api.devices import FinalizedMeta, ResourceClaim, ResourceClaimStatus
from scheduler.api.objects import OwnerReference, PodResourceClaimStatus, controller_of
from scheduler.api.pods import PodInfo
from scheduler.api.storage import PersistentVolumeClaim, StorageClass
from scheduler.kernel.devices.claim_catalog import CLAIM
from scheduler.kernel.engine import Engine
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.runtime.shared_states import place_of
from scheduler.kernel.volumes.catalog import CLAIM as VOLUME_CLAIM, STORAGE_CLASS, VolumeCatalog
from scheduler.tools.offline.reading import ClusterObjects
from scheduler.tools.offline.resource_claims import catalog_of
from scheduler.tools.offline.volume_claims import with_own_volumes

Made: TypeAlias = tuple[ObjectKind, ResourceClaim | PersistentVolumeClaim]
"""A claim and its kind."""


class Claims(msgspec.Struct, frozen=True):
    """The claims of a cluster by `namespace/name`, and the storage classes by name."""

    devices: Mapping[str, ResourceClaim]
    volumes: Mapping[str, PersistentVolumeClaim]
    classes: Mapping[str, StorageClass]


def with_own_claims(pod: PodInfo, like: PodInfo, claims: Claims) -> tuple[PodInfo, list[Made]]:
    """Return a pod with its own claims, made from the templates of a similar pod.

    Args:
        pod: the hypothetical pod.
        like: a similar pod, whose claims exist.
        claims: the existing claims.

    Returns:
        The pod with the names of its claims, and the claims.
    """
    pod, of_volumes = with_own_volumes(pod, like, claims.volumes, claims.classes)
    pod, of_devices = _with_own_devices(pod, like, claims.devices)
    made: list[Made] = [(VOLUME_CLAIM, claim) for claim in of_volumes]
    return pod, [*made, *((CLAIM, claim) for claim in of_devices)]


def _with_own_devices(
    pod: PodInfo, like: PodInfo, claims: Mapping[str, ResourceClaim]
) -> tuple[PodInfo, list[ResourceClaim]]:
    named = {
        each.name: each.resource_claim_name for each in like.pod.status.resource_claim_statuses
    }
    statuses, made = [], []
    for each in like.resource_claims:
        source = claims.get(f"{like.namespace}/{named.get(each.name)}")
        if each.resource_claim_template_name is None or source is None:
            continue
        name = f"{pod.name}-{each.name}-claim"
        owner = OwnerReference("Pod", pod.name, pod.uid, controller=True)
        metadata = FinalizedMeta(
            name=name,
            namespace=pod.namespace,
            uid=f"claim {pod.uid}/{each.name}",
            annotations=source.metadata.annotations,
            owner_references=(owner,),
        )
        made.append(ResourceClaim(metadata, source.spec))
        statuses.append(PodResourceClaimStatus(each.name, name))
    if not made:
        return pod, []
    status = replace(pod.pod.status, resource_claim_statuses=tuple(statuses))
    return PodInfo(replace(pod.pod, status=status), pod.kind), made


def claims_in(objects: ClusterObjects) -> Claims:
    """Return the claims of a cluster."""
    return Claims(
        {found.key: found for kind, found in objects.watched if kind == CLAIM},
        {found.key: found for kind, found in objects.watched if kind == VOLUME_CLAIM},
        {found.metadata.name: found for kind, found in objects.watched if kind == STORAGE_CLASS},
    )


def claims_known(engine: Engine) -> Claims:
    """Return the claims in an engine; none of a kind that no plugin reads."""
    devices = catalog_of(engine)
    volumes = engine.core.states.known(VolumeCatalog)
    return Claims(
        {} if devices is None else devices.claims,
        {} if volumes is None else volumes.claims,
        {} if volumes is None else volumes.classes,
    )


def add_watched(objects: ClusterObjects, added: Iterable[tuple[ObjectKind, Any]]) -> None:
    """Add objects, and replace those of the same kind and name."""
    new = {(kind, place_of(found)): (kind, found) for kind, found in added}
    if new:
        kept = [each for each in objects.watched if (each[0], place_of(each[1])) not in new]
        objects.watched = [*kept, *new.values()]


def with_present_claims(
    watched: Iterable[tuple[ObjectKind, Any]], claims: Claims
) -> list[tuple[ObjectKind, Any]]:
    """Return the objects to apply; an existing claim keeps its volume or its devices.

    Claims that controllers make for a pod are replaced with the pod, and keep neither.
    """
    applied = []
    for kind, found in watched:
        claim = found
        if kind == VOLUME_CLAIM and not found.controller_uid:
            claim = claims.volumes.get(found.key, found)
        elif kind == CLAIM and controller_of(found.metadata) is None:
            before = claims.devices.get(found.key)
            claim = found if before is None else replace(found, status=before.status)
        applied.append((kind, claim))
    return applied


def free_claims(objects: ClusterObjects, uids: Collection[str]) -> None:
    """Remove the claims made for some pods, and deallocate those that no other pod uses."""
    watched = []
    for kind, found in objects.watched:
        if kind == CLAIM:
            owner = controller_of(found.metadata)
            if owner is None or owner.uid not in uids:
                watched.append((kind, _without_users(found, uids)))
        elif kind != VOLUME_CLAIM or found.controller_uid not in uids:
            watched.append((kind, found))
    objects.watched = watched


def _without_users(claim: ResourceClaim, uids: Collection[str]) -> ResourceClaim:
    users = claim.status.reserved_for
    left = tuple(user for user in users if user.uid not in uids)
    if len(left) == len(users):
        return claim
    status = replace(claim.status, reserved_for=left) if left else ResourceClaimStatus()
    return replace(claim, status=status)
