"""NodeResourcesFit: a node must have room for the pod's requests; scores by the room left.

Extension points: PreFilter, Filter, PreScore, Score, PlacementScore.
Events: a pod is deleted or takes less than before. A node is added or its allocatable changes. A
device class begins to serve another extended resource.
Source: pkg/scheduler/framework/plugins/noderesources/fit.go, resource_allocation.go (v1.36).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
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
)
from scheduler.config.args import NodeResourcesFitArgs
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.framework.counting import Counting, CountingFilterPlugin
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
    EnqueueExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Scores,
    SignPlugin,
)
from scheduler.kernel.framework.obstacles import Obstacle, ResourceObstacle
from scheduler.kernel.framework.placements import FeasiblePlacements, PlacementScorePlugin
from scheduler.kernel.framework.results import PreFilterResult, Reason, Shortage
from scheduler.kernel.framework.status import SUCCESS, Status
from scheduler.kernel.framework.types import Excess
from scheduler.kernel.plugins.node_resources_fit_hints import (
    is_schedulable_after_class_change,
    is_schedulable_after_node_change,
    is_schedulable_after_pod_event,
)
from scheduler.kernel.plugins.node_resources_fit_state import (
    FIT,
    MAX_BITS,
    FitCounting,
    prepare_fit,
)
from scheduler.kernel.plugins.placement_resource_scores import placement_scores
from scheduler.kernel.plugins.resource_columns import (
    Amounts,
    ResourceColumns,
    amounts_of,
    is_counted,
)
from scheduler.kernel.plugins.resource_scores import Weights, strategy_of
from scheduler.kernel.plugins.resources_of_devices import ResourcesOfDevices, ScoredDevices
from scheduler.kernel.snapshot import Mask, Rows, Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods

DEFAULT_ARGS: Final = NodeResourcesFitArgs()


class ScoreState(msgspec.Struct, frozen=True, eq=False):
    """The input of the score for one pod.

    Attributes:
        names: the resources that some node offers, or devices serve.
        columns: of the resources that nodes offer.
        amounts: the pod's request of each, shape (resources, 1).
        devices: of the resources that devices serve.
        weights: by resource.
    """

    names: tuple[str, ...]
    columns: ResourceColumns
    amounts: Amounts
    devices: ScoredDevices
    weights: Weights


_SCORE: Final[StateKey[ScoreState]] = StateKey("NodeResourcesFit/score")


class NodeResourcesFit(
    PreFilterPlugin,
    CountingFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    PlacementScorePlugin,
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
        # A resource that is listed twice counts twice.
        self._weights: Counter[str] = Counter()
        for resource in args.scoring_strategy.resources:
            if is_counted(resource.name):
                self._weights[resource.name] += resource.weight

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
        """The pod's requests for filter and score; None if too many, or if devices are scored."""
        shape = pod.shape
        if len(shape.requests) > MAX_BITS - 2:
            return None
        asked = frozenset(shape.requests.items()), frozenset(shape.scoring_requests.items())
        of_devices = self._of_devices.of(pod)
        if not of_devices:
            return asked
        # The allocated devices of a node are no part of its row, and change without it.
        is_scored = not of_devices.isdisjoint(self._weights)
        return None if is_scored else (*asked, of_devices)

    @override
    def signs_under(self) -> Hashable:
        """The version of the mapping from device classes to extended resources."""
        return self._of_devices.version

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        """Find the columns of the requested resources; never skips, as pods are counted as well."""
        requests = pod.shape.requests
        names = [name for name in _in_order(requests) if requests[name] > 0 and self._checks(name)]
        of_devices = self._of_devices.of(pod).intersection(names)
        prepare_fit(state, pod, snapshot, tuple(names), of_devices)
        return None, SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        fit = state.read(FIT)
        table = snapshot.table
        if fit.columns.layout is not table.sums.layout:
            fit = prepare_fit(state, pod, snapshot, fit.names, fit.of_devices)
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
        fit = state.read(FIT)
        if fit.columns.layout is not snapshot.table.sums.layout:
            fit = prepare_fit(state, pod, snapshot, fit.names, fit.of_devices)
        return FitCounting(fit, snapshot, rows, others)

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return state.read(FIT).reasons()

    @override
    def reasons_in(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        answer: int,
        row: int | None = None,
    ) -> Sequence[Reason]:
        fit = state.read(FIT)
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
        """The missing amount of each resource that is short."""
        fit = state.read(FIT)
        rows, columns = slice(row, row + 1), fit.columns
        has = columns.allocatable(snapshot.table, rows)[:, 0].tolist()
        taken = columns.requested(snapshot.table, rows)[:, 0].tolist()
        offered = {name: (has[i] - taken[i], has[i]) for i, name in enumerate(columns.names)}
        first, *short, last = fit.reasons()
        with_data = []
        for reason, name in zip(short, fit.names, strict=True):
            asked = float(pod.shape.requests[name])
            data = Shortage(name, asked, *offered.get(name, (0.0, 0.0)))
            with_data.append(replace(reason, data=data))
        return (first, *with_data, last)

    @override
    def obstacles(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Sequence[Obstacle]:
        """The missing amounts by resource; see `FilterPlugin.obstacles`."""
        fit, table = state.read(FIT), snapshot.table
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
            # The obstacles of devices are reported by DynamicResources.
            if each[0] not in fit.of_devices
        )
        return [each for each in found if each is not None]

    @override
    def excess(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Excess | None:
        fit = state.read(FIT)
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
        """Score each row from 0 to 100 by the strategy of the profile."""
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

    @override
    def score_placements(
        self, pods: Sequence[PodInfo], candidates: FeasiblePlacements, snapshot: Snapshot
    ) -> Scores:
        """Score each placement by its utilization, whatever the strategy of the profile."""
        return placement_scores(self._weights, candidates, snapshot)

    def _checks(self, name: str) -> bool:
        """Whether the resource is neither uncounted nor ignored by the profile."""
        if not is_extended_resource(name):
            return is_counted(name)
        group = name.partition("/")[0]
        return name not in self._ignored_resources and group not in self._ignored_groups

    def _prepare_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> ScoreState:
        asked = pod.shape.scoring_requests
        # A scalar resource that the pod does not request must not affect its place.
        weights = {
            name: weight
            for name, weight in self._weights.items()
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
    # The first by name, so that repeated output names the same node.
    nearest = snapshot.table.first_by_name(rows[is_short[missing == least]])
    hopeless = int(np.count_nonzero(has[is_short] < asked))
    return ResourceObstacle(name, len(is_short), asked, int(least), nearest, hopeless)


def _in_order(requests: Requests) -> Iterable[str]:
    """The requested resources in the order of their reasons."""
    core = (name for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if name in requests)
    return (*core, *scalar_names(requests))
