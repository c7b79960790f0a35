"""A pod group placed in a cluster that might be: as its cycle would place it, changing nothing.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go (runWorkloadAwarePreemption) v1.36.
Differs: it ends with the first member with which Permit is content.
"""

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.algorithm import ScheduleResult
from scheduler.kernel.engine.attempt import Attempt
from scheduler.kernel.engine.core import Core
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.runtime import PluginError
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.status import Code, Status, error, unschedulable
from scheduler.kernel.snapshot import PodAdded, PodRemoved

GROUP_FAILS: Final = "pod group is unschedulable"
OTHER_FAILS: Final = "failed to schedule other pod from a pod group: "

_Placed = tuple[PodInfo, CycleState]


class GroupTrial:
    """The cluster without what a group was given in this attempt, and the group.

    Plugins must see it while it is used: `with trial.shown():`.
    """

    def __init__(self, core: Core, attempts: Sequence[Attempt]) -> None:
        """Copy what is to change.

        Args:
            core: the engine's state.
            attempts: those of the members, in the order of their turns; some have a node.

        Cost: O(nodes and pods), with small constants.

        Raises:
            PluginError: a shared state cannot be forked.
        """
        core.catch_up()
        self._algorithm = core.algorithm
        self._backing = core.backing
        self._world = core.snapshot.copy()
        # It is a cluster of its own: equal members share their columns in it.
        self._world.is_fork = False
        self._framework = attempts[0].framework.beside()
        self._states = core.states.fork()
        self._members = [each.queued.pod_info for each in attempts]
        self._nominated = _nominations(core.queue.nominator, self._members)
        placed = [(each.pod, each.state_of_plugins) for each in attempts if each.placed]
        with self.shown():
            self._take_back(placed)

    def shown(self) -> AbstractContextManager[None]:
        """Within this plugins see the trial in place of the cluster."""
        return self._backing.on_fork(self._world, self._states)

    def remove(self, pods: Sequence[PodInfo]) -> None:
        """See `World`. What plugins share hears nothing of it: the pods are there still."""
        self._world.update([PodRemoved(pod) for pod in pods])

    def add(self, pods: Sequence[PodInfo]) -> None:
        """See `World`."""
        self._world.update([PodAdded(pod) for pod in pods])

    def run(self) -> Generator[None, None, Status]:
        """See `World`; each step tries one member."""
        placed: list[_Placed] = []
        status, failing = unschedulable(GROUP_FAILS), None
        for pod in self._members:
            if failing is not None and self._fails_like(failing, pod):
                continue
            found = self._try(pod, placed)
            failing = pod if found.is_rejection else None
            if found.is_success or found.code is Code.ERROR:
                status = found
                break
            yield
        self._take_back(placed)
        return status

    def _try(self, pod: PodInfo, placed: list[_Placed]) -> Status:
        """Place a member: Success or Wait of Permit, a rejection, or an error of the group."""
        try:
            return self._guarded(pod, placed)
        except PluginError as problem:
            return error(f"{OTHER_FAILS}{problem}")

    def _guarded(self, pod: PodInfo, placed: list[_Placed]) -> Status:
        framework = self._framework
        found = self._algorithm.schedule_pod(framework, pod, self._world, self._nominated)
        if not isinstance(found, ScheduleResult):
            return unschedulable()
        there, state = pod.on_node(found.suggested_host), found.state
        placed.append((there, state))
        self._world.update([PodAdded(there)])
        self._states.reserved(there)
        self._nominated.delete_nominated_pod_if_exists(pod.uid)
        status = framework.run_reserve_plugins(state, there, there.node_name)
        if status.is_success:
            status, _ = framework.run_permit_plugins(state, there, there.node_name)
        if status.is_success or status.code is Code.WAIT:
            return status
        self._take_back([placed.pop()])
        return status if status.is_rejection else error(f"{OTHER_FAILS}{status.message}")

    def _take_back(self, placed: Sequence[_Placed]) -> None:
        """What was given last is taken back first; nominations are as they were."""
        for pod, state in reversed(placed):
            self._framework.run_unreserve_plugins(state, pod, pod.node_name)
            self._states.unreserved(pod)
        self._world.update([PodRemoved(pod) for pod, _ in placed])
        for pod, _ in placed:
            _nominate_again(self._nominated, pod)

    def _fails_like(self, failing: PodInfo, pod: PodInfo) -> bool:
        """Whether a member fits nowhere because an equal one did, and none was placed since."""
        return pod.kind is failing.kind and self._framework.decides_alike(pod)


def _nominations(known: NominatedPods, members: Sequence[PodInfo]) -> NominatedPods:
    """A copy of all nominations, with those that members have lost to a place in this attempt."""
    copy = NominatedPods()
    for node in known:
        for pod in known.nominated_pods_for_node(node):
            copy.nominate(pod, node)
    for pod in members:
        if known.node_of(pod.uid) is None:
            _nominate_again(copy, pod)
    return copy


def _nominate_again(nominated: NominatedPods, pod: PodInfo) -> None:
    node = pod.pod.status.nominated_node_name
    if node:
        nominated.nominate(pod, node)
