"""The members of a pod group in its cycle, their failures if the group fails, and its steps.

The work of a step is counted, not timed: the same events give the same steps. A unit takes about
30 us of the processor among 5,000 nodes (`python -m bench.bounds`). A gang of 1,000 takes 45 ms
there, and 112 ms if each pod has labels of its own, as in an indexed Job.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go v1.36.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.limits import demands_on_nodes
from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.attempt import UNDECIDED, Attempt, AttemptState
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.failure import (
    SCHEDULED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    reason_of,
    rejected_by,
)
from scheduler.kernel.framework.interface import PostFilterResult
from scheduler.kernel.framework.status import SUCCESS, Code, Status
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


class Member(msgspec.Struct):
    """A member of the group under way.

    Attributes:
        attempt: its attempt.
        failure: the reason why it is not placed; None if it is assumed, or has left.
        permit: the status of Permit for its node.
        waits_for: the plugins that asked to wait.
        preemption: the preemption that makes room on its node; None where there is room.
        fit_error: the reason why there is no room; None if there is.
        within: the rows to which the choice is limited; None for all.
    """

    attempt: Attempt
    failure: Failure | None = None
    permit: Status = SUCCESS
    waits_for: frozenset[str] = frozenset()
    preemption: PostFilterResult | None = None
    fit_error: Failure | None = None
    within: NDArray[np.intp] | None = None

    @property
    def has_failed(self) -> bool:
        """Whether it failed with an error, as opposed to a rejection."""
        return self.failure is not None and not self.failure.is_rejection

    @property
    def has_place(self) -> bool:
        """Whether it is assumed on a node."""
        return self.failure is None and self.attempt.placed is not None

    @property
    def has_left(self) -> bool:
        """Whether its attempt has ended, or continues alone after Reserve and Permit."""
        return self.attempt.state not in UNDECIDED | {AttemptState.ASKING}

    @property
    def is_gone(self) -> bool:
        """Whether its pod no longer needs a node."""
        return self.attempt.state is AttemptState.GONE

    def note_permit(self, permit: Status, waits: Mapping[str, float]) -> None:
        """Store the result of Permit: a status, and seconds for each plugin that asked to wait."""
        self.permit, self.waits_for = permit, frozenset(waits)
        if not permit.is_success and permit.code is not Code.WAIT:
            self.failure = rejected_by(permit)


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


def guarded(core: EngineState, member: Member, try_it: Callable[[Member], None]) -> None:
    """Try one member; an exception becomes its failure."""
    attempt = member.attempt
    calls, pod = attempt.framework.calls, attempt.pod
    core.waiting.deciding = pod.uid
    calls.begin_cycle(sampled=False)
    try:
        try_it(member)
    except Exception as problem:  # noqa: BLE001 - one group must never stop the others
        member.failure = core.failure(pod.key, problem)
    core.waiting.deciding = ""


def follows(last: Member, member: Member) -> bool:
    """Whether the next member is equal to the last, so that its result may hold for both."""
    is_equal = last.attempt.pod.kind is member.attempt.pod.kind
    return is_equal and last.within is member.within


def fails_like(last: Member, member: Member) -> bool:
    """Whether a member fits nowhere, because an equal one before it did not."""
    pod, other = member.attempt.pod, last.attempt
    return (
        last.failure is not None
        and other.state in _NOWHERE
        and other.extender_calls is None
        and member.attempt.extender_calls is None
        and follows(last, member)
        and all(map(other.framework.decides_alike, (other.pod, pod)))
    )


def awaited_plugins(member: Member) -> frozenset[str]:
    """The plugins whose events may help a member."""
    failure = member.failure or member.fit_error
    if failure is None:
        return member.waits_for
    return member.waits_for | failure.unschedulable_plugins | failure.pending_plugins


def let_down(member: Member, plugins: frozenset[str]) -> Failure:
    """The failure of an assumed member of a group that fails.

    Events that may help any other member may help this member, since they are tried together.
    """
    why = ", ".join((GROUP_FAILS, *member.permit.reasons, ASKED_TO_WAIT))
    return Failure(why, is_rejection=True, unschedulable_plugins=plugins)


def waits_for_victims(member: Member, plugins: frozenset[str], message: str) -> Failure:
    """The failure of a member that stays nominated until the victims of other members are gone."""
    if member.fit_error is not None:
        return member.fit_error
    return Failure(
        message,
        is_rejection=True,
        unschedulable_plugins=plugins,
        nominated_node_name=member.attempt.pod.node_name,
    )


def turn_of(queued: QueuedPodInfo) -> tuple[int, float]:
    """A sort key for the members of a group; of equal keys, the oldest member comes first."""
    return -queued.pod_info.priority, queued.initial_attempt_timestamp or 0.0


def of_several_profiles(pods: Sequence[PodInfo]) -> Failure | None:
    """The failure of all members, if they name more than one profile; else None."""
    name = pods[0].spec.scheduler_name
    other = next((pod.spec.scheduler_name for pod in pods if pod.spec.scheduler_name != name), None)
    return None if other is None else Failure(SEVERAL_PROFILES.format(other, name))


def refused(members: Sequence[Member], failure: Failure) -> Conclusion:
    """Fail all members with one failure; return the conclusion for their group."""
    for each in members:
        each.failure = failure
        each.preemption = None
    return reason_of(failure), failure.message


def result_of(found: GroupVictims | None, reason: str, message: str) -> str:
    """The result under which an attempt counts, by the condition of the group."""
    is_waiting = found.status.is_success if found is not None else message == WAITS_FOR_VICTIMS
    return "waiting_on_preemption" if is_waiting else RESULTS[reason]


def still_tried(members: Sequence[Member]) -> list[Attempt]:
    """The attempts of the members that have not left."""
    return [each.attempt for each in members if not each.has_left]
