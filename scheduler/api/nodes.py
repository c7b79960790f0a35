"""Nodes as the engine handles them.

Source of the names: kubernetes pkg/scheduler/framework/types.go (NodeInfo) v1.36.
"""

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo


class NodeInfo:
    """A node and the pods on it. The cache owns and changes it, plugins only read.

    Sums over the pods live in one place, the columns of the snapshot.

    Attributes:
        name: the node's name.
        node: the node, or None for a ghost: a deleted node whose pods are not gone yet.
        pods: the pods on it by UID, assumed ones included, in order of arrival.
        generation: grows with every change.
    """

    __slots__ = ("generation", "name", "node", "pods")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.pods: dict[str, PodInfo] = {}
        self.generation = 0
