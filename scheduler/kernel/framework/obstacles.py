"""The obstacles of a pod, as numbers and names; plugins make them on request, not in attempts.

Every type gives the number of its nodes (`nodes`). Lists of examples are short, whatever the size
of the cluster. Field names are part of the output of `explain -o json`.
"""

from typing import Final, TypeAlias

import msgspec

EXAMPLES: Final = 5
"""The most pods, or values, that are named."""


class _Wire(msgspec.Struct, frozen=True, rename="camel", tag_field="kind"):
    """Common settings."""


class PodOnNode(msgspec.Struct, frozen=True):
    """A pod, as `namespace/name`, and its node."""

    pod: str
    node: str


class ValueCount(msgspec.Struct, frozen=True):
    """A value of a label, and the number of nodes with it."""

    value: str
    nodes: int


class DomainCount(msgspec.Struct, frozen=True, rename="camel"):
    """One domain of a topology spread constraint.

    Attributes:
        domain: the value of the topology key.
        pods: number of pods that count there.
        skew: its lead over the emptiest domain, in pods.
        skew_with_pod: that lead with the pod in the domain.
    """

    domain: str
    pods: int
    skew: int
    skew_with_pod: int


class ResourceObstacle(_Wire, frozen=True, tag="resource"):
    """Too little of a resource is free. Units: those of `scheduler.api.resources`.

    Attributes:
        resource: its name; `pods` where no further pod may run.
        nodes: number of nodes with too little.
        requested: the request of the pod.
        missing: the smallest missing amount on any of them.
        nearest: a node on which that amount is missing.
        hopeless: number of these nodes that would have too little even without any pod.
    """

    resource: str
    nodes: int
    requested: int
    missing: int
    nearest: str
    hopeless: int


class TaintObstacle(_Wire, frozen=True, tag="taint"):
    """A taint that the pod does not tolerate, as kubectl writes it."""

    taint: str
    nodes: int


class LabelObstacle(_Wire, frozen=True, tag="label"):
    """A requirement on the labels, or the name, of nodes.

    Attributes:
        path: its path in the pod.
        key: the key of the label; `metadata.name` for the name.
        operator: the operator of the requirement.
        values: its values.
        nodes: number of nodes that do not satisfy it.
        having: number of nodes that have such a label at all.
        found: the most frequent values on nodes.
    """

    path: str
    key: str
    operator: str
    values: tuple[str, ...]
    nodes: int
    having: int
    found: tuple[ValueCount, ...]


class PodTermObstacle(_Wire, frozen=True, tag="podTerm"):
    """A term of pod affinity or anti-affinity.

    Attributes:
        rule: `affinity` or `antiAffinity` of the pod itself, or `existingAntiAffinity`: of pods
            that run.
        path: its path in the pod; empty for a term of running pods.
        topology_key: the node label; each of its values is a domain.
        selector: the pods that it selects, as kubectl writes selectors; of a running pod's term,
            the part that matches this pod.
        namespaces: the namespaces of these pods; empty for all.
        nodes: number of nodes that it rejects.
        missing_key: number of them that it rejects because they lack the topology key.
        count: number of pods behind it: those that repel, or for affinity those that attract.
        pods: some of them.
    """

    rule: str
    path: str
    topology_key: str
    selector: str
    namespaces: tuple[str, ...]
    nodes: int
    missing_key: int
    count: int
    pods: tuple[PodOnNode, ...]


class SpreadObstacle(_Wire, frozen=True, tag="spread"):
    """A topology spread constraint that must be kept.

    Attributes:
        path: its path in the pod; empty for a constraint of the profile.
        topology_key: the node label; each of its values is a domain.
        max_skew: the largest lead that a domain may have over the emptiest one.
        min_domains: with fewer domains than this, the lowest number of pods counts as 0.
        selector: the pods that count, as kubectl writes selectors.
        nodes: number of nodes that it rejects.
        missing_key: number of them that it rejects because they lack the topology key.
        lowest: number of pods in the emptiest domain, as the constraint counts.
        domain_count: number of domains.
        domains: some of them: the emptiest and the fullest, by number of pods.
    """

    path: str
    topology_key: str
    max_skew: int
    min_domains: int
    selector: str
    nodes: int
    missing_key: int
    lowest: int
    domain_count: int
    domains: tuple[DomainCount, ...]


class PortObstacle(_Wire, frozen=True, tag="hostPort"):
    """A host port that is taken.

    Attributes:
        port: its number.
        protocol: TCP, UDP or SCTP.
        host_ip: the address on which the pod wants it.
        nodes: number of nodes on which it is taken.
        count: number of pods that hold it.
        pods: some of them.
    """

    port: int
    protocol: str
    host_ip: str
    nodes: int
    count: int
    pods: tuple[PodOnNode, ...]


class DevicesLeft(msgspec.Struct, frozen=True, omit_defaults=True):
    """The devices for a request that are left after one step.

    Attributes:
        step: `seen` (by any node), `class`, `selector`, `capacity`, `taints`, `in use`,
            `counters`.
        devices: number of devices that are left.
        nodes: number of nodes that see one of them.
        text: the expression of a class or a selector.
        failing: number of devices on which the expression fails.
    """

    step: str
    devices: int
    nodes: int
    text: str = ""
    failing: int = 0


class DeviceHolder(msgspec.Struct, frozen=True):
    """A claim that has devices, as `namespace/name`, their number, and the pods that use it."""

    claim: str
    devices: int
    pods: tuple[str, ...]


class TaintedDevices(msgspec.Struct, frozen=True):
    """A taint as kubectl writes it, and the number of devices that it excludes."""

    taint: str
    devices: int


class DeviceObstacle(_Wire, frozen=True, tag="device"):
    """A request of a claim, or an alternative of one, and the devices left for it alone.

    Attributes:
        claim: `namespace/name`.
        request: its name; `request/alternative` in a prioritized list.
        device_class: its device class.
        wanted: number of devices; None for all that match.
        nodes: number of nodes on which too few are left.
        enough: number of nodes on which enough are left.
        most: the largest number left on any node.
        nearest: a node with that number; empty where nothing is left.
        left: the devices left after each step, in the order of the steps.
        taints: the taints that the request does not tolerate, the most frequent first.
        holders: some of the claims that hold suitable devices, those of most devices first.
        holder_count: number of such claims, among those of 4,096 devices.
    """

    claim: str
    request: str
    device_class: str
    wanted: int | None
    nodes: int
    enough: int
    most: int
    nearest: str
    left: tuple[DevicesLeft, ...]
    taints: tuple[TaintedDevices, ...]
    holders: tuple[DeviceHolder, ...]
    holder_count: int


class DevicePoolObstacle(_Wire, frozen=True, tag="devicePool"):
    """A pool of devices that cannot be used.

    Attributes:
        pool: `driver/pool`.
        state: `incomplete` while its driver updates it, `invalid` when it contradicts itself.
        problem: the contradiction of an invalid one.
        nodes: number of nodes that see it.
    """

    pool: str
    state: str
    problem: str
    nodes: int


class DevicesTogetherObstacle(_Wire, frozen=True, tag="devicesTogether"):
    """Every request finds devices, but not all requests together, or not as constraints demand.

    Attributes:
        nodes: number of nodes on which the requests fail together.
        constraints: the constraints of the claims on their devices together.
    """

    nodes: int
    constraints: tuple[str, ...]


class AllocatedClaimObstacle(_Wire, frozen=True, tag="allocatedClaim"):
    """A claim of the pod that has its devices already, where some nodes do not reach them.

    Attributes:
        claim: `namespace/name`.
        nodes: number of nodes that do not reach the devices.
        node: a node that does; empty if there is none, or the devices cannot be made ready.
        pods: the pods that use it.
    """

    claim: str
    nodes: int
    node: str
    pods: tuple[str, ...]


Obstacle: TypeAlias = (
    ResourceObstacle
    | TaintObstacle
    | LabelObstacle
    | PodTermObstacle
    | SpreadObstacle
    | PortObstacle
    | DeviceObstacle
    | DevicePoolObstacle
    | DevicesTogetherObstacle
    | AllocatedClaimObstacle
)
