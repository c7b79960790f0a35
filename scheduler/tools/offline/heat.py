"""Computes the data of a heat map: the use of each node, in columns."""

import msgspec
import numpy as np

from scheduler.api.resources import PODS
from scheduler.kernel.snapshot import Snapshot
from scheduler.tools.offline.utilisation import NO_ZONE, ZONE_KEY


class Heat(msgspec.Struct, frozen=True):
    """All nodes, sorted by name.

    Attributes:
        names: the names of the nodes.
        zones: the zones of the nodes, sorted.
        zone: by node, the index of its zone.
        closed: by node, whether it is unschedulable.
        shares: by resource and node, the share of its capacity that is requested, 0 to 1 (more if
            over-committed); None if it has no such resource.
    """

    names: list[str]
    zones: list[str]
    zone: list[int]
    closed: list[bool]
    shares: dict[str, list[float | None]]


def heat_of(snapshot: Snapshot) -> Heat:
    """Return the use of the nodes of a snapshot, without resources that no node has."""
    table = snapshot.table
    rows = np.array(sorted(table.live_rows().tolist(), key=lambda row: table.names[row]), np.intp)
    nodes = [snapshot.node(row) for row in rows.tolist()]
    zone_of = [node.metadata.labels.get(ZONE_KEY) or NO_ZONE for node in nodes]
    zones = sorted(set(zone_of))
    number = {zone: index for index, zone in enumerate(zones)}
    has = np.vstack((table.allocatable[:, rows], table.max_pods[rows]))
    takes = np.vstack((table.requested[:, rows], table.pod_count[rows]))
    resources = (*table.resources.values[: len(table.allocatable)], PODS)
    shares: dict[str, list[float | None]] = {}
    for resource, there, taken in zip(resources, has, takes, strict=True):
        if (there > 0).any():
            share = np.divide(taken, there, out=np.full(len(there), -1.0), where=there > 0)
            shares[resource] = [None if each < 0 else each for each in share.round(4).tolist()]
    return Heat(
        [node.metadata.name for node in nodes],
        zones,
        [number[zone] for zone in zone_of],
        [node.spec.unschedulable for node in nodes],
        shares,
    )
