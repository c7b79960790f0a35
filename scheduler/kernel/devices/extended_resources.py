"""Extended resources of a pod that devices serve: the claim made for them.

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go (v1.36.3):
createRequestsAndMappings, createResourceRequestAndMappings, partitionContainerIndices.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from scheduler.api.devices import (
    EXACT_COUNT,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    FinalizedMeta,
    ResourceClaim,
    ResourceClaimSpec,
)
from scheduler.api.objects import Container, OwnerReference, PodSpec
from scheduler.api.pods import PodInfo
from scheduler.api.quantity import parse
from scheduler.api.resources import is_extended_resource
from scheduler.kernel.devices.class_names import IMPLICIT_PREFIX, ClassNames

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
IN_MEMORY: Final = "<extended-resources>"
"""The name of a claim that is not written yet; no object can have it."""


class RequestMapping(msgspec.Struct, frozen=True, rename="camel"):
    """The request whose devices a container gets for a resource."""

    container_name: str
    resource_name: str
    request_name: str


class _Request(NamedTuple):
    name: str
    class_name: str
    devices: int


def may_be_devices(resource: str) -> bool:
    """Whether a resource has a name that a device class can serve."""
    return is_extended_resource(resource) or resource.startswith(IMPLICIT_PREFIX)


def resources_asked(pod: PodInfo) -> tuple[str, ...]:
    """The requested resources of a pod that devices might serve."""
    return tuple(
        name for name, amount in pod.shape.requests.items() if amount and may_be_devices(name)
    )


def claim_in_memory(pod: PodInfo) -> ResourceClaim:
    """The claim for a pod's extended resources before it is written, still without requests."""
    owner = OwnerReference(kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    metadata = FinalizedMeta(
        name=IN_MEMORY,
        namespace=pod.namespace,
        uid=f"{IN_MEMORY}/{pod.uid}",
        annotations={ANNOTATION: "true"},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata)


def is_of_extended_resources(claim: ResourceClaim) -> bool:
    """Whether a claim is for extended resources of the pod that controls it."""
    return claim.metadata.annotations.get(ANNOTATION) == "true"


def requests_and_mappings(
    spec: PodSpec, resources: Collection[str], classes: ClassNames
) -> tuple[tuple[DeviceRequest, ...], tuple[RequestMapping, ...]]:
    """Build the claim's requests, and the mapping of containers to them.

    Init containers that end before another container begins may reuse its devices.

    Args:
        spec: the specification of the pod.
        resources: the extended resources that devices serve on the node.
        classes: the device classes of extended resources.
    """
    containers = (*spec.init_containers, *spec.containers)
    short = [i for i, c in enumerate(spec.init_containers) if c.restart_policy != "Always"]
    long = [i for i in range(len(containers)) if i not in short]
    requests: list[_Request] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(resources):
        device_class = classes.class_of(resource)
        if device_class is None:
            continue
        of_long: dict[int, _Request] = {}
        of_short: list[_Request] = []
        for_short: list[RequestMapping] = []
        for i in long:
            request, found = _request(i, containers[i], resource, device_class.metadata.name, ())
            mappings.extend(found)
            if request is not None:
                of_long[i] = request
        for i in short:
            reusable = [of_long[j] for j in sorted(of_long) if j >= i]
            request, found = _request(
                i, containers[i], resource, device_class.metadata.name, reusable
            )
            for_short.extend(found)
            if request is not None:
                of_short.append(request)
        if of_short:
            largest = max(of_short, key=lambda each: each.devices)
            names = {each.name for each in of_short}
            for_short = [_renamed(each, names, largest.name) for each in for_short]
            requests.append(largest)
        mappings.extend(for_short)
        requests.extend(of_long.values())
    return tuple(map(_as_written, sorted(requests))), tuple(mappings)


def claim_of(claim: ResourceClaim, requests: tuple[DeviceRequest, ...]) -> ResourceClaim:
    """The claim for the extended resources that devices serve on a node."""
    return replace(claim, spec=ResourceClaimSpec(DeviceClaim(requests)))


def body_of(pod: PodInfo, claim: ResourceClaim) -> Mapping[str, object]:
    """The body of the request that creates the claim."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": pod.namespace,
            "generateName": f"{pod.name}-extended-resources-",
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": pod.name,
                    "uid": pod.uid,
                    "controller": True,
                }
            ],
        },
        "spec": msgspec.to_builtins(claim.spec),
    }


def _request(
    index: int,
    container: Container,
    resource: str,
    class_name: str,
    reusable: Sequence[_Request],
) -> tuple[_Request | None, list[RequestMapping]]:
    """Build a container's request for devices beyond the reusable ones, and its mappings."""
    asked = container.resources.requests
    amount = parse(asked[resource]) if resource in asked else 0
    if amount == 0 or amount != int(amount):
        return None, []
    found: list[RequestMapping] = []
    missing = int(amount)
    for request in reusable:
        missing -= request.devices
        found.append(RequestMapping(container.name, resource, request.name))
        if missing <= 0:
            return None, found
    name = f"container-{index}-request-{sorted(asked).index(resource)}"
    found.append(RequestMapping(container.name, resource, name))
    return _Request(name, class_name, missing), found


def _renamed(mapping: RequestMapping, names: set[str], name: str) -> RequestMapping:
    """The mapping, redirected to the request that replaces all of these."""
    return replace(mapping, request_name=name) if mapping.request_name in names else mapping


def _as_written(request: _Request) -> DeviceRequest:
    exactly = ExactDeviceRequest(
        device_class_name=request.class_name, allocation_mode=EXACT_COUNT, count=request.devices
    )
    return DeviceRequest(request.name, exactly)
