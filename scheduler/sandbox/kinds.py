"""Every kind the sandbox serves, in one table.

Source: the kube-apiserver's registries (pkg/registry/*/*/strategy.go and storage.go, v1.36.3) for
scope, subresources, selectable fields and the rules for writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from scheduler.sandbox.names import (
    NameRule,
    is_dns_label,
    is_dns_subdomain,
    is_path_segment,
    is_service_name,
)
from scheduler.sandbox.schema.codec import Codec

FieldPath = tuple[str, ...]
"""Where a selectable field lives in the object."""

_NAME: Final[Mapping[str, FieldPath]] = {"metadata.name": ("metadata", "name")}
_NAMESPACED: Final[Mapping[str, FieldPath]] = {
    **_NAME,
    "metadata.namespace": ("metadata", "namespace"),
}


def _paths(*labels: str) -> dict[str, FieldPath]:
    return {label: tuple(label.split(".")) for label in labels}


_EVENT_FIELDS: Final = _paths(
    "reason",
    "reportingComponent",
    "source",
    "type",
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
)
_EVENT_FIELDS["source"] = ("source", "component")


@dataclass(frozen=True)
class Kind:
    """One resource as clients see it."""

    kind: str
    resource: str
    type_name: str
    """The type in the table of fields."""
    group: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    extra_fields: Mapping[str, FieldPath] = field(default_factory=dict)
    """Selectable fields beside name and namespace."""
    has_generation: bool = False
    """Whether metadata.generation counts the changes of the specification."""
    unconditional_update: bool = True
    """Whether an update may leave out the resourceVersion it is based on."""
    create_on_update: bool = False
    """Whether PUT creates what is not there."""
    returns_deleted: bool = False
    """Whether DELETE answers with the object instead of a Status."""
    status_on_create: bool = False
    """Whether a new object keeps the status it comes with."""
    name_rule: NameRule = is_dns_subdomain
    stored_as: str = ""
    """The key of the kind whose store this one shows in another form."""
    version: str = "v1"

    @property
    def key(self) -> str:
        """The resource with its group, unique in the table."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def storage_key(self) -> str:
        """The key of the collection the objects are in."""
        return self.stored_as or self.key

    @property
    def api_version(self) -> str:
        """What the objects say in apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The resource's name for one object."""
        return self.kind.lower()

    @property
    def has_status(self) -> bool:
        """Whether status is written through a subresource only."""
        return "status" in self.subresources

    @cached_property
    def selectable(self) -> Mapping[str, FieldPath]:
        """The fields a field selector may name."""
        return {**(_NAMESPACED if self.namespaced else _NAME), **self.extra_fields}

    @cached_property
    def stored_paths(self) -> tuple[FieldPath, ...]:
        """The paths whose values are kept beside each stored object for selection."""
        storage = kind_of(self.storage_key)
        return tuple(dict.fromkeys(storage.selectable.values()))

    @cached_property
    def field_positions(self) -> Mapping[str, int]:
        """Where the value of each selectable field stands among the stored values."""
        return {label: self.stored_paths.index(path) for label, path in self.selectable.items()}

    @cached_property
    def codec(self) -> Codec:
        """Decodes this kind's objects."""
        return Codec(self.type_name, kind=self.kind, version=self.version)

    @cached_property
    def type_meta(self) -> bytes:
        """The beginning of every object as JSON, up to where the stored body goes on."""
        return f'"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    @cached_property
    def list_head(self) -> bytes:
        """The beginning of a list of this kind as JSON, up to its metadata."""
        return f'{{"kind":"{self.kind}List","apiVersion":"{self.api_version}",'.encode()


KINDS: Final = (
    Kind(
        "Pod", "pods", "core.Pod",
        short_names=("po",), categories=("all",),
        subresources=("status", "binding", "eviction"),
        extra_fields={
            **_paths(
                "spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
                "spec.serviceAccountName", "status.phase", "status.podIP",
                "status.nominatedNodeName", "spec.hostNetwork",
            ),
            "spec.host": ("spec", "nodeName"),
        },
        has_generation=True, returns_deleted=True,
    ),
    Kind(
        "Node", "nodes", "core.Node", namespaced=False,
        short_names=("no",), subresources=("status",), status_on_create=True,
        extra_fields=_paths("spec.unschedulable"),
    ),
    Kind(
        "Namespace", "namespaces", "core.Namespace", namespaced=False,
        short_names=("ns",), subresources=("status",),
        extra_fields=_paths("status.phase"), name_rule=is_dns_label, returns_deleted=True,
    ),
    Kind(
        "Event", "events", "core.Event",
        short_names=("ev",), extra_fields=_EVENT_FIELDS, create_on_update=True,
    ),
    Kind(
        "Event", "events", "events.Event", group="events.k8s.io",
        short_names=("ev",), create_on_update=True, stored_as="events",
        extra_fields={
            "reason": ("reason",), "type": ("type",),
            "reportingController": _EVENT_FIELDS["reportingComponent"],
            **{
                label.replace("involvedObject", "regarding"): path
                for label, path in _EVENT_FIELDS.items()
                if label.startswith("involvedObject.")
            },
        },
    ),
    Kind(
        "Service", "services", "core.Service", short_names=("svc",), categories=("all",),
        subresources=("status",), extra_fields=_paths("spec.type", "spec.clusterIP"),
        returns_deleted=True, create_on_update=True, name_rule=is_service_name,
    ),
    Kind(
        "ReplicationController", "replicationcontrollers", "core.ReplicationController",
        short_names=("rc",), categories=("all",), subresources=("status", "scale"),
        extra_fields=_paths("status.replicas"), has_generation=True,
    ),
    Kind(
        "PersistentVolumeClaim", "persistentvolumeclaims", "core.PersistentVolumeClaim",
        short_names=("pvc",), subresources=("status",), returns_deleted=True,
    ),
    Kind(
        "PersistentVolume", "persistentvolumes", "core.PersistentVolume", namespaced=False,
        short_names=("pv",), subresources=("status",), returns_deleted=True,
    ),
    Kind(
        "ServiceAccount", "serviceaccounts", "core.ServiceAccount",
        short_names=("sa",), subresources=("token",), returns_deleted=True,
    ),
    Kind("ConfigMap", "configmaps", "core.ConfigMap", short_names=("cm",)),
    Kind("Secret", "secrets", "core.Secret", extra_fields=_paths("type")),
    Kind(
        "Endpoints", "endpoints", "core.Endpoints",
        short_names=("ep",), create_on_update=True,
    ),
    Kind(
        "ResourceQuota", "resourcequotas", "core.ResourceQuota",
        short_names=("quota",), subresources=("status",), returns_deleted=True,
    ),
    Kind(
        "LimitRange", "limitranges", "core.LimitRange",
        short_names=("limits",), create_on_update=True,
    ),
    Kind(
        "Deployment", "deployments", "apps.Deployment", group="apps",
        short_names=("deploy",), categories=("all",), subresources=("status", "scale"),
        has_generation=True,
    ),
    Kind(
        "ReplicaSet", "replicasets", "apps.ReplicaSet", group="apps",
        short_names=("rs",), categories=("all",), subresources=("status", "scale"),
        extra_fields=_paths("status.replicas"), has_generation=True,
    ),
    Kind(
        "StatefulSet", "statefulsets", "apps.StatefulSet", group="apps",
        short_names=("sts",), categories=("all",), subresources=("status", "scale"),
        has_generation=True,
    ),
    Kind(
        "DaemonSet", "daemonsets", "apps.DaemonSet", group="apps",
        short_names=("ds",), categories=("all",), subresources=("status",), has_generation=True,
    ),
    Kind(
        "Job", "jobs", "batch.Job", group="batch",
        categories=("all",), subresources=("status",),
        extra_fields=_paths("status.successful"), has_generation=True,
    ),
    Kind(
        "PodDisruptionBudget", "poddisruptionbudgets", "policy.PodDisruptionBudget",
        group="policy", short_names=("pdb",), subresources=("status",),
        has_generation=True, unconditional_update=False,
    ),
    Kind(
        "PriorityClass", "priorityclasses", "scheduling.PriorityClass",
        group="scheduling.k8s.io", namespaced=False, short_names=("pc",), has_generation=True,
    ),
    Kind(
        "Lease", "leases", "coordination.Lease", group="coordination.k8s.io",
        create_on_update=True, unconditional_update=False,
    ),
    Kind(
        "EndpointSlice", "endpointslices", "discovery.EndpointSlice",
        group="discovery.k8s.io", has_generation=True,
    ),
    Kind(
        "StorageClass", "storageclasses", "storage.StorageClass",
        group="storage.k8s.io", namespaced=False, short_names=("sc",), returns_deleted=True,
    ),
    Kind(
        "CSINode", "csinodes", "storage.CSINode", group="storage.k8s.io",
        namespaced=False, unconditional_update=False, returns_deleted=True,
    ),
    Kind(
        "CSIDriver", "csidrivers", "storage.CSIDriver", group="storage.k8s.io",
        namespaced=False, unconditional_update=False, returns_deleted=True,
    ),
    Kind(
        "CSIStorageCapacity", "csistoragecapacities", "storage.CSIStorageCapacity",
        group="storage.k8s.io", unconditional_update=False,
    ),
    Kind(
        "VolumeAttachment", "volumeattachments", "storage.VolumeAttachment",
        group="storage.k8s.io", namespaced=False, subresources=("status",),
        unconditional_update=False, returns_deleted=True,
    ),
    Kind(
        "ResourceClaim", "resourceclaims", "resource.ResourceClaim",
        group="resource.k8s.io", subresources=("status",), returns_deleted=True,
    ),
    Kind(
        "ResourceClaimTemplate", "resourceclaimtemplates", "resource.ResourceClaimTemplate",
        group="resource.k8s.io", returns_deleted=True,
    ),
    Kind(
        "DeviceClass", "deviceclasses", "resource.DeviceClass",
        group="resource.k8s.io", namespaced=False, has_generation=True, returns_deleted=True,
    ),
    Kind(
        "ResourceSlice", "resourceslices", "resource.ResourceSlice",
        group="resource.k8s.io", namespaced=False, has_generation=True, returns_deleted=True,
        extra_fields=_paths("spec.nodeName", "spec.driver"),
    ),
    Kind(
        "Role", "roles", "rbac.Role", group="rbac.authorization.k8s.io",
        name_rule=is_path_segment, create_on_update=True,
    ),
    Kind(
        "RoleBinding", "rolebindings", "rbac.RoleBinding", group="rbac.authorization.k8s.io",
        name_rule=is_path_segment, create_on_update=True,
    ),
    Kind(
        "ClusterRole", "clusterroles", "rbac.ClusterRole", namespaced=False,
        group="rbac.authorization.k8s.io", name_rule=is_path_segment, create_on_update=True,
    ),
    Kind(
        "ClusterRoleBinding", "clusterrolebindings", "rbac.ClusterRoleBinding",
        namespaced=False, group="rbac.authorization.k8s.io",
        name_rule=is_path_segment, create_on_update=True,
    ),
)  # fmt: skip
"""The stored kinds. What is only asked for (bindings, reviews, tokens) is in requests.py."""

BY_PATH: Final[Mapping[tuple[str, str, str], Kind]] = {
    (kind.group, kind.version, kind.resource): kind for kind in KINDS
}
"""Kinds by group, version and resource, as paths name them."""

BY_TYPE: Final[Mapping[tuple[str, str], Kind]] = {
    (kind.api_version, kind.kind): kind for kind in KINDS
}
"""Kinds by apiVersion and kind, as objects name themselves."""

_BY_KEY: Final[Mapping[str, Kind]] = {kind.key: kind for kind in KINDS}


def kind_of(key: str) -> Kind:
    """The kind with that key, such as `pods` or `leases.coordination.k8s.io`."""
    return _BY_KEY[key]


PODS: Final = kind_of("pods")
NODES: Final = kind_of("nodes")
NAMESPACES: Final = kind_of("namespaces")
EVENTS: Final = kind_of("events")
PRIORITY_CLASSES: Final = kind_of("priorityclasses.scheduling.k8s.io")
POD_DISRUPTION_BUDGETS: Final = kind_of("poddisruptionbudgets.policy")
