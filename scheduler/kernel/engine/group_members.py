"""The members of a pod group in its cycle, and their failures if the group fails.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go v1.36.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

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
from scheduler.kernel.engine.group_trial import GROUP_FAILS
from scheduler.kernel.framework.interface import PostFilterResult
from scheduler.kernel.framework.status import SUCCESS, Code, Status
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.preemption.group_victims import GroupVictims

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


def waits_for_victims(
    member: Member, plugins: frozenset[str], message: str = WAITS_FOR_VICTIMS
) -> Failure:
    """The failure of a member that stays nominated until the victims of other members are gone."""
    if member.fit_error is not None:
        return member.fit_error
    node_name = member.attempt.pod.node_name
    return Failure(
        message,
        is_rejection=True,
        unschedulable_plugins=plugins,
        nominated_node_name=node_name,
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
