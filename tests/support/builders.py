"""Objects for tests: only what a test is about needs to be written.

Every call makes fresh objects, as `scheduler.api.pods.pod_info` demands.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import (
    Affinity,
    AnnotatedMeta,
    Container,
    ContainerImage,
    ContainerPort,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    OwnerReference,
    Pod,
    PodAnnotations,
    PodCondition,
    PodMeta,
    PodResourceClaim,
    PodSchedulingGate,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
    Quantity,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from scheduler.api.pods import PodInfo, pod_info
from scheduler.api.volume_sources import Volume
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.snapshot import NodeSet, PodAdded, Snapshot

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def make_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str = "",
    resource_version: str = "1",
    labels: Mapping[str, str] | None = None,
    owner_references: Iterable[OwnerReference] = (),
    deletion_timestamp: str | None = None,
    node_name: str = "",
    scheduler_name: str = "stowage",
    priority: int | None = None,
    preemption_policy: str | None = None,
    requests: Mapping[str, Quantity] | None = None,
    image: str = "registry.example/app:1",
    host_ports: Iterable[int | ContainerPort] = (),
    containers: Iterable[Container] | None = None,
    init_containers: Iterable[Container] = (),
    overhead: Mapping[str, Quantity] | None = None,
    resources: ResourceRequirements | None = None,
    node_selector: Mapping[str, str] | None = None,
    affinity: Affinity | None = None,
    tolerations: Iterable[Toleration] = (),
    topology_spread_constraints: Iterable[TopologySpreadConstraint] = (),
    gates: Iterable[str] = (),
    volumes: Iterable[Volume] = (),
    host_network: bool = False,
    host_users: bool | None = None,
    active_deadline_seconds: int | None = None,
    expected_duration: str = "",
    expected_end: str = "",
    group: str = "",
    claims: Iterable[str] = (),
    phase: str = "",
    nominated_node_name: str = "",
    start_time: str | None = None,
    conditions: Iterable[PodCondition] = (),
) -> Pod:
    """A pod with one container; its UID is `namespace/name` unless another is given."""
    if containers is None:
        ports = tuple(
            p if isinstance(p, ContainerPort) else ContainerPort(host_port=p) for p in host_ports
        )
        container = Container(
            name="main",
            image=image,
            resources=ResourceRequirements(requests=dict(requests or {})),
            ports=ports,
        )
        containers = (container,)
    metadata = PodMeta(
        name=name,
        namespace=namespace,
        uid=uid or f"{namespace}/{name}",
        resource_version=resource_version,
        labels=dict(labels or {}),
        creation_timestamp="2026-01-01T00:00:00Z",
        deletion_timestamp=deletion_timestamp,
        owner_references=tuple(owner_references),
        annotations=PodAnnotations(expected_duration, expected_end),
    )
    spec = PodSpec(
        containers=tuple(containers),
        init_containers=tuple(init_containers),
        node_name=node_name,
        scheduler_name=scheduler_name,
        priority=priority,
        preemption_policy=preemption_policy,
        node_selector=dict(node_selector or {}),
        affinity=affinity,
        tolerations=tuple(tolerations),
        topology_spread_constraints=tuple(topology_spread_constraints),
        scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in gates),
        overhead=dict(overhead or {}),
        resources=resources,
        volumes=tuple(volumes),
        host_network=host_network,
        host_users=host_users,
        active_deadline_seconds=active_deadline_seconds,
        resource_claims=tuple(PodResourceClaim(each, each) for each in claims),
        scheduling_group=PodSchedulingGroup(pod_group_name=group) if group else None,
    )
    status = PodStatus(
        phase=phase or ("Running" if node_name else "Pending"),
        nominated_node_name=nominated_node_name,
        start_time=start_time,
        conditions=tuple(conditions),
    )
    return Pod(metadata=metadata, spec=spec, status=status)


def make_pod_info(name: str = "pod", **fields: Any) -> PodInfo:
    """The pod that `make_pod` makes of the same arguments, with what is derived from it."""
    return pod_info(make_pod(name, **fields))


def make_queued_pod_info(name: str = "pod", timestamp: float = 0.0, **fields: Any) -> QueuedPodInfo:
    """A pod as the queue hands it out."""
    return QueuedPodInfo(make_pod_info(name, **fields), timestamp)


def make_node(
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    zone: str = "",
    region: str = "",
    annotations: Mapping[str, str] | None = None,
    allocatable: Mapping[str, Quantity] | None = None,
    taints: Iterable[Taint] = (),
    unschedulable: bool = False,
    conditions: Iterable[NodeCondition] = (),
    images: Iterable[ContainerImage] = (),
    declared_features: Iterable[str] = (),
    resource_version: str = "1",
) -> Node:
    """A node of 4 cores, 32 GiB and 110 pods that carries its hostname label.

    What `allocatable` names is added to these, or replaces them.
    """
    all_labels = {HOSTNAME: name}
    if zone:
        all_labels[ZONE] = zone
    if region:
        all_labels[REGION] = region
    all_labels.update(labels or {})
    return Node(
        metadata=AnnotatedMeta(
            name=name,
            uid=f"uid-of-{name}",
            resource_version=resource_version,
            labels=all_labels,
            annotations=dict(annotations or {}),
            creation_timestamp="2026-01-01T00:00:00Z",
        ),
        spec=NodeSpec(unschedulable=unschedulable, taints=tuple(taints)),
        status=NodeStatus(
            allocatable={"cpu": "4", "memory": "32Gi", "pods": 110, **(allocatable or {})},
            conditions=tuple(conditions),
            images=tuple(images),
            declared_features=tuple(declared_features),
        ),
    )


def make_node_info(node: Node, pods: Sequence[PodInfo] = ()) -> NodeInfo:
    """A node with pods on it, as the cache keeps it."""
    info = NodeInfo(node.metadata.name)
    info.node = node
    info.pods = {pod.uid: pod for pod in pods}
    return info


def make_snapshot(nodes: Iterable[Node] = (), pods: Iterable[PodInfo] = ()) -> Snapshot:
    """A cluster of these nodes, in this order, with pods that name the node they run on."""
    snapshot = Snapshot()
    snapshot.update(NodeSet(make_node_info(node), node) for node in nodes)
    snapshot.update(PodAdded(pod) for pod in pods)
    return snapshot
