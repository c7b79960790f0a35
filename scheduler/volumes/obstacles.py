"""Which claim of a pod keeps it from which nodes, for people: each claim judged on its own."""

from collections.abc import Iterator

import msgspec
import numpy as np

from scheduler.api.pods import PodInfo
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.snapshot import Snapshot
from scheduler.volumes.catalog import VolumeCatalog
from scheduler.volumes.claims import (
    UNBOUND_IMMEDIATE,
    ClaimError,
    claim_names,
    obstacle,
    sorted_claims,
)
from scheduler.volumes.decision import REASONS, VolumeDecision
from scheduler.volumes.reach import Mask
from scheduler.volumes.translation import TranslationError
from scheduler.volumes.zones import OUTSIDE_ZONE, rows_outside, topologies_of


class ClaimObstacle(msgspec.Struct, frozen=True, rename="camel"):
    """What one claim has against some nodes.

    Attributes:
        claim: its name.
        volume: the volume it is bound to, or empty.
        reason: as plugins give it.
        nodes: names, sorted; all nodes where the claim itself is in the way.
    """

    claim: str
    volume: str
    reason: str
    nodes: tuple[str, ...]


def claim_obstacles(
    pod: PodInfo, catalog: VolumeCatalog, snapshot: Snapshot
) -> tuple[ClaimObstacle, ...]:
    """What each claim of the pod, looked at alone, has against nodes."""
    everywhere = snapshot.table.alive
    found = []
    for name in claim_names(pod):
        claim = catalog.claim(name.key)
        problem = obstacle(pod, name, claim)
        if problem is not None or claim is None:
            pairs = [(problem or "", everywhere)]
        else:
            pairs = list(_against(claim, catalog, snapshot))
        volume = claim.volume_name if claim is not None else ""
        for reason, rows in pairs:
            names = [snapshot.table.names[row] for row in np.flatnonzero(rows & everywhere)]
            if names:
                found.append(ClaimObstacle(name.name, volume, reason, tuple(sorted(names))))
    return tuple(found)


def _against(
    claim: PersistentVolumeClaim, catalog: VolumeCatalog, snapshot: Snapshot
) -> Iterator[tuple[str, Mask]]:
    """The reasons against rows."""
    everywhere = snapshot.table.alive
    try:
        claims = sorted_claims((claim,), catalog.classes)
        if claims.immediate:
            yield UNBOUND_IMMEDIATE, everywhere
            return
        bits = VolumeDecision(catalog, claims, snapshot).bits
    except (ClaimError, TranslationError) as problem:
        yield str(problem), everywhere
        return
    for i, reason in enumerate(REASONS):
        yield reason, (bits >> np.uint64(i) & np.uint64(1)).astype(np.bool_)
    volume = catalog.volume(claim.volume_name)
    if volume is not None:
        yield OUTSIDE_ZONE, rows_outside(topologies_of(volume.metadata.labels), snapshot)
