"""What stands in a pod's way, as numbers and names: made by plugins, and only when people ask.

Every type says of how many nodes it speaks (`nodes`). Lists of examples are short, whatever the
size of the cluster. Field names are part of what `explain -o json` prints.
"""

from typing import Final, TypeAlias

import msgspec

EXAMPLES: Final = 5
"""As many pods, or values, are named at most."""


class _Wire(msgspec.Struct, frozen=True, rename="camel", tag_field="kind"):
    """Common settings."""


class PodOnNode(msgspec.Struct, frozen=True):
    """A pod, as `namespace/name`, and where it runs."""

    pod: str
    node: str


class ValueCount(msgspec.Struct, frozen=True):
    """A value of a label, and how many nodes have it."""

    value: str
    nodes: int


class DomainCount(msgspec.Struct, frozen=True, rename="camel"):
    """One domain of a topology spread constraint.

    Attributes:
        domain: the value of the topology key.
        pods: how many pods count there.
        skew: how far it is ahead of the emptiest domain.
        skew_with_pod: the same, once the pod runs there.
    """

    domain: str
    pods: int
    skew: int
    skew_with_pod: int


class ResourceObstacle(_Wire, frozen=True, tag="resource"):
    """Too little of a resource is free. Units: those of `scheduler.api.resources`.

    Attributes:
        resource: its name; `pods` where no further pod may run.
        nodes: on how many nodes there is too little.
        requested: what the pod asks for.
        missing: the least that is missing on any of them.
        nearest: a node on which that is missing.
        hopeless: how many of the nodes would have too little even without any pod.
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
        path: where it is written.
        key: of the label; `metadata.name` for the name.
        operator: how it is compared.
        values: with what.
        nodes: how many nodes do not satisfy it.
        having: how many nodes have such a label at all.
        found: the most frequent values that nodes have.
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
        path: where it is written in the pod; empty for that of pods that run.
        topology_key: within which domain.
        selector: the pods that it speaks of, as kubectl writes selectors; of a running pod's term,
            what it says of this pod.
        namespaces: of these namespaces; empty for all.
        nodes: how many nodes it rejects.
        missing_key: how many of them it rejects because they lack the topology key.
        count: the pods that are meant: those that are away, for affinity those that attract.
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
        path: where it is written; empty for one of the profile.
        topology_key: the node label; each of its values is a domain.
        max_skew: how far a domain may be ahead of the emptiest one.
        min_domains: with fewer domains than this the emptiest counts as empty.
        selector: which pods count, as kubectl writes selectors.
        nodes: how many nodes it rejects.
        missing_key: how many of them because they lack the topology key.
        lowest: the pods in the emptiest domain, as the constraint counts.
        domain_count: how many domains there are.
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
        host_ip: the address that the pod wants it on.
        nodes: on how many nodes it is taken.
        count: how many pods hold it.
        pods: some of them.
    """

    port: int
    protocol: str
    host_ip: str
    nodes: int
    count: int
    pods: tuple[PodOnNode, ...]


class DevicesLeft(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one step leaves of the devices that a request may get.

    Attributes:
        step: `seen` (what any node sees), `class`, `selector`, `capacity`, `taints`, `in use`,
            `counters`.
        devices: how many devices are left.
        nodes: how many nodes see one of them.
        text: the expression of a class or a selector.
        failing: on how many devices the expression fails.
    """

    step: str
    devices: int
    nodes: int
    text: str = ""
    failing: int = 0


class DeviceHolder(msgspec.Struct, frozen=True):
    """A claim that has devices, as `namespace/name`, how many of them, and the pods that use it."""

    claim: str
    devices: int
    pods: tuple[str, ...]


class TaintedDevices(msgspec.Struct, frozen=True):
    """A taint as kubectl writes it, and how many devices it keeps away."""

    taint: str
    devices: int


class DeviceObstacle(_Wire, frozen=True, tag="device"):
    """A request of a claim, or an alternative of one, and what becomes of it by itself.

    Attributes:
        claim: `namespace/name`.
        request: its name; `request/alternative` in a prioritized list.
        device_class: the class it asks for.
        wanted: how many devices; None for all that match.
        nodes: on how many nodes too few are left.
        enough: on how many nodes enough are left.
        most: as many are left on the node `nearest`, more nowhere.
        nearest: that node; empty where nothing is left.
        left: what each step leaves, in the order of the steps.
        taints: those that the request does not tolerate, the most frequent first.
        holders: some of the claims that have devices which would do, those of most devices first.
        holder_count: how many such claims there are, among those of 4,096 devices.
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
        problem: what is wrong with an invalid one.
        nodes: on how many nodes.
    """

    pool: str
    state: str
    problem: str
    nodes: int


class DevicesTogetherObstacle(_Wire, frozen=True, tag="devicesTogether"):
    """Every request finds devices, but not all requests together, or not as constraints demand.

    Attributes:
        nodes: on how many nodes.
        constraints: what the claims demand of their devices together.
    """

    nodes: int
    constraints: tuple[str, ...]


class AllocatedClaimObstacle(_Wire, frozen=True, tag="allocatedClaim"):
    """A claim of the pod that has its devices already, where some nodes do not reach them.

    Attributes:
        claim: `namespace/name`.
        nodes: how many nodes do not.
        node: one that does; empty when there is none, or the devices cannot be made ready.
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
