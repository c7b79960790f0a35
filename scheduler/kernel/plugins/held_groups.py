"""GangScheduling where its feature gate is off: no member of a pod group is bound alone.

A gang of which only some members run holds resources and does no work. So pods with a
`spec.schedulingGroup` are rejected where groups are not scheduled as a whole. The plugin replaces
`gang_scheduling` in each profile that does not have it: no configuration turns it off.

Extension points: PreFilter, PostFilter.
Events: none; nothing that happens in the cluster turns the gate on.
Source: pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go (v1.36).
Differs: see above; kube-scheduler with its default feature gates ignores the field.
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ClusterEventWithHint
from scheduler.kernel.framework.interface import (
    EnqueueExtensions,
    PostFilterPlugin,
    PreFilterPlugin,
    Reads,
    SignPlugin,
)
from scheduler.kernel.framework.results import Diagnosis, PostFilterResult, PreFilterResult
from scheduler.kernel.framework.status import SKIP, Status, unresolvable, unschedulable
from scheduler.kernel.snapshot import Snapshot

REASON: Final = "pod groups wait for the feature gates GenericWorkload and GangScheduling"


class HeldGroups(PreFilterPlugin, PostFilterPlugin, EnqueueExtensions, SignPlugin):
    """Rejects pods that are members of a group."""

    NAME: ClassVar[str] = "GangScheduling"
    READS: ClassVar[Reads] = Reads.NODE
    """The plugin reads no node; its answer depends on the pod's signature alone."""

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """Whether the pod is a member of a group."""
        return pod.spec.scheduling_group is not None

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        if pod.spec.scheduling_group is None:
            return None, SKIP
        return None, unresolvable(REASON)

    @override
    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Stop PostFilter for a member of a group: evictions cannot make it schedulable."""
        if pod.spec.scheduling_group is None:
            return None, unschedulable()
        return None, unresolvable()
