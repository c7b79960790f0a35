"""The snapshot that a scheduling cycle reads: columns over all nodes, kept up to date.

This room uses neither plugins nor queue nor API server; it takes changes and returns arrays.
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
