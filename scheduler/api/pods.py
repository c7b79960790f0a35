"""Pods as the engine stores them: equal parts of different pods are shared objects.

Source of the names: kubernetes pkg/scheduler/framework/types.go (PodInfo) v1.36.
"""

from hashlib import sha256
from operator import attrgetter
from sys import intern
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import force_setattr, replace

from scheduler.api.memory import estimated_bytes
from scheduler.api.objects import (
    NO_ANNOTATIONS,
    OwnerReference,
    Pod,
    PodMeta,
    PodResourceClaim,
    PodSpec,
    PodStatus,
    controller_of,
)
from scheduler.api.pod_shape import DEVICES, OWN_FIELDS, VOLUMES, PodShape
from scheduler.api.quantity import QuantityError
from scheduler.api.selectors import SelectorError
from scheduler.api.volume_sources import Volume

_RESIZE_PENDING: Final = "PodResizePending"
_KEPT_CONDITIONS: Final = frozenset({"PodScheduled", _RESIZE_PENDING, "DisruptionTarget"})
_OF_ONE_NODE: Final = frozenset({"DaemonSet", "Node"})
"""Controllers that create each pod for one node."""
_storage_of: Final = attrgetter(
    *(field for field in Volume.__struct_fields__ if field not in ("name", "image"))
)
_NO_STORAGE: Final = _storage_of(Volume())
_encoder = msgspec.json.Encoder(order="deterministic")
"""Equal values give equal bytes; fields of structs need no sorting for that."""
_NO_STATUS: Final = PodStatus()


class InvalidPodError(ValueError):
    """A pod whose fields cannot be read; the message says which and why."""


class PodKind:
    """Pods that differ in names, volumes, claims, nodes and status only; compared by identity.

    Pods of one kind also have equal annotations about their expected ends, and all or none of them
    have resource claims.

    A kind is dropped with its last pod, and with it the values computed from it.

    Attributes:
        shape, namespace, labels, owners: the values that its pods share.
        created, status, claims: those of the last decoded pod, shared with the next pod if equal.
        signature: see `scheduler.kernel.framework.runtime.pod_classes`.
        size: the memory that labels and owners take, as estimated.
    """

    __slots__ = (
        "__weakref__",
        "_size",
        "claims",
        "created",
        "labels",
        "namespace",
        "owners",
        "shape",
        "signature",
        "status",
    )

    def __init__(
        self,
        shape: PodShape,
        namespace: str,
        labels: dict[str, str],
        owners: tuple[OwnerReference, ...],
    ) -> None:
        self.shape = shape
        self.namespace = namespace
        self.labels = labels
        self.owners = owners
        self.created: str | None = None
        self.status = _NO_STATUS
        self.claims: tuple[PodResourceClaim, ...] = ()
        self.signature: object = None
        self._size = 0

    @property
    def size(self) -> int:
        """The estimated memory of labels and owners; computed once, as only recorders need it."""
        if not self._size:
            self._size = estimated_bytes((self.labels, self.owners))
        return self._size


class PodInfo(msgspec.Struct, frozen=True, gc=False):
    """A pod, and its kind."""

    pod: Pod
    kind: PodKind

    @property
    def shape(self) -> PodShape:
        """The shape that the pod shares with all pods of the same specification."""
        return self.kind.shape

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.pod.metadata.name

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return self.pod.metadata.namespace

    @property
    def uid(self) -> str:
        """metadata.uid, by which the engine identifies a pod."""
        return self.pod.metadata.uid

    @property
    def key(self) -> str:
        """`namespace/name`, for messages and output."""
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def labels(self) -> dict[str, str]:
        """metadata.labels."""
        return self.kind.labels

    @property
    def spec(self) -> PodSpec:
        """The specification; the node name is in `node_name`."""
        return self.kind.shape.spec

    @property
    def node_name(self) -> str:
        """The node the pod runs on or is assumed to run on, or empty."""
        return self.pod.node_name

    @property
    def priority(self) -> int:
        """spec.priority, 0 when unset."""
        return self.kind.shape.spec.priority or 0

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the pod, and creates it again if it is deleted; None if none."""
        return controller_of(self.pod.metadata)

    @property
    def is_tied_to_node(self) -> bool:
        """Whether no scheduler chose its node: pods of DaemonSets, and static ones of the node."""
        owner = self.controller
        return owner is not None and owner.kind in _OF_ONE_NODE

    @property
    def group_name(self) -> str:
        """The name of the pod group it is a member of, in its namespace; empty for none."""
        group = self.kind.shape.spec.scheduling_group
        return "" if group is None else group.pod_group_name

    @property
    def needs(self) -> int:
        """Parts of the pod that only some plugins use: VOLUMES, DEVICES, or both as a sum."""
        pod, needs = self.pod, self.kind.shape.needs
        if pod.resource_claims:
            needs |= DEVICES
        return needs | VOLUMES if pod.volumes else needs

    @property
    def resource_claims(self) -> tuple[PodResourceClaim, ...]:
        """spec.resourceClaims."""
        return self.pod.resource_claims

    @property
    def has_own_objects(self) -> bool:
        """Whether it has volumes or resource claims, in which pods of one kind may differ."""
        return bool(self.pod.volumes or self.pod.resource_claims)

    @property
    def is_terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.pod.metadata.deletion_timestamp is not None

    def on_node(self, node_name: str) -> "PodInfo":
        """Return the pod assumed on a node."""
        pod = self.pod
        rest = (pod.volumes, pod.start_time, pod.resource_claims)
        return PodInfo(Pod(pod.metadata, pod.spec, pod.status, node_name, *rest), self.kind)

    def with_spec(self, spec: PodSpec) -> "PodInfo":
        """Return the pod with another specification; its kind is not shared.

        Raises:
            QuantityError: a quantity cannot be read.
            SelectorError: a selector cannot be read.
        """
        pod, kind = self.pod, self.kind
        other = replace(pod, spec=spec)
        shape = PodShape(other, is_reported=_has_resize_state(other))
        return PodInfo(other, PodKind(shape, kind.namespace, kind.labels, kind.owners))


def pod_of(kind: PodKind) -> PodInfo:
    """Build a pod of a kind, without a name."""
    meta = PodMeta(namespace=kind.namespace, labels=kind.labels, owner_references=kind.owners)
    return PodInfo(Pod(meta, kind.shape.spec), kind)


_shapes: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
_alike: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
"""Shapes by all fields but `OWN_FIELDS`."""
_kinds: WeakValueDictionary[bytes, PodKind] = WeakValueDictionary()
"""By digest, which saves memory: there may be as many kinds as pods."""


def pod_info(pod: Pod) -> PodInfo:
    """Return the pod with its kind; the parts that are equal to those of other pods are shared.

    The pod must be freshly decoded, as the function changes it. It moves the node name, the volumes
    and the claims out of the specification and the start time out of the status. It replaces equal
    specifications, labels and statuses by shared objects, and drops fields that scheduling never
    reads.

    Raises:
        InvalidPodError: a quantity or selector in the pod cannot be read.
    """
    node_name = pod.spec.node_name
    if node_name:
        force_setattr(pod.spec, "node_name", "")
        force_setattr(pod, "node_name", intern(node_name))
    # Interned: very many pods have few different namespaces and phases.
    force_setattr(pod.metadata, "namespace", intern(pod.metadata.namespace))
    force_setattr(pod.status, "phase", intern(pod.status.phase))
    if pod.status.start_time is not None:
        force_setattr(pod, "start_time", pod.status.start_time)
        force_setattr(pod.status, "start_time", None)
    if pod.spec.volumes:
        _move_volumes(pod)
    if pod.spec.resource_claims:
        force_setattr(pod, "resource_claims", pod.spec.resource_claims)
        force_setattr(pod.spec, "resource_claims", ())
    if pod.status.conditions:
        _drop_unread_conditions(pod)
    kind = _shared_kind(pod, _shared_shape(pod))
    _share(pod, kind)
    return PodInfo(pod, kind)


def _share(pod: Pod, kind: PodKind) -> None:
    """Replace the parts that the pod shares with its kind, and with the last pod of the kind."""
    meta = pod.metadata
    if meta.annotations is not NO_ANNOTATIONS and meta.annotations == NO_ANNOTATIONS:
        # Most pods have annotations, but few have one that scheduling reads.
        force_setattr(meta, "annotations", NO_ANNOTATIONS)
    if meta.creation_timestamp != kind.created:
        kind.created = meta.creation_timestamp
    if pod.status != kind.status:
        kind.status = pod.status
    if pod.resource_claims:
        if pod.resource_claims != kind.claims:
            kind.claims = pod.resource_claims
        force_setattr(pod, "resource_claims", kind.claims)
    force_setattr(meta, "labels", kind.labels)
    force_setattr(meta, "creation_timestamp", kind.created)
    force_setattr(meta, "owner_references", kind.owners)
    force_setattr(pod, "spec", kind.shape.spec)
    force_setattr(pod, "status", kind.status)


def _move_volumes(pod: Pod) -> None:
    """Keep only images in the specification, which equal pods share; move claims and disks.

    ServiceAccount admission gives every pod a token volume with a name of its own.
    """
    volumes = pod.spec.volumes
    images = tuple(Volume(image=volume.image) for volume in volumes if volume.image is not None)
    force_setattr(pod.spec, "volumes", images)
    force_setattr(pod, "volumes", tuple(volume for volume in volumes if _is_storage(volume)))


def _is_storage(volume: Volume) -> bool:
    return bool(_storage_of(volume) != _NO_STORAGE)


def _drop_unread_conditions(pod: Pod) -> None:
    # Without PodScheduled=True: scheduling reads the node name instead.
    kept = tuple(
        c
        for c in pod.status.conditions
        if c.type in _KEPT_CONDITIONS and (c.type, c.status) != ("PodScheduled", "True")
    )
    if len(kept) < len(pod.status.conditions):
        force_setattr(pod.status, "conditions", kept)


def _shared_shape(pod: Pod) -> PodShape:
    text = _encoder.encode(pod.spec)
    spec = key = sha256(text).digest()
    resized = _has_resize_state(pod)
    resize = _encoder.encode(_resize_state(pod.status)) if resized else b""
    if resized:
        key = sha256(text + resize).digest()
    shape = _shapes.get(key)
    if shape is None:
        common = replace(pod.spec, **OWN_FIELDS)
        rest = sha256(_encoder.encode(common) + resize).digest()
        try:
            shape = PodShape(pod, is_reported=resized, alike=_alike.get(rest))
        except (QuantityError, SelectorError) as problem:
            raise InvalidPodError(str(problem)) from problem
        _alike.setdefault(rest, shape)
        if resized and not shape.is_resized:
            # The kubelet reports exactly the requests: the shape is that of an unreported pod.
            shape = _shapes.setdefault(spec, shape)
        shape = _shapes.setdefault(key, shape)
    if resized and not shape.is_resized:
        # The kubelet's report equals the requests: drop it, so that pods share their status.
        force_setattr(pod.status, "container_statuses", ())
        force_setattr(pod.status, "init_container_statuses", ())
        force_setattr(pod.status, "resources", None)
        force_setattr(pod.status, "allocated_resources", None)
    return shape


def _shared_kind(pod: Pod, shape: PodShape) -> PodKind:
    meta = pod.metadata
    has_claims = bool(pod.resource_claims)
    own = (id(shape), meta.namespace, meta.labels, meta.owner_references, has_claims)
    annotations = meta.annotations
    stated = (
        () if annotations is NO_ANNOTATIONS or annotations == NO_ANNOTATIONS else (annotations,)
    )
    key = sha256(_encoder.encode((*own, *stated))).digest()
    found = _kinds.get(key)
    if found is None:
        found = PodKind(shape, meta.namespace, meta.labels, meta.owner_references)
        _kinds[key] = found
    return found


def _has_resize_state(pod: Pod) -> bool:
    status = pod.status
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.resources
        or status.allocated_resources
    )


def _resize_state(status: PodStatus) -> PodStatus:
    """Reduce a status to the fields that `pod_requests` reads; others differ between equal pods."""
    return PodStatus(
        conditions=tuple(c for c in status.conditions if c.type == _RESIZE_PENDING),
        container_statuses=status.container_statuses,
        init_container_statuses=status.init_container_statuses,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )
