"""Finds a node for each member of a pod group, if there is one.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go v1.36.
"""

from collections.abc import Sequence

from scheduler.kernel.engine.algorithm import ScheduleResult
from scheduler.kernel.engine.attempt import AttemptEvent
from scheduler.kernel.engine.attempts import Attempts
from scheduler.kernel.engine.batch import Batch
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.group_members import Member, fails_like, follows, guarded
from scheduler.kernel.engine.group_step import SEARCHED, cost_of_look
from scheduler.kernel.engine.groups_asking import GroupsAsking
from scheduler.kernel.engine.placing import Placing
from scheduler.kernel.engine.pod_group_placements import PlacementChoice, PodGroupPlacements
from scheduler.kernel.engine.scheduling_failure import FailureHandler
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import PostFilterResult
from scheduler.kernel.framework.runtime import AttemptDiagnosis
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.framework.types import Failure


class PlacingMembers:
    """Places members one after the other, and counts the work to the current step."""

    def __init__(
        self,
        core: EngineState,
        attempts: Attempts,
        failures: FailureHandler,
        placing: Placing,
        placements: PodGroupPlacements,
        asking: GroupsAsking,
    ) -> None:
        self._core = core
        self._asking = asking
        self._attempts = attempts
        self._failures = failures
        self._placing = placing
        self._placements = placements
        self._step = placements.step

    def place(self, members: Sequence[Member], choice: PlacementChoice) -> Steps[PlacementChoice]:
        """Place one member after the other until one fails with an error.

        Yields between steps. If the cluster changes meanwhile, the choice may change too. Returns
        the final choice.
        """
        batch, last = Batch(self._core), None
        for number, member in enumerate(members):
            if self._step.is_over:
                batch.end("expired", is_placed=last is not None and last.failure is None)
                before, choice = choice, (yield from self._give_way(members, choice))
                if choice.failure is not None:
                    return choice
                last = last if choice is before else None
                batch = Batch(self._core, within=choice.within(number))
            if not self._takes_up(member):
                continue
            member.within = choice.within(number)
            if last is not None and fails_like(last, member):
                member.failure = last.failure
                continue
            if last is None or not follows(last, member):
                batch.end("pod_incompatible", is_placed=last is not None and last.failure is None)
                batch = Batch(self._core, within=member.within)
            batch.left = len(members) - number - 1
            batch = yield from self._tried(member, batch)
            if member.has_failed:
                return choice
            last = member
        batch.end("expired", is_placed=last is not None and last.failure is None)
        return choice

    def _give_way(
        self, members: Sequence[Member], choice: PlacementChoice
    ) -> Steps[PlacementChoice]:
        """Yield to other events; return the choice, renewed if the cluster has changed."""
        before = self._core.cluster_version
        yield
        if self._core.cluster_version == before:
            return choice
        return self._placements.renewed(choice, [each.attempt for each in members])

    def _takes_up(self, member: Member) -> bool:
        """Update a member to the newest version of its pod; return False if it has left."""
        if member.has_left:
            return False
        newest = self._core.queue.get(member.attempt.pod.uid)
        if newest is not None:
            member.attempt.queued.pod_info = newest
        self._step.take_up()
        return True

    def _tried(self, member: Member, batch: Batch) -> Steps[Batch]:
        """Try a member, and again whenever extenders have answered; return the next batch."""
        guarded(self._core, member, lambda about: self._try(about, batch))
        while self._asking.is_waiting:
            batch.end("expired", is_placed=False)
            yield
            if not member.has_left and member.failure is None:
                guarded(self._core, member, lambda about: self._try(about, batch))
        if member.failure is None and member.preemption is None:
            return batch
        batch.end("pod_failed", is_placed=False)
        return Batch(self._core, within=member.within)

    def _try(self, member: Member, batch: Batch) -> None:
        attempt = member.attempt
        found = self._found(member, batch)
        if found is None:
            return
        if isinstance(found, Failure):
            member.failure = found
            return
        if isinstance(found, ScheduleResult):
            self._placing.assume(attempt, found.suggested_host, found.state)
            permit = self._placing.reserve(attempt)
        else:
            # Reserve plugins do not run: the node is full until the victims are gone.
            preemption, state = found
            member.preemption = preemption
            self._placing.assume(attempt, preemption.node_name, state)
            self._attempts.advance(attempt, AttemptEvent.RESERVE)
            permit = attempt.framework.run_permit_plugins(attempt.cycle_state, attempt.pod)
        member.note_permit(*permit)
        if member.failure is not None and member.failure.is_rejection:
            # Unreserve and forget it now, so that the next members can use its room.
            self._failures.handle_scheduling_failure(attempt, member.failure)

    def _found(
        self, member: Member, batch: Batch
    ) -> ScheduleResult | tuple[PostFilterResult, CycleState] | Failure | None:
        """Find a node for a member, or one with victims to evict for it, or the failure.

        Returns:
            None while extenders are asked.
        """
        core, attempt = self._core, member.attempt
        framework, pod = attempt.framework, attempt.pod
        start = core.stopwatch()
        result = batch.next_result(framework, pod)
        if result is not None:
            self._placing.note(attempt, result, start)
            return result
        self._step.spend(cost_of_look(pod))
        batch.catch_up()
        found = self._asking.found(member)
        if found is None:
            return None
        self._placing.note(attempt, found, start)
        if isinstance(found, Failure):
            return found
        if not isinstance(found, ScheduleResult):
            return self._post_filter(member, found)
        batch.looked_at(framework, pod, found)
        return found

    def _post_filter(
        self, member: Member, diagnosis: AttemptDiagnosis
    ) -> tuple[PostFilterResult, CycleState] | Failure | None:
        """Find a node and victims for a member; they are evicted only at the end of the cycle."""
        attempt = member.attempt
        if attempt.framework.plugins.post_filter:
            self._step.spend(SEARCHED)
        result, status = self._placing.post_filter(attempt, diagnosis)
        if result is None:
            return self._placing.fit_error(attempt, diagnosis, "")
        if status.is_success and self._asking.asks_about_victims(member, result.candidates):
            return None
        failure = self._placing.fit_error(attempt, diagnosis, result.node_name)
        if not (status.is_success and result.node_name):
            return failure
        member.fit_error = failure
        return result, diagnosis.state

    # --- after other steps ----------------------------------------------------------------------

    def still_there(self, members: Sequence[Member]) -> list[Member]:
        """The members that did not leave between steps; Permit runs again for them."""
        stayed = [each for each in members if not each.is_gone]
        if self._step.is_first:
            return stayed
        for each in stayed:
            if each.failure is None and each.has_left:
                # Its node was deleted or it was preempted, so it has been requeued.
                why = each.attempt.queued.last_failure
                each.failure = Failure(why, is_rejection=True)
        placed = (each for each in stayed if each.has_place)
        for each in placed:
            if not each.permit.is_success:
                continue
            guarded(self._core, each, _permit_again)
            if each.permit.is_success:
                break
        return stayed


def _permit_again(member: Member) -> None:
    attempt = member.attempt
    member.note_permit(*attempt.framework.run_permit_plugins(attempt.cycle_state, attempt.pod))
