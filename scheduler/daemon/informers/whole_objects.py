"""Keeps pods and nodes with all their fields, for extenders that receive whole objects.

The engine keeps only the fields that scheduling reads. This module keeps whole objects if an
extender is configured that needs them: pending pods compressed, and nodes encoded. It also keeps
assigned pods if an extender receives victims as whole objects.
"""

import zlib
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.daemon.informers.kinds import NODES, PODS, Kind
from scheduler.daemon.informers.store import Handler
from scheduler.kernel.extender import Extenders, Verb
from scheduler.kernel.extender.bodies import object_body

T = TypeVar("T")

_FAST: Final = 1
"""The zlib level: pods shrink to a third or less at any level."""


class KeptObjects:
    """The whole objects kept for extenders; see `client.extenders.WholeObjects`.

    Args:
        wants_pod: whether a pod, in its present state, is kept.
        keeps_nodes: whether nodes are kept.
        pods: the kind that decodes pods.
    """

    def __init__(
        self,
        wants_pod: Callable[[PodInfo], bool],
        *,
        keeps_nodes: bool,
        pods: Kind[PodInfo] = PODS,
    ) -> None:
        self._wants_pod = wants_pod
        self._keeps_nodes = keeps_nodes
        self._pods_kind = pods
        self._pods: dict[str, bytes] = {}
        self._nodes: dict[str, bytes] = {}
        """Nodes as received, until the first request to an extender that needs them."""
        self._bodies: dict[str, bytes] = {}
        """Nodes as sent to extenders; encoded once for each version of a node."""
        self._node_uids: dict[str, str] = {}
        """The UIDs of the kept nodes, by name."""

    def __len__(self) -> int:
        return len(self._pods) + len(self._nodes) + len(self._bodies)

    @property
    def pods_kind(self) -> Kind[PodInfo]:
        """The kind to watch instead of the given kind of pods; its decoder keeps the bytes."""
        return self._pods_kind.keeping(self._keep_pod)

    @property
    def nodes_kind(self) -> Kind[Node]:
        """The kind to watch instead of `NODES`; its decoder keeps the bytes."""
        return NODES.keeping(self._keep_node) if self._keeps_nodes else NODES

    @property
    def pods_handler(self) -> Handler[PodInfo]:
        """The handler that drops the bytes of deleted pods."""
        return _Gone(lambda pod: self._pods.pop(pod.uid, None))

    @property
    def nodes_handler(self) -> Handler[Node]:
        """The handler that drops the bytes of deleted nodes."""
        return _Gone(self._forget_node)

    def pod(self, uid: str) -> bytes | None:
        """Return a pod as sent to extenders; None if it is not kept."""
        packed = self._pods.get(uid)
        return None if packed is None else zlib.decompress(packed)

    def node(self, name: str) -> bytes | None:
        """Return a node as sent to extenders; None if it is not kept."""
        written = self._nodes.pop(name, None)
        if written is not None:
            self._bodies[name] = object_body(written)
        return self._bodies.get(name)

    def _keep_pod(self, pod: PodInfo, written: bytes) -> None:
        if self._wants_pod(pod):
            self._pods[pod.uid] = zlib.compress(object_body(written), _FAST)
        else:
            self._pods.pop(pod.uid, None)

    def _keep_node(self, node: Node, written: bytes) -> None:
        self._nodes[node.metadata.name] = written
        self._node_uids[node.metadata.name] = node.metadata.uid

    def _forget_node(self, node: Node) -> None:
        # A node that replaces another of its name is kept before the other one is deleted.
        if self._node_uids.get(node.metadata.name) == node.metadata.uid:
            del self._node_uids[node.metadata.name]
            self._nodes.pop(node.metadata.name, None)
            self._bodies.pop(node.metadata.name, None)


class _Gone(Generic[T]):
    """A handler that calls `forget` for deleted objects, and ignores other changes."""

    def __init__(self, forget: Callable[[T], object]) -> None:
        self._forget = forget

    def on_add(self, obj: T) -> None:
        """See `Handler.on_add`."""

    def on_update(self, old: T, new: T) -> None:
        """See `Handler.on_update`."""

    def on_delete(self, obj: T) -> None:
        """See `Handler.on_delete`."""
        self._forget(obj)


def kept_for(extenders: Extenders, pods: Kind[PodInfo]) -> KeptObjects:
    """Build the store of the whole objects that these extenders need."""
    wants_victims = any(
        each.config.preempt_verb and not each.config.node_cache_capable for each in extenders.all
    )
    keeps_nodes = any(
        (each.config.filter_verb or each.config.prioritize_verb)
        and not each.config.node_cache_capable
        for each in extenders.all
    )

    def wants(pod: PodInfo) -> bool:
        if pod.node_name:
            return wants_victims
        # Pods of unknown profiles too: a reloaded configuration may name their profile.
        return bool(extenders.interested_in(pod, *Verb))

    return KeptObjects(wants, keeps_nodes=keeps_nodes, pods=pods)
