"""What the API server says of the device claims of a decided pod as they are written."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from scheduler.api.devices import ResourceClaim
from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.devices.claim_writes import FINALIZER
from scheduler.kernel.engine.events import Event, ObjectRead, ObjectSet

_KIND = "resourceclaims"


def written_claims(pod: PodInfo, catalog: ClaimCatalog) -> Iterator[Event]:
    """Gives answer and watch event of both writes: the finalizer, and then the allocation."""
    for decided in catalog.claims_in_flight(pod.uid):
        status = catalog.claims[decided.key].status
        for version, state in ("2", replace(decided, status=status)), ("3", decided):
            meta = replace(state.metadata, resource_version=version, finalizers=(FINALIZER,))
            written = msgspec.json.encode(replace(state, metadata=meta))
            for event in ObjectRead, ObjectSet:
                yield event(_KIND, msgspec.json.decode(written, type=ResourceClaim))
