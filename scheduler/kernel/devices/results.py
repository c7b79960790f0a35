"""The allocation result that is written into the status of a claim.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(Allocate, createNodeSelector, v0.36.3).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from scheduler.api.devices import (
    FROM_CLAIM,
    FROM_CLASS,
    MAX_ALTERNATIVES,
    AllocationResult,
    Device,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClass,
    DeviceId,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSliceSpec,
)
from scheduler.api.objects import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from scheduler.kernel.devices.capacities import CapacityShare
from scheduler.kernel.devices.conditions import NAME_FIELD, leaves_it_to_devices
from scheduler.kernel.devices.extended_resources import RequestMapping
from scheduler.kernel.devices.plan import RequestData, RequestPlan


class ClaimAllocation(NamedTuple):
    """The allocation of one claim on a node.

    Attributes:
        claim_index: index of the claim among those of the pod.
        claim: the claim with its requests on this node.
        allocation: the devices allocated to it.
    """

    claim_index: int
    claim: ResourceClaim
    allocation: AllocationResult


class PodAllocation(NamedTuple):
    """The allocations of a pod on a node.

    Attributes:
        allocations: by claim, without the claims that are already allocated.
        mappings: the requests that serve each container's extended resources.
    """

    allocations: tuple[ClaimAllocation, ...]
    mappings: tuple[RequestMapping, ...]


class AllocatedDevice:
    """A device allocated to a claim.

    Attributes:
        ask: the request that it satisfies.
        id: its name.
        device: the device.
        spec: the slice that lists it.
        shares: the consumed capacities; None when it is not shared.
    """

    __slots__ = ("ask", "device", "id", "shares", "spec")

    def __init__(
        self,
        ask: RequestData,
        device: Device,
        spec: ResourceSliceSpec,
        shares: Sequence[CapacityShare] | None,
    ) -> None:
        self.ask = ask
        self.id = DeviceId(spec.driver, spec.pool.name, device.name)
        self.device = device
        self.spec = spec
        self.shares = shares


def allocation_of(
    claim: ResourceClaim,
    requests: Sequence[RequestPlan],
    taken: Sequence[AllocatedDevice],
    node_name: str,
    new_share_id: Callable[[], str],
) -> AllocationResult:
    """The allocation of one claim.

    Args:
        claim: the claim.
        requests: its parsed requests.
        taken: its devices, in the order of its requests.
        node_name: the node that the devices were found for.
        new_share_id: makes a UID for a share of a device.
    """
    chosen = {one.ask.base_name: one.ask for one in taken}
    asks = [chosen.get(request.name, request.asks[0]) for request in requests]
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=tuple(_result(one, new_share_id) for one in taken),
            config=(*_class_configuration(asks), *_claim_configuration(claim, asks)),
        ),
        node_selector=_node_selector(taken, node_name),
    )


def alternatives_score(
    claim: ResourceClaim, results: Iterable[DeviceRequestAllocationResult]
) -> int:
    """Score the alternatives of prioritized lists in an allocation.

    The first of a list scores 8, each further one less; a list counts once, however many devices it
    got.

    Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go
    (computeScore, v1.36.3).
    """
    names = {result.request for result in results}
    return sum(
        MAX_ALTERNATIVES - index
        for request in claim.spec.devices.requests
        for index, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in names
    )


def _result(
    taken: AllocatedDevice, new_share_id: Callable[[], str]
) -> DeviceRequestAllocationResult:
    ask, device = taken.ask, taken.device
    shares = taken.shares
    return DeviceRequestAllocationResult(
        request=ask.full_name,
        driver=taken.id.driver,
        pool=taken.id.pool,
        device=taken.id.device,
        admin_access=True if ask.is_admin else None,
        tolerations=ask.tolerations_written,
        binding_conditions=device.binding_conditions or (),
        binding_failure_conditions=device.binding_failure_conditions or (),
        share_id=None if shares is None else new_share_id(),
        consumed_capacity={share.name: share.text for share in shares or ()},
    )


def _class_configuration(asks: Sequence[RequestData]) -> list[DeviceAllocationConfiguration]:
    """The configuration of each class once, for all requests that use the class."""
    users: dict[str, tuple[DeviceClass, list[str]]] = {}
    for ask in asks:
        if ask.class_ is not None:
            users.setdefault(ask.class_name, (ask.class_, []))[1].append(ask.full_name)
    return [
        DeviceAllocationConfiguration(FROM_CLASS, tuple(names), written.opaque)
        for class_, names in users.values()
        for written in class_.spec.config
    ]


def _claim_configuration(
    claim: ResourceClaim, asks: Sequence[RequestData]
) -> list[DeviceAllocationConfiguration]:
    """The configuration of the claim, once per request that it names; upstream repeats it too."""
    found: list[DeviceAllocationConfiguration] = []
    for written in claim.spec.devices.config:
        names = written.requests
        times = sum(ask.base_name in names or ask.full_name in names for ask in asks)
        configuration = DeviceAllocationConfiguration(FROM_CLAIM, names, written.opaque)
        found += [configuration] * (times if names else 1)
    return found


def _node_selector(taken: Sequence[AllocatedDevice], node_name: str) -> NodeSelector | None:
    """The selector of the nodes that can use all the devices; None for every node.

    If any device is bound to a node, the selector selects only that node.
    """
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for one in taken:
        selection = one.device if leaves_it_to_devices(one.spec) else one.spec
        if selection.node_name is not None or one.device.binds_to_node:
            named = NodeSelectorRequirement(NAME_FIELD, "In", (node_name,))
            return NodeSelector((NodeSelectorTerm(match_fields=(named,)),))
        terms = selection.node_selector.node_selector_terms if selection.node_selector else ()
        for term in terms[:1]:
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if not (fields or expressions):
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _add_new(
    requirements: Iterable[NodeSelectorRequirement], known: list[NodeSelectorRequirement]
) -> None:
    for requirement in requirements:
        if not any(_is_same(requirement, other) for other in known):
            known.append(requirement)


def _is_same(one: NodeSelectorRequirement, other: NodeSelectorRequirement) -> bool:
    return (one.key, one.operator, {*one.values}) == (other.key, other.operator, {*other.values})
