"""Pod groups whose members ask extenders before the cycle of the group.

Meanwhile no member is assumed, and other pods and groups are scheduled. Members ask concurrently,
like single pods, and wait in the same line. When all members have their answers, the cycle of the
group uses these. Members that are popped until then join the group.

A group under way asks again only if nodes fit that the answers do not cover, or if extenders must
accept the victims of a member. Then its members stay assumed, and no other pod is popped until the
answer comes.

Source: kubernetes pkg/scheduler/schedule_one.go (findNodesThatPassExtenders) v1.36.
Differs: upstream asks about one member after the other, with all earlier members assumed.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from scheduler.kernel.engine.algorithm import ScheduleResult
from scheduler.kernel.engine.attempt import Attempt, AttemptState
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.group_members import Member, guarded
from scheduler.kernel.engine.pending_extender_calls import PendingExtenderCalls
from scheduler.kernel.extender import Answer, ExtenderError
from scheduler.kernel.framework.interface import Candidate
from scheduler.kernel.framework.runtime import AttemptDiagnosis
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.groups import GroupKey

MAX_CALLS: Final = 4
"""The most times that extenders are asked about the nodes of one attempt."""
NODES_CHANGE: Final = "the nodes that fit have changed each time extenders were asked about them"


class _Group(msgspec.Struct):
    """A group that waits for answers.

    Attributes:
        members: all members.
        asking: the attempts of members that wait for answers, or for their turn to ask.
    """

    members: list[Member]
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
        self._asking: dict[int, Member] = {}
        self._under_way: Member | None = None
        calls.on_end = self._through

    # --- before their turn ------------------------------------------------------------------------

    def members(self) -> list[Member]:
        """The members of all groups that wait."""
        return [member for group in self._groups.values() for member in group.members]

    def begin(self, members: Sequence[Member]) -> bool:
        """Put members into the line to ask extenders; return whether their group waits now.

        Members of a group that waits already join it.
        """
        place = _place(members[0])
        extenders = self._core.extenders
        concerned = [each for each in members if extenders.about_nodes(each.attempt.pod)]
        group = self._groups.get(place)
        if not concerned and group is None:
            return False
        if group is None:
            group = self._groups[place] = _Group([], set())
        group.members.extend(members)
        group.asking.update(each.attempt.id for each in concerned)
        for member in concerned:
            self._asking[member.attempt.id] = member
            self._calls.wait_in_line(member.attempt)
        return True

    def ask(self, attempt: Attempt) -> None:
        """Ask extenders about a member whose turn has come."""
        member = self._asking.get(attempt.id)
        if member is not None:
            guarded(self._core, member, self._ask)
            self._note(member)

    def take_ready(self) -> list[Member]:
        """Remove the first group that has all its answers, and return its members."""
        return self._groups.pop(self.ready.popleft()).members

    def _ask(self, member: Member) -> None:
        self._core.catch_up()
        self._calls.ask_about_nodes(member.attempt, tries_nominated=True)

    def _note(self, member: Member) -> None:
        """End the asking of a member that waits for no more answers; its group may be ready."""
        if not _waits(member):
            self._calls.leave_turn(member.attempt)
            self._through(member.attempt)

    def _through(self, attempt: Attempt) -> None:
        """Record that an attempt asks no more: it has its answers, has ended, or is assumed."""
        member = self._asking.pop(attempt.id, None)
        if member is None:
            return
        place = _place(member)
        group = self._groups[place]
        group.asking.discard(attempt.id)
        if not group.asking:
            self.ready.append(place)

    # --- under way --------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether a member of the group under way waits for an answer."""
        return self._under_way is not None and _waits(self._under_way)

    def found(self, member: Member) -> ScheduleResult | AttemptDiagnosis | Failure | None:
        """Choose a node for a member among those that extenders let pass; see `schedule_pod`.

        Returns:
            None while extenders are asked.

        Raises:
            PluginError: a plugin failed.
        """
        core, attempt, within = self._core, member.attempt, member.within
        about = attempt.framework, attempt.pod, core.snapshot, core.queue.nominator
        if not core.extenders.about_nodes(attempt.pod):
            return core.algorithm.schedule_pod(*about, within)
        calls, advice = attempt.extender_calls, attempt.advice
        if calls is None or advice is None:
            found = core.algorithm.schedule_pod(*about, within)
            if not isinstance(found, ScheduleResult):
                return found
        else:
            found = core.algorithm.schedule_pod(*about, within, advice)
            if not isinstance(found, AttemptDiagnosis) or not found.unasked or calls.is_sample:
                return found
        return self._asked_anew(member)

    def _asked_anew(self, member: Member) -> ScheduleResult | AttemptDiagnosis | Failure | None:
        """Ask extenders about the nodes that fit now; None while they are asked."""
        attempt = member.attempt
        calls = attempt.extender_calls
        if member.within is not None or (calls is not None and calls.begun >= MAX_CALLS):
            # Rows chosen for a group may stand for other nodes by the time of an answer.
            return Failure(NODES_CHANGE)
        self._under_way = member
        self._calls.take_turn_at_once(attempt)
        if self._calls.ask_about_nodes(attempt, tries_nominated=False):
            return None
        # No extender is asked: all are suspended at present.
        return self.found(member)

    def asks_about_victims(self, member: Member, candidates: Sequence[Candidate]) -> bool:
        """Ask extenders about the victims of a member; return whether an answer must be awaited."""
        if not self._core.extenders.about_candidates(member.attempt.pod):
            return False
        self._under_way = member
        self._calls.take_turn_at_once(member.attempt)
        return self._calls.ask_about_candidates(member.attempt, candidates)

    def answered(self, attempt: Attempt, number: int, answer: Answer) -> None:
        """Handle an extender's answer about a member."""
        member = self._asking.get(attempt.id, self._under_way)
        if member is not None and member.attempt is attempt:
            guarded(self._core, member, lambda _: self._take(number, answer))
            self._note(member)

    def _take(self, number: int, answer: Answer) -> None:
        # The failure matters only if a node fits when the member is placed: see `Advice`.
        with suppress(ExtenderError):
            self._calls.take(number, answer)


def _waits(member: Member) -> bool:
    """Whether an answer for a member is outstanding."""
    attempt = member.attempt
    if attempt.state is not AttemptState.ASKING or attempt.extender_calls is None:
        return False
    return member.failure is None and bool(attempt.extender_calls.open)


def _place(member: Member) -> GroupKey:
    pod = member.attempt.pod
    return pod.namespace, pod.group_name
