"""DefaultPreemption: less important pods make room for a pod that fits nowhere.

The plugin selects the victims; the engine evicts them and nominates the pod. While evictions are
under way, PreEnqueue gates the pod, so that it does not preempt again.

Extension points: PreEnqueue, PostFilter.
Events: none. The preemption executor releases a gated pod; after that, the events of the plugins
that rejected it requeue it.
Source: kubernetes pkg/scheduler/framework/plugins/defaultpreemption (v1.36).
"""

from collections.abc import Collection, Sequence
from typing import ClassVar, Final, cast

from typing_extensions import override

from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.config.args import DefaultPreemptionArgs
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ClusterEventWithHint, ObjectKind
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    EnqueueExtensions,
    PostFilterPlugin,
    PreEnqueuePlugin,
)
from scheduler.kernel.framework.results import Diagnosis, PostFilterResult
from scheduler.kernel.framework.runtime import diagnosis as runtime
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.status import SUCCESS, Status, unresolvable, unschedulable
from scheduler.kernel.groups import PodGroups
from scheduler.kernel.preemption import Evaluator, Evictions
from scheduler.kernel.preemption.group_victims import (
    HypotheticalCluster,
    PodGroupPostFilterPlugin,
    Search,
    select_victims,
)
from scheduler.kernel.preemption.units import units_below
from scheduler.kernel.preemption.whole_groups import WholeGroups, priority_of
from scheduler.kernel.snapshot import Snapshot
from scheduler.observability.engine_metrics import preemption_attempts

HELD: Final = unresolvable("waiting for the preemption for this pod to be finished")
GROUP_HELD: Final = unresolvable("waiting for the preemption for this pod group to be finished")
NOT_ALONE: Final = unschedulable(
    "preemption: not eligible due to workload aware preemption enabled"
)
MESSAGE_PREFIX: Final = "preemption: "
IN_PLACEMENT: Final = unschedulable(
    "preemption: not eligible due to placement-based pod group scheduling limitation"
)
"""Groups that are tried by placement do not preempt."""
BUDGETS: Final = ObjectKind("PodDisruptionBudget", "policy/v1")


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin, EnqueueExtensions):
    """Selects victims whose eviction makes a pod schedulable."""

    NAME: ClassVar[str] = "DefaultPreemption"
    ARGS: ClassVar[type] = DefaultPreemptionArgs
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (BUDGETS,)

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._handle = handle
        handle.shared(Evictions)
        self._attempts = preemption_attempts(handle.metrics)
        self._evaluator = Evaluator(
            args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        )

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        return HELD if pod.uid in self._handle.shared(Evictions).under_way else SUCCESS

    @override
    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        found = cast("runtime.AttemptDiagnosis", diagnosis)
        if found.reviewed is None:
            self._attempts.inc()
        if found.is_limited:
            return None, IN_PLACEMENT
        result, status = self._evaluator.preempt(
            pod,
            snapshot,
            found,
            budgets=self._handle.lister(BUDGETS),
            nominated=cast("NominatedPods", self._handle.nominator),
            random=self._handle.random,
            whole=self._whole(),
        )
        if not status.reasons:
            return result, status
        return result, Status(status.code, (f"{MESSAGE_PREFIX}{status.message}",))

    def _whole(self) -> WholeGroups | None:
        """The pod groups that are evicted whole; None where pods are evicted one by one."""
        return None


class DefaultPreemptionForGroups(DefaultPreemption, PodGroupPostFilterPlugin):
    """Selects victims for whole pod groups, and evicts groups whole.

    PostFilter selects no victims for a single member; `pod_group_post_filter` selects them for all
    members after the last member was tried. During the evictions, PreEnqueue gates all members.
    """

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (BUDGETS, *PodGroups.WATCHES)

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.shared(PodGroups)

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        if not pod.group_name:
            return super().pre_enqueue(pod)
        known = self._handle.shared(PodGroups).of_pod(pod)
        group = None if known is None else known.group
        is_held = group is not None and group.uid in self._handle.shared(Evictions).under_way
        return GROUP_HELD if is_held else SUCCESS

    @override
    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        if not pod.group_name or cast("runtime.AttemptDiagnosis", diagnosis).is_limited:
            return super().post_filter(state, pod, snapshot, diagnosis)
        self._attempts.inc()
        return None, NOT_ALONE

    @override
    def pod_group_post_filter(
        self,
        group: PodGroup,
        members: Sequence[PodInfo],
        snapshot: Snapshot,
        placed: Collection[PodInfo],
        world: HypotheticalCluster,
    ) -> Search:
        evaluator, whole = self._evaluator, WholeGroups(self._handle.shared(PodGroups))
        evaluator.budgets.refresh(self._handle.lister(BUDGETS))
        priority = priority_of(group)
        units = units_below(priority, snapshot, evaluator.importance, whole, placed)
        return select_victims(members, units, units.violating(evaluator.budgets), world)

    @override
    def _whole(self) -> WholeGroups:
        return WholeGroups(self._handle.shared(PodGroups))
