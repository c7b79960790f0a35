"""Claims and volumes as the API server writes them, and their conversion to the stored form.

A cluster has as many claims and volumes as stateful pods. To save memory, these two kinds are
flattened after decoding, and equal texts are shared.

Source: k8s.io/api core/v1 types.go (v0.36); k8s.io/component-helpers storage/volume (annotations,
class of a claim).
"""

from collections.abc import Mapping
from decimal import Decimal
from sys import intern
from typing import Final

import msgspec

from scheduler.api.objects import (
    AnnotatedMeta,
    LabelSelector,
    NodeSelector,
    ObjectMeta,
    Quantity,
    ResourceAmounts,
    ResourceList,
)
from scheduler.api.quantity import QuantityError, parse
from scheduler.api.storage import (
    FILESYSTEM,
    SELECTED_NODE,
    ClaimReference,
    CSISource,
    InvalidStorageError,
    MigratableSources,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.api.wire import ApiStruct

BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"

_AVAILABLE: Final = "Available"
_LOST: Final = "Lost"
_ZERO: Final = Decimal(0)
_MODE_COUNT: Final = 4
_MAX_AFFINITIES: Final = 20_000
_NO_LABELS: Final[dict[str, str]] = {}
_affinities: dict[NodeSelector, NodeSelector] = {}
_modes: dict[tuple[str, ...], tuple[str, ...]] = {}


class _ClaimSpec(ApiStruct, frozen=True):
    access_modes: tuple[str, ...] = ()
    resources: ResourceAmounts = ResourceAmounts()
    selector: LabelSelector | None = None
    storage_class_name: str = ""
    volume_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class _Status(ApiStruct, frozen=True):
    phase: str = ""


class ClaimWire(ApiStruct, frozen=True):
    """A PersistentVolumeClaim as the API server writes it."""

    metadata: AnnotatedMeta
    spec: _ClaimSpec = _ClaimSpec()
    status: _Status = _Status()


class _VolumeNodeAffinity(ApiStruct, frozen=True):
    required: NodeSelector | None = None


class _VolumeSpec(MigratableSources, frozen=True):
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = msgspec.field(default_factory=dict)
    claim_ref: ClaimReference | None = None
    csi: CSISource | None = None
    node_affinity: _VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class VolumeWire(ApiStruct, frozen=True):
    """A PersistentVolume as the API server writes it."""

    metadata: AnnotatedMeta
    spec: _VolumeSpec = _VolumeSpec()
    status: _Status = _Status()


def claim_from_wire(wire: ClaimWire) -> PersistentVolumeClaim:
    """Convert a claim to the stored form.

    Raises:
        InvalidStorageError: the request is no quantity.
    """
    meta, spec = wire.metadata, wire.spec
    annotations = meta.annotations
    owners = (owner.uid for owner in meta.owner_references if owner.controller)
    return PersistentVolumeClaim(
        metadata=_identity(meta),
        class_name=intern(annotations.get(BETA_CLASS, spec.storage_class_name)),
        volume_name=spec.volume_name,
        selected_node=annotations.get(SELECTED_NODE),
        is_annotated=bool(annotations),
        is_bind_completed=BIND_COMPLETED in annotations,
        is_lost=wire.status.phase == _LOST,
        request=_storage(spec.resources.requests, "spec.resources.requests"),
        access_modes=_shared(spec.access_modes),
        volume_mode=intern(spec.volume_mode or FILESYSTEM),
        attributes_class=intern(spec.volume_attributes_class_name or ""),
        selector=spec.selector,
        controller_uid=next(owners, ""),
    )


def volume_from_wire(wire: VolumeWire) -> PersistentVolume:
    """Convert a volume to the stored form.

    Raises:
        InvalidStorageError: the capacity is no quantity.
    """
    meta, spec = wire.metadata, wire.spec
    return PersistentVolume(
        metadata=_identity(meta, meta.labels),
        class_name=intern(meta.annotations.get(BETA_CLASS, spec.storage_class_name)),
        claim=_reference(spec.claim_ref),
        affinity=_affinity(spec.node_affinity),
        capacity=_storage(spec.capacity, "spec.capacity") or _ZERO,
        access_modes=_shared(spec.access_modes),
        volume_mode=intern(spec.volume_mode or FILESYSTEM),
        attributes_class=intern(spec.volume_attributes_class_name or ""),
        is_available=wire.status.phase == _AVAILABLE,
        is_bound_by_controller=BOUND_BY_CONTROLLER in meta.annotations,
        csi=_csi(spec.csi),
        in_tree=_in_tree(spec),
    )


def _identity(meta: AnnotatedMeta, labels: Mapping[str, str] | None = None) -> ObjectMeta:
    """The metadata without annotations and owners."""
    return ObjectMeta(
        name=meta.name,
        namespace=intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=dict(labels) if labels else _NO_LABELS,
        deletion_timestamp=meta.deletion_timestamp,
    )


def _storage(amounts: Mapping[str, Quantity], place: str) -> Decimal | None:
    written = amounts.get("storage")
    try:
        return None if written is None else parse(written)
    except QuantityError as problem:
        raise InvalidStorageError(f"{place}.storage: {problem}") from problem


def _shared(modes: tuple[str, ...]) -> tuple[str, ...]:
    """Return one tuple per equal list of access modes: four modes make few lists."""
    return _modes.setdefault(modes, modes) if len(modes) <= _MODE_COUNT else modes


def _reference(claim: ClaimReference | None) -> ClaimReference | None:
    if claim is None:
        return None
    return ClaimReference(claim.name, intern(claim.namespace), claim.uid)


def _affinity(written: _VolumeNodeAffinity | None) -> NodeSelector | None:
    """Return one shared object for equal affinities, such as those of the volumes of a zone."""
    if written is None or written.required is None:
        return None
    if len(_affinities) > _MAX_AFFINITIES:
        _affinities.clear()
    return _affinities.setdefault(written.required, written.required)


def _csi(source: CSISource | None) -> CSISource | None:
    return None if source is None else CSISource(intern(source.driver), source.volume_handle)


def _in_tree(spec: _VolumeSpec) -> MigratableSources | None:
    sources = {name: getattr(spec, name) for name in MigratableSources.__struct_fields__}
    if all(source is None for source in sources.values()):
        return None
    return MigratableSources(**sources)
