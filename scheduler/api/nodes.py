"""Nodes with their pods, as the cache holds them.

Source of the names: kubernetes pkg/scheduler/framework/types.go (NodeInfo) v1.36.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec.structs import force_setattr

from scheduler.api.objects import ContainerImage, Node
from scheduler.api.pods import PodInfo
from scheduler.api.quantity import QuantityError
from scheduler.api.resources import PODS, quantity, whole_units


class NodeInfo:
    """A node and the pods on it. The cache owns and changes it; plugins only read it.

    Sums over the pods are in the columns of the snapshot only.

    Attributes:
        name: the node's name.
        node: the node, or None for a ghost: a deleted node that still has pods.
        pods: the pods on it by UID, assumed ones included, in order of arrival.
    """

    __slots__ = ("name", "node", "pods")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.pods: dict[str, PodInfo] = {}


def occupied_by(pods: Iterable[PodInfo]) -> dict[str, str]:
    """Sum the resources that pods occupy on their node, as human-readable quantities."""
    total: Counter[str] = Counter({PODS: 0})
    for pod in pods:
        total.update({**pod.shape.occupied, PODS: 1})
    return {name: quantity(name, amount) for name, amount in total.items() if amount}


class InvalidNodeError(ValueError):
    """A node whose fields cannot be read; the message says which and why."""


def checked_node(node: Node) -> Node:
    """The freshly decoded node, with its images shared between nodes.

    Raises:
        InvalidNodeError: an allocatable quantity does not parse.
    """
    try:
        whole_units(node.status.allocatable)
    except QuantityError as problem:
        raise InvalidNodeError(f"status.allocatable: {problem}") from problem
    if len(_images) > _MAX_SHARED_IMAGES:
        _images.clear()
    shared = tuple(_images.setdefault(image, image) for image in node.status.images)
    force_setattr(node.status, "images", shared)
    return node


_MAX_SHARED_IMAGES: Final = 20_000
_images: dict[ContainerImage, ContainerImage] = {}
