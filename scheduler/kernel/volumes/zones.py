"""The zones and regions that volumes lie in, by their labels.

Source: pkg/scheduler/framework/plugins/volumezone/volume_zone.go v1.36;
k8s.io/cloud-provider volume/helpers/zones.go (LabelZonesToSet) v0.36.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from scheduler.api.selectors import Operator, Requirement
from scheduler.kernel.snapshot import Mask, Snapshot
from scheduler.kernel.volumes.translation import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    ZONE_SEPARATOR,
)

OUTSIDE_ZONE: Final = "node(s) had no available volume zone"
TOPOLOGY_KEYS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_SUCCESSORS: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class VolumeTopology(msgspec.Struct, frozen=True, gc=False):
    """A topology label of a volume, as a requirement on nodes."""

    key: str
    values: frozenset[str]


def topologies_of(labels: Mapping[str, str]) -> tuple[VolumeTopology, ...]:
    """The topology labels of a volume as requirements; a list with an empty part is left out."""
    found = []
    for key in TOPOLOGY_KEYS:
        if key in labels:
            values = frozenset(part.strip() for part in labels[key].split(ZONE_SEPARATOR))
            if "" not in values:
                found.append(VolumeTopology(key, values))
    return tuple(found)


def rows_outside(topologies: Iterable[VolumeTopology], snapshot: Snapshot) -> Mask:
    """Per row whether its node violates one of the requirements.

    A node without any zone or region label satisfies all, as in a cluster of one zone.
    """
    size = snapshot.table.size
    inside = np.ones(size, np.bool_)
    for topology in set(topologies):
        has_key, matches = _judged(topology.key, topology.values, snapshot)
        successor = _SUCCESSORS.get(topology.key)
        if successor is not None:
            _, successor_matches = _judged(successor, topology.values, snapshot)
            matches = np.where(has_key, matches, successor_matches)
        inside &= matches
    return ~inside & _is_labelled(snapshot)


def _is_labelled(snapshot: Snapshot) -> Mask:
    labelled = np.zeros(snapshot.table.size, np.bool_)
    for key in TOPOLOGY_KEYS:
        labelled |= snapshot.label_column(key).ids(snapshot.table.size) != 0
    return labelled


def _judged(key: str, values: frozenset[str], snapshot: Snapshot) -> tuple[Mask, Mask]:
    """Per row whether it has the label, and whether it has one of the values."""
    column = snapshot.label_column(key)
    ids = column.ids(snapshot.table.size)
    verdicts = column.verdicts(Requirement(key, Operator.IN, values))
    return ids != 0, verdicts[ids]
