"""The changes in an update of a pod or node, as the events that plugins register for.

Source: kubernetes pkg/scheduler/framework/events.go PodSchedulingPropertiesChange,
NodeSchedulingPropertiesChange v1.36. Differs: a node that changes its taints and is made
schedulable again in one update is one event, not the same event twice.
"""

from typing import Final

from scheduler.api.objects import Node, ResourceList
from scheduler.api.pods import PodInfo
from scheduler.api.quantity import QuantityError, parse
from scheduler.api.resources import milli_requests
from scheduler.kernel.framework.events import ActionType, ClusterEvent, EventResource

_POD_ACTIONS: Final = (
    ActionType.UPDATE,
    ActionType.UPDATE_POD_LABEL,
    ActionType.UPDATE_POD_SCALE_DOWN,
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    ActionType.UPDATE_POD_TOLERATION,
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
)
_POD_EVENTS: Final = {
    resource: {action: ClusterEvent(resource, action) for action in _POD_ACTIONS}
    for resource in (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD)
}


def pod_scheduling_properties_change(old: PodInfo, new: PodInfo) -> tuple[ClusterEvent, ...]:
    """The events of a pod's update; a general update when no change with a name is found."""
    assigned = bool(new.node_name)
    events = _POD_EVENTS[EventResource.ASSIGNED_POD if assigned else EventResource.UNSCHEDULED_POD]
    actions = []
    if old.pod.status.resource_claim_statuses != new.pod.status.resource_claim_statuses:
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    elif old.kind is new.kind:
        return (events[ActionType.UPDATE],)
    if old.labels != new.labels:
        actions.append(ActionType.UPDATE_POD_LABEL)
    if _is_scaled_down(old, new):
        actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    # The API allows tolerations to be added only, so comparing their number is enough.
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        actions.append(ActionType.UPDATE_POD_TOLERATION)
    return tuple(events[action] for action in actions or (ActionType.UPDATE,))


def _is_scaled_down(old: PodInfo, new: PodInfo) -> bool:
    """Whether the pod takes less of some resource than before, if only by a thousandth."""
    if old.shape is new.shape:
        return False
    after = milli_requests(new.pod)
    return any(
        name not in after or amount > after[name]
        for name, amount in milli_requests(old.pod).items()
    )


def node_scheduling_properties_change(old: Node, new: Node) -> tuple[ClusterEvent, ...]:
    """The events of a node's update; none if no property that plugins register for changed."""
    actions = []
    if not _same_amounts(old.status.allocatable, new.status.allocatable):
        actions.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_NODE_LABEL)
    opened = old.spec.unschedulable and not new.spec.unschedulable
    if opened or old.spec.taints != new.spec.taints:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if _conditions(old) != _conditions(new):
        actions.append(ActionType.UPDATE_NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        actions.append(ActionType.UPDATE_NODE_ANNOTATION)
    if old.status.declared_features != new.status.declared_features:
        actions.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return tuple(ClusterEvent(EventResource.NODE, action) for action in actions)


def _same_amounts(old: ResourceList, new: ResourceList) -> bool:
    """Whether the amounts are equal, however they are written."""
    if old == new:
        return True
    if old.keys() != new.keys():
        return False
    try:
        return all(parse(amount) == parse(new[name]) for name, amount in old.items())
    except QuantityError:
        return False


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}
