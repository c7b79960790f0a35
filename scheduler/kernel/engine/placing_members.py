"""Finds a node for each member of a pod group, if there is one, and asks extenders before.

Members ask extenders before the cycle of their group. Meanwhile no member is assumed, and other
pods and groups are scheduled. Members ask concurrently, like single pods, and wait in the same
line. When all members have their answers, the cycle of the group uses these. Members that are
popped until then join the group.

A group under way asks again only if nodes fit that the answers do not cover. It also asks if
extenders must accept the victims of a member. Then its members stay assumed, and no other pod is
popped until the answer comes.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go, schedule_one.go
(findNodesThatPassExtenders) v1.36.
Differs: upstream asks about one member after the other, with all earlier members assumed.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from scheduler.kernel.engine.algorithm import Found, ScheduleResult
from scheduler.kernel.engine.attempt import Attempt, AttemptEvent, AttemptState
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.group_members import (
    SEARCHED,
    cost_of_look,
    fails_like,
    follows,
    guarded,
    note_permit,
    permit,
)
from scheduler.kernel.engine.pending_extender_calls import PendingExtenderCalls
from scheduler.kernel.engine.placing import Batch, Placing
from scheduler.kernel.engine.pod_group_placements import PlacementChoice, PodGroupPlacements
from scheduler.kernel.engine.scheduling_failure import FailureHandler
from scheduler.kernel.extender import Answer, ExtenderError
from scheduler.kernel.framework.results import Candidate
from scheduler.kernel.framework.runtime import AttemptDiagnosis
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.groups import GroupKey


class _Group(msgspec.Struct):
    """A group that waits for answers.

    Attributes:
        members: the attempts of all members.
        asking: the numbers of those that wait for answers, or for their turn to ask.
    """

    members: list[Attempt]
    asking: set[int]


class GroupsAsking:
    """The groups that wait for answers, and the member under way that waits for one.

    Attributes:
        ready: the groups that have all answers.
    """

    def __init__(self, core: EngineState, calls: PendingExtenderCalls) -> None:
        self._core = core
        self._calls = calls
        self._groups: dict[GroupKey, _Group] = {}
        self.ready: deque[GroupKey] = deque()
        self._under_way: Attempt | None = None
        calls.on_end = self._through

    def members(self) -> list[Attempt]:
        """The members of all groups that wait."""
        return [member for group in self._groups.values() for member in group.members]

    def begin(self, members: Sequence[Attempt]) -> bool:
        """Put members into the line to ask extenders; return whether their group waits now.

        Members of a group that waits already join it.
        """
        place, about_nodes = _place(members[0]), self._core.extenders.about_nodes
        concerned = [each for each in members if about_nodes(each.pod)]
        if not concerned and place not in self._groups:
            return False
        group = self._groups.setdefault(place, _Group([], set()))
        group.members.extend(members)
        group.asking.update(each.id for each in concerned)
        for member in concerned:
            self._calls.wait_in_line(member)
        return True

    def ask(self, member: Attempt) -> None:
        """Ask extenders about a member whose turn has come."""
        if self._asks(member):
            guarded(self._core, member, self._ask)
            self._note(member)

    def take_ready(self) -> list[Attempt]:
        """Remove the first group that has all its answers, and return its members."""
        return self._groups.pop(self.ready.popleft()).members

    def _asks(self, member: Attempt) -> bool:
        group = self._groups.get(_place(member))
        return group is not None and member.id in group.asking

    def _ask(self, member: Attempt) -> None:
        self._core.catch_up()
        self._calls.ask_about_nodes(member, tries_nominated=True)

    def _note(self, member: Attempt) -> None:
        """End the asking of a member that waits for no more answers; its group may be ready."""
        if not _waits(member):
            self._calls.leave_turn(member)
            self._through(member)

    def _through(self, attempt: Attempt) -> None:
        """Record that an attempt asks no more: it has its answers, has ended, or is assumed."""
        if self._asks(attempt):
            place = _place(attempt)
            group = self._groups[place]
            group.asking.discard(attempt.id)
            if not group.asking:
                self.ready.append(place)

    @property
    def is_waiting(self) -> bool:
        """Whether a member of the group under way waits for an answer."""
        return self._under_way is not None and _waits(self._under_way)

    def found(self, member: Attempt) -> Found | None:
        """Search a node for a member under way; None while extenders are asked."""
        found = self._calls.search(member, member.within)
        if found is None:
            self._under_way = member
        return found

    def asks_about_victims(self, member: Attempt, candidates: Sequence[Candidate]) -> bool:
        """Ask extenders about the victims of a member; return whether an answer must be awaited."""
        if not self._core.extenders.about_candidates(member.pod):
            return False
        self._under_way = member
        self._calls.take_turn_at_once(member)
        return self._calls.ask_about_candidates(member, candidates)

    def answered(self, member: Attempt, number: int, answer: Answer) -> None:
        """Handle an extender's answer about a member."""
        if member is self._under_way or self._asks(member):
            guarded(self._core, member, lambda _: self._take(number, answer))
            self._note(member)

    def _take(self, number: int, answer: Answer) -> None:
        # The failure matters only if a node fits when the member is placed: see `Advice`.
        with suppress(ExtenderError):
            self._calls.take(number, answer)


def _waits(member: Attempt) -> bool:
    """Whether an answer for a member is outstanding."""
    if member.state is not AttemptState.ASKING or member.extender_calls is None:
        return False
    return member.failure is None and bool(member.extender_calls.open)


def _place(member: Attempt) -> GroupKey:
    return member.pod.namespace, member.pod.group_name


class PlacingMembers:
    """Places members one after the other, and counts the work to the current step."""

    def __init__(
        self,
        core: EngineState,
        failures: FailureHandler,
        placing: Placing,
        placements: PodGroupPlacements,
        asking: GroupsAsking,
    ) -> None:
        self._core = core
        self._asking = asking
        self._failures = failures
        self._placing = placing
        self._placements = placements
        self._step = placements.step

    def place(self, members: Sequence[Attempt], choice: PlacementChoice) -> Steps[PlacementChoice]:
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
        self, members: Sequence[Attempt], choice: PlacementChoice
    ) -> Steps[PlacementChoice]:
        """Yield to other events; return the choice, renewed if the cluster has changed."""
        before = self._core.cluster_version
        yield
        if self._core.cluster_version == before:
            return choice
        return self._placements.renewed(choice, members)

    def _takes_up(self, member: Attempt) -> bool:
        """Update a member to the newest version of its pod; return False if it has left."""
        if member.has_left:
            return False
        newest = self._core.queue.get(member.pod.uid)
        if newest is not None:
            member.queued.pod_info = newest
        self._step.take_up()
        return True

    def _tried(self, member: Attempt, batch: Batch) -> Steps[Batch]:
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

    def _try(self, member: Attempt, batch: Batch) -> None:
        """Assume a member on a node, or set its failure; neither while extenders are asked."""
        framework, pod = member.framework, member.pod
        start = self._core.stopwatch()
        found: Found | None = batch.next_result(framework, pod)
        if found is None:
            self._step.spend(cost_of_look(pod))
            batch.catch_up()
            found = self._asking.found(member)
            if found is None:
                return
            batch.looked_at(framework, pod, found)
        self._placing.note(member, found, start)
        if isinstance(found, ScheduleResult):
            self._placing.assume(member, found.suggested_host, found.state)
            note_permit(member, *self._placing.reserve(member))
            self._permitted(member)
        elif isinstance(found, Failure):
            member.failure = found
        else:
            self._preempt(member, found)

    def _preempt(self, member: Attempt, diagnosis: AttemptDiagnosis) -> None:
        """Find a node and victims for a member; they are evicted only at the end of the cycle."""
        placing = self._placing
        if member.framework.plugins.post_filter:
            self._step.spend(SEARCHED)
        if member.framework.tries_placements and self._is_constrained(member):
            diagnosis.is_limited = True
        result, status = placing.post_filter(member, diagnosis)
        if result is None:
            member.failure = placing.fit_error(member, diagnosis, "")
            return
        if status.is_success and self._asking.asks_about_victims(member, result.candidates):
            return
        failure = placing.fit_error(member, diagnosis, result.node_name)
        if not (status.is_success and result.node_name):
            member.failure = failure
            return
        # Reserve plugins do not run: the node is full until the victims are gone.
        member.fit_error, member.preemption = failure, result
        placing.assume(member, result.node_name, diagnosis.state)
        self._core.attempts.advance(member, AttemptEvent.RESERVE)
        permit(member)
        self._permitted(member)

    def _permitted(self, member: Attempt) -> None:
        if member.failure is not None and member.failure.is_rejection:
            # Unreserve and forget it now, so that the next members can use its room.
            self._failures.handle_scheduling_failure(member, member.failure)

    def _is_constrained(self, member: Attempt) -> bool:
        """Whether the member's group has scheduling constraints, even without a label."""
        known = self._core.group_of(member.pod)
        group = None if known is None else known.group
        return group is not None and group.topology_key is not None

    # --- after other steps ----------------------------------------------------------------------

    def still_there(self, members: Sequence[Attempt]) -> list[Attempt]:
        """The members that did not leave between steps; Permit runs again for them."""
        stayed = [each for each in members if not each.is_gone]
        if self._step.is_first:
            return stayed
        for each in stayed:
            if each.failure is None and each.has_left:
                # Its node was deleted or it was preempted, so it has been requeued.
                why = each.queued.last_failure
                each.failure = Failure(why, is_rejection=True)
        placed = (each for each in stayed if each.failure is None and each.placed is not None)
        for each in placed:
            if not each.permit.is_success:
                continue
            guarded(self._core, each, permit)
            if each.permit.is_success:
                break
        return stayed
