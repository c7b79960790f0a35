"""The extension points that a plugin may implement, in the order in which they run for a pod.

A plugin subclasses the protocols of the points it implements. Decisions are synchronous and pure;
only PreBind, Bind and PostBind may wait for I/O.

Filter and Score exist in two forms. The *column form* answers for many nodes at once on numpy
columns; every in-tree plugin uses it. The *node form* (`NodeFilterPlugin`, `NodeScorePlugin`)
answers for one node at a time. It is meant for plugins in plain Python, and the runtime adapts it.

Source: k8s.io/kube-scheduler framework/interface.go (v0.36).
Differs: `QueueSortPlugin.sort_key` replaces Less, because a key lets a heap compare tuples in C.
"""

from abc import abstractmethod
from collections.abc import Coroutine, Hashable, Sequence
from enum import Flag
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Pod
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ClusterEventWithHint
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.obstacles import Obstacle
from scheduler.kernel.framework.results import (
    Diagnosis,
    PostFilterResult,
    PreFilterResult,
    Reason,
    Write,
)
from scheduler.kernel.framework.status import Status
from scheduler.kernel.framework.types import Excess, QueuedPodInfo
from scheduler.kernel.snapshot import Rows, Snapshot

MAX_NODE_SCORE: Final = 100
MIN_NODE_SCORE: Final = 0

Bits: TypeAlias = NDArray[np.uint64]
"""Per row a set of reasons, bit i standing for `reasons(...)[i]`; 0 where the node fits."""
Scores: TypeAlias = NDArray[np.float64]
"""Per row a score, whole numbers; 0 to 100 once normalised."""


class Reads(Flag):
    """The data on which a column plugin's answer for a node depends, besides the pod's signature.

    The runtime keeps the answers of plugins that read only the row and re-evaluates the rows that
    changed.
    """

    NODE = 1
    """The node object of the row: labels, taints, allocatable, features."""
    SUMS = 2
    """The sums and the number of the pods of the row (and the node object).

    Of the node object an in-tree plugin reads only the amounts of resources: rows with equal
    allocatable amounts and equal sums get equal answers.
    """
    PODS = 2 | 4
    """The pods on the row (and the node object)."""
    IMAGES = 8
    """The images on each node (and the node object)."""
    CLUSTER = 16
    """Any data: the plugin runs again for every pod."""


class Plugin(Protocol):
    """Anything that can be enabled in a profile.

    A class may declare `ARGS`, a msgspec Struct as which the configuration reads its arguments.
    It may declare `WATCHES`, the kinds of objects that it lists or whose changes it receives.
    """

    NAME: ClassVar[str]
    """The name used in configuration, output and metrics."""

    SCHEDULES_GROUPS: ClassVar[bool] = False
    """Whether the engine is to place the pods of a pod group in one step, all or none of them.

    The Permit plugins then decide whether enough pods of the group have a node."""

    patience_seconds: float = 600.0
    """Longest time for one call of PreBind or Bind; a call that takes longer fails the attempt.

    Source: VolumeBindingArgs.bindTimeoutSeconds, the longest wait upstream has at these points.
    """

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        """Make a plugin; the runtime passes both arguments.

        Args:
            args: its arguments: of its `ARGS` type, or as written in the configuration, or None.
            handle: the plugin's access to the rest of the scheduler.
        """
        del args, handle


class EnqueueExtensions(Plugin, Protocol):
    """Registers the events that may make schedulable the pods that this plugin rejected."""

    @abstractmethod
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events; called once at start. A plugin without it registers all events."""


class SignPlugin(Plugin, Protocol):
    """Names the parts of a pod that its row-local answers depend on."""

    @abstractmethod
    def sign(self, pod: PodInfo) -> Hashable | None:
        """Return the parts of the pod that the plugin reads; equal values mean equal answers.

        None means that the plugin's answers for the pod hold for no other pod.
        """

    def signs_under(self) -> Hashable:
        """Return the data other than the pod that `sign` reads, for pods that may need devices.

        Called before each such pod; when the value changes, all are signed anew. It must be quick.
        """
        return None


class PreEnqueuePlugin(Plugin, Protocol):
    """May keep a pod out of the active queue."""

    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Return Success to let the pod become active, or a rejection to gate it."""


class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue."""

    @abstractmethod
    def sort_key(self, queued: QueuedPodInfo) -> Any:
        """Return a key that is smaller for the pod that is popped first."""


class PreFilterPlugin(Plugin, Protocol):
    """Prepares an attempt; may reject the pod, or limit the search to some nodes."""

    @abstractmethod
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        """Return a set of nodes or None, and a status; Skip turns the plugin's Filter off."""


class PreFilterExtensions(Protocol):
    """Updates a plugin's PreFilter state while a trial adds pods to a node or removes them."""

    @abstractmethod
    def add_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, added: PodInfo, row: int
    ) -> Status:
        """Account for `added` as if it ran on the node of the row."""

    @abstractmethod
    def remove_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, removed: PodInfo, row: int
    ) -> Status:
        """Account for `removed` as if it were gone from the node of the row."""


class FilterPlugin(Plugin, Protocol):
    """Column form of Filter."""

    READS: ClassVar[Reads]

    @abstractmethod
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        """Return the reasons that reject each given row; None when no row is rejected."""

    @abstractmethod
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        """The meaning of each bit in this plugin's answers for this pod."""

    def reasons_on(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, row: int
    ) -> Sequence[Reason]:
        """Return `reasons` with the numbers of one node as data; called for `explain` only."""
        del row
        return self.reasons(state, pod, snapshot)

    def reasons_in(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        answer: int,
        row: int | None = None,
    ) -> Sequence[Reason]:
        """Return the reasons that an answer stands for; with `row`, with its numbers as data.

        Plugins that have more reasons than bits override this method.
        """
        if row is None:
            known = self.reasons(state, pod, snapshot)
        else:
            known = self.reasons_on(state, pod, snapshot, row)
        if isinstance(known, Coroutine):
            known.close()
            raise TypeError("is asynchronous where it tells reasons")
        if answer >> len(known):
            raise ValueError(f"has {len(known)} reasons, and rejected for another one")
        return [reason for i, reason in enumerate(known) if answer >> i & 1]

    def obstacles(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Sequence[Obstacle]:
        """Return the obstacles on rows that this filter rejects; not called by attempts.

        The method may read the pods of a few rows; it must read all else from columns.
        """
        del state, pod, snapshot, rows
        return ()

    def excess(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Excess | None:
        """Return the request that exceeds every node even without pods; None if there is none.

        Called when no node fits the pod. With an excess, the queue ignores events of other pods.
        """
        del state, pod, snapshot
        return None


class NodeFilterPlugin(Plugin, Protocol):
    """Node form of Filter."""

    @abstractmethod
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """Whether the node can take the pod."""


class PostFilterPlugin(Plugin, Protocol):
    """Called when no node fits, for instance to preempt."""

    @abstractmethod
    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Return Success when the pod may fit later; Unschedulable when nothing can be done."""


class PreScorePlugin(Plugin, Protocol):
    """Prepares scoring."""

    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Prepare scoring; Skip turns the plugin's Score off.

        `rows` are the feasible nodes for plugins that read the cluster; plugins that read only the
        row must not use them.
        """


class ScorePlugin(Plugin, Protocol):
    """Column form of Score."""

    READS: ClassVar[Reads]

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """Return a score for each given row, before normalisation."""


class NormalizeScorePlugin(Plugin, Protocol):
    """A score plugin whose scores become comparable only by normalisation over all of them."""

    @abstractmethod
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Return the scores of the feasible nodes, scaled to 0 to 100."""


class NodeScorePlugin(Plugin, Protocol):
    """Node form of Score."""

    @abstractmethod
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return the score of the node, 0 to 100."""


class ReservePlugin(Plugin, Protocol):
    """Reserves resources for a pod between the scheduling decision and the binding."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Reserve; after a failure the runtime calls `unreserve` of all Reserve plugins."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Sequence[Write] | None:
        """Undo `reserve`; must be idempotent, and valid without a reservation.

        Returns:
            The writes that undo the reservation in the API server; None for none.
        """


class PermitPlugin(Plugin, Protocol):
    """May reject or delay a pod that has a node."""

    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        """Return Success, Wait with a timeout in seconds, or a rejection."""

    def places_together(self, pod: PodInfo) -> bool:
        """Whether the plugin places the pod together with others, without which it is of no use.

        Preemption evicts such a pod only if no other victim suffices, as the others would run on.
        The answer may depend on the pod's specification, labels and namespace only.
        """
        del pod
        return False


class PreBindPlugin(Plugin, Protocol):
    """Does the work that must precede the binding; may wait for I/O.

    Attributes:
        ALLOW_PARALLEL: whether PreBind runs at the same time as that of its neighbours in the
            profile that allow it too. If one of them fails, the others are cancelled.
            Source: PreBindPreFlightResult.AllowParallel (v1.36.3).
    """

    ALLOW_PARALLEL: ClassVar[bool] = False

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Prepare the binding; any status but Success stops it."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Return Skip when this pod needs no PreBind work; must be quick."""
        del state, pod, node_name
        return Status()

    def only_writes(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        """Whether PreBind, where it is not skipped, waits for nothing but the API server.

        If all PreBind plugins return True, the pod is bound soon: the engine writes no nomination
        to its status beforehand. Must be quick.
        """
        del state, pod, node_name
        return False


class BindPlugin(Plugin, Protocol):
    """Binds pods to nodes."""

    @abstractmethod
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Bind the pod to the node; with Skip, the next Bind plugin runs."""


class PostBindPlugin(Plugin, Protocol):
    """Called when a pod is bound."""

    @abstractmethod
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Clean up, or note the binding."""
