"""NodeDeclaredFeatures: a node must declare the kubelet features that a pod needs.

Extension points: PreFilter, Filter.
Events: a node is added or declares other features; the pod itself is updated.
Source: pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go (v1.36);
k8s.io/component-helpers nodedeclaredfeatures/features (v0.36): the two features there that matter
for scheduling; the rest concern updates of running pods.
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from scheduler.api.objects import Node, PodSpec
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.interface import (
    Bits,
    EnqueueExtensions,
    FilterPlugin,
    PreFilterPlugin,
    Reads,
    SignPlugin,
)
from scheduler.kernel.framework.results import PreFilterResult, Reason
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status
from scheduler.kernel.plugins.columns import Judged
from scheduler.kernel.snapshot import Rows, Snapshot

RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"

REASONS: Final = (
    Reason("node(s) didn't match Pod's required features", Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
)

_LACKING: Final[StateKey[Judged[frozenset[str], np.uint64]]] = StateKey(
    "NodeDeclaredFeatures/lacking"
)


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """Rejects nodes that lack a feature the pod needs."""

    NAME: ClassVar[str] = "NodeDeclaredFeatures"
    READS: ClassVar[Reads] = Reads.NODE

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_changes), is_schedulable_after_node_change
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE),
                is_schedulable_after_pod_update,
            ),
        )

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """The features the pod needs."""
        return required_features(pod.spec)

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        """Skip pods that need no feature."""
        required = required_features(pod.spec)
        if not required:
            return None, SKIP
        state.write(_LACKING, Judged(lambda declared: not required <= declared, np.uint64))
        return None, SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        table = snapshot.table
        return state.read(_LACKING).of(table.feature_sets, table.feature_set[rows])

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return REASONS


def required_features(spec: PodSpec) -> frozenset[str]:
    """The features of the kubelet without which the pod cannot run as specified."""
    required = set()
    if _restarts_all_containers(spec):
        required.add(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        required.add(USER_NAMESPACES_HOST_NETWORK)
    return frozenset(required)


def _restarts_all_containers(spec: PodSpec) -> bool:
    return any(
        rule.action == "RestartAllContainers"
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    )


def is_schedulable_after_node_change(
    pod: PodInfo,  # noqa: ARG001 - hints share a signature
    old: Node | None,
    new: Node,
) -> QueueingHint:
    """Queue if the node is new, or declares other features."""
    changed = old is None or old.status.declared_features != new.status.declared_features
    return QueueingHint.QUEUE if changed else QueueingHint.SKIP


def is_schedulable_after_pod_update(pod: PodInfo, old: PodInfo, new: PodInfo) -> QueueingHint:
    """Queue if the pod itself needs other features than before."""
    if new.uid != pod.uid or required_features(new.spec) == required_features(old.spec):
        return QueueingHint.SKIP
    return QueueingHint.QUEUE
