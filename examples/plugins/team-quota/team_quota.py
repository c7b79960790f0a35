"""TeamQuota: no team takes more of the cluster than its quota.

Pods name their team by a label. What a team takes is the sum of the requests of its pods that have
a node: running, being bound or held. A pod that would exceed the quota waits until one of its team
is gone.

Extension points: PreFilter.
Events: a pod of the team is gone, or takes less.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from typing_extensions import override

from scheduler.plugin import (
    POD_KIND,
    SKIP,
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    Handle,
    ObjectKind,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    QueueingHint,
    SharedState,
    Snapshot,
    Status,
    unresolvable,
    whole_units,
)

TEAM = "acme.com/team"


class TeamQuotaArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the configuration may say: per team a quota per resource, as `cpu: "10"`."""

    quotas: dict[str, dict[str, str]]

    def __post_init__(self) -> None:
        """Refuse amounts that cannot be read; the message is shown with the line in the file."""
        self.amounts()

    def amounts(self) -> dict[str, dict[str, int]]:
        """The quotas in whole units: cpu in thousandths of a core, memory in bytes."""
        return {team: whole_units(quota) for team, quota in self.quotas.items()}


class TeamUsage(SharedState):
    """What each team takes.

    Each pod is counted once, by its UID: from its reservation on, or from when the API server first
    tells of it on a node, until the reservation is given back or the pod is gone.

    Attributes:
        used: by team and resource.
    """

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (POD_KIND,)

    def __init__(self) -> None:
        self.used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._counted: dict[str, PodInfo] = {}

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        if new is None:
            self._drop(old.uid)
        elif new.node_name:
            self._drop(new.uid)
            self._count(new)

    @override
    def reserve(self, pod: PodInfo, node_name: str) -> None:
        self._count(pod)

    @override
    def unreserve(self, pod: PodInfo, node_name: str) -> None:
        self._drop(pod.uid)

    @override
    def fork(self) -> "TeamUsage":
        copy = TeamUsage()
        copy.used.update((team, used.copy()) for team, used in self.used.items())
        copy._counted = self._counted.copy()
        return copy

    def _count(self, pod: PodInfo) -> None:
        if TEAM in pod.labels:
            self._counted[pod.uid] = pod
            self.used[pod.labels[TEAM]].update(pod.shape.occupied)

    def _drop(self, uid: str) -> None:
        pod = self._counted.pop(uid, None)
        if pod is not None:
            self.used[pod.labels[TEAM]].subtract(pod.shape.occupied)


class TeamQuota(PreFilterPlugin, EnqueueExtensions):
    """Rejects pods that would exceed the quota of their team."""

    NAME: ClassVar[str] = "TeamQuota"
    ARGS: ClassVar[type] = TeamQuotaArgs
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = TeamUsage.WATCHES

    def __init__(self, args: TeamQuotaArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._quotas = args.amounts()
        self._handle = handle
        # Asked for here, so that it misses nothing; and each time, for it may be that of a fork.
        handle.shared(TeamUsage)

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        team = pod.labels.get(TEAM, "")
        quota = self._quotas.get(team)
        if quota is None:
            return None, SKIP
        used, asked = self._handle.shared(TeamUsage).used[team], pod.shape.requests
        over = [name for name, most in quota.items() if used[name] + asked.get(name, 0) > most]
        if not over:
            return None, SUCCESS
        # Evicting pods of others would not help, so preemption need not try.
        return None, unresolvable(f"team {team} would exceed its quota of {', '.join(over)}")

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        less = ActionType.DELETE | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_SCALE_DOWN
        return [ClusterEventWithHint(ClusterEvent(EventResource.ASSIGNED_POD, less), _is_of_team)]


def _is_of_team(pod: PodInfo, old: PodInfo, _new: PodInfo | None) -> QueueingHint:
    is_one = old.labels.get(TEAM) == pod.labels.get(TEAM)
    return QueueingHint.QUEUE if is_one else QueueingHint.SKIP
