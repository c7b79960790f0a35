"""The members of a pod group in its cycle, their failures if the group fails, and its steps.

The work of a step is counted, not timed: the same events give the same steps. A unit takes about
30 us of the processor among 5,000 nodes (`python -m bench.bounds`). A gang of 1,000 takes 45 ms
there, and 112 ms if each pod has labels of its own, as in an indexed Job.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go v1.36.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from scheduler.api.limits import demands_on_nodes
from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.attempt import Attempt, AttemptState
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.failure import (
    SCHEDULED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    reason_of,
    rejected_by,
)
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.preemption.group_victims import GroupVictims

UNITS: Final = 2048
"""Units of a step: enough to begin, place and settle some 680 equal members, or 75 that differ."""
LOOKED: Final = 12
"""Units of a search for a node, and as many again for each demand of the pod on nodes."""
SEARCHED: Final = 768
"""Units of a search for victims. It takes 2 ms, and up to 90 ms beside very many budgets."""
COPIED: Final = 768
"""Units of a copy of the cluster: 12 ms among 5,000 nodes with six pods each, 25 ms with thirty."""
READ: Final = 8
"""Number of pods whose ends are read for one unit."""

GROUP_FAILS: Final = "pod group is unschedulable"
OTHER_FAILS: Final = "failed to schedule other pod from a pod group: "
WAITS_FOR_VICTIMS: Final = f"{GROUP_FAILS}, pod group is waiting for preemption to complete"
SEVERAL_PROFILES: Final = (
    "all pods in a single pod group should have the same .spec.schedulerName set, got: "
    '"{}" and "{}"'
)
_NOWHERE: Final = (AttemptState.POPPED, AttemptState.ASKING)
ASKED_TO_WAIT: Final = "one or more plugins asked to wait and no plugin rejected pod"

RESULTS: Final = {
    SCHEDULED: "scheduled",
    UNSCHEDULABLE: "unschedulable",
    SCHEDULER_ERROR: "error",
}
"""The result under which an attempt counts, by the reason of the group's condition."""

Conclusion: TypeAlias = tuple[str, str]
"""Reason and message of a group's condition; its status is True where the reason is SCHEDULED."""


class GroupStep:
    """Counts the work of the current step of a group's attempt.

    Attributes:
        units: the units of a step; a step may exceed them to complete work that it has begun.
        long: an attempt that spends more units has taken long.
    """

    def __init__(self) -> None:
        self.units = UNITS
        self.long = UNITS
        self._left = self._number = self._taken_up = self._settled = self._spent = 0

    def begin_group(self) -> None:
        """Begin the attempt of a group: the next step is its first."""
        self._number = self._spent = 0

    def begin(self) -> None:
        """Begin a step."""
        self._left = self.units
        self._number += 1
        self._taken_up = self._settled = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the first step, so that no other event came since the attempt began."""
        return self._number == 1

    @property
    def took_long(self) -> bool:
        """Whether the attempt has spent more than `long` units, in however many steps."""
        return self._spent > self.long

    @property
    def is_over(self) -> bool:
        """Whether the units of this step are used up."""
        return self._left <= 0

    @property
    def members(self) -> int:
        """Number of members that this step has evaluated or settled, whichever is more."""
        return max(self._taken_up, self._settled)

    def take_up(self) -> None:
        """Count a member that is evaluated."""
        self._taken_up += 1
        self.spend(1)

    def settle(self) -> None:
        """Count a member that starts its binding cycle, or fails."""
        self._settled += 1
        self.spend(1)

    def spend(self, units: int) -> None:
        """Count work of this many units."""
        self._left -= units
        self._spent += units


def cost_of_look(pod: PodInfo) -> int:
    """The units of a search for the node of a pod that is unlike the one before."""
    return LOOKED * (1 + demands_on_nodes(pod))


def guarded(core: EngineState, member: Attempt, try_it: Callable[[Attempt], None]) -> None:
    """Try one member; an exception becomes its failure."""
    calls, pod = member.framework.calls, member.pod
    core.waiting.deciding = pod.uid
    calls.begin_cycle(sampled=False)
    try:
        try_it(member)
    except Exception as problem:  # noqa: BLE001 - one group must never stop the others
        member.failure = core.failure(pod.key, problem)
    core.waiting.deciding = ""


def permit(member: Attempt) -> None:
    """Run Permit for a member on its node, and store the result."""
    note_permit(member, *member.framework.run_permit_plugins(member.cycle_state, member.pod))


def note_permit(member: Attempt, status: Status, waits: Mapping[str, float]) -> None:
    """Store the result of Permit: a status, and seconds for each plugin that asked to wait."""
    member.permit, member.waits_for = status, frozenset(waits)
    if not status.is_success and status.code is not Code.WAIT:
        member.failure = rejected_by(status)


def follows(last: Attempt, member: Attempt) -> bool:
    """Whether the next member is equal to the last, so that its result may hold for both."""
    is_equal = last.pod.kind is member.pod.kind
    return is_equal and last.within is member.within


def fails_like(last: Attempt, member: Attempt) -> bool:
    """Whether a member fits nowhere, because an equal one before it did not."""
    return (
        last.failure is not None
        and last.state in _NOWHERE
        and last.extender_calls is None
        and member.extender_calls is None
        and follows(last, member)
        and decides_alike(last.framework, last.pod, member.pod)
    )


def decides_alike(framework: Framework, first: PodInfo, second: PodInfo) -> bool:
    """Whether what is decided about a member holds for another one, in the same cluster."""
    return first.kind is second.kind and all(map(framework.decides_alike, (first, second)))


def awaited_plugins(member: Attempt) -> frozenset[str]:
    """The plugins whose events may help a member."""
    failure = member.failure or member.fit_error
    if failure is None:
        return member.waits_for
    return member.waits_for | failure.unschedulable_plugins | failure.pending_plugins


def let_down(member: Attempt, plugins: frozenset[str]) -> Failure:
    """The failure of an assumed member of a group that fails.

    Events that may help any other member may help this member, since they are tried together.
    """
    why = ", ".join((GROUP_FAILS, *member.permit.reasons, ASKED_TO_WAIT))
    return Failure(why, is_rejection=True, unschedulable_plugins=plugins)


def waits_for_victims(member: Attempt, plugins: frozenset[str], message: str) -> Failure:
    """The failure of a member that stays nominated until the victims of other members are gone."""
    if member.fit_error is not None:
        return member.fit_error
    return Failure(
        message,
        is_rejection=True,
        unschedulable_plugins=plugins,
        nominated_node_name=member.pod.node_name,
    )


def turn_of(queued: QueuedPodInfo) -> tuple[int, float]:
    """A sort key for the members of a group; of equal keys, the oldest member comes first."""
    return -queued.pod_info.priority, queued.initial_attempt_timestamp or 0.0


def of_several_profiles(pods: Sequence[PodInfo]) -> Failure | None:
    """The failure of all members, if they name more than one profile; else None."""
    name = pods[0].spec.scheduler_name
    other = next((pod.spec.scheduler_name for pod in pods if pod.spec.scheduler_name != name), None)
    return None if other is None else Failure(SEVERAL_PROFILES.format(other, name))


def refused(members: Sequence[Attempt], failure: Failure) -> Conclusion:
    """Fail all members with one failure; return the conclusion for their group."""
    for each in members:
        each.failure = failure
        each.preemption = None
    return reason_of(failure), failure.message


def result_of(found: GroupVictims | None, reason: str, message: str) -> str:
    """The result under which an attempt counts, by the condition of the group."""
    is_waiting = found.status.is_success if found is not None else message == WAITS_FOR_VICTIMS
    return "waiting_on_preemption" if is_waiting else RESULTS[reason]
