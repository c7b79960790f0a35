"""The extension points: what a plugin may be asked, in the order a pod meets them.

A plugin subclasses the protocols of the points it implements. Decisions are synchronous and pure;
only PreBind, Bind and PostBind may wait for I/O.

Filter and Score exist in two forms. The *column form* answers for many nodes at once on numpy
columns; every in-tree plugin uses it. The *node form* (`NodeFilterPlugin`, `NodeScorePlugin`)
answers for one node at a time and is meant for plugins that are written in plain Python; the
runtime adapts it.

Source: k8s.io/kube-scheduler framework/interface.go (v0.36).
Differs: `QueueSortPlugin.sort_key` replaces Less, because a key lets a heap compare tuples in C.
"""

from abc import abstractmethod
from collections.abc import Coroutine, Hashable, Mapping, Sequence
from enum import Flag
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Pod, Taint
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import ClusterEventWithHint
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.obstacles import Obstacle
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.framework.types import Excess, QueuedPodInfo
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods

MAX_NODE_SCORE: Final = 100
MIN_NODE_SCORE: Final = 0

Bits: TypeAlias = NDArray[np.uint64]
"""Per row a set of reasons, bit i standing for `reasons(...)[i]`; 0 where the node fits."""
Scores: TypeAlias = NDArray[np.float64]
"""Per row a score, whole numbers; 0 to 100 once normalised."""


class Reads(Flag):
    """What a column plugin's answer for one node depends on, beside the pod's signature.

    The runtime keeps the answers of plugins that read only the row and re-evaluates the rows that
    changed.
    """

    NODE = 1
    """The node object of the row: labels, taints, allocatable, features."""
    SUMS = 2
    """What the pods of the row take together, and their number (and the node object).

    Of the node object an in-tree plugin reads what it offers of resources, and nothing else: rows
    that offer and hold the same get the same answers.
    """
    PODS = 2 | 4
    """What runs on the row (and the node object)."""
    IMAGES = 8
    """Which nodes hold which images (and the node object)."""
    CLUSTER = 16
    """Anything: evaluated anew for every pod."""


class Shortage(msgspec.Struct, frozen=True):
    """A node has too little of a resource. Units: as in the node table."""

    resource: str
    requested: float
    free: float
    allocatable: float


class Untolerated(msgspec.Struct, frozen=True):
    """A node has taints that keep the pod away."""

    taints: tuple[Taint, ...]


class Reason(msgspec.Struct, frozen=True):
    """Why a node is rejected. A reason without a text only raises the code.

    Attributes:
        text: for people; no code reads anything out of it.
        code: how hopeless it is.
        data: what the text is about, in numbers and names, where the plugin has such.
    """

    text: str
    code: Code = Code.UNSCHEDULABLE
    data: Shortage | Untolerated | msgspec.Struct | None = None


class Plugin(Protocol):
    """Anything that can be enabled in a profile.

    A class may declare `ARGS`, a msgspec Struct that its arguments are read as when the
    configuration is, and `WATCHES`, the kinds of objects that it wants to list or hear of.
    """

    NAME: ClassVar[str]
    """The name used in configuration, output and metrics."""

    SCHEDULES_GROUPS: ClassVar[bool] = False
    """Whether the engine is to place the pods of a pod group in one step, all or none of them.

    The Permit plugins then say when enough of them have a place."""

    patience_seconds: float = 600.0
    """How long one call of PreBind or Bind may take; one that takes longer fails the attempt.

    Source: VolumeBindingArgs.bindTimeoutSeconds, the longest wait upstream has at these points.
    """

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        """Every plugin is made with these two.

        Args:
            args: its arguments: of its `ARGS` type, else as they are written, or None.
            handle: the rest of the scheduler.
        """
        del args, handle


class EnqueueExtensions(Plugin, Protocol):
    """Says which events may make pods schedulable that this plugin rejected."""

    @abstractmethod
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The events, asked once at start. A plugin without this method is woken by all events."""


class SignPlugin(Plugin, Protocol):
    """Says which parts of a pod its row-local answers depend on."""

    @abstractmethod
    def sign(self, pod: PodInfo) -> Hashable | None:
        """What of the pod the plugin reads; equal values mean equal answers.

        None means that the pod's answers must not be shared.
        """

    def signs_under(self) -> Hashable:
        """What the plugin reads when it signs pods that may need devices, beside the pods.

        Asked before each of these pods; when it changes, all are signed anew. It must be quick.
        """
        return None


class PreEnqueuePlugin(Plugin, Protocol):
    """May keep a pod out of the active queue."""

    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Success lets the pod become active; a rejection gates it."""


class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue."""

    @abstractmethod
    def sort_key(self, queued: QueuedPodInfo) -> Any:
        """A key that compares smaller for the pod that goes first."""


class PreFilterResult(msgspec.Struct, frozen=True):
    """The only nodes worth looking at; None means all."""

    node_names: frozenset[str] | None = None


NOT_REACHED: Final[StateKey[frozenset[str]]] = StateKey("not reached")
"""The plugins whose PreFilter did not run because an earlier one ended it, if any."""


SKIPPED: Final[StateKey[frozenset[str]]] = StateKey("skipped")
"""The plugins whose PreFilter skipped the pod: they neither filter nor hear of pods tried on."""


class PreFilterPlugin(Plugin, Protocol):
    """Prepares an attempt, may reject the pod or narrow the nodes."""

    @abstractmethod
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        """A node-name set or None, and a status; Skip turns the plugin's Filter off."""


class PreFilterExtensions(Protocol):
    """Keeps a plugin's PreFilter state right while pods are tried on, or taken off, a node."""

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
        """Per given row the reasons that reject it; None when no row is rejected."""

    @abstractmethod
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        """What the bits of this plugin's answers for this pod mean."""

    def reasons_on(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, row: int
    ) -> Sequence[Reason]:
        """The same with the numbers of one node as data; only asked for people."""
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
        """What an answer means, for a row with its numbers as data.

        To be overridden by plugins that have more reasons than bits.
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
        """What stands in the pod's way on rows that this filter rejects; only asked for people.

        May look at the pods of a few rows; everything else is still a question to columns.
        """
        del state, pod, snapshot, rows
        return ()

    def excess(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Excess | None:
        """Why no node could hold the pod even if nothing ran there.

        Asked when the pod fits nowhere; it then waits for nodes only.
        """
        del state, pod, snapshot
        return None


class Counting(Protocol):
    """What one filter counts of other pods, and its verdict if some rows held more, or less, of it.

    Made for one pod, some rows and some kinds of other pods. Each row is a world of its own: what
    comes to it or goes from it is not seen from the other rows.
    """

    weights: NDArray[np.float64]
    """What a pod of each kind adds to each counter. Shape (counters, kinds)."""

    @abstractmethod
    def judge(self, at: Rows, changes: NDArray[np.float64]) -> Bits | None:
        """The reasons that reject rows; None when no row is rejected.

        Args:
            at: which of the rows, by their place among those given.
            changes: by how much the counters of each differ, shape (counters, rows).
        """

    def rejects(self, at: Rows, changes: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        """The rows that `judge` rejects, without the reasons; None when no row is rejected."""
        answer = self.judge(at, changes)
        return None if answer is None else answer != 0


class CountingFilterPlugin(FilterPlugin, Protocol):
    """A filter that other pods change by what they add up to: the column form of AddPod, RemovePod.

    A filter that reads pods and has no such form is asked row by row, on a fork of the snapshot.
    """

    @abstractmethod
    def counting(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: NDArray[np.intp],
        others: OtherPods,
    ) -> Counting:
        """Prepare to judge rows to which pods of the kinds given come, or from which they go."""


class NodeFilterPlugin(Plugin, Protocol):
    """Node form of Filter."""

    @abstractmethod
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """Whether the node can take the pod."""


class Diagnosis(Protocol):
    """Why each node was rejected."""

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """Every plugin that rejected a node or the pod."""
        ...

    def status_of(self, node_name: str) -> Status:
        """The first rejection of one node."""
        ...

    def reason_counts(self) -> Mapping[str, int]:
        """How many nodes each reason rejects."""
        ...


class Write(msgspec.Struct, frozen=True, gc=False, tag=True, omit_defaults=True):
    """A request to the API server that a decision leaves behind; what comes of it, watches tell.

    Attributes:
        method: the HTTP method; PATCH is a strategic merge patch.
        path: of the object.
        body: what JSON can say; None for no body.
    """

    method: str
    path: str
    body: dict[str, Any] | None = None


class Candidate(msgspec.Struct, frozen=True):
    """A node on which the pod would fit once the victims are evicted.

    Attributes:
        node_name: the node.
        victims: the pods to evict, most important first.
        pdb_violations: how many victims violate a PodDisruptionBudget.
    """

    node_name: str
    victims: tuple[PodInfo, ...]
    pdb_violations: int


class PostFilterResult(msgspec.Struct, frozen=True):
    """What is to be done so that the pod may fit later. A decision only: nothing is done yet.

    Attributes:
        nominated_node_name: where the pod is to run; empty withdraws its nomination.
        victims: the pods to evict there, most important first; those that are being deleted
            already are among them, and need nothing more.
        cleared: less important pods that lose their nomination to the same node.
        candidates: the nodes to choose from, the chosen one included; made when read.
        writes: changes to objects by which the pod may fit later. They are sent in any case; the
            other fields count with a Success only.
        needed_at: when the pod needs the room there, in seconds since 1970; others that end before
            may use it. 0: none may.
    """

    nominated_node_name: str = ""
    victims: tuple[PodInfo, ...] = ()
    cleared: tuple[PodInfo, ...] = ()
    candidates: Sequence[Candidate] = ()
    writes: tuple[Write, ...] = ()
    needed_at: float = 0.0


class PostFilterPlugin(Plugin, Protocol):
    """Called when no node fits, for instance to preempt."""

    @abstractmethod
    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Success when the pod may fit later; Unschedulable when nothing can be done."""


class PreScorePlugin(Plugin, Protocol):
    """Prepares scoring."""

    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip turns the plugin's Score off.

        `rows` are the feasible nodes for plugins that read the cluster; plugins that read only the
        row must not look at them.
        """


class ScorePlugin(Plugin, Protocol):
    """Column form of Score."""

    READS: ClassVar[Reads]

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """Per given row a score, before normalisation."""


class NormalizeScorePlugin(Plugin, Protocol):
    """A score plugin whose scores are comparable only after looking at all of them."""

    @abstractmethod
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """The scores of the feasible nodes, brought to 0 to 100."""


class NodeScorePlugin(Plugin, Protocol):
    """Node form of Score."""

    @abstractmethod
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """How good the node is, 0 to 100."""


class ReservePlugin(Plugin, Protocol):
    """Keeps something for a pod between decision and binding."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Reserve; a failure makes all Reserve plugins unreserve."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Sequence[Write] | None:
        """Give back; must bear being called without a reservation.

        Returns:
            What is to be written so that nothing stays behind, if anything.
        """


class PermitPlugin(Plugin, Protocol):
    """May reject or delay a pod that has a node."""

    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        """Success, Wait with a time limit in seconds, or a rejection."""

    def places_together(self, pod: PodInfo) -> bool:
        """Whether a pod is of use only beside others that the plugin places with it.

        Preemption takes such a pod only where no other victim makes room: the others would run on.
        The answer may depend on the pod's specification, labels and namespace only.
        """
        del pod
        return False


class PreBindPlugin(Plugin, Protocol):
    """Does what must be done before the pod is bound (may wait for I/O)."""

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Anything but success stops the binding."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Skip when this pod needs no PreBind work; must be quick."""
        del state, pod, node_name
        return Status()

    def only_writes(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        """Whether PreBind, where it is not skipped, waits for nothing but the API server.

        A pod of which all PreBind plugins say so is about to be bound: its status is not written
        beforehand to say where it is to go. Must be quick.
        """
        del state, pod, node_name
        return False


class BindPlugin(Plugin, Protocol):
    """Binds pods to nodes."""

    @abstractmethod
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Bind; Skip hands the pod to the next Bind plugin."""


class PostBindPlugin(Plugin, Protocol):
    """Told when a pod is bound."""

    @abstractmethod
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Clean up or take note."""
