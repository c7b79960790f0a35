"""The frozen view one scheduling cycle decides on: columns over all nodes, kept up to date.

This room knows neither plugins nor queue nor the API; it takes changes and answers with arrays.
"""

from scheduler.kernel.snapshot.changes import (
    Change,
    NamespaceChanged,
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRelabelled,
    PodRemoved,
    PodUpdated,
)
from scheduler.kernel.snapshot.node_table import Indices, Mask, Rows
from scheduler.kernel.snapshot.snapshot import Snapshot

__all__ = [
    "Change",
    "Indices",
    "Mask",
    "NamespaceChanged",
    "NodeRemoved",
    "NodeSet",
    "PodAdded",
    "PodRelabelled",
    "PodRemoved",
    "PodUpdated",
    "Rows",
    "Snapshot",
]
