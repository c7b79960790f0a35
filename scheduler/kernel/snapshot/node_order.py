"""The order in which sampling visits nodes: zones take turns.

Source: kubernetes pkg/scheduler/backend/cache/node_tree.go; component-helpers
node/topology/helpers.go GetZoneKey (v1.36).
"""

from collections.abc import Iterable, Mapping
from itertools import zip_longest

_REGION_KEYS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONE_KEYS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")


def zone_key(labels: Mapping[str, str]) -> str:
    """Region and zone of a node as one text, empty when it has neither."""
    region = next((labels[key] for key in _REGION_KEYS if labels.get(key)), "")
    zone = next((labels[key] for key in _ZONE_KEYS if labels.get(key)), "")
    return f"{region}:\x00:{zone}" if region or zone else ""


def interleaved(rows_and_zones: Iterable[tuple[int, str]]) -> list[int]:
    """The rows with zones taking turns, zones and rows in order of appearance."""
    zones: dict[str, list[int]] = {}
    for row, zone in rows_and_zones:
        zones.setdefault(zone, []).append(row)
    return [row for turn in zip_longest(*zones.values()) for row in turn if row is not None]
