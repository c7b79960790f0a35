"""Changes that the cache passes to the snapshot, in order, and the log of the rows they changed.

Invariant: pods are added to, and removed from, nodes that are set. The pods of a node are removed
before the node; no change names a pod of a ghost (a deleted node that still has pods).
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo

_MIN_KEPT: Final = 4096
"""The fewest changes that stay readable."""
_NOTHING: Final = np.zeros(0, np.intp)


class NodeSet(msgspec.Struct, frozen=True, gc=False):
    """The node object is new or has changed.

    Attributes:
        info: the node with its pods, valid from now on.
        node: the object at the time of the change; `info` may be newer when this is read.
    """

    info: NodeInfo
    node: Node


class NodeRemoved(msgspec.Struct, frozen=True, gc=False):
    """The node is gone."""

    name: str


class PodAdded(msgspec.Struct, frozen=True, gc=False):
    """A pod runs, or is assumed to run, on the node it names."""

    pod: PodInfo


class PodRemoved(msgspec.Struct, frozen=True, gc=False):
    """A pod is gone from the node it names."""

    pod: PodInfo


class PodUpdated(msgspec.Struct, frozen=True, gc=False):
    """There is a newer version of a pod, which affects no count."""

    pod: PodInfo


class PodRelabelled(msgspec.Struct, frozen=True, gc=False):
    """The labels of a pod changed, but not its node and resources.

    API servers copy topology labels of the node to a pod when it is bound (since 1.35), so this
    happens once for every pod.

    Attributes:
        old: the pod before.
        pod: the pod after.
    """

    old: PodInfo
    pod: PodInfo


class NamespaceChanged(msgspec.Struct, frozen=True, gc=False):
    """The labels of a namespace; None when it is deleted."""

    name: str
    labels: Mapping[str, str] | None


Change: TypeAlias = (
    NodeSet | NodeRemoved | PodAdded | PodRemoved | PodUpdated | PodRelabelled | NamespaceChanged
)


class RowLog:
    """An append-only list of changed rows with positions that stay valid when it is trimmed.

    Each reader continues from the position that it has read to.

    Attributes:
        position: the position of the next change.
    """

    __slots__ = ("_rows", "position")

    def __init__(self, first: int = 0) -> None:
        """Begin without changes; positions before the first one count as too long ago."""
        self._rows: list[int] = []
        self.position = first

    def append(self, row: int, keep: int) -> None:
        """Note a changed row; at least the last `keep` changes stay readable."""
        rows = self._rows
        rows.append(row)
        self.position += 1
        size = len(rows)
        if size > 2 * keep and size > 2 * _MIN_KEPT:
            self._trim(keep)

    def extend(self, rows: Sequence[int], keep: int) -> None:
        """Note changed rows, in order."""
        self._rows.extend(rows)
        self.position += len(rows)
        self._trim(keep)

    def since(self, position: int) -> NDArray[np.intp] | None:
        """The distinct rows changed since a position; None when that is too long ago."""
        start = position - self.position + len(self._rows)
        if start < 0:
            return None
        if start == len(self._rows):
            return _NOTHING
        rows = self._rows[start:]
        if len(rows) > 1:
            rows = list(dict.fromkeys(rows))
        return np.array(rows, np.intp)

    def _trim(self, keep: int) -> None:
        rows, kept = self._rows, max(_MIN_KEPT, keep)
        if len(rows) > 2 * kept:
            del rows[: len(rows) - kept]
