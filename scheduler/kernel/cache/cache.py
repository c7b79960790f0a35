"""Nodes, the pods on them, and the changes since the last update of the snapshot.

Source: kubernetes pkg/scheduler/backend/cache/cache.go v1.36.
Differs: sums over pods are kept by the snapshot only; changes go to it as a list, so that applying
them costs O(changes).
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.cache.states import TRANSITIONS, PodEvent, PodState
from scheduler.kernel.snapshot import (
    Change,
    NamespaceChanged,
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRelabelled,
    PodRemoved,
    PodUpdated,
    Snapshot,
)

MANY_CHANGES: Final = 2048
"""With this many changes `update_snapshot` is due, so that no single call takes long: 10 ms."""


class CacheInvariantError(SchedulerError):
    """A programming error, such as assuming a pod twice."""


class Rebuilt(msgspec.Struct, frozen=True):
    """The result of a rebuild of the snapshot.

    Attributes:
        problem: the exception that a change raised.
        left_out: changes that cannot be applied at all, with their exceptions.
    """

    problem: Exception
    left_out: tuple[tuple[Change, Exception], ...] = ()


class Cache:
    """The nodes, and the pods that run or are assumed to run on them.

    Attributes:
        nodes: nodes by name, ghosts (deleted nodes with pods left) included.
        pods: pods by UID, on the nodes where they run or are assumed to run; for reading.
        namespaces: labels of namespaces, by name.
        changes: changes that the snapshot has not applied; for reading. A new list once it has.
        version: grows with every change of data that plugins read in the snapshot. An update of a
            pod to another version of the same kind does not count.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.version = 0
        self.pods: dict[str, PodInfo] = {}
        self._assumed: set[str] = set()
        """The pods that the API server has not confirmed."""
        self.changes: list[Change] = []

    # --- pods -----------------------------------------------------------------------------------

    def assume_pod(self, pod: PodInfo) -> None:
        """Assume that the pod will run on the node it names.

        Raises:
            CacheInvariantError: the cache has the pod already.
        """
        uid = pod.uid
        self._check(uid, PodEvent.ASSUME)
        self.pods[uid] = pod
        self._assumed.add(uid)
        self._place(pod, uid)

    def forget_pod(self, pod: PodInfo) -> None:
        """Forget an assumed pod; a confirmed pod stays."""
        uid = pod.uid
        if uid in self._assumed:
            self._check(uid, PodEvent.FORGET)
            self._drop(uid)

    def add_pod(self, pod: PodInfo) -> None:
        """Add a pod that the API server shows on a node; confirms an assumed pod.

        If the pod was assumed on another node, it moves to the node that the API server shows.
        """
        self._confirm(pod, PodEvent.ADD)

    def update_pod(self, pod: PodInfo) -> None:
        """Store a newer version of the pod from the API server."""
        self._confirm(pod, PodEvent.UPDATE)

    def remove_pod(self, pod: PodInfo) -> None:
        """Remove a pod that is deleted, or has ended."""
        uid = pod.uid
        if uid in self.pods:
            self._check(uid, PodEvent.REMOVE)
            self._drop(uid)

    def seen_by_snapshot(self, uid: str) -> PodInfo | None:
        """The pod as the snapshot has it, before the changes since its last update.

        Cost: O(changes since the last update).
        """
        for change in self.changes:
            if isinstance(change, PodAdded | PodRemoved) and change.pod.uid == uid:
                return change.pod if isinstance(change, PodRemoved) else None
            if isinstance(change, PodRelabelled) and change.pod.uid == uid:
                return change.old
        return self.pods.get(uid)

    def state_of(self, uid: str) -> PodState:
        """The state of a pod."""
        if uid in self._assumed:
            return PodState.ASSUMED
        return PodState.ADDED if uid in self.pods else PodState.ABSENT

    # --- nodes and namespaces -------------------------------------------------------------------

    def has_node(self, name: str) -> bool:
        """Whether there is a node of this name; a ghost does not count."""
        info = self.nodes.get(name)
        return info is not None and info.node is not None

    def set_node(self, node: Node) -> None:
        """Add a new node, or update a changed node."""
        name = node.metadata.name
        info = self.nodes.get(name) or self._new_node(name)
        returning = info.node is None
        info.node = node
        self._note(NodeSet(info, node))
        if returning:
            self.changes.extend(PodAdded(pod) for pod in info.pods.values())

    def remove_node(self, name: str) -> None:
        """Remove a node; it stays as a ghost while pods still name it."""
        info = self.nodes.get(name)
        if info is None or info.node is None:
            return
        self.changes.extend(PodRemoved(pod) for pod in info.pods.values())
        self._note(NodeRemoved(name))
        info.node = None
        if not info.pods:
            del self.nodes[name]

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Store the labels of a new or changed namespace."""
        self.namespaces[name] = labels
        self._note(NamespaceChanged(name, labels))

    def remove_namespace(self, name: str) -> None:
        """Remove a namespace."""
        self.namespaces.pop(name, None)
        self._note(NamespaceChanged(name, None))

    # --- for others -----------------------------------------------------------------------------

    def update_snapshot(self, snapshot: Snapshot) -> Rebuilt | None:
        """Apply the changes since the last call to the snapshot.

        When a change raises, the snapshot is rebuilt from the cache, so that neither that
        change nor those after it are lost.

        Cost: O(changes).
        """
        if not self.changes:
            snapshot.selector_counts.trim()
            return None
        changes, self.changes = self.changes, []
        try:
            snapshot.update(changes)
        except Exception as problem:  # noqa: BLE001 - a decision on half a change would be wrong
            return self.rebuild(snapshot, problem)
        return None

    def rebuild(self, snapshot: Snapshot, problem: Exception) -> Rebuilt:
        """Rebuild the snapshot from the cache after an error in it."""
        self.version += 1
        self.changes = []
        return Rebuilt(problem, tuple(snapshot.rebuild(self.contents())))

    def contents(self) -> Iterator[Change]:
        """The changes that build a snapshot of the cache."""
        for name, labels in self.namespaces.items():
            yield NamespaceChanged(name, labels)
        for info in self.nodes.values():
            if info.node is not None:
                yield NodeSet(info, info.node)
                yield from map(PodAdded, info.pods.values())

    def node_count(self) -> int:
        """Number of nodes without ghosts."""
        return sum(info.node is not None for info in self.nodes.values())

    def assumed_pods(self) -> list[PodInfo]:
        """Pods that are assumed and not confirmed: the API server has them on no node."""
        return [self.pods[uid] for uid in self._assumed]

    # --- inside ---------------------------------------------------------------------------------

    def _confirm(self, pod: PodInfo, event: PodEvent) -> None:
        uid = pod.uid
        self._check(uid, event)
        old = self.pods.get(uid)
        self.pods[uid] = pod
        if old is None:
            self._place(pod, uid)
            return
        self._assumed.discard(uid)
        if _takes_alike(old, pod):
            info = self.nodes[pod.node_name]
            info.pods[uid] = pod
            if info.node is not None:
                alike = old.kind is pod.kind
                if alike:
                    self.changes.append(PodUpdated(pod))
                else:
                    self._note(PodRelabelled(old, pod))
        else:
            self._take_away(old)
            self._place(pod, uid)

    def _drop(self, uid: str) -> None:
        self._assumed.discard(uid)
        self._take_away(self.pods.pop(uid))

    def _place(self, pod: PodInfo, uid: str) -> None:
        name = pod.pod.node_name
        info = self.nodes.get(name) or self._new_node(name)
        info.pods[uid] = pod
        if info.node is not None:
            self._note(PodAdded(pod))

    def _take_away(self, pod: PodInfo) -> None:
        info = self.nodes[pod.node_name]
        del info.pods[pod.uid]
        if info.node is not None:
            self._note(PodRemoved(pod))
        elif not info.pods:
            del self.nodes[pod.node_name]

    def _note(self, change: Change) -> None:
        self.version += 1
        self.changes.append(change)

    def _new_node(self, name: str) -> NodeInfo:
        info = self.nodes[name] = NodeInfo(name)
        return info

    def _check(self, uid: str, event: PodEvent) -> None:
        state = self.state_of(uid)
        if (state, event) not in TRANSITIONS:
            raise CacheInvariantError(f"pod {uid} is {state.value}: cannot {event.value} it")


def _takes_alike(old: PodInfo, new: PodInfo) -> bool:
    """Whether the snapshot's columns are the same for both versions of a pod, except for labels."""
    return (
        old.node_name == new.node_name
        and old.shape is new.shape
        and old.is_terminating == new.is_terminating
        and old.namespace == new.namespace
    )
