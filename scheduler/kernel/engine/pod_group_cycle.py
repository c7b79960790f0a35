"""The cycle of a pod group: all members that wait are placed in one step, and go on together.

Each member has an attempt of its own, which is assumed and reserved like that of any pod. So later
members see earlier ones, and a member that fails after the step fails alone. If Permit is content
with no place, all is given back in reverse. Nothing else happens within the step.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go v1.36.
Differs: upstream places on a copy, and assumes those that go on a second time. It evicts pods for a
member before it knows whether the group fails all the same. Groups that fail wait for what their
members wait for, where upstream tries them again after back-off.
"""

import traceback
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.api.limits import exceeded_limit
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.algorithm import ScheduleResult, Unschedulable
from scheduler.kernel.engine.attempt import Attempt, AttemptEvent, AttemptState
from scheduler.kernel.engine.attempts import Attempts
from scheduler.kernel.engine.batch import Batch
from scheduler.kernel.engine.binding_cycle import BindingCycle
from scheduler.kernel.engine.core import TRACE_LINES, Core
from scheduler.kernel.engine.failure import (
    SCHEDULED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Failure,
    failure_of,
    group_condition,
    rejected_by,
    unexpected,
)
from scheduler.kernel.engine.group_preemption import find_victims
from scheduler.kernel.engine.group_trial import GROUP_FAILS, OTHER_FAILS
from scheduler.kernel.engine.placing import Placing
from scheduler.kernel.engine.pod_group_placements import Choice, PodGroupPlacements
from scheduler.kernel.engine.preemption_executor import PreemptionExecutor
from scheduler.kernel.engine.preemptor import preemptor_of_group
from scheduler.kernel.engine.scheduling_failure import FailureHandler
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import PostFilterResult
from scheduler.kernel.framework.runtime import PluginError
from scheduler.kernel.framework.status import SUCCESS, Code, Status, error, unschedulable
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.groups import GroupAttempt, GroupMembers
from scheduler.kernel.preemption.group_victims import GroupVictims

WAITS_FOR_VICTIMS: Final = f"{GROUP_FAILS}, pod group is waiting for preemption to complete"
ASKED_TO_WAIT: Final = "one or more plugins asked to wait and no plugin rejected pod"
NO_EXTENDERS: Final = "extenders cannot be asked about members of a pod group in this version"
RESULTS: Final = {
    SCHEDULED: "scheduled",
    UNSCHEDULABLE: "unschedulable",
    SCHEDULER_ERROR: "error",
}
"""How attempts are counted, by the reason of the group's condition."""
SEVERAL_PROFILES: Final = (
    "all pods in a single pod group should have the same .spec.schedulerName set, got: "
    '"{}" and "{}"'
)


class Member(msgspec.Struct):
    """A member in the step.

    Attributes:
        attempt: to schedule it.
        failure: why it has no place; None if it has one.
        permit: what Permit said of the place.
        waits_for: the plugins that asked to wait.
        preemption: what makes room for it where it has its place; None where there is room.
        fit_error: why there is none; None if there is.
        within: the rows of the only nodes worth looking at; None for all.
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
        """Whether something went wrong, as opposed to a rejection."""
        return self.failure is not None and not self.failure.is_rejection


class PodGroupCycle:
    """Places the members of one group at a time."""

    def __init__(
        self,
        core: Core,
        attempts: Attempts,
        failures: FailureHandler,
        binding: BindingCycle,
        placing: Placing,
        executor: PreemptionExecutor,
    ) -> None:
        self._core = core
        self._attempts = attempts
        self._failures = failures
        self._binding = binding
        self._placing = placing
        self._preemption_executor = executor
        self._placements = PodGroupPlacements(core, failures)

    def schedule(self, first: QueuedPodInfo) -> int:
        """Schedule the group of a pod that was popped; says how many members were tried."""
        core, known = self._core, None
        if core.groups is not None:
            known = core.groups.of_pod(first.pod_info)
        # 1. All members that wait and are not gated, the most important one first.
        popped = [first] if known is None else self._popped(first, known)
        # 2. Those that need no node drop out.
        queued = [each for each in popped if not self._placing.skips(each.pod_info)]
        members = [Member(self._attempts.begin(each)) for each in queued]
        if not members:
            return 0
        # 3. One profile decides about all of them.
        failure = _of_several_profiles([each.attempt.pod for each in members])
        if failure is not None:
            for each in members:
                self._failures.handle_scheduling_failure(each.attempt, failure)
            return len(members)
        # 4. A place for each, as far as there is one. 5. They go on, or all is given back.
        running = 0 if known is None else known.scheduled
        start, metrics = core.stopwatch(), core.metrics.pod_groups
        choice = self._placements.choose([each.attempt for each in members], known)
        if choice.failure is None:
            self._place(members, choice)
        metrics.algorithm_duration.observe(core.stopwatch() - start)
        lacking = [each.failure.message for each in members if each.failure is not None]
        condition, found = self._ended(members, choice, known)
        profile = members[0].attempt.pod.spec.scheduler_name
        result = _result(found, *condition[1:])
        metrics.attempt_ended(result, profile, core.stopwatch() - start)
        if known is not None:
            placed, first_lack = len(members) - len(lacking), next(iter(lacking), "")
            is_success = condition[0] == "True"
            attempt = GroupAttempt(
                len(members),
                placed,
                running,
                first_lack,
                is_success,
                choice.name,
                choice.count,
                () if found is None else tuple(victim.key for victim in found.victims),
            )
            self._note(known, attempt, condition)
        return len(members)

    def _popped(self, first: QueuedPodInfo, known: GroupMembers) -> list[QueuedPodInfo]:
        """The pod that was popped, and the others, in the order of their turns."""
        uid, waiting = first.pod_info.uid, known.waiting
        others = self._core.queue.pop_with(other for other in waiting if other != uid)
        arrival = {uid: at for at, uid in enumerate(waiting)}
        return sorted(
            [first, *others],
            key=lambda queued: (*_turn(queued), arrival.get(queued.pod_info.uid, -1)),
        )

    # --- places ---------------------------------------------------------------------------------

    def _place(self, members: Sequence[Member], choice: Choice) -> None:
        """Find a place for one member after the other; an error ends it."""
        batch, last, left = Batch(self._core), None, len(members)
        for number, member in enumerate(members):
            left -= 1
            member.within = choice.within(number)
            if last is not None and _fails_like(last, member):
                member.failure = last.failure
                continue
            if last is None or not _follows(last, member):
                batch.end("pod_incompatible", is_placed=last is not None and last.failure is None)
                batch = Batch(self._core, within=member.within)
            batch.left = left
            self._guarded(member, batch)
            if member.failure is not None or member.preemption is not None:
                batch.end("pod_failed", is_placed=False)
                batch = Batch(self._core, within=member.within)
                if member.has_failed:
                    return
            last = member
        batch.end("expired", is_placed=last is not None and last.failure is None)

    def _guarded(self, member: Member, batch: Batch) -> None:
        """Try one member; whatever goes wrong is its failure."""
        core, attempt = self._core, member.attempt
        calls, pod = attempt.framework.calls, attempt.pod
        core.waiting.deciding = pod.uid
        calls.begin_cycle(sampled=False)
        try:
            self._try(member, batch)
        except PluginError as problem:
            member.failure = Failure(str(problem))
        except Exception as problem:  # noqa: BLE001 - one group must never stop the others
            trace = traceback.format_exc(-TRACE_LINES)
            core.report("Unexpected error", pod.key, problem, trace=trace)
            member.failure = unexpected(problem)
        core.waiting.deciding = ""

    def _try(self, member: Member, batch: Batch) -> None:
        attempt = member.attempt
        found = self._found(member, batch)
        if isinstance(found, Failure):
            member.failure = found
            return
        if isinstance(found, ScheduleResult):
            self._placing.assume(attempt, found.suggested_host, found.state)
            member.permit, waits = self._placing.reserve(attempt)
        else:
            # Plugins reserve nothing on a node that is full until its victims are gone.
            preemption, state = found
            member.preemption = preemption
            self._placing.assume(attempt, preemption.nominated_node_name, state)
            self._attempts.advance(attempt, AttemptEvent.RESERVE)
            member.permit, waits = self._placing.permit(attempt)
        member.waits_for = frozenset(waits)
        if not member.permit.is_success and member.permit.code is not Code.WAIT:
            member.failure = rejected_by(member.permit)
            if member.failure.is_rejection:
                # It is given back at once: the place is there for the next members.
                self._failures.handle_scheduling_failure(attempt, member.failure)

    def _found(
        self, member: Member, batch: Batch
    ) -> ScheduleResult | tuple[PostFilterResult, CycleState] | Failure:
        """A node for a member, one that can be cleared for it, or why there is none."""
        core, attempt = self._core, member.attempt
        framework, pod = attempt.framework, attempt.pod
        start = core.stopwatch()
        result = batch.next_result(framework, pod)
        if result is not None:
            self._placing.note(attempt, result, start)
            return result
        too_much = exceeded_limit(pod.shape)
        if too_much:
            return Failure(too_much, is_rejection=True)
        if self._attempts.extender_calls.about_nodes(pod):
            return Failure(NO_EXTENDERS)
        batch.catch_up()
        found = core.algorithm.schedule_pod(
            framework, pod, core.snapshot, core.queue.nominator, member.within
        )
        self._placing.note(attempt, found, start)
        if isinstance(found, Failure):
            return found
        if not isinstance(found, ScheduleResult):
            return self._post_filter(member, found)
        batch.looked_at(framework, pod, found)
        return found

    def _post_filter(
        self, member: Member, found: Unschedulable
    ) -> tuple[PostFilterResult, CycleState] | Failure:
        """A node that can be cleared for a member; nothing is done about it before the end."""
        core, attempt, diagnosis = self._core, member.attempt, found.diagnosis
        result, status = None, unschedulable()
        if attempt.framework.plugins.post_filter:
            result, status = attempt.framework.run_post_filter_plugins(
                found.state, attempt.pod, core.snapshot, diagnosis
            )
        if result is not None:
            core.out.extend(result.writes)
        diagnosis.post_filter_message = status.message
        node_name = "" if result is None else result.nominated_node_name
        failure = failure_of(diagnosis, node_name, diagnosis.excess(core.snapshot))
        if result is None or not (status.is_success and node_name):
            return failure
        member.fit_error = failure
        return result, found.state

    # --- what comes of it -----------------------------------------------------------------------

    def _conclude(self, members: Sequence[Member], choice: Choice) -> tuple[str, str, str]:  # noqa: C901 - one branch per way in which the step ends
        """Have the members go on, or give everything back; gives the condition of the group."""
        failed = next((each for each in members if each.has_failed), None)
        if failed is not None and failed.failure is not None:
            others = Failure(OTHER_FAILS + failed.failure.message)
            for each in members:
                if each is not failed:
                    each.failure = others
            self._give_back(members)
            return "False", SCHEDULER_ERROR, failed.failure.message
        placed = [each for each in members if each.failure is None]
        is_whole = any(each.permit.is_success for each in placed)
        if is_whole and all(each.preemption is None for each in placed):
            for each in members:
                self._go_on(each)
            return "True", SCHEDULED, ""
        if choice.rows is not None:
            self._wake_by_others(members)
        wakers = frozenset[str]().union(*map(_wakers, members))
        for each in placed:
            each.failure = _waits(each, wakers) if is_whole else _let_down(each, wakers)
            if is_whole and each.preemption is not None:
                self._preemption_executor.begin(each.attempt.queued.pod_info, each.preemption)
        self._give_back(members)
        why = WAITS_FOR_VICTIMS if is_whole else choice.verdict(GROUP_FAILS)
        return "False", UNSCHEDULABLE, why

    def _ended(
        self, members: Sequence[Member], choice: Choice, known: GroupMembers | None
    ) -> tuple[tuple[str, str, str], GroupVictims | None]:
        """Have the members go on, or fail; gives the group's condition, and what makes room."""
        group = None if known is None else known.group
        if choice.failure is not None:
            return self._refuse(members, choice.failure), None
        found = None if group is None else self._victims_of(members, group)
        if found is None or group is None:
            return self._conclude(members, choice), None
        return self._make_room(members, group, found), found

    def _victims_of(self, members: Sequence[Member], group: PodGroup) -> GroupVictims | None:
        """The victims of the whole group; None where it fits, or is not asked for them."""
        is_whole = any(each.failure is None and each.permit.is_success for each in members)
        if is_whole or any(each.has_failed for each in members):
            return None
        try:
            return find_victims(self._core, group, [each.attempt for each in members])
        except Exception as problem:  # noqa: BLE001 - members must not be lost
            trace = traceback.format_exc(-TRACE_LINES)
            self._core.report("Unexpected error", group.name, problem, trace=trace)
            return GroupVictims(error(unexpected(problem).message))

    def _make_room(
        self, members: Sequence[Member], group: PodGroup, found: GroupVictims
    ) -> tuple[str, str, str]:
        """Give everything back, and have the victims leave of a group that does not fit."""
        status, wakers = found.status, frozenset[str]().union(*map(_wakers, members))
        if status.code is Code.ERROR:
            return self._refuse(members, Failure(status.message))
        for each in members:
            if each.failure is None and status.is_success:
                each.failure = _waits(each, wakers, GROUP_FAILS)
            elif each.failure is None:
                each.failure = _let_down(each, wakers)
        if status.is_success:
            pods = [each.attempt.queued.pod_info for each in members]
            self._preemption_executor.evict(preemptor_of_group(group, pods), found.victims)
        self._give_back(members)
        message = GROUP_FAILS if status.is_success else f"{GROUP_FAILS}, {status.message}"
        return "False", UNSCHEDULABLE, message

    def _refuse(self, members: Sequence[Member], failure: Failure) -> tuple[str, str, str]:
        """All fail for one reason, before any is tried; gives the condition of the group."""
        for each in members:
            each.failure = failure
        self._give_back(members)
        return "False", failure.reason, failure.message

    def _wake_by_others(self, members: Sequence[Member]) -> None:
        """Have members that fail in one placement woken by what may help in any other."""
        wakers = self._placements.wakers(members[0].attempt)
        for each in members:
            if each.failure is not None and each.failure.is_rejection:
                plugins = each.failure.unschedulable_plugins | wakers
                each.failure = replace(each.failure, unschedulable_plugins=plugins)

    def _give_back(self, members: Sequence[Member]) -> None:
        """All fail; what was taken last is given back first."""
        for each in reversed(members):
            self._fail(each)

    def _fail(self, member: Member) -> None:
        """End an attempt that has not ended yet."""
        if member.failure is not None and member.attempt.state is not AttemptState.FAILED:
            self._failures.handle_scheduling_failure(member.attempt, member.failure)

    def _go_on(self, member: Member) -> None:
        """Have a member bound that has a place; the others fail alone."""
        if member.failure is None:
            self._failures.guarded(member.attempt, lambda: self._permit_again(member))
        else:
            self._fail(member)

    def _permit_again(self, member: Member) -> None:
        """Now that all have their places, Permit need not wait for them."""
        attempt, status, timeouts = member.attempt, member.permit, dict[str, float]()
        if not status.is_success:
            status, timeouts = self._placing.permit(attempt)
        if status.code is Code.WAIT:
            self._binding.wait_on_permit(attempt, timeouts)
        elif status.is_success:
            self._binding.start(attempt)
        else:
            self._failures.handle_scheduling_failure(attempt, rejected_by(status))

    def _note(
        self, known: GroupMembers, attempt: GroupAttempt, wanted: tuple[str, str, str]
    ) -> None:
        """Remember the attempt, and write the condition of the group if that changes it."""
        known.last = attempt
        if known.group is None:
            return
        patch = group_condition(known.group, known.told, wanted)
        if patch is not None:
            known.told = known.group.uid, *wanted
            self._core.out.append(patch)


def _result(found: GroupVictims | None, reason: str, message: str) -> str:
    """How an attempt counts that ends in a condition of the group."""
    is_waiting = found.status.is_success if found is not None else message == WAITS_FOR_VICTIMS
    return "waiting_on_preemption" if is_waiting else RESULTS[reason]


def _turn(queued: QueuedPodInfo) -> tuple[int, float]:
    """Orders the members of a group; of those that are equal in it, the oldest comes first."""
    return -queued.pod_info.priority, queued.initial_attempt_timestamp or 0.0


def _of_several_profiles(pods: Sequence[PodInfo]) -> Failure | None:
    """The failure of all, if not all are of one profile."""
    name = pods[0].spec.scheduler_name
    other = next((pod.spec.scheduler_name for pod in pods if pod.spec.scheduler_name != name), None)
    return None if other is None else Failure(SEVERAL_PROFILES.format(other, name))


def _follows(last: Member, member: Member) -> bool:
    """Whether what was found out about a member holds for the next one."""
    is_equal = last.attempt.pod.kind is member.attempt.pod.kind
    return is_equal and last.within is member.within


def _fails_like(last: Member, member: Member) -> bool:
    """Whether a member fits nowhere because an equal one did, and none was placed since."""
    pod, other = member.attempt.pod, last.attempt
    return (
        last.failure is not None
        and other.state is AttemptState.POPPED
        and _follows(last, member)
        and other.framework.decides_alike(pod)
        and not pod.pod.status.nominated_node_name
    )


def _wakers(member: Member) -> frozenset[str]:
    """The plugins that know what may help a member."""
    failure = member.failure or member.fit_error
    if failure is None:
        return member.waits_for
    return member.waits_for | failure.unschedulable_plugins | failure.pending_plugins


def _let_down(member: Member, wakers: frozenset[str]) -> Failure:
    """The failure of a member that has a place, in a group that fails.

    What helps any of the others helps it: they are tried together.
    """
    why = ", ".join((GROUP_FAILS, *member.permit.reasons, ASKED_TO_WAIT))
    return Failure(why, is_rejection=True, unschedulable_plugins=wakers)


def _waits(member: Member, wakers: frozenset[str], message: str = WAITS_FOR_VICTIMS) -> Failure:
    """The failure of a member whose place is to be kept until the victims of others are gone."""
    if member.fit_error is not None:
        return member.fit_error
    node_name = member.attempt.pod.node_name
    return Failure(
        message,
        is_rejection=True,
        unschedulable_plugins=wakers,
        nominated_node_name=node_name,
    )
