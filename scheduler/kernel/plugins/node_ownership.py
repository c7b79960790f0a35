"""NodeOwnership: pods go only to nodes that belong to this scheduler.

Not enabled by default; kube-scheduler has no such plugin. Two schedulers that bind pods to the same
nodes may assign the same resources twice. With this plugin each has nodes of its own, by labels.
All pods on them count, whichever scheduler bound them. If another scheduler binds a pod to one of
our nodes, the next Reserve reports it by an event about that pod and a metric.

Extension points: Filter, Reserve.
Events: a node is added or its labels change.
"""

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from typing_extensions import override

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import Operator, Requirement
from scheduler.config.args import NodeOwnershipArgs
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import (
    POD_KIND,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    ObjectKind,
    QueueingHint,
)
from scheduler.kernel.framework.handle import Handle, SharedState
from scheduler.kernel.framework.interface import (
    Bits,
    EnqueueExtensions,
    FilterPlugin,
    Reads,
    ReservePlugin,
    SignPlugin,
)
from scheduler.kernel.framework.results import Reason
from scheduler.kernel.framework.status import SUCCESS, Code, Status
from scheduler.kernel.plugins.node_predicates import labels_match, labels_match_node
from scheduler.kernel.snapshot import Rows, Snapshot

REASONS: Final = (
    Reason("node(s) belonged to another scheduler", Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
)
FOREIGN_BINDING: Final = "ForeignBinding"
"""The reason of the event."""
REMEMBERED: Final = 256
"""Largest number of foreign bindings reported per placement: the last ones."""


class ForeignBindings(SharedState):
    """Bindings that other schedulers made, found in watch events.

    A pod that has a node in its first event is left out: its binding may be old, or the pod static.
    Pods of DaemonSets are left out too: no scheduler chooses their node.

    Attributes:
        count: number of such bindings so far.
        own_names: the schedulerNames of pods that this scheduler has assumed.
    """

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (POD_KIND,)

    def __init__(self) -> None:
        self.count = 0
        self.own_names: set[str] = set()
        self._assumed: set[str] = set()
        self._last: deque[tuple[int, PodInfo]] = deque(maxlen=REMEMBERED)

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        if new is None:
            self._assumed.discard(old.uid)
            return
        if not new.node_name:
            return
        is_ours = new.uid in self._assumed
        self._assumed.discard(new.uid)
        is_binding = old is not None and not old.node_name
        if is_binding and not is_ours and not new.is_tied_to_node:
            self.count += 1
            self._last.append((self.count, new))

    @override
    def reserve(self, pod: PodInfo, node_name: str) -> None:
        self.own_names.add(pod.spec.scheduler_name)
        self._assumed.add(pod.uid)

    @override
    def unreserve(self, pod: PodInfo, node_name: str) -> None:
        self._assumed.discard(pod.uid)

    def after(self, number: int) -> Iterator[PodInfo]:
        """The pods of the bindings after a number, without pods of this scheduler's profiles."""
        for each, pod in self._last:
            if each > number and pod.spec.scheduler_name not in self.own_names:
                yield pod

    @override
    def fork(self) -> "ForeignBindings":
        copy = ForeignBindings()
        copy.count, copy.own_names = self.count, self.own_names.copy()
        copy._assumed, copy._last = self._assumed.copy(), self._last.copy()
        return copy


class NodeOwnership(FilterPlugin, ReservePlugin, EnqueueExtensions, SignPlugin):
    """Rejects nodes of other schedulers; reports pods that they bind to nodes of the profile."""

    NAME: ClassVar[str] = "NodeOwnership"
    ARGS: ClassVar[type] = NodeOwnershipArgs
    READS: ClassVar[Reads] = Reads.NODE
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = ForeignBindings.WATCHES

    def __init__(self, args: NodeOwnershipArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle
        self._requirements = tuple(
            Requirement(key, Operator.IN, frozenset((value,)))
            for key, value in args.node_selector.items()
        )
        self._last_reported: int | None = None
        """The number of the last reported binding; None until the first Reserve."""
        self._bindings = handle.metrics.counter(
            "stowage_foreign_bindings_total",
            "Pods that other schedulers bound to nodes of a profile with NodeOwnership.",
            "profile",
        )
        handle.shared(ForeignBindings)

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        event = ClusterEvent(EventResource.NODE, changes)
        return (ClusterEventWithHint(event, self.is_schedulable_after_node_change),)

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """Return no part: the answer depends on the node alone."""
        return ()

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        owned = labels_match(self._requirements, snapshot, rows)
        return None if owned is None or owned.all() else (~owned).astype(np.uint64)

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return REASONS

    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Report foreign bindings since the last Reserve; never rejects."""
        bindings = self._handle.shared(ForeignBindings)
        if self._last_reported is None:
            self._last_reported = bindings.count
        if bindings.count != self._last_reported:
            for foreign in bindings.after(self._last_reported):
                self._report(foreign, pod.spec.scheduler_name)
            self._last_reported = bindings.count
        return SUCCESS

    @override
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """See `ReservePlugin.unreserve`."""

    def is_schedulable_after_node_change(
        self,
        pod: PodInfo,  # noqa: ARG002 - hints share a signature
        old: Node | None,
        new: Node,
    ) -> QueueingHint:
        """Queue if the node belongs to the profile, and did not before or is new."""
        was_ours = old is not None and labels_match_node(self._requirements, old)
        is_ours = labels_match_node(self._requirements, new)
        return QueueingHint.QUEUE if is_ours and not was_ours else QueueingHint.SKIP

    def _report(self, foreign: PodInfo, profile: str) -> None:
        snapshot = self._handle.snapshot
        row = snapshot.table.row_of.get(foreign.node_name)
        if row is None:
            return
        owned = labels_match(self._requirements, snapshot, np.array([row], np.intp))
        if owned is None or owned[0]:
            self._bindings[profile,].inc()
            note = (
                f'{foreign.spec.scheduler_name} bound the pod to node "{foreign.node_name}", '
                f"which belongs to {profile}: both may promise the same room"
            )
            self._handle.record_event(foreign, "Warning", FOREIGN_BINDING, note)
