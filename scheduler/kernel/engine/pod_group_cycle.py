"""The cycle of a pod group: it places all waiting members, which then bind together.

Each member has an attempt of its own, and is assumed and reserved like any pod. So later members
see earlier ones, and a member that fails in its binding cycle fails alone. If Permit allows no
member, all are unreserved and forgotten in reverse order.

A group that is small, or of equal members, takes one step. A larger group takes several steps, and
no other pod is popped before its end. The cluster may change between steps. Placed members stay
assumed, like pods that wait in Permit. Members drop out if they or their nodes are deleted; then
Permit runs again.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go v1.36.
Differs: upstream places members on a copy, and then assumes them again. It evicts victims for one
member even if the group fails. A failed group waits here for events that help its members; upstream
retries it after backoff.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from scheduler.api.pod_groups import PodGroup
from scheduler.kernel.engine.attempt import Attempt
from scheduler.kernel.engine.binding_cycle import BindingCycle
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.failure import (
    SCHEDULED,
    UNSCHEDULABLE,
    group_condition,
    group_reference,
)
from scheduler.kernel.engine.group_members import (
    GROUP_FAILS,
    OTHER_FAILS,
    WAITS_FOR_VICTIMS,
    Conclusion,
    GroupStep,
    awaited_plugins,
    let_down,
    of_several_profiles,
    refused,
    result_of,
    turn_of,
    waits_for_victims,
)
from scheduler.kernel.engine.group_trial import CHANGED, find_victims
from scheduler.kernel.engine.placing import Placing
from scheduler.kernel.engine.placing_members import GroupsAsking, PlacingMembers
from scheduler.kernel.engine.pod_group_placements import PlacementChoice, PodGroupPlacements
from scheduler.kernel.engine.preemption_executor import PreemptionExecutor, Preemptor
from scheduler.kernel.engine.room_keeper import RoomKeeper
from scheduler.kernel.engine.scheduling_failure import FailureHandler
from scheduler.kernel.framework.status import SUCCESS, Code, error
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.groups import GroupAttempt, GroupMembers
from scheduler.kernel.preemption.group_victims import GroupVictims


class PodGroupCycle:
    """Places the members of one group at a time.

    Attributes:
        members: the members of the group under way; empty between groups.
        step: the work of the current step.
        asking: the groups that ask extenders before their cycle.
        decided: UID of a member of the group that was under way last.
    """

    def __init__(
        self,
        core: EngineState,
        failures: FailureHandler,
        binding: BindingCycle,
        placing: Placing,
        executor: PreemptionExecutor,
        room_keeper: RoomKeeper,
    ) -> None:
        self._core = core
        self._failures = failures
        self._binding = binding
        self._placing = placing
        self._preemption_executor = executor
        self._steps: Iterator[None] = iter(())
        self._rejections = 0
        """Number of attempts that had been rejected at the end of the last step."""
        self._was_seen = False
        """Whether another attempt was rejected while members were assumed."""
        self._room_keeper = room_keeper
        self.members: Sequence[Attempt] = ()
        self.decided = ""
        self.asking = asking = GroupsAsking(core, placing.extender_calls)
        self.step = GroupStep()
        self._placements = chosen = PodGroupPlacements(core, self.step)
        self._placing_members = PlacingMembers(core, failures, placing, chosen, asking)

    @property
    def has_turn(self) -> bool:
        """Whether the group under way may continue, or a group with all its answers may begin."""
        return not self.asking.is_waiting if self.members else bool(self.asking.ready)

    def schedule(self, first: QueuedPodInfo) -> int:
        """Begin the group of a popped pod; return the number of members in this step."""
        known = self._core.group_of(first.pod_info)
        # 1. All members that wait and are not gated, the most important one first.
        popped = [first] if known is None else self._popped(first, known)
        if not popped:
            return 0
        # 2. Members that need no node drop out, unless all fail in step 4. The others have one
        # place in the queue's order.
        fails = of_several_profiles([each.pod_info for each in popped]) is not None
        queued = [each for each in popped if fails or not self._placing.skips(each.pod_info)]
        order = self._core.order_of(popped[0])
        begin, profiles = self._core.attempts.begin, self._core.frameworks
        members = [begin(profiles, each, order) for each in queued]
        # 3. Members ask extenders before the cycle of their group.
        if members and self.asking.begin(members):
            return len(members)
        self._begin(members)
        return self.go_on()

    def keep_room(self, attempt: Attempt, failure: Failure) -> None:
        """Search room for a single pod, in steps as for a group; then fail its attempt."""
        attempt.failure = failure
        searching = self._room_keeper.keep(self.step, None, (attempt,))
        self._go_through((attempt,), chain(searching, self._settle((attempt,))))

    def _begin(self, members: Sequence[Attempt]) -> None:
        self._room_keeper.begin(members)
        self._go_through(members, self._cycle(members))

    def _go_through(self, members: Sequence[Attempt], steps: Iterator[None]) -> None:
        self.step.begin_group()
        self._was_seen, self._rejections = False, self._failures.rejections
        self.members, self._steps = members, steps

    def go_on(self) -> int:
        """Take the next step of the group under way; return the number of members in it."""
        if not self.members and self.asking.ready:
            here = (each for each in self.asking.take_ready() if not each.has_left)
            self._begin(sorted(here, key=lambda each: turn_of(each.queued)))
        self.decided = self.members[0].pod.uid if self.members else ""
        self.step.begin()
        # Pods that were rejected while members were assumed are moved if these members fail.
        self._was_seen |= self._rejections != self._failures.rejections
        try:
            next(self._steps)
        except StopIteration:
            self.members = ()
        except Exception as problem:  # noqa: BLE001 - members must not be lost
            failure = self._core.unexpected("", problem)
            for each in self.members:
                each.failure = each.failure or failure
            self._steps = self._settle(self.members)
        self._rejections = self._failures.rejections
        return self.step.members

    def _cycle(self, members: Sequence[Attempt]) -> Iterator[None]:
        """All steps of the cycle: each ends at a yield."""
        if not members:
            return
        # 4. All members must name the same profile.
        failure = of_several_profiles([each.pod for each in members])
        if failure is not None:
            for each in members:
                each.failure = failure
            yield from self._settle(members)
            return
        # 5. Place each member if a node fits. The pops count as work of this step.
        self.step.spend(len(members))
        known = self._core.group_of(members[0].pod)
        running = 0 if known is None else known.scheduled
        core, start, profile = self._core, self._core.stopwatch(), members[0].pod.spec
        choice = PlacementChoice()
        if not any(each.has_failed for each in members):
            choice = yield from self._placements.choose(members, known)
            if choice.failure is None:
                choice = yield from self._placing_members.place(members, choice)
        core.metrics.pod_groups.algorithm_duration.observe(core.stopwatch() - start)
        # 6. Start the binding cycles of the members, or unreserve and requeue them.
        members = self._placing_members.still_there(members)
        lacking = [each.failure.message for each in members if each.failure is not None]
        if not members:
            return
        # The group may have been replaced or deleted in the meantime.
        known = self._core.group_of(members[0].pod)
        (reason, message), found = yield from self._ended(members, choice, known)
        is_scheduled = reason == SCHEDULED
        is_outdated = found is CHANGED or (choice.holds and choice.is_renewed)
        is_open = is_outdated or choice.is_partial
        # Failed members are unreserved in reverse order.
        in_order = members if is_scheduled else reversed(members)
        yield from self._settle(in_order, again=is_open)
        core.metrics.pod_groups.attempt_ended(
            result_of(found, reason, message), profile.scheduler_name, core.stopwatch() - start
        )
        if known is not None:
            attempt = GroupAttempt(
                len(members),
                len(members) - len(lacking),
                running,
                next(iter(lacking), ""),
                is_scheduled,
                choice.name,
                choice.count,
                () if found is None else tuple(victim.key for victim in found.victims),
            )
            self._note(members, attempt, ("True" if is_scheduled else "False", reason, message))

    def _popped(self, first: QueuedPodInfo, known: GroupMembers) -> list[QueuedPodInfo]:
        """The pod that was popped, and the other members, in the order of their turns.

        None are tried while others of the gang back off, else each new member would cost an attempt
        of all. A new member of a gang that only lacked members is tried, if the attempt was short.
        Once enough members have nodes, the others need not wait for those that back off.
        """
        uid, waiting, queue = first.pod_info.uid, known.waiting, self._core.queue
        has_quorum, last = known.has_quorum(), known.last
        may_help = not has_quorum and last is not None and not last.lacking
        backing_off = queue.backing_off(first, waiting, may_help=may_help)
        others = queue.pop_with(each for each in waiting if each != uid and each not in backing_off)
        if backing_off and not has_quorum:
            for each in (first, *others):
                queue.put_back(each, max(backing_off.values()))
            return []
        arrival = {uid: at for at, uid in enumerate(waiting)}
        return sorted(
            [first, *others],
            key=lambda queued: (*turn_of(queued), arrival.get(queued.pod_info.uid, -1)),
        )

    # --- conclusion ----------------------------------------------------------------------------

    def _ended(
        self, members: Sequence[Attempt], choice: PlacementChoice, known: GroupMembers | None
    ) -> Steps[tuple[Conclusion, GroupVictims | None]]:
        """Search for victims of a group that does not fit, conclude, and keep room for it."""
        group = None if known is None else known.group
        found = None
        if choice.failure is None or choice.failure.is_rejection:
            found = yield from self._victims_of(members, group)
        conclusion = self._conclude(members, choice, found)
        if choice.failure is not None or group is None or found is CHANGED:
            return conclusion, found
        if found is not None and found.status.is_success:
            self._evict(members, group, found)
        else:
            conclusion = yield from self._room_keeper.ended(self.step, conclusion, group, members)
        return conclusion, found

    def _victims_of(
        self, members: Sequence[Attempt], group: PodGroup | None
    ) -> Steps[GroupVictims | None]:
        """Find the victims of the whole group; None where it fits, or a member had an error."""
        placed = (each for each in members if each.failure is None and each.placed is not None)
        is_whole = any(each.permit.is_success for each in placed)
        if is_whole or any(each.has_failed for each in members):
            return None
        try:
            found = yield from find_victims(self._core, self.step, group, members)
        except Exception as problem:  # noqa: BLE001 - members must not be lost
            failure = self._core.unexpected(members[0].pod.group_name, problem)
            return GroupVictims(error(failure.message))
        if found is None or not found.victims:
            return found
        # No pod is evicted for a group that may not be tried now: it changed since the last check.
        is_tried = not all(each.has_left for each in members)
        return CHANGED if not is_tried or self._core.is_held(members[0].pod) else found

    def _conclude(
        self, members: Sequence[Attempt], choice: PlacementChoice, found: GroupVictims | None
    ) -> Conclusion:
        """Decide the result of the group and of each member, without carrying it out."""
        status = None if found is None else found.status
        if status is not None and status.code is Code.ERROR:
            return refused(members, Failure(status.message))
        if choice.failure is not None:
            both = (choice.failure.message, *(() if status is None else (status.message,)))
            return refused(members, replace(choice.failure, message=", ".join(both)))
        failed = next((each for each in members if each.has_failed), None)
        if failed is not None and failed.failure is not None:
            own, others = failed.failure, Failure(OTHER_FAILS + failed.failure.message)
            conclusion = refused(members, others)
            failed.failure = own
            return conclusion
        placed = [each for each in members if each.failure is None]
        # Members of a whole group may preempt one by one.
        is_whole = found is None and any(each.permit.is_success for each in placed)
        if is_whole and all(each.preemption is None for each in placed):
            return SCHEDULED, ""
        message = WAITS_FOR_VICTIMS if is_whole else choice.verdict(GROUP_FAILS)
        waits = is_whole or (status is not None and status.is_success)
        plugins = self._awaited(members, choice)
        for each in members:
            each.preemption = each.preemption if is_whole else None
        for each in placed:
            each.failure = (
                waits_for_victims(each, plugins, message) if waits else let_down(each, plugins)
            )
        if status is None or status.is_success:
            return UNSCHEDULABLE, message
        # If the group fails even without all possible victims, `message` names its only placement.
        why = message if status.message == GROUP_FAILS else status.message
        return UNSCHEDULABLE, f"{message}, {why}"

    def _evict(self, members: Sequence[Attempt], group: PodGroup, found: GroupVictims) -> None:
        """Evict the victims of a whole group."""
        pods = [each.queued.pod_info for each in members if not each.is_gone]
        profile, uids = pods[0].spec.scheduler_name, tuple(pod.uid for pod in pods)
        preemptor = Preemptor(group_reference(group), profile, uids)
        self._preemption_executor.evict(preemptor, found.victims)

    def _awaited(self, members: Sequence[Attempt], choice: PlacementChoice) -> frozenset[str]:
        """The plugins whose events may help any member; rejected ones wait for other placements."""
        if choice.rows is not None:
            of_others = self._placements.awaited_plugins(members)
            for each in members:
                if each.failure is not None and each.failure.is_rejection:
                    rejectors = each.failure.unschedulable_plugins | of_others
                    each.failure = replace(each.failure, unschedulable_plugins=rejectors)
        return frozenset[str]().union(*map(awaited_plugins, members))

    def _settle(self, members: Iterable[Attempt], *, again: bool = False) -> Iterator[None]:
        """Start the binding cycles of members without a failure; unreserve and fail the others.

        With `again`, failed members are requeued with backoff, whether or not an event comes.
        """
        # Without the wait, long attempts could follow one another without end as nodes change.
        waits_out = self.step.took_long
        for member in members:
            if self.step.is_over:
                yield
            self.step.settle()
            if member.has_left:
                continue
            if member.failure is None:
                self._core.waiting.deciding = member.pod.uid
                self._failures.guarded(member, lambda: self._start(member))  # noqa: B023
                self._core.waiting.deciding = ""
            else:
                member.queued.waits_out = waits_out
                self._fail(member, member.failure)
                if again:
                    self._core.queue.try_again(member.pod.uid)

    def _fail(self, member: Attempt, failure: Failure) -> None:
        """Fail and unreserve a member, and evict the victims of its preemption."""
        if self._core.is_held(member.pod):
            # Its group is held by now: a nomination would keep room that no attempt uses.
            member.preemption = None
            failure = replace(failure, nominated_node_name="")
        if member.preemption is not None and self._core.queue.get(member.pod.uid) is not None:
            self._preemption_executor.begin(member.queued.pod_info, member.preemption)
        self._failures.handle_scheduling_failure(member, failure, was_seen=self._was_seen)

    def _start(self, member: Attempt) -> None:
        """Start the binding cycle of a member, unless a Permit plugin for single pods holds it."""
        status, timeouts = SUCCESS, dict[str, float]()
        of_groups = member.framework.plugins.group_plugins
        if member.waits_for - of_groups:
            status, waits = member.framework.run_permit_plugins(member.cycle_state, member.pod)
            timeouts = {name: waits[name] for name in waits.keys() - of_groups}
        # The group's own Permit plugins have nothing left to wait for.
        status = SUCCESS if status.code is Code.WAIT else status
        self._binding.permitted(member, status, timeouts)

    def _note(
        self, members: Sequence[Attempt], attempt: GroupAttempt, wanted: tuple[str, str, str]
    ) -> None:
        """Store the attempt, and write the condition of the group if it changes."""
        groups, pod = self._core.groups, members[0].pod
        known = self._core.group_of(pod)
        if groups is None or known is None:
            return
        group, written = known.group, known.written
        patch = None if group is None else group_condition(group, written, wanted)
        if group is not None and patch is not None:
            written = group.uid, *wanted, group.generation
            self._core.out.append(patch)
        groups.note_attempt((pod.namespace, pod.group_name), attempt, written)
