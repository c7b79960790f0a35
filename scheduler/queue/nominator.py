"""Pods that wait for a node to be cleared for them.

Source: kubernetes pkg/scheduler/backend/queue/nominator.go v1.36. Differs: pods themselves are
kept, not references; an empty nomination is no entry.
"""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from scheduler.api.pods import PodInfo

_NO_PODS: Final[Mapping[str, PodInfo]] = MappingProxyType({})


class Nominator:
    """Nominated pods by node, in order of their nomination.

    Invariant: a pod is nominated to at most one node; no node is kept without pods.
    """

    def __init__(self) -> None:
        self._pods_by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_by_pod: dict[str, str] = {}

    def __len__(self) -> int:
        """How many pods are nominated; 0 spares the filters their second run."""
        return len(self._node_by_pod)

    def __iter__(self) -> Iterator[str]:
        """The names of the nodes that pods are nominated to."""
        return iter(self._pods_by_node)

    def nominated_pods_for_node(self, node_name: str) -> Collection[PodInfo]:
        """The pods nominated to a node, in order of their nomination."""
        return self._pods_by_node.get(node_name, _NO_PODS).values()

    def nominated_pods_before(self, pod: PodInfo) -> dict[str, list[PodInfo]]:
        """By node, the other nominated pods that a pod must leave room for.

        These are the ones of its own priority or higher.

        Source: pkg/scheduler/framework/runtime/framework.go addGENominatedPods.
        """
        priority = pod.priority
        uid = pod.uid
        before = {}
        for node_name, nominated in self._pods_by_node.items():
            pods = [p for p in nominated.values() if p.priority >= priority and p.uid != uid]
            if pods:
                before[node_name] = pods
        return before

    def add_nominated_pod(self, pod: PodInfo, node_name: str | None = None) -> None:
        """Nominate a pod, in place of an earlier nomination.

        Args:
            pod: the pod.
            node_name: the node; empty withdraws the nomination; None takes what the pod's status
                says, and withdraws the nomination when it says nothing.
        """
        self.delete_nominated_pod_if_exists(pod.uid)
        if node_name is None:
            node_name = pod.pod.status.nominated_node_name
        if node_name:
            self._node_by_pod[pod.uid] = node_name
            self._pods_by_node.setdefault(node_name, {})[pod.uid] = pod

    def update_nominated_pod(self, old: PodInfo, new: PodInfo) -> None:
        """Take over a newer version of a pod.

        A nomination made here reaches the API server later than other updates of the pod reach us.
        So an update in which neither version has a nomination leaves ours alone.
        """
        uid = new.uid
        current = self._node_by_pod.get(uid)
        if current is None and not new.pod.status.nominated_node_name:
            return
        if not old.pod.status.nominated_node_name and not new.pod.status.nominated_node_name:
            self.add_nominated_pod(new, current)
        else:
            self.add_nominated_pod(new)

    def delete_nominated_pod_if_exists(self, uid: str) -> None:
        """Withdraw the nomination of a pod, if there is one."""
        node_name = self._node_by_pod.pop(uid, None)
        if node_name is not None:
            pods = self._pods_by_node[node_name]
            del pods[uid]
            if not pods:
                del self._pods_by_node[node_name]

    def validate(self) -> Iterator[str]:
        """What is wrong, in words."""
        by_node = {uid: node_name for node_name, pods in self._pods_by_node.items() for uid in pods}
        if by_node != self._node_by_pod or not all(self._pods_by_node.values()):
            yield "nominations by pod and by node differ"
