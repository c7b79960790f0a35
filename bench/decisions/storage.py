"""What the API server says of storage once the claims of a decided pod are bound."""

from collections.abc import Iterator

from msgspec.structs import replace

from scheduler.api.objects import ObjectMeta
from scheduler.api.pods import PodInfo
from scheduler.api.storage import ClaimReference, PersistentVolume
from scheduler.kernel.engine.events import Event, ObjectSet
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.claims import claim_names

_NEXT_VERSION = "2"
"""Everything was created in an earlier one."""


def bound_storage(pod: PodInfo, catalog: VolumeCatalog) -> Iterator[Event]:
    """Gives what a watch shows when what is assumed for the pod comes true."""
    for name in claim_names(pod):
        claim = catalog.claim(name.key)
        if claim is None or claim.is_fully_bound:
            continue
        volume = next(iter(catalog.reserved_to(claim)), None)
        if volume is None:
            meta = claim.metadata
            volume = PersistentVolume(
                ObjectMeta(name=f"made-{meta.name}"),
                class_name=claim.class_name,
                claim=ClaimReference(meta.name, meta.namespace, meta.uid),
            )
        yield ObjectSet("persistentvolumes", replace(volume, metadata=_newer(volume.metadata)))
        bound = replace(claim, volume_name=volume.key, is_bind_completed=True, is_annotated=True)
        yield ObjectSet("persistentvolumeclaims", replace(bound, metadata=_newer(claim.metadata)))


def _newer(meta: ObjectMeta) -> ObjectMeta:
    return replace(meta, resource_version=_NEXT_VERSION)
