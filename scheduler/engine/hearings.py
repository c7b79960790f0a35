"""Whose turn it is to ask extenders, and which questions are under way.

Only so many attempts ask at a time: an extender that thinks for long must not have all pods of the
queue before it, each with its list of nodes. The others wait in line, the most important one first.
"""

from heapq import heappop, heappush
from typing import Any, Final

from scheduler.api.pods import PodInfo
from scheduler.engine.attempt import Attempt, Hearing
from scheduler.engine.core import Core
from scheduler.engine.instructions import Ask, Report
from scheduler.extender import Answer, Question, Verb

MAX_ASKING: Final = 64
"""Attempts that ask extenders at a time."""

SKIPPED: Final = "Extender failed; going on without its answer"
LEFT_ALONE: Final = "Extender keeps being late; it is not asked for a while"


class Hearings:
    """All attempts that ask extenders, or wait for their turn.

    Attributes:
        extenders: all that are configured.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.extenders: Final = core.extenders
        self._asking: set[int] = set()
        """The attempts whose turn it is."""
        self._line: list[tuple[Any, int, Attempt]] = []
        """The others by importance, as a heap; those that have ended stay until they come up."""
        self._waiting: set[int] = set()
        """Those in the line that have not ended."""
        self._open: dict[int, Attempt] = {}
        """Attempts by the number of each question that has no answer yet."""
        self._last_question = 0

    @property
    def has_turn(self) -> bool:
        """Whether an attempt in the line may go on."""
        return bool(self._waiting) and len(self._asking) < MAX_ASKING

    def counts(self) -> tuple[int, int]:
        """Attempts that ask, and attempts in the line."""
        return len(self._asking), len(self._waiting)

    def about_nodes(self, pod: PodInfo) -> tuple[int, ...]:
        """Who has a say in where a pod goes."""
        return self.extenders.asked(pod, Verb.FILTER, Verb.PRIORITIZE)

    def is_in_line(self, attempt: Attempt) -> bool:
        """Whether an attempt waits for its turn."""
        return attempt.id in self._waiting

    def take_turn(self, attempt: Attempt) -> bool:
        """Let an attempt ask if there is room; else it waits in line.

        One that waits keeps nothing of what was found out about nodes: it begins anew.
        """
        if attempt.id in self._asking:
            return True
        if len(self._asking) < MAX_ASKING:
            self._asking.add(attempt.id)
            return True
        attempt.hearing = None
        heappush(self._line, (self._key(attempt), attempt.id, attempt))
        self._waiting.add(attempt.id)
        self._core.queue.done_scheduling_cycle(attempt.pod.uid)
        return False

    def next_in_line(self) -> Attempt | None:
        """The most important attempt that may go on, if there is one."""
        while self._line and len(self._asking) < MAX_ASKING:
            _, number, attempt = heappop(self._line)
            if number in self._waiting:
                self._waiting.discard(number)
                self._asking.add(number)
                self._core.queue.begin_scheduling_cycle(attempt.pod.uid)
                return attempt
        return None

    def ask(self, attempt: Attempt, hearing: Hearing, questions: list[Question]) -> str:
        """Send questions; says for people which."""
        for question in questions:
            self._last_question += 1
            hearing.open[self._last_question] = question
            self._open[self._last_question] = attempt
            self._core.out.append(
                Ask(
                    attempt.id,
                    self._last_question,
                    question.extender,
                    question.verb,
                    len(question.nodes or question.candidates),
                )
            )
        names = [self.extenders.all[question.extender].name for question in questions]
        return f"{questions[0].verb.value} {', '.join(names)}"

    def question(self, number: int) -> tuple[Question, PodInfo] | None:
        """What an extender is to be asked, and about which pod; None when nobody wants to know."""
        attempt = self._open.get(number)
        if attempt is None or attempt.hearing is None:
            return None
        return attempt.hearing.open[number], attempt.pod

    def asked_by(self, number: int) -> Attempt | None:
        """Who waits for the answer to a question; None when it comes too late."""
        return self._open.get(number)

    def close(self, hearing: Hearing, number: int, answer: Answer) -> Question:
        """Take note of an answer; gives the question."""
        del self._open[number]
        question = hearing.open.pop(number)
        self.note(question.extender, answer)
        return question

    def note(self, extender: int, answer: Answer) -> None:
        """An extender has answered, or has not."""
        core = self._core
        if self.extenders.note(extender, answer, core.now):
            name = self.extenders.all[extender].name
            core.extender_metrics.left_alone[name].inc()
            core.out.append(Report(LEFT_ALONE, problem=name))

    def went_on_without(self, attempt: Attempt, extender: int, problem: str) -> None:
        """Something went wrong that does not matter to the attempt."""
        name = self.extenders.all[extender].name
        self._core.out.append(Report(SKIPPED, attempt.pod.key, f"{name}: {problem}"))

    def binder(self, attempt: Attempt) -> int | None:
        """The extender that is to bind an attempt's pod; None for the profile's plugins."""
        number = self.extenders.binder(attempt.pod)
        skipped = number is not None and self.extenders.is_skipped(number, self._core.now)
        return None if skipped else number

    def forget(self, attempt: Attempt) -> None:
        """An attempt asks no more."""
        if attempt.hearing is not None:
            for number in attempt.hearing.open:
                self._open.pop(number, None)
        self._asking.discard(attempt.id)
        self._waiting.discard(attempt.id)
        if not self._waiting:
            self._line.clear()

    def _key(self, attempt: Attempt) -> Any:
        return attempt.queued.is_slow, attempt.framework.sort_key(attempt.queued)
