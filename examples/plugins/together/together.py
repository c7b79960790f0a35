"""Together: the pods of a group are bound when all of them have a node, or none is.

Pods name their group and its size by labels. A pod that has a node is held until as many pods of
its group as the label says have one. When the patience of one of them ends, or it is rejected,
evicted or deleted meanwhile, the others are given back too: no room is kept for half a group.

Extension points: Reserve (to hear of the end), Permit.
Events: another pod of the group is new.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from typing_extensions import override

from scheduler.plugin import (
    POD_KIND,
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Code,
    CycleState,
    EnqueueExtensions,
    EventResource,
    Handle,
    ObjectKind,
    PermitPlugin,
    PodInfo,
    QueueingHint,
    ReservePlugin,
    SharedState,
    Status,
    unschedulable,
)

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


class Members:
    """Pods of one group, by what has become of them.

    Attributes:
        placed: UIDs of those that have a node: held, being bound or running.
        held: UIDs of those that wait for the others.
        given_back: those that had a node and lost it, and were not tried again since.
    """

    __slots__ = ("given_back", "held", "placed")

    def __init__(
        self,
        placed: Iterable[str] = (),
        held: Iterable[str] = (),
        given_back: Mapping[str, PodInfo] | None = None,
    ) -> None:
        self.placed = set(placed)
        # In the order in which they came: the same events are to have the same effects.
        self.held = dict.fromkeys(held)
        self.given_back = dict(given_back or {})

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not (self.placed or self.held or self.given_back)


class Groups(SharedState):
    """Which pods of each group have a node, and which wait there for the others.

    Who has a node is worked out from what the scheduler tells, so a scheduler that takes over in
    the middle counts the pods that run already.
    """

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (POD_KIND,)

    def __init__(self) -> None:
        self._groups: defaultdict[Group, Members] = defaultdict(Members)

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        if old is not None and (new is None or group_of(old) != group_of(new)):
            self._forget(old)
        if new is not None and new.node_name:
            self._place(new)

    @override
    def reserve(self, pod: PodInfo, node_name: str) -> None:
        self._place(pod)

    @override
    def unreserve(self, pod: PodInfo, node_name: str) -> None:
        group = group_of(pod)
        # A pod that was deleted is forgotten by then.
        if group is not None and group in self._groups and pod.uid in self._groups[group].placed:
            self._forget(pod)
            self._groups[group].given_back[pod.uid] = pod

    @override
    def fork(self) -> "Groups":
        copy = Groups()
        copy._groups.update(
            (group, Members(of.placed, of.held, of.given_back))
            for group, of in self._groups.items()
        )
        return copy

    def placed(self, group: Group) -> int:
        """How many of its pods have a node."""
        return len(self._groups[group].placed) if group in self._groups else 0

    def hold(self, group: Group, pod: PodInfo) -> list[PodInfo]:
        """A pod waits from now on; answers those that were given back: they are to be tried."""
        members = self._groups[group]
        members.held[pod.uid] = None
        given_back, members.given_back = members.given_back, {}
        return list(given_back.values())

    def release(self, group: Group) -> list[str]:
        """No pod waits any more; answers the UIDs of those that did."""
        if group not in self._groups:
            return []
        members = self._groups[group]
        held, members.held = members.held, {}
        return list(held)

    def _place(self, pod: PodInfo) -> None:
        group = group_of(pod)
        if group is not None:
            self._groups[group].placed.add(pod.uid)
            self._groups[group].given_back.pop(pod.uid, None)

    def _forget(self, pod: PodInfo) -> None:
        group = group_of(pod)
        if group is None or group not in self._groups:
            return
        members = self._groups[group]
        members.placed.discard(pod.uid)
        members.held.pop(pod.uid, None)
        members.given_back.pop(pod.uid, None)
        if members.is_empty:
            del self._groups[group]


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
        if group is not None:
            for uid in self._handle.shared(Groups).release(group):
                self._handle.waiting.reject(uid, self.NAME, f"group {group.name} is not complete")

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
            self._handle.activate(groups.hold(group, pod))
            return Status(Code.WAIT), self._patience_seconds
        for uid in groups.release(group):
            self._handle.waiting.allow(uid, self.NAME)
        return SUCCESS, 0.0

    @override
    def places_together(self, pod: PodInfo) -> bool:
        """A group without one of its pods is of no use: preemption takes others where it can."""
        return group_of(pod) is not None

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
