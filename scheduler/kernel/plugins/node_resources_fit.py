"""NodeResourcesFit: a node must have room for what the pod requests; scores by the room left.

Extension points: PreFilter, Filter, PreScore, Score.
Events: a pod is deleted or takes less than before; a node is added or its allocatable changes; a
device class stands for a resource that it did not stand for.
Source: pkg/scheduler/framework/plugins/noderesources/fit.go, resource_allocation.go (v1.36).
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import ClassVar, Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.devices import DeviceClass
from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo, PodKind
from scheduler.api.quantity import int64
from scheduler.api.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Requests,
    is_extended_resource,
    is_scalar_resource,
    scalar_names,
    whole_units,
)
from scheduler.config.args import NodeResourcesFitArgs
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.devices.class_names import names_of
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    ObjectKind,
    QueueingHint,
)
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    Bits,
    Counting,
    CountingFilterPlugin,
    EnqueueExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Reads,
    Reason,
    ScorePlugin,
    Scores,
    Shortage,
    SignPlugin,
)
from scheduler.kernel.framework.obstacles import Obstacle, ResourceObstacle
from scheduler.kernel.framework.status import SUCCESS, Code, Status
from scheduler.kernel.framework.types import Excess
from scheduler.kernel.plugins.columns import Mask
from scheduler.kernel.plugins.resource_columns import (
    Amounts,
    ResourceColumns,
    amounts_of,
    is_counted,
)
from scheduler.kernel.plugins.resource_scores import Weights, strategy_of
from scheduler.kernel.plugins.resources_of_devices import ResourcesOfDevices, ScoredDevices
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.interning import Interner
from scheduler.kernel.snapshot.pod_kinds import OtherPods

TOO_MANY_PODS: Final = Reason("Too many pods")
HOPELESS: Final = Reason("", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
"""Goes with the others where a request exceeds all that the node has: no preemption can help."""

DEFAULT_ARGS: Final = NodeResourcesFitArgs()


_MAX_BITS: Final = 64
_PODS: Final = 0
"""The line of `TOO_MANY_PODS`; the resources follow, `HOPELESS` is last."""


class FitState(msgspec.Struct, frozen=True, eq=False):
    """What the filter compares for one pod.

    Attributes:
        names: the resources that are looked at.
        columns: those of them that some node offers.
        of_devices: those of them that devices may serve where a node offers none.
        combinations: for a pod that asks for more resources than an answer has bits: the sets of
            reasons found so far, by answer; the first is no reason at all.
    """

    names: tuple[str, ...]
    columns: ResourceColumns
    of_devices: frozenset[str]
    combinations: Interner[bytes] | None

    @property
    def lines(self) -> int:
        """How many reasons there may be."""
        return len(self.names) + 2

    @property
    def lacks_column(self) -> bool:
        """Whether no node offers some of what is asked for, nor can devices serve it."""
        if not self.of_devices:
            return len(self.columns.names) < len(self.names)
        return not self.of_devices.union(self.columns.names).issuperset(self.names)

    def is_checked(self, allocatable: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        """By column and row, whether what is asked for must fit; None where it always must.

        What a device class stands for is no matter of nodes that offer none of it.
        """
        if self.of_devices.isdisjoint(self.columns.names):
            return None
        is_of_devices = [[name in self.of_devices] for name in self.columns.names]
        return ~np.array(is_of_devices) | (allocatable > 0)

    def answers(self, is_full: Mask, is_short: NDArray[np.bool_], is_hopeless: Mask) -> Bits:
        """The reasons by row: no place, too little of which offered resource, no hope."""
        masks = np.ones((self.lines, len(is_full)), np.bool_)
        masks[_PODS] = is_full
        masks[[1 + self.names.index(name) for name in self.columns.names]] = is_short
        masks[
            [1 + self.names.index(name) for name in self.of_devices.difference(self.columns.names)]
        ] = False
        masks[-1] = is_hopeless
        return _bits(masks) if self.combinations is None else _answers(masks, self.combinations)

    def reasons(self) -> tuple[Reason, ...]:
        """Too many pods, then one per resource, then `HOPELESS`."""
        return (TOO_MANY_PODS, *(Reason(f"Insufficient {n}") for n in self.names), HOPELESS)


class ScoreState(msgspec.Struct, frozen=True, eq=False):
    """What the score compares for one pod.

    Attributes:
        names: the resources that some node offers, or devices serve.
        columns: of the former.
        amounts: what the pod asks of each, shape (resources, 1).
        devices: of the latter.
        weights: by resource.
    """

    names: tuple[str, ...]
    columns: ResourceColumns
    amounts: Amounts
    devices: ScoredDevices
    weights: Weights


_FIT: Final[StateKey[FitState]] = StateKey("NodeResourcesFit/fit")
_SCORE: Final[StateKey[ScoreState]] = StateKey("NodeResourcesFit/score")


class _Room(Counting):
    """Counts pods and what they take of the resources that are asked for.

    How much more a row could hold beside the pod is found once: places, then resources.
    """

    def __init__(
        self, fit: FitState, snapshot: Snapshot, rows: NDArray[np.intp], others: OtherPods
    ) -> None:
        table = snapshot.table
        allocatable = fit.columns.allocatable(table, rows)
        self._fit = fit
        free = allocatable - fit.columns.requested(table, rows)
        places = table.max_pods[rows] - table.pod_count[rows]
        exceeds, rest = fit.columns.amounts > allocatable, free - fit.columns.amounts
        checked = fit.is_checked(allocatable)
        if checked is not None:
            exceeds &= checked
            rest[~checked] = np.inf
        self._most = np.vstack((places - 1, rest))
        self._is_hopeless: Mask = np.any(exceeds, axis=0)
        self._is_hopeless |= fit.lacks_column
        taken = [others.column(("occupied", name), _taker(name)) for name in fit.columns.names]
        self.weights = np.array([np.ones(len(others)), *taken])

    @override
    def judge(self, at: Rows, changes: NDArray[np.float64]) -> Bits | None:
        exceeds = changes > self._most[:, at]
        fit = self._fit
        if not (fit.lacks_column or exceeds.any()):
            return None
        return fit.answers(exceeds[0], exceeds[1:], self._is_hopeless[at])

    @override
    def rejects(self, at: Rows, changes: NDArray[np.float64]) -> Mask | None:
        rejected: Mask = np.any(changes > self._most[:, at], axis=0)
        rejected |= self._is_hopeless[at]
        return rejected


class NodeResourcesFit(
    PreFilterPlugin,
    CountingFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    EnqueueExtensions,
    SignPlugin,
):
    """Rejects nodes without room, scores the others by a strategy."""

    NAME: ClassVar[str] = "NodeResourcesFit"
    ARGS: ClassVar[type] = NodeResourcesFitArgs
    READS: ClassVar[Reads] = Reads.SUMS
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = ClaimCatalog.WATCHES

    def __init__(
        self, args: NodeResourcesFitArgs = DEFAULT_ARGS, handle: Handle | None = None
    ) -> None:
        super().__init__(args, handle)
        self._of_devices = ResourcesOfDevices(handle)
        self._ignored_resources = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._strategy = strategy_of(args.scoring_strategy)
        self._weights = [
            (r.name, r.weight) for r in args.scoring_strategy.resources if is_counted(r.name)
        ]

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pod_changes = ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, pod_changes), is_schedulable_after_pod_event
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_changes),
                self._after_node_change,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE),
                is_schedulable_after_class_change,
            ),
        )

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
        return is_schedulable_after_node_change(pod, old, new, self._of_devices.of(pod))

    @override
    def sign(self, pod: PodInfo) -> Hashable | None:
        """What is requested, and what it counts for in scores; None when that is too much."""
        shape = pod.shape
        if len(shape.requests) > _MAX_BITS - 2:
            return None
        asked = frozenset(shape.requests.items()), frozenset(shape.scoring_requests.items())
        of_devices = self._of_devices.of(pod)
        if not of_devices:
            return asked
        # What devices are taken changes, and no node with it.
        is_scored = not of_devices.isdisjoint(name for name, _ in self._weights)
        return None if is_scored else (*asked, of_devices)

    @override
    def signs_under(self) -> Hashable:
        """Which device classes stand for which resources."""
        return self._of_devices.version

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        """Find the columns of what is requested; never skips, as pods are counted as well."""
        requests = pod.shape.requests
        names = [name for name in _in_order(requests) if requests[name] > 0 and self._checks(name)]
        of_devices = self._of_devices.of(pod).intersection(names)
        _prepare_fit(state, pod, snapshot, tuple(names), of_devices)
        return None, SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        fit = state.read(_FIT)
        table = snapshot.table
        if fit.columns.layout is not table.sums.layout:
            fit = _prepare_fit(state, pod, snapshot, fit.names, fit.of_devices)
        columns = fit.columns
        is_full = table.pod_count[rows] >= table.max_pods[rows]
        allocatable = columns.allocatable(table, rows)
        is_short = columns.amounts > allocatable - columns.requested(table, rows)
        checked = fit.is_checked(allocatable)
        if checked is not None:
            is_short &= checked
        oversized = list(columns.oversized_cells(table, rows)) if table.sums.has_oversized else ()
        for line, position, has, taken in oversized:
            asked = pod.shape.requests[columns.names[line]]
            is_short[line, position] = asked > int64(has - int64(taken))
        if not (fit.lacks_column or np.count_nonzero(is_full) or np.count_nonzero(is_short)):
            return None
        exceeds = columns.amounts > allocatable
        for line, position, has, _ in oversized:
            exceeds[line, position] = pod.shape.requests[columns.names[line]] > has
        if checked is not None:
            exceeds &= checked
        is_hopeless: Mask = np.any(exceeds, axis=0)
        is_hopeless |= fit.lacks_column
        return fit.answers(is_full, is_short, is_hopeless)

    @override
    def counting(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: NDArray[np.intp],
        others: OtherPods,
    ) -> Counting:
        fit = state.read(_FIT)
        if fit.columns.layout is not snapshot.table.sums.layout:
            fit = _prepare_fit(state, pod, snapshot, fit.names, fit.of_devices)
        return _Room(fit, snapshot, rows, others)

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return state.read(_FIT).reasons()

    @override
    def reasons_in(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        answer: int,
        row: int | None = None,
    ) -> Sequence[Reason]:
        fit = state.read(_FIT)
        if fit.combinations is None:
            return super().reasons_in(state, pod, snapshot, answer, row)
        packed = np.frombuffer(fit.combinations.values[answer], np.uint8)
        found = np.unpackbits(packed, count=fit.lines)
        known = fit.reasons() if row is None else self.reasons_on(state, pod, snapshot, row)
        return [reason for reason, is_one in zip(known, found, strict=True) if is_one]

    @override
    def reasons_on(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, row: int
    ) -> Sequence[Reason]:
        """How much is missing of what."""
        fit = state.read(_FIT)
        rows, columns = slice(row, row + 1), fit.columns
        has = columns.allocatable(snapshot.table, rows)[:, 0].tolist()
        taken = columns.requested(snapshot.table, rows)[:, 0].tolist()
        offered = {name: (has[i] - taken[i], has[i]) for i, name in enumerate(columns.names)}
        first, *short, last = fit.reasons()
        told = []
        for reason, name in zip(short, fit.names, strict=True):
            asked = float(pod.shape.requests[name])
            data = Shortage(name, asked, *offered.get(name, (0.0, 0.0)))
            told.append(replace(reason, data=data))
        return (first, *told, last)

    @override
    def obstacles(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Sequence[Obstacle]:
        """How much is missing of what; see `FilterPlugin.obstacles`."""
        fit, table = state.read(_FIT), snapshot.table
        columns = ResourceColumns(table, fit.names, pod.shape.requests)
        has, taken = columns.allocatable(table, rows), columns.requested(table, rows)
        offered = {name: (has[i], has[i] - taken[i]) for i, name in enumerate(columns.names)}
        nothing = np.zeros(len(rows))
        places = table.max_pods[rows]
        wanted = [
            (PODS, 1, places, places - table.pod_count[rows]),
            *((n, pod.shape.requests[n], *offered.get(n, (nothing, nothing))) for n in fit.names),
        ]
        found = (
            _obstacle(*each, snapshot, rows)
            for each in wanted
            # Devices say themselves what is in the way.
            if each[0] not in fit.of_devices
        )
        return [each for each in found if each is not None]

    @override
    def excess(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Excess | None:
        fit = state.read(_FIT)
        table, columns = snapshot.table, fit.columns
        if columns.layout is not table.sums.layout or table.sums.has_oversized:
            return None
        requests = pod.shape.requests
        offered = set(columns.names)
        offered |= fit.of_devices
        missing = next((name for name in fit.names if name not in offered), None)
        if missing is not None:
            return Excess(missing, requests[missing])
        if not columns.names:
            return None
        allocatable = columns.allocatable(table, table.all_rows)
        beyond = columns.amounts[:, 0] > allocatable.max(axis=1)
        beyond &= np.array([name not in fit.of_devices for name in columns.names])
        if not beyond.any():
            return None
        name = columns.names[int(beyond.argmax())]
        return Excess(name, requests[name])

    @override
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Find the columns that count in the score; never skips."""
        self._prepare_score(state, pod, snapshot)
        return SUCCESS

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """0 to 100 by the strategy of the profile."""
        prepared = state.get(_SCORE)
        if prepared is None or prepared.columns.layout is not snapshot.table.sums.layout:
            prepared = self._prepare_score(state, pod, snapshot)
        columns, devices = prepared.columns, prepared.devices
        requested = columns.non_zero_requested(snapshot.table, rows)
        allocatable = columns.allocatable(snapshot.table, rows)
        if devices:
            names = prepared.names
            allocatable = columns.spread(names, allocatable)
            requested = columns.spread(names, requested)
            allocatable, requested = devices.added(names, allocatable, requested, rows)
        return self._strategy.score(requested + prepared.amounts, allocatable, prepared.weights)

    def _checks(self, name: str) -> bool:
        """Whether the resource is neither uncounted nor ignored by the profile."""
        if not is_extended_resource(name):
            return is_counted(name)
        group = name.partition("/")[0]
        return name not in self._ignored_resources and group not in self._ignored_groups

    def _prepare_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> ScoreState:
        asked = pod.shape.scoring_requests
        # A scalar resource that the pod does not ask for says nothing about where it should go.
        weights = {
            name: weight
            for name, weight in self._weights
            if asked.get(name) or not is_scalar_resource(name)
        }
        columns = ResourceColumns(snapshot.table, tuple(weights), asked)
        devices = self._of_devices.scored(pod, weights, snapshot)
        names = tuple(name for name in weights if name in columns.names or name in devices)
        amounts = amounts_of(names, asked)
        by_name = Weights([weights[name] for name in names])
        prepared = ScoreState(names, columns, amounts, devices, by_name)
        state.write(_SCORE, prepared)
        return prepared


def is_schedulable_after_pod_event(pod: PodInfo, old: PodInfo, new: PodInfo | None) -> QueueingHint:
    """A pod with a node is gone or takes less of what the pod asks for; or the pod itself does."""
    if new is None:
        held_room = old.node_name or old.pod.status.nominated_node_name
        return QueueingHint.QUEUE if held_room else QueueingHint.SKIP
    if new.uid == pod.uid:
        return QueueingHint.QUEUE
    if not new.node_name:
        return QueueingHint.SKIP
    before, after = old.shape.occupied, new.shape.occupied
    frees = any(
        before.get(name, 0) > after.get(name, 0)
        for name, amount in pod.shape.occupied.items()
        if amount and is_counted(name)
    )
    return QueueingHint.QUEUE if frees else QueueingHint.SKIP


def is_schedulable_after_class_change(
    pod: PodInfo, old: DeviceClass | None, new: DeviceClass
) -> QueueingHint:
    """The class is new, or stands for another resource, and the pod asks for it."""
    names = set(names_of(new))
    if old is not None:
        names.difference_update(names_of(old))
    helps = not names.isdisjoint(pod.shape.requests)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def is_schedulable_after_node_change(
    pod: PodInfo, old: Node | None, new: Node, of_devices: Collection[str] = ()
) -> QueueingHint:
    """The pod fits the node while that is empty, and the node is new or has more to give.

    Of the resources that devices may serve, a node need offer none.
    """
    requests = {name: a for name, a in pod.shape.requests.items() if a and is_counted(name)}
    now = whole_units(new.status.allocatable)
    served = {name for name in of_devices if name in requests and not now.get(name)}
    if now.get(PODS, 0) < 1 or any(
        a > now.get(name, 0) for name, a in requests.items() if name not in served
    ):
        return QueueingHint.SKIP
    if old is None or served:
        return QueueingHint.QUEUE
    before = whole_units(old.status.allocatable)
    has_more = any(now.get(name, 0) > before.get(name, 0) for name in (PODS, *requests))
    return QueueingHint.QUEUE if has_more else QueueingHint.SKIP


def _obstacle(
    name: str,
    asked: int,
    has: NDArray[np.float64],
    free: NDArray[np.float64],
    snapshot: Snapshot,
    rows: NDArray[np.intp],
) -> ResourceObstacle | None:
    is_short = np.flatnonzero(free < asked)
    if not len(is_short):
        return None
    missing = asked - free[is_short]
    least = missing.min()
    # The first in the order of names, as people look for it.
    nearest = snapshot.table.first_by_name(rows[is_short[missing == least]])
    hopeless = int(np.count_nonzero(has[is_short] < asked))
    return ResourceObstacle(name, len(is_short), asked, int(least), nearest, hopeless)


def _taker(name: str) -> Callable[[PodKind], float]:
    return lambda kind: kind.shape.occupied.get(name, 0)


def _in_order(requests: Requests) -> Iterable[str]:
    """The requested resources in the order in which their reasons are told."""
    core = (name for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if name in requests)
    return (*core, *scalar_names(requests))


def _prepare_fit(
    state: CycleState,
    pod: PodInfo,
    snapshot: Snapshot,
    names: tuple[str, ...],
    of_devices: frozenset[str],
) -> FitState:
    known = state.get(_FIT)
    combinations = None if known is None else known.combinations
    if combinations is None and len(names) + 2 > _MAX_BITS:
        combinations = Interner((bytes((len(names) + 2 + 7) // 8),))
    columns = ResourceColumns(snapshot.table, names, pod.shape.requests)
    prepared = FitState(names, columns, of_devices, combinations)
    state.write(_FIT, prepared)
    return prepared


def _bits(masks: NDArray[np.bool_]) -> Bits:
    """One bit per line, in order."""
    bits: Bits = masks[0].astype(np.uint64)
    for i, mask in enumerate(masks[1:], 1):
        bits |= mask.astype(np.uint64) << np.uint64(i)
    return bits


def _answers(masks: NDArray[np.bool_], combinations: Interner[bytes]) -> Bits:
    """Per row the number of its set of lines."""
    packed = np.packbits(masks, axis=0).T
    distinct, which = np.unique(packed, axis=0, return_inverse=True)
    numbers = [combinations.intern(line.tobytes()) for line in distinct]
    answers: Bits = np.array(numbers, np.uint64)[which.reshape(-1)]
    return answers
