"""Changes that the cache passes to the snapshot: of nodes that exist, in order.

Invariant: pods are added to, and removed from, nodes that are set. The pods of a node are removed
before the node; no change names a pod of a ghost (a deleted node that still has pods).
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo


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
