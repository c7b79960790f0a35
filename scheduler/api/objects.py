"""Pods, nodes and namespaces, with only the fields that scheduling reads.

Source: k8s.io/api core/v1 types.go (v0.36).
"""

from typing import Final, TypeAlias

import msgspec

from scheduler.api.volume_sources import Volume
from scheduler.api.wire import ApiStruct

Quantity: TypeAlias = str | int | float
"""A resource quantity as written: `"100m"`, `"2Gi"`, or a bare number in hand-written files."""

ResourceList: TypeAlias = dict[str, Quantity]


# --- metadata -----------------------------------------------------------------------------------


class OwnerReference(ApiStruct, frozen=True):
    """An owner of an object; scheduling reads the controller only."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class ObjectMeta(ApiStruct, frozen=True):
    """Identity, labels and versions of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] = ()


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The owner that manages the object (metav1.GetControllerOf); None without one."""
    return next((owner for owner in meta.owner_references if owner.controller), None)


class AnnotatedMeta(ObjectMeta, frozen=True):
    """Metadata of the kinds all of whose annotations scheduling reads."""

    annotations: dict[str, str] = {}


class PodAnnotations(ApiStruct, frozen=True):
    """The annotations of pods that scheduling reads: those about the expected end of a pod."""

    expected_duration: str = msgspec.field(name="stowage.dev/expected-duration", default="")
    expected_end: str = msgspec.field(name="stowage.dev/expected-end", default="")


NO_ANNOTATIONS: Final = PodAnnotations()


class PodMeta(ObjectMeta, frozen=True):
    """Metadata of pods. Of their annotations, which can be large, only a few are kept."""

    annotations: PodAnnotations = NO_ANNOTATIONS


# --- selectors ----------------------------------------------------------------------------------


class LabelSelectorRequirement(ApiStruct, frozen=True):
    """One expression of a label selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(ApiStruct, frozen=True):
    """metav1.LabelSelector: every label and every expression must match."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(ApiStruct, frozen=True):
    """One expression over node labels (or node fields)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiStruct, frozen=True):
    """Expressions that must all hold; an empty term matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiStruct, frozen=True):
    """Terms of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(ApiStruct, frozen=True):
    """A node selector term that adds `weight` to the score of matching nodes."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinitySpec(ApiStruct, frozen=True):
    """core/v1 NodeAffinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(ApiStruct, frozen=True):
    """A required affinity or anti-affinity to pods within one topology domain."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct, frozen=True):
    """A preferred pod (anti-)affinity term."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinitySpec(ApiStruct, frozen=True):
    """core/v1 PodAffinity and PodAntiAffinity: the same shape."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(ApiStruct, frozen=True):
    """core/v1 Affinity."""

    node_affinity: NodeAffinitySpec | None = None
    pod_affinity: PodAffinitySpec | None = None
    pod_anti_affinity: PodAffinitySpec | None = None


class TopologySpreadConstraint(ApiStruct, frozen=True):
    """The skew that matching pods may have over the domains of a topology key."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


# --- taints -------------------------------------------------------------------------------------


class Taint(ApiStruct, frozen=True):
    """core/v1 Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(ApiStruct, frozen=True):
    """core/v1 Toleration; an empty key or effect matches all."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


# --- pods ---------------------------------------------------------------------------------------


class ResourceAmounts(ApiStruct, frozen=True):
    """The requests of a volume claim, or of a kubelet's status; limits are not read there."""

    requests: ResourceList = {}


class ResourceRequirements(ResourceAmounts, frozen=True):
    """Requests and limits of a container or of a pod; limits are for metrics only."""

    limits: ResourceList = {}


class ContainerPort(ApiStruct, frozen=True):
    """A port of a container; only its host port matters to scheduling."""

    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = "TCP"


class ContainerRestartRule(ApiStruct, frozen=True):
    """A restart rule; scheduling reads its action (a declared node feature)."""

    action: str = ""


class Container(ApiStruct, frozen=True):
    """A container or init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class PodSchedulingGate(ApiStruct, frozen=True):
    """A gate that keeps a pod out of the queue."""

    name: str = ""


class PodResourceClaim(ApiStruct, frozen=True):
    """A reference to a ResourceClaim: an existing one, or one made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodResourceClaimStatus(ApiStruct, frozen=True):
    """The name of the claim made from a template for a pod; None where none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodSchedulingGroup(ApiStruct, frozen=True):
    """The PodGroup that a pod is to be scheduled with."""

    pod_group_name: str = ""


class PodSpec(ApiStruct, frozen=True):
    """The specification of a pod.

    Invariant: after `pod_info`, `node_name` and `resource_claims` are empty, and `volumes` holds
    only images. Fields of `Pod` have the rest, so that pods of one workload share one spec.
    """

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    preemption_policy: str | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    host_network: bool = False
    host_users: bool | None = None
    active_deadline_seconds: int | None = None


class PodCondition(ApiStruct, frozen=True):
    """One condition of a pod's status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


class ContainerStatus(ApiStruct, frozen=True):
    """The resources of a container as the kubelet reports them (in-place resize)."""

    name: str = ""
    resources: ResourceAmounts | None = None
    allocated_resources: ResourceList | None = None


class PodStatus(ApiStruct, frozen=True):
    """The part of a pod's status that scheduling reads."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceAmounts | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class Pod(ApiStruct, frozen=True):
    """A pod. `spec` and `metadata.labels` are shared between equal pods."""

    metadata: PodMeta
    spec: PodSpec
    status: PodStatus = PodStatus()
    node_name: str = ""
    """The node that the pod is bound to or assumed on; empty for a pending pod."""
    volumes: tuple[Volume, ...] = ()
    """Its claims and inline disks: a pod of a StatefulSet has claims of its own."""
    start_time: str | None = None
    """`status.startTime`, which pods of equal status do not share."""
    resource_claims: tuple[PodResourceClaim, ...] = ()
    """`spec.resourceClaims`, which may name claims of its own."""


SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"


def is_terminal(pod: Pod) -> bool:
    """Whether the pod has ended: it uses no resources and needs no node."""
    return pod.status.phase in (SUCCEEDED, FAILED)


# --- nodes --------------------------------------------------------------------------------------


class NodeSpec(ApiStruct, frozen=True):
    """core/v1 NodeSpec."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(ApiStruct, frozen=True):
    """One condition of a node; times are left out so that heartbeats compare equal."""

    type: str = ""
    status: str = ""


class ContainerImage(ApiStruct, frozen=True):
    """An image that a node holds."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(ApiStruct, frozen=True):
    """core/v1 NodeStatus."""

    allocatable: ResourceList = {}
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ApiStruct, frozen=True):
    """A node."""

    metadata: AnnotatedMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# --- namespaces ---------------------------------------------------------------------------------


class Namespace(ApiStruct, frozen=True):
    """A namespace; affinity terms select namespaces by label."""

    metadata: ObjectMeta
