"""Limits on the size of one pod's demands.

The cost of a decision grows with the number of nodes and with the number of a pod's demands, which
only these limits bound. A pod that exceeds one is rejected before any node is judged. Running pods
are counted whatever they request.

Differs: kube-scheduler has no such limits.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from scheduler.api.devices import DeviceClass, ResourceClaim
from scheduler.api.objects import NodeAffinitySpec, NodeSelectorTerm, PodSpec
from scheduler.api.pod_shape import PodShape
from scheduler.api.pods import PodInfo

MAX_RESOURCE_NAMES: Final = 512
"""Different resources that the containers of a pod request together."""
MAX_NODE_REQUIREMENTS: Final = 1024
"""Keys of the node selector and expressions of node affinity."""
MAX_NODE_VALUES: Final = 16_384
"""Values in the expressions of node affinity."""
MAX_POD_TERMS: Final = 32
"""Terms of pod affinity and anti-affinity, required and preferred."""
MAX_SPREAD_CONSTRAINTS: Final = 64
MAX_TOLERATIONS: Final = 4096
MAX_HOST_PORTS: Final = 4096
MAX_CONTAINERS: Final = 512
"""Containers and init containers."""
MAX_VOLUMES: Final = 512
"""Volumes with storage of their own: claims and disks, not ConfigMaps, Secrets and the like."""
MAX_MONITORS: Final = 4096
"""Monitors of RBD volumes."""
MAX_RESOURCE_CLAIMS: Final = 256
MAX_DEVICE_REQUESTS: Final = 256
"""Requests, and alternatives of requests, of a pod's claims: as many as one claim may have."""
MAX_SELECTORS: Final = 256
"""Different expressions of these requests and of their device classes."""
MAX_ATTRIBUTES: Final = 64
"""Different attributes that constraints of claims name."""

_Measure: TypeAlias = tuple[str, int, int]
"""A limited demand: its name, the pod's number of them, and the limit."""


def exceeded_limit(pod: PodInfo) -> str:
    """Return a message about the limit that a pod exceeds; empty if it exceeds none.

    Cost: O(demands of the pod), once per shape, and O(volumes of the pod).
    """
    shape = pod.shape
    if shape.exceeded_limit is None:
        shape.exceeded_limit = _message(_measures_of_shape(shape))
    if shape.exceeded_limit or not pod.has_own_objects:
        return shape.exceeded_limit
    return _message(_measures_of_pod(pod))


def exceeded_limit_of_claims(
    claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass]
) -> str:
    """Return a message about the limit that a pod's claims exceed; empty if they exceed none.

    Cost: O(requests and selectors of the claims).
    """
    return _message(_measures_of_claims(claims, classes))


def demands_on_nodes(pod: PodInfo) -> int:
    """Estimate the number of a pod's demands that a decision evaluates on all nodes."""
    shape, spec, affinity = pod.shape, pod.spec, pod.shape.affinity
    demands = len(shape.requests) + len(spec.topology_spread_constraints) + len(spec.volumes)
    demands += len(pod.resource_claims)
    if affinity is not None:
        demands += len(affinity.required) + len(affinity.required_anti)
        demands += len(affinity.preferred) + len(affinity.preferred_anti)
    return demands


def _message(measures: Iterator[_Measure]) -> str:
    for what, count, limit in measures:
        if count > limit:
            return f"pod has {count} {what}, more than the {limit} that are looked at"
    return ""


def _measures_of_pod(pod: PodInfo) -> Iterator[_Measure]:
    """The demands in which pods of one shape may differ."""
    volumes = pod.pod.volumes
    yield "volumes", len(volumes), MAX_VOLUMES
    monitors = sum(len(each.rbd.monitors) for each in volumes if each.rbd is not None)
    yield "monitors of volumes", monitors, MAX_MONITORS
    yield "resource claims", len(pod.resource_claims), MAX_RESOURCE_CLAIMS


def _measures_of_claims(
    claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass]
) -> Iterator[_Measure]:
    requests = [request for claim in claims for request in claim.spec.devices.requests]
    count = sum(len(each.first_available) or 1 for each in requests)
    yield "device requests", count, MAX_DEVICE_REQUESTS
    asks = [ask for each in requests for ask in each.first_available or (each.exactly,) if ask]
    named = (classes.get(name) for name in {ask.device_class_name for ask in asks})
    selectors = {selector for ask in asks for selector in ask.selectors}
    selectors.update(each for found in named if found for each in found.spec.selectors)
    yield "different selectors of devices", len(selectors), MAX_SELECTORS
    constraints = {each for claim in claims for each in claim.spec.devices.constraints}
    attributes = {each.match_attribute or each.distinct_attribute for each in constraints} - {None}
    yield "attributes in constraints of devices", len(attributes), MAX_ATTRIBUTES


def _measures_of_shape(shape: PodShape) -> Iterator[_Measure]:
    spec = shape.spec
    yield "containers", len(spec.init_containers) + len(spec.containers), MAX_CONTAINERS
    yield "requested resources", len(shape.requests), MAX_RESOURCE_NAMES
    expressions = [
        expression
        for term in _node_terms(spec)
        for expression in (*term.match_expressions, *term.match_fields)
    ]
    requirements = len(spec.node_selector) + len(expressions)
    yield "node selector requirements", requirements, MAX_NODE_REQUIREMENTS
    values = sum(len(expression.values) for expression in expressions)
    yield "node affinity values", values, MAX_NODE_VALUES
    affinity = shape.affinity
    if affinity is not None:
        terms = (*affinity.required, *affinity.required_anti)
        preferred = (*affinity.preferred, *affinity.preferred_anti)
        yield "pod affinity terms", len(terms) + len(preferred), MAX_POD_TERMS
    constraints = len(spec.topology_spread_constraints)
    yield "topology spread constraints", constraints, MAX_SPREAD_CONSTRAINTS
    yield "tolerations", len(spec.tolerations), MAX_TOLERATIONS
    yield "host ports", len(shape.host_ports), MAX_HOST_PORTS


def _node_terms(spec: PodSpec) -> Iterator[NodeSelectorTerm]:
    affinity: NodeAffinitySpec | None = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None:
        return
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        yield from required.node_selector_terms
    for preferred in affinity.preferred_during_scheduling_ignored_during_execution:
        yield preferred.preference
