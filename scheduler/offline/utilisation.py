"""How full a cluster is, by zone."""

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.resources import PODS
from scheduler.snapshot import Snapshot

ZONE_KEY: Final = "topology.kubernetes.io/zone"
NO_ZONE: Final = "(no zone)"
ALL_ZONES: Final = "all"


class Utilisation(msgspec.Struct, frozen=True):
    """Shares of what nodes have that is requested.

    Attributes:
        zones: names; the last one stands for all nodes.
        nodes: how many nodes each has.
        resources: names of the resources that nodes have.
        shares: by zone and resource, 0 to 1 (above when over-committed); NaN where there is none.
    """

    zones: tuple[str, ...]
    nodes: tuple[int, ...]
    resources: tuple[str, ...]
    shares: NDArray[np.float64]


def utilisation_of(snapshot: Snapshot) -> Utilisation:
    """The requested share of every resource in every zone."""
    table = snapshot.table
    rows = table.live_rows()
    zones = [snapshot.node(row).metadata.labels.get(ZONE_KEY, "") for row in rows.tolist()]
    names = sorted(set(zones), key=lambda zone: (not zone, zone))
    has = np.vstack((table.allocatable[:, rows], table.max_pods[rows]))
    takes = np.vstack((table.requested[:, rows], table.pod_count[rows]))
    resources = (*table.resources.values[: len(table.allocatable)], PODS)
    masks = [np.array([zone == name for zone in zones], np.bool_) for name in names]
    masks.append(np.ones(len(rows), np.bool_))
    shown = np.flatnonzero(has.sum(axis=1) > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = [takes[:, mask].sum(axis=1) / has[:, mask].sum(axis=1) for mask in masks]
    matrix = np.array(shares)[:, shown]
    matrix[~np.isfinite(matrix)] = np.nan
    return Utilisation(
        (*(name or NO_ZONE for name in names), ALL_ZONES),
        tuple(int(mask.sum()) for mask in masks),
        tuple(resources[i] for i in shown.tolist()),
        matrix,
    )
