"""Together: the pods of a group are bound when all of them have a node, or none is.

Pods name their group and its size by labels. A pod that has a node is held until as many pods of
its group as the label says have one. When the patience of one of them ends, or it is rejected,
evicted or deleted meanwhile, the others are given back too: no room is kept for half a group.

Extension points: Reserve (to hear of the end), Permit.
Events: another pod of the group is new.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.events import (
    POD_KIND,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    ObjectKind,
    QueueingHint,
)
from scheduler.framework.handle import Handle, SharedState
from scheduler.framework.interface import EnqueueExtensions, PermitPlugin, ReservePlugin
from scheduler.framework.status import SUCCESS, Code, Status, unschedulable

GROUP = "acme.com/group"
SIZE = "acme.com/group-size"


class Group(NamedTuple):
    """What pods wait for each other by."""

    namespace: str
    name: str


class TogetherArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the configuration may say."""

    patience_seconds: Annotated[float, msgspec.Meta(ge=0)] = 60.0
    """How long a pod is held; the scheduler allows for a quarter of an hour at most."""


class Groups(SharedState):
    """Which pods belong together, and which of them have a node: held, being bound or running.

    All of it is worked out from what the scheduler tells, so a scheduler that takes over in the
    middle counts the pods that run already.
    """

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (POD_KIND,)

    def __init__(self) -> None:
        self._members: defaultdict[Group, dict[str, PodInfo]] = defaultdict(dict)
        self._placed: defaultdict[Group, set[str]] = defaultdict(set)

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        if new is None:
            self._forget(old)
            return
        if old is not None and group_of(old) != group_of(new):
            self._forget(old)
        group = group_of(new)
        if group is not None:
            self._members[group][new.uid] = new
            if new.node_name:
                self._placed[group].add(new.uid)

    @override
    def reserve(self, pod: PodInfo, node_name: str) -> None:
        group = group_of(pod)
        if group is not None:
            self._placed[group].add(pod.uid)

    @override
    def unreserve(self, pod: PodInfo, node_name: str) -> None:
        group = group_of(pod)
        if group is not None and group in self._placed:
            self._placed[group].discard(pod.uid)

    @override
    def fork(self) -> "Groups":
        copy = Groups()
        copy._members.update((group, pods.copy()) for group, pods in self._members.items())
        copy._placed.update((group, uids.copy()) for group, uids in self._placed.items())
        return copy

    def placed(self, group: Group) -> int:
        """How many of its pods have a node."""
        return len(self._placed.get(group, ()))

    def members(self, group: Group) -> list[PodInfo]:
        """All of its pods."""
        return list(self._members.get(group, {}).values())

    def without_node(self, group: Group) -> list[PodInfo]:
        """Those of its pods that have none."""
        placed = self._placed.get(group, ())
        return [pod for pod in self.members(group) if pod.uid not in placed]

    def _forget(self, pod: PodInfo) -> None:
        group = group_of(pod)
        if group is None:
            return
        self._members[group].pop(pod.uid, None)
        self._placed[group].discard(pod.uid)
        if not self._members[group]:
            del self._members[group], self._placed[group]


class Together(ReservePlugin, PermitPlugin, EnqueueExtensions):
    """Holds the pods of a group until it is complete."""

    NAME: ClassVar[str] = "Together"
    ARGS: ClassVar[type] = TogetherArgs
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = Groups.WATCHES

    def __init__(self, args: TogetherArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._patience_seconds = args.patience_seconds
        self._handle = handle
        handle.shared(Groups)

    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS

    @override
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """A pod of the group comes to nothing: those that wait for it are not to wait longer."""
        group = group_of(pod)
        if group is None:
            return
        waiting = self._handle.waiting
        for other in self._handle.shared(Groups).members(group):
            if other.uid != pod.uid and waiting.get(other.uid) is not None:
                waiting.reject(other.uid, self.NAME, f"group {group.name} is not complete")

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        group = group_of(pod)
        if group is None:
            return SUCCESS, 0.0
        size = size_of(pod)
        if size is None:
            return unschedulable(f"label {SIZE} must be a number, 1 or more"), 0.0
        groups = self._handle.shared(Groups)
        if groups.placed(group) < size:
            # Others of the group may have been given back before: it is worth another try.
            self._handle.activate(groups.without_node(group))
            return Status(Code.WAIT), self._patience_seconds
        for other in groups.members(group):
            self._handle.waiting.allow(other.uid, self.NAME)
        return SUCCESS, 0.0

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        added = ClusterEvent(EventResource.POD, ActionType.ADD)
        return [ClusterEventWithHint(added, _is_of_the_same_group)]


def group_of(pod: PodInfo) -> Group | None:
    """The group of a pod, if it has one."""
    name = pod.labels.get(GROUP)
    return None if name is None else Group(pod.namespace, name)


def size_of(pod: PodInfo) -> int | None:
    """How many pods the group has; None when the label is no such number."""
    written = pod.labels.get(SIZE, "")
    return int(written) if written.isdecimal() and int(written) else None


def _is_of_the_same_group(pod: PodInfo, _old: PodInfo | None, new: PodInfo) -> QueueingHint:
    is_one = new.uid != pod.uid and group_of(new) == group_of(pod)
    return QueueingHint.QUEUE if is_one else QueueingHint.SKIP
