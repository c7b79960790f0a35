"""The utilisation of a cluster, by zone."""

from typing import Final

import msgspec
import numpy as np

from scheduler.api.resources import PODS
from scheduler.kernel.snapshot import Snapshot

ZONE_KEY: Final = "topology.kubernetes.io/zone"
NO_ZONE: Final = "(no zone)"
ALL_ZONES: Final = "all"


class Utilisation(msgspec.Struct, frozen=True):
    """Shares of the nodes' capacity that are requested.

    Attributes:
        nodes: number of nodes by zone; the last entry stands for all nodes.
        shares: by zone and resource, 0 to 1 (above when over-committed); None where there is none.
    """

    nodes: dict[str, int]
    shares: dict[str, dict[str, float | None]]


class UtilisationChange(msgspec.Struct, frozen=True):
    """The share of a resource that is requested, before and after; None if there is none of it."""

    before: float | None
    after: float | None


def utilisation_of(snapshot: Snapshot) -> Utilisation:
    """The requested share of every resource in every zone."""
    table = snapshot.table
    rows = table.live_rows()
    zones = [snapshot.node(row).metadata.labels.get(ZONE_KEY, "") for row in rows.tolist()]
    names = sorted(set(zones), key=lambda zone: (not zone, zone))
    has = np.vstack((table.allocatable[:, rows], table.max_pods[rows]))
    takes = np.vstack((table.requested[:, rows], table.pod_count[rows]))
    resources = (*table.resources.values[: len(table.allocatable)], PODS)
    masks = {name or NO_ZONE: np.array([zone == name for zone in zones]) for name in names}
    masks[ALL_ZONES] = np.ones(len(rows), np.bool_)
    shown = np.flatnonzero(has.sum(axis=1) > 0).tolist()
    shares: dict[str, dict[str, float | None]] = {}
    for zone, mask in masks.items():
        taken, there = takes[:, mask].sum(axis=1).tolist(), has[:, mask].sum(axis=1).tolist()
        shares[zone] = {
            resources[i]: round(taken[i] / there[i], 4) if there[i] else None for i in shown
        }
    return Utilisation({zone: int(mask.sum()) for zone, mask in masks.items()}, shares)


def changed(before: Utilisation, after: Utilisation) -> dict[str, dict[str, UtilisationChange]]:
    """Pair both by zone and resource, for the zones that exist afterwards."""
    return {
        zone: {
            resource: UtilisationChange(before.shares.get(zone, {}).get(resource), share)
            for resource, share in shares.items()
        }
        for zone, shares in after.shares.items()
    }
