"""What can happen to storage objects while a pod waits, for questions about queueing hints."""

from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.storage import MIGRATED, SIZES, ZONE_LABELS

STORAGE_KINDS = (
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
)


def change_storage(draw: Draw, thing: Object, other: Object) -> None:
    """Change one field that scheduling reads, or one that it does not."""
    match thing["kind"]:
        case "PersistentVolumeClaim":
            thing["spec"]["volumeName"] = "pv-new"
        case "PersistentVolume":
            thing["metadata"]["labels"] = draw.labels(ZONE_LABELS, 0.4)
        case "StorageClass":
            thing.pop("allowedTopologies", None)
            if "allowedTopologies" in other:
                thing["allowedTopologies"] = other["allowedTopologies"]
        case "CSINode":
            _change_csi_node(draw, thing, other)
        case "CSIDriver":
            thing["spec"].pop("storageCapacity", None)
            if draw.maybe(0.6):
                thing["spec"]["storageCapacity"] = draw.maybe(0.5)
        case "CSIStorageCapacity":
            field = draw.pick(("capacity", "maximumVolumeSize"))
            thing.pop(field, None)
            if draw.maybe(0.8):
                thing[field] = draw.pick(SIZES)
        case _:
            thing["status"] = {"attached": draw.maybe(0.5)}


def _change_csi_node(draw: Draw, thing: Object, other: Object) -> None:
    if draw.maybe(0.4):
        thing["metadata"].pop("annotations", None)
        migrated = draw.pick(MIGRATED)
        if migrated:
            thing["metadata"]["annotations"] = {
                "storage.alpha.kubernetes.io/migrated-plugins": migrated
            }
    else:
        thing["spec"] = other["spec"]
