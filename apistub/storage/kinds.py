"""Every kind the stand-in serves, in one table.

Source: the kube-apiserver's registries (pkg/registry/*/*/strategy.go and storage.go, v1.36.3) for
scope, subresources and selectable fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

Object = dict[str, Any]
"""An object of the API as JSON has it."""
FieldPath = tuple[str, ...]
"""Where a selectable field lives in the object."""


def _paths(*labels: str) -> dict[str, FieldPath]:
    return {label: tuple(label.split(".")) for label in labels}


_ABOUT: Final = tuple(
    f"involvedObject.{name}"
    for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
)
_EVENT_FIELDS: Final = {
    **_paths("reason", "type", "reportingComponent", *_ABOUT),
    "source": ("source", "component"),
}
_MODERN_EVENT_FIELDS: Final = {
    **_paths("reason", "type"),
    "reportingController": ("reportingComponent",),
    **{label.replace("involvedObject", "regarding"): tuple(label.split(".")) for label in _ABOUT},
}


@dataclass(frozen=True)
class Kind:
    """One resource as clients see it."""

    kind: str
    resource: str
    group: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    fields: Mapping[str, FieldPath] = field(default_factory=dict)
    """Selectable fields beside name and namespace."""
    has_generation: bool = False
    """Whether metadata.generation counts the changes of the specification."""
    stored_as: str = ""
    """The key of the kind that this one shows in another form."""
    unattended: bool = False
    """Whether a controller would follow these objects, and none does here."""
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
    def has_status(self) -> bool:
        """Whether status is written through a subresource only."""
        return "status" in self.subresources

    @cached_property
    def selectable(self) -> Mapping[str, FieldPath]:
        """The fields a field selector may name; the namespace is second."""
        return {**_paths("metadata.name", "metadata.namespace"), **self.fields}

    @cached_property
    def stored_paths(self) -> tuple[FieldPath, ...]:
        """The paths with the values that are kept beside each stored object for selection."""
        return tuple(dict.fromkeys(kind_of(self.storage_key).selectable.values()))

    @cached_property
    def field_positions(self) -> Mapping[str, int]:
        """Where the value of each selectable field stands among the stored values."""
        return {label: self.stored_paths.index(path) for label, path in self.selectable.items()}

    @cached_property
    def type_meta(self) -> bytes:
        """The beginning of every object as JSON, up to where the stored body goes on."""
        return f'"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()


def _kinds(
    group: str, *resources: str, namespaced: bool = True, unattended: bool = False
) -> tuple[Kind, ...]:
    """Kinds without anything special, such as `StorageClass/storageclasses/sc`."""
    parts = (resource.split("/") for resource in resources)
    return tuple(
        Kind(
            kind,
            plural,
            group,
            namespaced=namespaced,
            short_names=tuple(short),
            unattended=unattended,
        )
        for kind, plural, *short in parts
    )


def _workload(kind: str, short: str, group: str = "apps", *, unattended: bool = False) -> Kind:
    return Kind(
        kind, f"{kind.lower()}s", group, short_names=(short,), categories=("all",),
        subresources=("status",), has_generation=True, unattended=unattended,
    )  # fmt: skip


KINDS: Final = (
    Kind(
        "Pod", "pods", short_names=("po",), categories=("all",), has_generation=True,
        subresources=("status", "binding", "eviction"),
        fields=_paths(
            "spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
            "spec.serviceAccountName", "status.phase", "status.podIP", "status.nominatedNodeName",
        ),
    ),
    Kind(
        "Node", "nodes", namespaced=False, short_names=("no",), subresources=("status",),
        fields=_paths("spec.unschedulable"),
    ),
    Kind(
        "Namespace", "namespaces", namespaced=False, short_names=("ns",),
        subresources=("status",), fields=_paths("status.phase"),
    ),
    Kind("Event", "events", short_names=("ev",), fields=_EVENT_FIELDS),
    Kind(
        "Event", "events", "events.k8s.io", stored_as="events",
        fields=_MODERN_EVENT_FIELDS,
    ),
    Kind("Service", "services", short_names=("svc",), categories=("all",)),
    Kind("PersistentVolumeClaim", "persistentvolumeclaims", short_names=("pvc",),
         subresources=("status",), unattended=True),
    Kind("PersistentVolume", "persistentvolumes", namespaced=False, short_names=("pv",),
         subresources=("status",)),
    _workload("Deployment", "deploy"),
    _workload("ReplicaSet", "rs"),
    _workload("StatefulSet", "sts", unattended=True),
    _workload("ReplicationController", "rc", "", unattended=True),
    Kind("PodDisruptionBudget", "poddisruptionbudgets", "policy", short_names=("pdb",),
         subresources=("status",), has_generation=True, unattended=True),
    *_kinds("", "ResourceQuota/resourcequotas/quota", "LimitRange/limitranges/limits",
            unattended=True),
    *_kinds("apps", "DaemonSet/daemonsets/ds", unattended=True),
    *_kinds("batch", "Job/jobs", "CronJob/cronjobs/cj", unattended=True),
    *_kinds("", "ConfigMap/configmaps/cm", "Secret/secrets", "ServiceAccount/serviceaccounts/sa"),
    *_kinds("coordination.k8s.io", "Lease/leases"),
    *_kinds("discovery.k8s.io", "EndpointSlice/endpointslices"),
    *_kinds("scheduling.k8s.io", "PriorityClass/priorityclasses/pc", namespaced=False),
    Kind("PodGroup", "podgroups", "scheduling.k8s.io", subresources=("status",),
         version="v1alpha2"),
    *_kinds("storage.k8s.io", "CSIStorageCapacity/csistoragecapacities"),
    *_kinds("storage.k8s.io", "StorageClass/storageclasses/sc", "CSINode/csinodes",
            "CSIDriver/csidrivers", "VolumeAttachment/volumeattachments", namespaced=False),
    Kind("ResourceClaim", "resourceclaims", "resource.k8s.io", subresources=("status",)),
    *_kinds("resource.k8s.io", "ResourceClaimTemplate/resourceclaimtemplates"),
    *_kinds("resource.k8s.io", "DeviceClass/deviceclasses", "ResourceSlice/resourceslices",
            namespaced=False),
)  # fmt: skip

BY_PATH: Final[Mapping[tuple[str, str], Kind]] = {
    (kind.group, kind.resource): kind for kind in KINDS
}
"""Kinds by group and resource, as paths name them."""

VERSIONS: Final = frozenset((kind.group, kind.version) for kind in KINDS)
"""Groups with the versions in which they are served."""

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
DEPLOYMENTS: Final = kind_of("deployments.apps")
REPLICA_SETS: Final = kind_of("replicasets.apps")
PRIORITY_CLASSES: Final = kind_of("priorityclasses.scheduling.k8s.io")
POD_DISRUPTION_BUDGETS: Final = kind_of("poddisruptionbudgets.policy")
RESOURCE_CLAIMS: Final = kind_of("resourceclaims.resource.k8s.io")
RESOURCE_CLAIM_TEMPLATES: Final = kind_of("resourceclaimtemplates.resource.k8s.io")
