"""Storage objects as they are decoded: flat, and equal texts once."""

from typing import Any

import msgspec
import pytest

from scheduler.api.storage import (
    CSIStorageCapacity,
    InvalidStorageError,
    PersistentVolumeClaim,
    checked_capacity,
)
from scheduler.api.storage_wire import ClaimWire, VolumeWire, claim_from_wire, volume_from_wire
from scheduler.daemon.informers.kinds import MalformedObjectError, watched_kind
from scheduler.kernel.framework.events import ObjectKind


def claim(spec: dict[str, Any] | None = None, **metadata: Any) -> PersistentVolumeClaim:
    """A claim as the API server sends it."""
    wire = {"metadata": {"name": "c", "namespace": "ns", **metadata}, "spec": spec or {}}
    return claim_from_wire(msgspec.convert(wire, ClaimWire))


def test_the_beta_annotation_names_the_class_even_when_empty() -> None:
    """It comes before the field."""
    beta = {"volume.beta.kubernetes.io/storage-class": ""}

    assert claim({"storageClassName": "fast"}).class_name == "fast"
    assert claim({"storageClassName": "fast"}, annotations=beta).class_name == ""


def test_what_annotations_say_of_a_claim() -> None:
    """They are read once and not kept."""
    done = {"pv.kubernetes.io/bind-completed": "", "volume.kubernetes.io/selected-node": "n"}
    found = claim({"volumeName": "pv"}, annotations=done)

    assert found.is_fully_bound
    assert found.selected_node == "n"
    assert not claim(annotations=done).is_fully_bound
    assert not claim({"volumeName": "pv"}).is_fully_bound
    assert (found.is_annotated, claim().is_annotated) == (True, False)


def test_the_controller_owns_a_claim() -> None:
    """Other owners do not."""
    owners = [{"uid": "a"}, {"uid": "b", "controller": True}]

    assert claim(ownerReferences=owners).controller_uid == "b"
    assert claim(ownerReferences=owners[:1]).controller_uid == ""


def test_equal_affinities_and_classes_exist_once() -> None:
    """100,000 volumes of three zones need three affinities."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    spec = {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    one, other = (
        volume_from_wire(msgspec.convert({"metadata": {"name": n}, "spec": spec}, VolumeWire))
        for n in "ab"
    )

    assert one.affinity is other.affinity is not None
    assert one.class_name is other.class_name
    assert one.access_modes is other.access_modes
    assert one.metadata.labels is other.metadata.labels


def test_amounts_that_cannot_be_read_are_left_out_at_the_door() -> None:
    """The message names the field."""
    bad = {"resources": {"requests": {"storage": "much"}}}
    with pytest.raises(InvalidStorageError, match=r"spec.resources.requests.storage: 'much'"):
        claim(bad)
    with pytest.raises(MalformedObjectError):
        watched_kind(ObjectKind("PersistentVolumeClaim")).decode(
            msgspec.json.encode({"metadata": {}, "spec": bad})
        )
    with pytest.raises(InvalidStorageError):
        checked_capacity(msgspec.convert({"metadata": {}, "capacity": "x"}, CSIStorageCapacity))


def test_the_largest_volume_is_more_exact_than_the_capacity() -> None:
    """Neither: nobody knows of any room."""
    wire = {"metadata": {}, "capacity": "9Gi", "maximumVolumeSize": "1Gi"}

    assert msgspec.convert(wire, CSIStorageCapacity).limit == 2**30
    assert msgspec.convert({"metadata": {}, "capacity": "1k"}, CSIStorageCapacity).limit == 1000
    assert msgspec.convert({"metadata": {}}, CSIStorageCapacity).limit is None
