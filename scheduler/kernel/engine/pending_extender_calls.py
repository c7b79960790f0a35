"""The calls to extenders that attempts wait for, and the attempts that wait for their turn.

At most `MAX_ASKING` attempts ask at a time; the others wait in line, the most important first.
Otherwise a slow extender could hold all pods of the queue, each with its list of nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.algorithm import Found, ScheduleResult
from scheduler.kernel.engine.attempt import Attempt, AttemptEvent, AttemptState
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.instructions import Ask, LogError
from scheduler.kernel.extender import Answer, ExtenderCalls, Question
from scheduler.kernel.framework.results import Candidate
from scheduler.kernel.framework.runtime import AttemptDiagnosis
from scheduler.kernel.framework.types import Failure
from scheduler.observability.extender_metrics import ExtenderMetrics

MAX_ASKING: Final = 64
"""Attempts that ask extenders at a time."""
MAX_CALLS: Final = 4
"""The most times that extenders are asked about the nodes of one attempt."""

IN_LINE: Final = "waits for its turn"
SKIPPED: Final = "Extender failed; going on without its answer"
LEFT_ALONE: Final = "Extender keeps being late; it is not asked for a while"
NODES_CHANGE: Final = "the nodes that fit have changed each time extenders were asked about them"


class PendingExtenderCalls:
    """All attempts that ask extenders, or wait for their turn.

    Attributes:
        on_end: called for each attempt that asks no more, as it has ended or is assumed.
    """

    def __init__(self, core: EngineState) -> None:
        self._core = core
        self._advance = core.attempts.advance
        self._extenders = core.extenders
        self._metrics = ExtenderMetrics(core.services.metrics)
        self._asking: set[int] = set()
        """The attempts that ask now."""
        self._line: list[tuple[Any, int, Attempt]] = []
        """The other attempts by importance, as a heap; at most half of them have ended."""
        self.waiting: set[int] = set()
        """The attempts in the line that have not ended."""
        self._open: dict[int, tuple[Attempt, ExtenderCalls]] = {}
        """Attempts and their calls by the number of each question that has no answer yet."""
        self._last_question = 0
        self.on_end: Callable[[Attempt], None] = lambda _: None

    @property
    def has_turn(self) -> bool:
        """Whether an attempt in the line may go on."""
        return bool(self.waiting) and len(self._asking) < MAX_ASKING

    def counts(self) -> tuple[int, int]:
        """Number of attempts that ask, and of attempts in the line."""
        return len(self._asking), len(self.waiting)

    def is_in_line(self, attempt: Attempt) -> bool:
        """Whether an attempt waits for its turn."""
        return attempt.id in self.waiting

    def asks(self, attempt: Attempt) -> bool:
        """Whether extenders were asked about an attempt that is not assumed yet."""
        return attempt.state is AttemptState.ASKING and not self.is_in_line(attempt)

    def take_turn(self, attempt: Attempt) -> bool:
        """Let an attempt ask if fewer than `MAX_ASKING` do; else put it in line, and return False.

        An attempt in line keeps no results about nodes: it starts its cycle again at its turn.
        """
        if attempt.id in self._asking:
            return True
        if len(self._asking) < MAX_ASKING:
            self._asking.add(attempt.id)
            return True
        self.wait_in_line(attempt)
        return False

    def wait_in_line(self, attempt: Attempt) -> None:
        """Put an attempt in line, even if fewer than `MAX_ASKING` ask."""
        attempt.extender_calls = None
        heappush(self._line, (self._core.queue.sort_key(attempt.queued), attempt.id, attempt))
        self.waiting.add(attempt.id)
        self._core.queue.in_flight.stop_collecting(attempt.pod.uid)
        self._advance(attempt, AttemptEvent.ASK, IN_LINE)

    def take_turn_at_once(self, attempt: Attempt) -> None:
        """Let an attempt ask even beyond `MAX_ASKING`: its group has assumed members."""
        self._asking.add(attempt.id)

    def leave_turn(self, attempt: Attempt) -> None:
        """Free the turn of an attempt that has all its answers, for the next in line."""
        self._asking.discard(attempt.id)

    def next_in_line(self) -> Attempt | None:
        """The most important attempt that may go on, if there is one."""
        while self._line and len(self._asking) < MAX_ASKING:
            _, number, attempt = heappop(self._line)
            if number in self.waiting:
                self.waiting.discard(number)
                self._asking.add(number)
                self._core.queue.in_flight.collect(attempt.pod.uid)
                newest = self._core.queue.get(attempt.pod.uid)
                if newest is not None:
                    # As in the active queue: the queue collected no events in the meantime.
                    attempt.queued.pod_info = newest
                return attempt
        return None

    # --- asking ---------------------------------------------------------------------------------

    def ask_about_nodes(self, attempt: Attempt, *, tries_nominated: bool) -> bool:
        """Ask about the nodes that fit; return whether an answer must be awaited.

        With `tries_nominated`, ask about the nominated node of the pod only, if it fits.
        """
        core = self._core
        asked = self._extenders.about_nodes(attempt.pod)
        if not asked or not core.snapshot.table.count:
            return False
        before = attempt.extender_calls
        names, is_sample = core.algorithm.nodes_to_ask_about(
            attempt.framework,
            attempt.pod,
            core.snapshot,
            core.queue.nominator,
            tries_nominated=tries_nominated,
            evaluated=int(before is not None and before.gave_nominated_a_reason),
        )
        if not names:
            return False
        # Equal pods that wait for the result of this one need not wait for an answer.
        core.queue.is_not_rejected(attempt.pod.uid)
        is_alone = tries_nominated and names == (attempt.pod.pod.status.nominated_node_name,)
        calls = attempt.extender_calls = attempt.extender_calls or ExtenderCalls(self._extenders)
        calls.begin_nodes(asked, names, is_alone=is_alone, is_sample=is_sample)
        return self._make_next(attempt, calls)

    def search(self, attempt: Attempt, within: NDArray[np.intp] | None = None) -> Found | None:
        """Choose a node among those that extenders let pass; ask about nodes that no answer covers.

        Returns:
            None while extenders are asked.

        Raises:
            PluginError: a plugin failed.
        """
        core, framework, pod = self._core, attempt.framework, attempt.pod
        advice, calls = attempt.advice, attempt.extender_calls
        found = core.algorithm.schedule_pod(
            framework, pod, core.snapshot, core.queue.nominator, within, advice
        )
        if not core.extenders.all:
            return found
        if advice is None:
            is_covered = not isinstance(found, ScheduleResult) or not core.extenders.about_nodes(
                pod
            )
        else:
            is_covered = not isinstance(found, AttemptDiagnosis) or not found.unasked
        if is_covered or (calls is not None and calls.is_sample):
            return found
        if within is not None or (calls is not None and calls.begun >= MAX_CALLS):
            # Rows chosen for a group may stand for other nodes by the time of an answer.
            return Failure(NODES_CHANGE)
        self.take_turn_at_once(attempt)
        if self.ask_about_nodes(attempt, tries_nominated=False):
            return None
        # No extender is asked: all are suspended at present.
        return self.search(attempt, within)

    def ask_about_candidates(self, attempt: Attempt, candidates: Sequence[Candidate]) -> bool:
        """Ask extenders about the victims to evict.

        Returns:
            Whether the attempt waits for an answer or for its turn.
        """
        calls = attempt.extender_calls
        asked = self._extenders.about_candidates(attempt.pod)
        if not asked or not candidates or (calls is not None and calls.reviewed is not None):
            return False
        if not self.take_turn(attempt):
            return True
        calls = attempt.extender_calls = calls or ExtenderCalls(self._extenders)
        calls.begin_candidates(asked, candidates)
        return self._make_next(attempt, calls)

    def _make_next(self, attempt: Attempt, calls: ExtenderCalls) -> bool:
        """Ask the next questions; return whether there are any."""
        questions = calls.next_calls(self._core.now)
        for question in questions:
            self._send(attempt, calls, question)
        if questions:
            names = [self._extenders.all[question.extender].name for question in questions]
            detail = f"{questions[0].verb.value} {', '.join(names)}"
            self._advance(attempt, AttemptEvent.ASK, detail)
        return bool(questions)

    def _send(self, attempt: Attempt, calls: ExtenderCalls, question: Question) -> None:
        self._last_question += 1
        number, count = self._last_question, len(question.nodes or question.candidates)
        calls.open[number] = question
        self._open[number] = attempt, calls
        ask = Ask(attempt.id, number, question.extender, question.verb, count)
        self._core.out.append(ask)

    def question(self, number: int) -> tuple[Question, PodInfo] | None:
        """The question for an extender, and its pod; None when no attempt waits for the answer."""
        attempt, calls = self._open.get(number, (None, None))
        return None if attempt is None or calls is None else (calls.open[number], attempt.pod)

    def asked_by(self, number: int) -> Attempt | None:
        """The attempt that waits for the answer to a question; None when it comes too late."""
        return self._open.get(number, (None, None))[0]

    # --- answers --------------------------------------------------------------------------------

    def take(self, number: int, answer: Answer) -> bool:
        """Handle an answer; return whether the attempt has all the answers it needs.

        Raises:
            ExtenderError: an extender that cannot be ignored has failed to filter.
        """
        attempt, calls = self._open.pop(number)
        question = calls.open.pop(number)
        self._note(question.extender, answer)
        problem = calls.take(question, answer, self._pods_on)
        if problem:
            self.went_on_without(attempt, question.extender, problem)
        if calls.open or self._make_next(attempt, calls):
            return False
        if calls.rejects_nominated:
            self._core.catch_up()
            return not self.ask_about_nodes(attempt, tries_nominated=False)
        return True

    def _pods_on(self, node_name: str) -> Mapping[str, PodInfo] | None:
        info = self._core.cache.nodes.get(node_name)
        return None if info is None or info.node is None else info.pods

    def _note(self, extender: int, answer: Answer) -> None:
        """Record whether an answer was late; log when that suspends the extender."""
        core = self._core
        if self._extenders.note(extender, answer, core.now):
            name = self._extenders.all[extender].name
            self._metrics.left_alone[name].inc()
            core.out.append(LogError(LEFT_ALONE, problem=name))

    def went_on_without(self, attempt: Attempt, extender: int, problem: str) -> None:
        """Report that an attempt goes on without the answer of an extender that failed."""
        name = self._extenders.all[extender].name
        self._core.out.append(LogError(SKIPPED, attempt.pod.key, f"{name}: {problem}"))

    def binder(self, attempt: Attempt) -> int | None:
        """The extender that is to bind an attempt's pod; None for the profile's plugins."""
        number = self._extenders.binder(attempt.pod)
        skipped = number is not None and self._extenders.is_skipped(number, self._core.now)
        return None if skipped else number

    def forget(self, attempt: Attempt) -> None:
        """Drop the open questions and the turn of an attempt that asks no more."""
        if attempt.extender_calls is not None:
            for number in attempt.extender_calls.open:
                self._open.pop(number, None)
        self._asking.discard(attempt.id)
        self.waiting.discard(attempt.id)
        if len(self._line) > 2 * len(self.waiting):
            self._line = [each for each in self._line if each[1] in self.waiting]
            heapify(self._line)
        self.on_end(attempt)

    def sort_anew(self) -> None:
        """Sort the line again by the QueueSort plugin of the current profiles.

        Cost: O(pods in the line).
        """
        key = self._core.queue.sort_key
        self._line = [(key(each.queued), each.id, each) for _, _, each in self._line]
        heapify(self._line)
