"""Limits on the size of one pod's demands.

The cost of a decision grows with the number of nodes and with the number of a pod's demands, which
only these limits bound. A pod that exceeds one is rejected before any node is judged. Running pods
are counted whatever they request.

Differs: kube-scheduler has no such limits.
"""

from collections.abc import Iterator
from typing import Final

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


def exceeded_limit(shape: PodShape) -> str:
    """Return a message about the limit that pods of a shape exceed; empty if they exceed none.

    Cost: O(demands of the pod), once per shape.
    """
    if shape.exceeded_limit is None:
        shape.exceeded_limit = next(
            (
                f"pod has {count} {what}, more than the {limit} that are looked at"
                for what, count, limit in _measures(shape)
                if count > limit
            ),
            "",
        )
    return shape.exceeded_limit


def demands_on_nodes(pod: PodInfo) -> int:
    """Estimate the number of a pod's demands that a decision evaluates on all nodes."""
    shape, spec, affinity = pod.shape, pod.spec, pod.shape.affinity
    demands = len(shape.requests) + len(spec.topology_spread_constraints) + len(spec.volumes)
    demands += len(pod.resource_claims)
    if affinity is not None:
        demands += len(affinity.required) + len(affinity.required_anti)
        demands += len(affinity.preferred) + len(affinity.preferred_anti)
    return demands


def _measures(shape: PodShape) -> Iterator[tuple[str, int, int]]:
    """Yield each limited demand as its name, the pod's number of them, and the limit."""
    spec = shape.spec
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
