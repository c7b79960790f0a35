"""The table of kinds that the scheduler watches; a new kind is one new entry."""

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from operator import attrgetter
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec
from typing_extensions import override

from scheduler.api.device_amounts import checked_claim, checked_slice
from scheduler.api.device_taint_rules import DeviceTaintRule
from scheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.disruption_budgets import (
    DisruptionBudget,
    PodDisruptionBudget,
    disruption_budget,
)
from scheduler.api.nodes import checked_node
from scheduler.api.nulls import without_nulls
from scheduler.api.objects import Namespace, Node, ObjectMeta, Pod
from scheduler.api.pod_group_apis import (
    SCHEDULER_PLUGINS,
    V1ALPHA3,
    V1BETA1,
    VOLCANO,
    AnnotatedPod,
    ForeignPodGroup,
    PodGroup137,
    foreign_pod_group,
    pod_group_137,
    with_group_of_label,
    without_annotations,
)
from scheduler.api.pod_groups import V1ALPHA2, PodGroup, PodGroupV1Alpha2, pod_group
from scheduler.api.pods import PodInfo, pod_info
from scheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    checked_capacity,
)
from scheduler.api.storage_wire import ClaimWire, VolumeWire, claim_from_wire, volume_from_wire
from scheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.daemon.client.errors import cut
from scheduler.daemon.informers.wire import CHANGES, DELETED
from scheduler.kernel.framework.events import (
    NAMESPACE_KIND,
    NODE_KIND,
    POD_KIND,
    ObjectKind,
)

T = TypeVar("T")

_GOT_NULL: Final = "got `null`"
_PRESENT: Final = CHANGES - {DELETED}
_APPS: Final = "apps/v1"
_STORAGE: Final = "storage.k8s.io/v1"
_RESOURCE: Final = "resource.k8s.io/v1"
_GROUPS: Final = "podgroups"
_META: Final[Callable[[Any], ObjectMeta]] = attrgetter("metadata")


class MalformedObjectError(ValueError):
    """An object cannot be decoded; the message names field and cause."""


class Kind(Generic[T]):
    """A kind of object: its path on the server, and the decoder of its bytes.

    Attributes:
        name: the plural, for logs and metrics; with the group for kinds that only plugins know.
        declared: the kind as plugins declare it.
        path: the path of lists and watches of all objects.
        field_selector: the field selector of lists and watches, quoted for a URL; or empty.
        list_kind: the `kind` that a list must have.
        places: the kind in each API version that may serve it, itself included, in order of trial.
        may_be_absent: whether some servers do not serve the kind: then there are no objects of it.
        is_missed: whether its absence is logged as a warning: the configuration needs the kind.
        meta_of: returns the metadata of a built object.
        decode_event: decodes a line of a watch.
    """

    may_be_absent: ClassVar[bool] = False
    is_missed: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        declared: ObjectKind,
        wire: type[Any],
        build: Callable[[Any], T] | None = None,
        *,
        meta_of: Callable[[T], ObjectMeta] = _META,
        field_selector: str = "",
    ) -> None:
        root = "apis" if "/" in declared.api_version else "api"
        self.list_kind = f"{declared.kind}List"
        self.name = name
        self.declared = declared
        self.path = f"/{root}/{declared.api_version}/{declared.plural or name}"
        self.places: tuple[Kind[T], ...] = ()
        self.field_selector = field_selector
        self.meta_of = meta_of
        self._wire = wire
        self._build: Callable[[Any], T] = build or _as_it_is
        self._keep: Callable[[T, bytes], object] | None = None
        self._decoder = msgspec.json.Decoder(wire)
        event: Any = msgspec.defstruct("Event", [("type", str), ("object", wire)], gc=False)
        self._event_decoder = msgspec.json.Decoder(event)

    def keeping(self, keep: Callable[[T, bytes], object]) -> "Kind[T]":
        """Return a copy of the kind that passes each object and its bytes to `keep`."""
        kind = copy(self)
        kind._keep = keep  # noqa: SLF001 - its own
        event: Any = msgspec.defstruct("Event", [("type", str), ("object", msgspec.Raw)], gc=False)
        kind._event_decoder = msgspec.json.Decoder(event)  # noqa: SLF001 - its own
        return kind

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        """Decode an object from its bytes.

        Raises:
            MalformedObjectError: a field is missing, of the wrong type, or cannot be read.
        """
        try:
            built = self._build(_decoded(self._decoder, raw))
            if self._keep is not None:
                self._keep(built, bytes(raw))
        except Exception as problem:
            # Any error of a decoder is a fault of this object only.
            raise MalformedObjectError(_one_line(problem)) from problem
        return built

    def decode_event(self, line: bytes) -> tuple[str, T]:
        """Decode a line of a watch in one pass; return the event's type and its object.

        Raises:
            MalformedObjectError: the line cannot be decoded; also for bookmarks and errors, whose
                objects are not of this kind.
        """
        try:
            event = _decoded(self._event_decoder, line)
            if self._keep is not None:
                return event.type, self._kept(event.type, event.object, self._keep)
            return event.type, self._build(event.object)
        except Exception as problem:
            raise MalformedObjectError(_one_line(problem)) from problem

    def convert(self, raw: Mapping[str, Any]) -> T:
        """Build an object from its JSON or YAML.

        Raises:
            ValueError: a field is missing, of the wrong type, or cannot be read.
        """
        return self._build(msgspec.convert(raw, self._wire))

    def _kept(self, event_type: str, raw: msgspec.Raw, keep: Callable[[T, bytes], object]) -> T:
        built = self._build(_decoded(self._decoder, raw))
        if event_type in _PRESENT:
            keep(built, bytes(raw))
        return built


class _DeviceKind(Kind[T]):
    """A kind of resource.k8s.io/v1, which servers before 1.34 do not serve."""

    may_be_absent: ClassVar[bool] = True

    @override
    def convert(self, raw: Mapping[str, Any]) -> T:
        """See `Kind.convert`; drivers' parameters are kept as raw JSON, so JSON is decoded here."""
        return self._build(self._decoder.decode(msgspec.json.encode(raw)))


class _TaintRuleKind(Kind[DeviceTaintRule]):
    """Rules of resource.k8s.io/v1beta2, which no server serves by default."""

    may_be_absent: ClassVar[bool] = True
    is_missed: ClassVar[bool] = True


class _GroupKind(Kind[PodGroup]):
    """PodGroups of an alpha or beta API of Kubernetes, or of another project's API."""

    may_be_absent: ClassVar[bool] = True
    is_missed: ClassVar[bool] = True

    def __init__(
        self,
        api_version: str,
        wire: type[Any],
        build: Callable[[Any], PodGroup],
        name: str = _GROUPS,
    ) -> None:
        plural = "" if name == _GROUPS else _GROUPS
        super().__init__(name, ObjectKind("PodGroup", api_version, plural), wire, build)


def _decoded(decoder: msgspec.json.Decoder[Any], raw: bytes | msgspec.Raw) -> Any:
    """Decode bytes; remove unexpected nulls, which are rare, only in a second try."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as problem:
        if _GOT_NULL not in str(problem):
            raise
        return msgspec.convert(without_nulls(msgspec.json.decode(raw)), decoder.type)


def _as_it_is(decoded: Any) -> Any:
    """Return the decoded object itself: the wire type is the built type."""
    return decoded


def _one_line(problem: Exception) -> str:
    """Return the message of an error in one line: it may quote text of the object's owner."""
    return cut(" ".join(str(problem).split()) or type(problem).__name__)


def _pods(wire: type[Any], build: Callable[[Any], PodInfo]) -> Kind[PodInfo]:
    return Kind(
        "pods",
        POD_KIND,
        wire,
        build,
        meta_of=attrgetter("pod.metadata"),
        field_selector="status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
    )


PODS: Final = _pods(Pod, pod_info)
NODES: Final = Kind[Node]("nodes", NODE_KIND, Node, checked_node)
NAMESPACES: Final = Kind[Namespace]("namespaces", NAMESPACE_KIND, Namespace)

RESOURCE_CLAIMS: Final = _DeviceKind[ResourceClaim](
    "resourceclaims", ObjectKind("ResourceClaim", _RESOURCE), ResourceClaim, checked_claim
)
VOLUME_CLAIMS: Final = Kind[PersistentVolumeClaim](
    "persistentvolumeclaims", ObjectKind("PersistentVolumeClaim"), ClaimWire, claim_from_wire
)
VOLUMES: Final = Kind[PersistentVolume](
    "persistentvolumes", ObjectKind("PersistentVolume"), VolumeWire, volume_from_wire
)
WRITTEN: Final[tuple[Kind[Any], ...]] = (RESOURCE_CLAIMS, VOLUME_CLAIMS, VOLUMES)
"""Kinds that PreBind plugins write, and that decisions read."""

_FOR_PLUGINS: Final[tuple[Kind[Any], ...]] = (
    Kind[Service]("services", ObjectKind("Service"), Service),
    Kind[ReplicationController](
        "replicationcontrollers", ObjectKind("ReplicationController"), ReplicationController
    ),
    Kind[ReplicaSet]("replicasets", ObjectKind("ReplicaSet", _APPS), ReplicaSet),
    Kind[StatefulSet]("statefulsets", ObjectKind("StatefulSet", _APPS), StatefulSet),
    VOLUME_CLAIMS,
    VOLUMES,
    Kind[StorageClass]("storageclasses", ObjectKind("StorageClass", _STORAGE), StorageClass),
    Kind[CSINode]("csinodes", ObjectKind("CSINode", _STORAGE), CSINode),
    Kind[CSIDriver]("csidrivers", ObjectKind("CSIDriver", _STORAGE), CSIDriver),
    Kind[CSIStorageCapacity](
        "csistoragecapacities",
        ObjectKind("CSIStorageCapacity", _STORAGE),
        CSIStorageCapacity,
        checked_capacity,
    ),
    Kind[VolumeAttachment](
        "volumeattachments", ObjectKind("VolumeAttachment", _STORAGE), VolumeAttachment
    ),
    Kind[DisruptionBudget](
        "poddisruptionbudgets",
        ObjectKind("PodDisruptionBudget", "policy/v1"),
        PodDisruptionBudget,
        disruption_budget,
    ),
    RESOURCE_CLAIMS,
    _DeviceKind[DeviceClass]("deviceclasses", ObjectKind("DeviceClass", _RESOURCE), DeviceClass),
    _DeviceKind[ResourceSlice](
        "resourceslices", ObjectKind("ResourceSlice", _RESOURCE), ResourceSlice, checked_slice
    ),
)

TAINT_RULES: Final = _TaintRuleKind(
    "devicetaintrules",
    ObjectKind("DeviceTaintRule", "resource.k8s.io/v1beta2"),
    DeviceTaintRule,
)
"""Watched only where a plugin declares it: DynamicResources, with its feature gate."""

_GROUPS_137: Final = tuple(
    _GroupKind(api_version, PodGroup137, pod_group_137(api_version))
    for api_version in (V1BETA1, V1ALPHA3)
)
POD_GROUPS: Final = _GroupKind(V1ALPHA2, PodGroupV1Alpha2, pod_group)
"""Watched only where a plugin declares it: GangScheduling, with its feature gates."""
POD_GROUPS.places = (POD_GROUPS, *_GROUPS_137)

FOREIGN_POD_GROUPS: Final[Mapping[str, Kind[PodGroup]]] = {
    (group := api_version.partition("/")[0]): _GroupKind(
        api_version, ForeignPodGroup, foreign_pod_group(api_version), f"{_GROUPS}.{group}"
    )
    for api_version in (SCHEDULER_PLUGINS, VOLCANO)
}
"""Kinds by API group: watched if `--pod-group-apis` names it, and submitted as `POD_GROUPS`."""


def pods_kind(group_apis: Collection[str]) -> Kind[PodInfo]:
    """Return the kind of pods that also reads group names as these foreign APIs write them."""
    by_label = SCHEDULER_PLUGINS.partition("/")[0] in group_apis
    by_annotation = VOLCANO.partition("/")[0] in group_apis
    if by_label and by_annotation:
        return _pods(
            AnnotatedPod,
            lambda pod: pod_info(without_annotations(with_group_of_label(pod))),
        )
    if by_annotation:
        return _pods(AnnotatedPod, lambda pod: pod_info(without_annotations(pod)))
    return _pods(Pod, lambda pod: pod_info(with_group_of_label(pod))) if by_label else PODS


def group_sources(
    watched: Collection[Kind[Any]], group_apis: Iterable[str]
) -> tuple[Kind[PodGroup], ...]:
    """Return the kinds of pod groups by precedence; empty if no plugin declares `POD_GROUPS`."""
    if POD_GROUPS not in watched:
        return ()
    return (POD_GROUPS, *(FOREIGN_POD_GROUPS[api] for api in group_apis))


KINDS: Final[tuple[Kind[Any], ...]] = (PODS, NODES, NAMESPACES, *_FOR_PLUGINS)
FOR_PLUGINS: Final[Mapping[ObjectKind, Kind[Any]]] = {kind.declared: kind for kind in _FOR_PLUGINS}
"""The kinds that in-tree plugins declare; pods, nodes and namespaces are always watched."""
_KNOWN: Final[Mapping[ObjectKind, Kind[Any]]] = {
    kind.declared: kind for kind in (*KINDS, TAINT_RULES, POD_GROUPS)
}


def watched_kind(declared: ObjectKind) -> Kind[Any]:
    """Return the kind that a plugin declares; objects of unknown kinds are decoded to dictionaries.

    Raises:
        ValueError: the kind is unknown and has no plural, or is known and has one.
    """
    known = _KNOWN.get(ObjectKind(declared.kind, declared.api_version))
    if known is not None:
        if declared.plural:
            raise ValueError(f"{declared.kind} ({declared.api_version}): known; leave out plural")
        return known
    if not declared.plural:
        raise ValueError(f"{declared.kind} ({declared.api_version}): the plural must be declared")
    return Kind[dict[str, Any]](
        # With the group: other groups have Services and Nodes too.
        f"{declared.plural}.{declared.group}" if declared.group else declared.plural,
        declared,
        dict[str, Any],
        _dictionary_of(declared),
        meta_of=lambda found: msgspec.convert(found["metadata"], ObjectMeta),
    )


def _dictionary_of(declared: ObjectKind) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the function that completes and checks the decoded objects of an unknown kind."""
    # API servers leave the type out of the items of their own kinds' lists.
    types = {"apiVersion": declared.api_version, "kind": declared.kind}
    return lambda found: {**types, **checked(found)}


def checked(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object of an unknown kind with metadata that can be read.

    Raises:
        ValueError: the metadata have no name, or fields of other types.
    """
    metadata = without_nulls(found.get("metadata"))
    if not msgspec.convert(metadata, ObjectMeta).name:
        raise ValueError("metadata.name: expected a name, got none")
    return {**found, "metadata": metadata}
