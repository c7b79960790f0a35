"""The nodes that each volume of a pod excludes, for `explain`: each volume judged on its own."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.api.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim
from scheduler.kernel.snapshot import Mask, Snapshot
from scheduler.kernel.volumes.attachments import OVER_LIMIT, Attached, by_driver
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.claims import (
    UNBOUND_IMMEDIATE,
    ClaimError,
    claim_names,
    obstacle,
    sorted_claims,
)
from scheduler.kernel.volumes.decision import REASONS, VolumeDecision
from scheduler.kernel.volumes.disks import DISK_TAKEN, by_identity, conflict, disks_of
from scheduler.kernel.volumes.in_use import CLAIM_IN_USE
from scheduler.kernel.volumes.translation import TranslationError
from scheduler.kernel.volumes.zones import OUTSIDE_ZONE, rows_outside, topologies_of

MAX_PODS: Final = 5
"""Largest number of conflicting pods named."""
MAX_NODES: Final = 5
"""Largest number of nodes named for each reason."""
MAX_OBSTACLES: Final = 16
"""Largest number of obstacles of one pod."""


class ClaimObstacle(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The nodes that one claim, or disk, of a pod excludes for one reason.

    Attributes:
        claim: the claim's name; empty for a disk that the pod names without a claim.
        volume: the volume that the claim is bound to, or empty; of a disk, its name in the pod.
        reason: the plugin's reason.
        nodes: number of nodes; all nodes if the claim itself is the obstacle.
        examples: the first of these nodes by name.
        driver: the CSI driver whose limit is reached, where that is the reason.
        pods: as `namespace/name`, some of those that hold a volume which the pod wants exclusively.
    """

    claim: str
    volume: str
    reason: str
    nodes: int
    examples: tuple[str, ...]
    driver: str = ""
    pods: tuple[str, ...] = ()


class _Found(msgspec.Struct, frozen=True):
    """A reason against some rows; the rest is as in `ClaimObstacle`."""

    reason: str
    rows: Mask
    driver: str = ""
    pods: tuple[str, ...] = ()


def claim_obstacles(
    pod: PodInfo, catalog: VolumeCatalog, snapshot: Snapshot
) -> tuple[ClaimObstacle, ...]:
    """The first obstacles of the claims and disks of the pod, in the order of its volumes."""
    if not pod.pod.volumes:
        return ()
    catalog.refresh(snapshot)
    return tuple(islice(_obstacles(pod, catalog, snapshot), MAX_OBSTACLES))


def _obstacles(pod: PodInfo, catalog: VolumeCatalog, snapshot: Snapshot) -> Iterator[ClaimObstacle]:
    over = _rows_over_limit(pod, catalog, snapshot)
    table = snapshot.table
    for volume in pod.pod.volumes:
        alone = replace(pod, pod=replace(pod.pod, volumes=(volume,)))
        about, found = ("", volume.name), list(_against_disk(alone, catalog, snapshot))
        for name in claim_names(alone):
            claim = catalog.claim(name.key)
            about = name.name, claim.volume_name if claim is not None else ""
            problem = obstacle(pod, name, claim)
            if problem is not None or claim is None:
                found.append(_Found(problem or "", table.alive))
            else:
                found.extend(_against_claim(claim, catalog, snapshot))
        found.extend(
            _Found(OVER_LIMIT, over[driver], driver)
            for driver in by_driver(_wanted(alone, catalog))
            if driver in over
        )
        for each in found:
            rows = np.flatnonzero(each.rows & table.alive)
            if len(rows):
                nodes = len(rows), table.first_names(rows, MAX_NODES)
                yield ClaimObstacle(*about, each.reason, *nodes, each.driver, each.pods)


def _against_claim(
    claim: PersistentVolumeClaim, catalog: VolumeCatalog, snapshot: Snapshot
) -> Iterator[_Found]:
    everywhere = snapshot.table.alive
    if READ_WRITE_ONCE_POD in claim.access_modes and catalog.in_use.pvc_ref_counts[claim.key]:
        users = catalog.in_use.pods(lambda use: any(n.key == claim.key for n in use.claims))
        yield _Found(CLAIM_IN_USE, everywhere, pods=_keys(users))
    try:
        claims = sorted_claims((claim,), catalog.classes)
        if claims.immediate:
            yield _Found(UNBOUND_IMMEDIATE, everywhere)
            return
        bits = VolumeDecision(catalog, claims, snapshot).bits
    except (ClaimError, TranslationError) as problem:
        yield _Found(str(problem), everywhere)
        return
    for i, reason in enumerate(REASONS):
        yield _Found(reason, (bits >> np.uint64(i) & np.uint64(1)).astype(np.bool_))
    volume = catalog.volume(claim.volume_name)
    if volume is not None:
        topologies = topologies_of(volume.metadata.labels)
        yield _Found(OUTSIDE_ZONE, rows_outside(topologies, snapshot))


def _against_disk(alone: PodInfo, catalog: VolumeCatalog, snapshot: Snapshot) -> Iterator[_Found]:
    disks = by_identity(disks_of(alone.pod.volumes))
    if disks:
        table = snapshot.table
        rows = catalog.in_use.rows_with_conflict(disks, snapshot, table.all_rows)
        # A disk may be held on every node; each of these nodes has a pod to name.
        nodes = table.first_names(np.flatnonzero(rows & table.alive), MAX_PODS)
        holders = [
            use.pod
            for name in nodes
            for use in catalog.in_use.row(table.row_of[name]).pods
            if conflict(disks, disks_of(use.pod.pod.volumes))
        ]
        yield _Found(DISK_TAKEN, rows, pods=_keys(holders))


def _rows_over_limit(pod: PodInfo, catalog: VolumeCatalog, snapshot: Snapshot) -> dict[str, Mask]:
    """By driver, the rows that cannot take all of its volumes that the pod wants."""
    attachments, rows = catalog.attachments, snapshot.table.all_rows
    return {
        driver: attachments.rows_over_limit(dict.fromkeys(volumes), snapshot, rows)
        for driver, volumes in by_driver(_wanted(pod, catalog)).items()
    }


def _wanted(pod: PodInfo, catalog: VolumeCatalog) -> Attached:
    """The attachments of the pod; empty if unresolvable, which its claims' obstacles report."""
    with suppress(LookupError, ValueError):
        return catalog.attachments.wanted(pod)
    return {}


def _keys(pods: Iterable[PodInfo]) -> tuple[str, ...]:
    return tuple(sorted(pod.key for pod in pods)[:MAX_PODS])
