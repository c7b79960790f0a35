"""The claims of hypothetical pods, as the controller would create and free them.

Source: kubernetes pkg/controller/resourceclaim v1.36.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from scheduler.api.devices import FinalizedMeta, ResourceClaim, ResourceClaimStatus
from scheduler.api.objects import OwnerReference, PodResourceClaimStatus, controller_of
from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.claim_catalog import CLAIM
from scheduler.tools.offline.reading import ClusterObjects


def with_own_claims(
    pod: PodInfo, like: PodInfo, claims: Mapping[str, ResourceClaim]
) -> tuple[PodInfo, list[ResourceClaim]]:
    """A pod with claims of its own, made from the templates of the pod that it is like.

    Args:
        pod: the pod that might be there.
        like: a pod whose claims have been made.
        claims: by `namespace/name`, those that are there.

    Returns:
        The pod with the names of its claims, and the claims.
    """
    named = {
        each.name: each.resource_claim_name for each in like.pod.status.resource_claim_statuses
    }
    statuses, made = [], []
    for each in like.spec.resource_claims:
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


def claims_in(objects: ClusterObjects) -> dict[str, ResourceClaim]:
    """Return the claims of a cluster by `namespace/name`."""
    return {found.key: found for kind, found in objects.watched if kind == CLAIM}


def add_claims(objects: ClusterObjects, claims: Iterable[ResourceClaim]) -> None:
    """Add claims, and replace those of the same name."""
    made = {claim.key: claim for claim in claims}
    if made:
        kept = [each for each in objects.watched if each[0] != CLAIM or each[1].key not in made]
        objects.watched = [*kept, *((CLAIM, claim) for claim in made.values())]


def free_claims(objects: ClusterObjects, uids: Collection[str]) -> None:
    """Remove the claims made for some pods, and deallocate those that no other pod uses."""
    watched = []
    for kind, found in objects.watched:
        if kind != CLAIM:
            watched.append((kind, found))
            continue
        owner = controller_of(found.metadata)
        if owner is None or owner.uid not in uids:
            watched.append((kind, _without_users(found, uids)))
    objects.watched = watched


def _without_users(claim: ResourceClaim, uids: Collection[str]) -> ResourceClaim:
    users = claim.status.reserved_for
    left = tuple(user for user in users if user.uid not in uids)
    if len(left) == len(users):
        return claim
    status = replace(claim.status, reserved_for=left) if left else ResourceClaimStatus()
    return replace(claim, status=status)
