"""Cluster events, by which plugins register for changes that may make pods schedulable.

Source: k8s.io/kube-scheduler framework/types.go ActionType, EventResource, ClusterEvent,
QueueingHint (v0.36); kubernetes pkg/scheduler/framework/events.go (v1.36).
"""

from collections.abc import Callable
from enum import Enum, Flag, auto
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import force_setattr


class ActionType(Flag):
    """The kinds of change to an object; values combine."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    """The taints of a node, or its `spec.unschedulable`."""
    UPDATE_NODE_CONDITION = auto()
    UPDATE_NODE_ANNOTATION = auto()
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = auto()
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
    )
    ALL = ADD | DELETE | UPDATE


class EventResource(Enum):
    """The kind of the object; a registration for POD covers both kinds of pod events."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    """A pod that has a node."""
    UNSCHEDULED_POD = "UnschedulablePod"
    """A pod without a node: the rejected pod itself, or another one that was added or deleted."""
    NODE = "Node"
    NAMESPACE = "Namespace"
    SERVICE = "Service"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    WILDCARD = "*"


class ObjectKind(msgspec.Struct, frozen=True):
    """A kind of object in the API that plugins may watch.

    Attributes:
        kind: its name, such as `Service`.
        api_version: group and version, such as `apps/v1`.
        plural: the name in the path that serves it. Only for kinds that the scheduler does not
            decode itself; plugins get objects of these kinds as plain dictionaries.
    """

    kind: str
    api_version: str = "v1"
    plural: str = ""

    @property
    def group(self) -> str:
        """The API group, such as `apps`; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def event_resource(self) -> "EventResource | ObjectKind":
        """The resource of events about objects of this kind."""
        group = self.group
        try:
            return EventResource(f"{group}/{self.kind}" if group else self.kind)
        except ValueError:
            return self


POD_KIND: Final = ObjectKind("Pod")
NODE_KIND: Final = ObjectKind("Node")
NAMESPACE_KIND: Final = ObjectKind("Namespace")
POD_GROUP_KIND: Final = ObjectKind("PodGroup", "scheduling.k8s.io/v1alpha2")
"""Groups of all APIs: each is read as a `scheduler.api.pod_groups.PodGroup`."""

_PODS: Final = frozenset({EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD})


class ClusterEvent(msgspec.Struct, frozen=True, cache_hash=True):
    """A change in the cluster, or a set of changes that a plugin registers for.

    `resource` may be given as an `ObjectKind`; it is kept as the resource of that kind's events.
    """

    resource: EventResource | ObjectKind
    action: ActionType
    custom_label: str = ""
    label: str = ""
    """The name of the event in metrics and logs, derived from the other fields."""

    def __post_init__(self) -> None:
        resource: object = self.resource
        if isinstance(resource, ObjectKind):
            resource = resource.event_resource
            force_setattr(self, "resource", resource)
        if not isinstance(resource, EventResource | ObjectKind):
            raise TypeError(
                f"resource: expected an EventResource or an ObjectKind, got {resource!r}"
            )
        action: object = self.action
        if not isinstance(action, ActionType):
            raise TypeError(f"action: expected an ActionType, got {action!r}")
        # Computed once: each change of a pod is counted under a label.
        name = resource.value if isinstance(resource, EventResource) else resource.kind
        force_setattr(self, "label", self.custom_label or name + action_name(action))

    @property
    def is_wildcard(self) -> bool:
        """Whether the event concerns every pod in the queue."""
        return self.resource is EventResource.WILDCARD and self.action == ActionType.ALL

    def covers(self, incoming: "ClusterEvent") -> bool:
        """Whether a registration for this event covers the incoming one.

        The registration must name every action of the event. An update without details (`UPDATE`)
        reaches only the plugins that registered for every update. A wildcard with a label covers
        the event of that label only.
        """
        if self.is_wildcard:
            return self.custom_label in ("", incoming.custom_label)
        if self.action & incoming.action != incoming.action:
            return False
        return (
            self.resource == incoming.resource
            or self.resource is EventResource.WILDCARD
            or (self.resource is EventResource.POD and incoming.resource in _PODS)
        )


@cache
def action_name(action: ActionType) -> str:
    """Upstream's name of an action, such as `UpdateNodeLabel`."""
    return "".join(part.capitalize() for part in (action.name or "").split("_"))


ASSIGNED_POD_ADD: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_UPDATE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE)
ASSIGNED_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.ADD)
UNSCHEDULED_POD_UPDATE: Final = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.UPDATE)
UNSCHEDULED_POD_DELETE: Final = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.DELETE)
NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE: Final = ClusterEvent(EventResource.NODE, ActionType.DELETE)
NAMESPACE_ADD: Final = ClusterEvent(EventResource.NAMESPACE, ActionType.ADD)
NAMESPACE_UPDATE: Final = ClusterEvent(EventResource.NAMESPACE, ActionType.UPDATE)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(
    EventResource.WILDCARD, ActionType.ALL, "UnschedulableTimeout"
)
FORCE_ACTIVATE: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ForceActivate")
CONFIGURATION_CHANGED: Final = ClusterEvent(
    EventResource.WILDCARD, ActionType.ALL, "ConfigurationChanged"
)
"""Differs: upstream reads its configuration once."""

SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF_Q: Final = "PopFromBackoffQ"


class QueueingHint(Enum):
    """Whether an event may make a rejected pod schedulable."""

    SKIP = "QueueSkip"
    QUEUE = "Queue"


QueueingHintFn: TypeAlias = Callable[[Any, Any, Any], QueueingHint]
"""`(pod_info, old, new)` → hint. `old` is None for additions, `new` for deletions.

Pod events carry `PodInfo`, other events the object. An exception counts as QUEUE.
"""


class ClusterEventWithHint(msgspec.Struct, frozen=True):
    """An event a plugin registers for, and its queueing hint; without a hint it always queues."""

    event: ClusterEvent
    queueing_hint: QueueingHintFn | None = None
    reads_pod_shape_only: bool = True
    """Whether the hint reads only shape, labels and namespace of the rejected pod. It may also test
    whether the pod is itself the object of the event (same UID).

    The queue calls such a hint once for all rejected pods equal in these. A hint that reads more of
    the pod, such as its name or status, must set False and is called for each pod.
    """


ALL_EVENTS: Final = tuple(
    ClusterEventWithHint(ClusterEvent(resource, ActionType.ALL))
    for resource in EventResource
    if resource
    not in (EventResource.WILDCARD, EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD)
)
"""The registrations of plugins without `events_to_register`: all events."""
