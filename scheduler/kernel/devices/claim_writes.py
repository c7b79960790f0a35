"""The scheduler's writes to claims, as request bodies.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (bindClaim, PostFilter,
Unreserve), extendeddynamicresources.go (deleteClaim, patchPodExtendedResourceClaimStatus) v1.36.3.
Differs: each write is a patch of the changed fields, bound to UID and version, instead of the whole
object.
"""

from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.extended_resources import RequestMapping
from scheduler.kernel.framework.results import Write

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces"


def as_claim(answer: Any) -> ResourceClaim:
    """Decode a claim from a response of the API server."""
    return msgspec.json.decode(msgspec.json.encode(answer), type=ResourceClaim)


def claims_path(namespace: str) -> str:
    """The API path of a namespace's claims."""
    return f"{_CLAIMS}/{namespace}/resourceclaims"


def path_of(claim: ResourceClaim, subresource: str = "") -> str:
    """The API path of a claim, or of one of its subresources."""
    return f"{claims_path(claim.metadata.namespace)}/{claim.metadata.name}{subresource}"


def protecting(claim: ResourceClaim) -> dict[str, Any]:
    """Build the patch that adds the finalizer, which keeps a claim while it is allocated."""
    return {"metadata": {**_unchanged(claim), "finalizers": [FINALIZER]}}


def reserving(
    claim: ResourceClaim, pod: PodInfo, allocation: AllocationResult | None, now: float
) -> dict[str, Any]:
    """Build the status patch that reserves a claim for a pod, and allocates it if necessary.

    A patch with a reservation alone has no resourceVersion, so that many pods reserve a claim
    without conflicts. The caller compares the allocation in the response with the one that it
    expects.

    `now` is in seconds since 1970.
    """
    user = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    status: dict[str, Any] = {"reservedFor": [user]}
    if allocation is not None:
        stamped = replace(allocation, allocation_timestamp=time_text(now))
        status["allocation"] = msgspec.Raw(msgspec.json.encode(stamped))
    elif claim.status.allocation is not None and not claim.status.allocation.allocation_timestamp:
        status["allocation"] = {"allocationTimestamp": time_text(now)}
    is_bound = "allocation" in status
    return {
        "metadata": _unchanged(claim) if is_bound else {"uid": claim.metadata.uid},
        "status": status,
    }


def reserved(
    claim: ResourceClaim, pod: PodInfo, allocation: AllocationResult | None
) -> ResourceClaim:
    """The claim with a reservation for a pod."""
    status = claim.status
    user = ResourceClaimConsumerReference("pods", pod.name, pod.uid)
    users = tuple(each for each in status.reserved_for if each.uid != pod.uid)
    given = allocation or status.allocation
    return replace(claim, status=replace(status, allocation=given, reserved_for=(*users, user)))


def unreserved(claim: ResourceClaim, uids: Container[str]) -> ResourceClaim:
    """The claim without the reservations of the pods of some UIDs."""
    left = tuple(user for user in claim.status.reserved_for if user.uid not in uids)
    return replace(claim, status=replace(claim.status, reserved_for=left))


def deallocating(claim: ResourceClaim) -> Write:
    """Build the write that deallocates a claim; it fails if the claim has changed since."""
    status = {"allocation": None, "reservedFor": None, "devices": None}
    body = {"metadata": _unchanged(claim), "status": status}
    return Write("PATCH", path_of(claim, "/status"), body)


def unreserving(claim: ResourceClaim, pod: PodInfo) -> Write:
    """Build the write that removes a pod's reservation of a claim."""
    status = {"reservedFor": [{"$patch": "delete", "uid": pod.uid}]}
    body = {"metadata": {"uid": claim.metadata.uid}, "status": status}
    return Write("PATCH", path_of(claim, "/status"), body)


def deleting(claim: ResourceClaim) -> tuple[Write, ...]:
    """Build the writes that delete a claim of the scheduler; they may arrive in either order.

    The first removes the finalizer, which another write may have added since the last event.
    """
    uid = claim.metadata.uid
    unprotected = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
    path = path_of(claim)
    return Write("PATCH", path, unprotected), Write("DELETE", path, options)


def status_of_extended_resources(
    pod: PodInfo, claim_name: str, mappings: Sequence[RequestMapping]
) -> dict[str, Any]:
    """Build the status patch that maps a pod's extended resources to devices, for the kubelet."""
    status = {"resourceClaimName": claim_name, "requestMappings": msgspec.to_builtins(mappings)}
    return {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": status}}


def time_text(seconds: float) -> str:
    """The RFC 3339 text of a time in seconds since 1970."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def seconds_of(text: str | None) -> float | None:
    """The seconds since 1970 of an RFC 3339 text; None if it is missing or unreadable."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


def _unchanged(claim: ResourceClaim) -> Mapping[str, Any]:
    """Metadata that makes a patch fail if the claim has changed since it was read."""
    return {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
