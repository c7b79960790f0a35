"""Extended resources of a pod that devices serve: the claim made for them.

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go (v1.36.3):
createRequestsAndMappings, createResourceRequestAndMappings, partitionContainerIndices.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from scheduler.api.devices import (
    EXACT_COUNT,
    MAX_RESULTS,
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

    Init containers that end before another container begins may reuse its devices. A claim for more
    devices than one can have gets no mapping.

    Args:
        spec: the specification of the pod.
        resources: the extended resources that devices serve on the node.
        classes: the device classes of extended resources.
    """
    containers = (*spec.init_containers, *spec.containers)
    short = {i for i, c in enumerate(spec.init_containers) if c.restart_policy != "Always"}
    asked = [
        {name: f"container-{i}-request-{place}" for place, name in enumerate(sorted(names))}
        for i, names in enumerate(container.resources.requests for container in containers)
    ]
    requests: list[_Request] = []
    mappings: list[RequestMapping] = []
    devices = 0
    for resource in sorted(resources):
        device_class = classes.class_of(resource)
        if device_class is None:
            continue
        whole = {
            i: _Request(asked[i][resource], device_class.metadata.name, amount)
            for i, container in enumerate(containers)
            if (amount := _amount(container, resource))
        }
        rests = _rests(whole, short)
        largest = [max(rests, key=lambda each: each.devices)] if rests else []
        of_long = {i: request for i, request in whole.items() if i not in short}
        found = [*largest, *of_long.values()]
        requests += found
        devices += sum(request.devices for request in found)
        if devices > MAX_RESULTS:
            continue
        names = [(i, request.name) for i, request in of_long.items()]
        for i in sorted(whole.keys() - of_long.keys()):
            names += [(i, name) for name in _names_for(i, whole[i].devices, of_long, largest)]
        mappings += [RequestMapping(containers[i].name, resource, name) for i, name in names]
    if devices > MAX_RESULTS:
        mappings.clear()
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


def _amount(container: Container, resource: str) -> int:
    """The devices that a container requests for a resource."""
    asked = container.resources.requests
    amount = parse(asked[resource]) if resource in asked else 0
    return int(amount) if amount == int(amount) else 0


def _rests(whole: Mapping[int, _Request], short: Collection[int]) -> list[_Request]:
    """The requests of short-lived containers for devices that no later container has.

    Args:
        whole: by container, its request without reuse.
        short: the containers that end before later ones begin.
    """
    found: list[_Request] = []
    later = 0
    for i, request in reversed(list(whole.items())):
        if i not in short:
            later += request.devices
        elif request.devices > later:
            found.append(request._replace(devices=request.devices - later))
    return found[::-1]


def _names_for(
    i: int, devices: int, of_long: Mapping[int, _Request], largest: Sequence[_Request]
) -> Iterator[str]:
    """The names of the requests whose devices a short-lived container gets.

    Args:
        i: the container.
        devices: the number of devices that it requests.
        of_long: by container, the requests of those that run to the end.
        largest: the request for the devices that no later container has, if any.
    """
    for j, request in of_long.items():
        if j > i and devices > 0:
            devices -= request.devices
            yield request.name
    if devices > 0:
        yield from (request.name for request in largest)


def _as_written(request: _Request) -> DeviceRequest:
    exactly = ExactDeviceRequest(
        device_class_name=request.class_name, allocation_mode=EXACT_COUNT, count=request.devices
    )
    return DeviceRequest(request.name, exactly)
