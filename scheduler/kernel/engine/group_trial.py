"""Places a pod group on a copy of the cluster, as its cycle would place it on the cluster.

This compares placements, and finds the victims of a whole group after all of its members were
tried. The copy does not follow the cluster between steps, so its results may have to be checked
again.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go (podGroupSchedulingPlacementAlgorithm,
runWorkloadAwarePreemption) v1.36.
Differs: a trial for victims ends with the first member that Permit allows.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.devices import AllocationResult
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.engine.algorithm import ScheduleResult
from scheduler.kernel.engine.attempt import Attempt
from scheduler.kernel.engine.cluster_copy import ClusterCopy, EndedPods
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.group_members import (
    COPIED,
    GROUP_FAILS,
    OTHER_FAILS,
    READ,
    SEARCHED,
    GroupStep,
    cost_of_look,
    decides_alike,
)
from scheduler.kernel.extender import Advice, Verb
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.runtime import PluginError
from scheduler.kernel.framework.status import SUCCESS, Code, Status, error, unschedulable
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.preemption.group_victims import (
    GroupVictims,
    PodGroupPostFilterPlugin,
    Search,
    fits_without,
)
from scheduler.kernel.snapshot import PodAdded, PodRemoved

CONSTRAINED: Final = GroupVictims(
    unschedulable(
        "workload aware preemption is not supported for pod groups with scheduling constraints"
    )
)
GROUP_GONE: Final = 'failed to get pod group object: podgroup.scheduling.k8s.io "{}" not found'
CHANGED: Final = GroupVictims(unschedulable("the cluster changed while victims were searched"))
"""The group is tried again after backoff: there may be no event to wake it."""
NOT_ASKED: Final = GroupVictims(
    unschedulable(
        "workload aware preemption is not supported for pods that extenders filter nodes for"
    )
)
"""Differs: upstream asks extenders about each member for every victim that it considers."""

_Placed = tuple[PodInfo, CycleState]
_AT_ONCE: Final = 64
"""Number of placed members that are taken back before other events may run."""
_T = TypeVar("_T")


class GroupTrialResult(msgspec.Struct):
    """The result of placing a group on the copy.

    Attributes:
        hosts: the row of each member; None where it has none.
        status: Success if Permit allows one of the places, or the rejection or error.
    """

    hosts: list[NDArray[np.intp] | None]
    status: Status

    @property
    def placed(self) -> int:
        """Number of members that have a node."""
        return sum(host is not None for host in self.hosts)


class GroupTrial(ClusterCopy):
    """A copy of the cluster in which a group is placed, without effect on the cluster.

    Use it within `trial.tried(...)`, so that plugins see the copy.

    Attributes:
        framework: the group's profile, with columns of its own for this copy.
        parts: the parts of the cluster, each as rows or None for all nodes; a run places the group
            in one of them.
        places: the node of each member, by UID, in the last run that succeeded.
        devices: the allocations of its claims, by UID, in that run.
    """

    def __init__(
        self,
        core: EngineState,
        attempts: Sequence[Attempt],
        step: GroupStep,
        advice: Mapping[str, Advice] = MappingProxyType({}),
        *,
        is_nominated: bool = True,
        pods_end: bool = False,
    ) -> None:
        """Copy the cluster as it is now.

        The attempts are those of the members, in the order of their turns. `advice` has the answers
        of extenders about the nodes for a member, by UID. With `is_nominated`, nominations of the
        members count. With `pods_end`, removed pods count as ended, with their devices and volumes
        free; otherwise only their room on the node is free.

        Cost: O(nodes and pods), with small constants.

        Raises:
            PluginError: a shared state cannot be forked.
        """
        step.spend(COPIED)
        super().__init__(core)
        self._algorithm = core.algorithm
        self._step = step
        self._advice = advice
        # The copy counts as a cluster of its own, so that equal members share columns in it.
        self.world.is_fork = False
        self.framework = attempts[0].framework.beside()
        self._members = [each.queued.pod_info for each in attempts]
        self.parts: Sequence[NDArray[np.intp] | None] = (None,)
        self.places: Mapping[str, str] = {}
        self.devices: Mapping[str, Sequence[AllocationResult]] = {}
        self._given = [(each.pod, each.cycle_state) for each in attempts if each.placed is not None]
        self._ended = EndedPods(self.world, self.states if pods_end else None)
        self._is_nominated = is_nominated

    def tried(self, work: Steps[_T]) -> Steps[_T]:
        """Do work for which plugins see the trial in place of the cluster.

        Before it, the places of members in this attempt are taken back there. Yields at the end of
        each step; the cluster may change meanwhile.
        """

        def steps() -> Steps[_T]:
            yield from self._take_all_back(self._given)
            return (yield from work)

        return self.steps(steps(), lambda: self._step.is_over)

    @property
    def looks(self) -> int:
        """The most searches for a node in one run."""
        return len(self._members) * len(self.parts)

    def read(self, pods: int) -> None:
        """See `GroupWorld`."""
        self._step.spend(1 + pods // READ)

    def remove(self, pods: Sequence[PodInfo]) -> None:
        """See `HypotheticalCluster`."""
        self._step.spend(len(pods))
        self._ended.end(pods)

    def add(self, pods: Sequence[PodInfo]) -> None:
        """See `HypotheticalCluster`."""
        self._step.spend(len(pods))
        self._ended.revive(pods)

    def run(self) -> Steps[Status]:
        """See `HypotheticalCluster`; each step tries one member."""
        tried = GroupTrialResult([], unschedulable(GROUP_FAILS))
        for rows in self.parts:
            tried = yield from self.place(rows)
            if not tried.status.is_rejection:
                break
        if tried.status.is_success:
            names = self.world.table.names
            self.places = {
                pod.uid: names[int(host[0])]
                for pod, host in zip(self._members, tried.hosts, strict=False)
                if host is not None
            }
        return tried.status

    def place(
        self, within: NDArray[np.intp] | None = None, *, all_of_them: bool = False
    ) -> Steps[GroupTrialResult]:
        """Place the members on rows `within` one after the other, then remove them again.

        The run ends with the first member that Permit allows, unless `all_of_them` are wanted.
        """
        placed: list[_Placed] = []
        tried, failing = GroupTrialResult([], unschedulable(GROUP_FAILS)), None
        for pod in self._members:
            if failing is not None and self._decides_alike(failing, pod):
                tried.hosts.append(None)
                continue
            try:
                row, found = self._try(pod, placed, within)
            except PluginError as problem:
                row, found = None, error(f"{OTHER_FAILS}{problem}")
            tried.hosts.append(row)
            failing = pod if found.is_rejection else None
            if found.is_success or found.code is Code.ERROR:
                tried.status = found
            if found.code is Code.ERROR or (found.is_success and not all_of_them):
                break
            yield
        if tried.status.is_success:
            self.devices = self._given_to(placed)
        yield from self._take_all_back(placed)
        return tried

    def _given_to(self, placed: Sequence[_Placed]) -> dict[str, list[AllocationResult]]:
        """The allocations of the claims of placed pods, by UID."""
        catalog = self.states.known(ClaimCatalog)
        found: dict[str, list[AllocationResult]] = {pod.uid: [] for pod, _ in placed}
        for each in () if catalog is None else catalog.in_flight.values():
            allocation = each.claim.status.allocation
            if each.pods[0] in found and allocation is not None:
                found[each.pods[0]].append(allocation)
        return {uid: given for uid, given in found.items() if given}

    def _take_all_back(self, placed: list[_Placed]) -> Steps[None]:
        """Unreserve and remove placed members in reverse order, and restore their nominations."""
        while placed:
            self._take_back([placed.pop() for _ in placed[-_AT_ONCE:]])
            yield

    def _try(
        self, pod: PodInfo, placed: list[_Placed], within: NDArray[np.intp] | None
    ) -> tuple[NDArray[np.intp] | None, Status]:
        """Place a member: Success or Wait of Permit, a rejection, or an error of the group."""
        self._step.spend(cost_of_look(pod))
        framework, advice = self.framework, self._advice.get(pod.uid)
        found = self._algorithm.schedule_pod(
            framework, pod, self.world, self.nominated, within, advice
        )
        if isinstance(found, Failure) and not found.is_rejection:
            return None, error(f"{OTHER_FAILS}{found.message}")
        if not isinstance(found, ScheduleResult):
            return None, unschedulable()
        there, state = pod.on_node(found.suggested_host), found.state
        placed.append((there, state))
        self.world.update([PodAdded(there)])
        self.states.reserved(there)
        self.nominated.delete_nominated_pod_if_exists(pod.uid)
        status = framework.run_reserve_plugins(state, there)
        if status.is_success:
            status, _ = framework.run_permit_plugins(state, there)
        if status.code is Code.WAIT and not framework.is_member(pod):
            # A single pod is tried for its room only, so a wait in Permit counts as success.
            status = SUCCESS
        if status.is_success or status.code is Code.WAIT:
            return np.array([found.row], np.intp), status
        self._take_back([placed.pop()])
        failed = status if status.is_rejection else error(f"{OTHER_FAILS}{status.message}")
        return None, failed

    def _take_back(self, placed: Sequence[_Placed]) -> None:
        self._step.spend(len(placed))
        for pod, state in placed:
            self.framework.run_unreserve_plugins(state, pod)
            self.states.unreserved(pod)
        # The node of a member may have been deleted since.
        nodes = self.world.table.row_of
        self.world.update([PodRemoved(pod) for pod, _ in placed if pod.node_name in nodes])
        for pod, _ in placed if self._is_nominated else ():
            self.nominated.nominate(pod)

    def _decides_alike(self, first: PodInfo, second: PodInfo) -> bool:
        is_asked = first.uid in self._advice or second.uid in self._advice
        return not is_asked and decides_alike(self.framework, first, second)


# --- preemption -----------------------------------------------------------------------------------


def find_victims(
    core: EngineState, step: GroupStep, group: PodGroup | None, members: Sequence[Attempt]
) -> Steps[GroupVictims | None]:
    """Find the victims of a group that does not fit; None if its members preempt one by one.

    Without the object of the group, the outcome is an error: its priority is not known.

    Some members may be assumed on a node. The search takes as many steps as it needs. If the
    cluster has changed meanwhile, a new copy must confirm that the group fits without the victims,
    and not with them. Otherwise no victim is evicted, and the group is retried.

    Raises:
        PluginError: a shared state cannot be forked.
    """
    plugins = members[0].framework.plugins
    plugin: PodGroupPostFilterPlugin | None = plugins.post_filter_as(PodGroupPostFilterPlugin)
    if plugin is None:
        return None
    if group is None or group.topology_key:
        gone = GROUP_GONE.format(members[0].pod.group_name)
        return GroupVictims(error(gone)) if group is None else CONSTRAINED
    if step.is_over:
        yield
    attempts = [each for each in members if not each.has_left]
    if not attempts:
        return CHANGED
    if any(core.extenders.interested_in(each.pod, Verb.FILTER) for each in attempts):
        return NOT_ASKED
    step.spend(SEARCHED)
    pods = [each.queued.pod_info for each in attempts]
    placed = [each.placed for each in attempts if each.placed is not None]
    trial, version = GroupTrial(core, attempts, step), core.cluster_version
    search = plugin.pod_group_post_filter(group, pods, core.snapshot, placed, trial)
    found = yield from trial.tried(search)
    if not found.victims or core.cluster_version == version:
        return found
    return (yield from _still_right(core, step, members, found))


def _still_right(
    core: EngineState, step: GroupStep, members: Sequence[Attempt], found: GroupVictims
) -> Search:
    """Check victims after a change: the group must fit without them, and must not with them."""
    if step.is_over:
        yield
    attempts = [each for each in members if not each.has_left]
    if not attempts:
        return CHANGED
    # Those that are still on their nodes, as they are now.
    known = ((core.cache.pods.get(each.uid), each.node_name) for each in found.victims)
    victims = [pod for pod, node in known if pod is not None and pod.node_name == node]
    trial = GroupTrial(core, attempts, step)

    def look() -> Search:
        fits_as_it_is = yield from fits_without((), trial)
        if fits_as_it_is.status.is_success:
            return CHANGED
        fits = yield from fits_without(victims, trial)
        return fits if fits.status.is_success else CHANGED

    return (yield from trial.tried(look()))
