"""The frozen view one scheduling cycle decides on: columns over all nodes, kept up to date.

This room knows neither plugins nor queue nor the API; it takes changes and answers with arrays.
"""

from scheduler.snapshot.changes import (
    Change,
    NamespaceChanged,
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRelabelled,
    PodRemoved,
    PodUpdated,
)
from scheduler.snapshot.node_table import Rows
from scheduler.snapshot.snapshot import Snapshot

__all__ = [
    "Change",
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
