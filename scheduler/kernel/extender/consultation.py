"""What extenders say about the nodes for one pod: one filter after the other, then all scores.

Nodes are known by name: while an extender thinks, the rows of a snapshot change. What comes out is
advice; whether a node still fits is judged when the advice is there.

Source: kubernetes pkg/scheduler/schedule_one.go (findNodesThatPassExtenders, prioritizeNodes),
extender.go (Filter) v1.36.
Differs: what an extender says about nodes that it was not asked about is left out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from scheduler.errors import SchedulerError
from scheduler.kernel.extender.extenders import Extenders
from scheduler.kernel.extender.questions import (
    Answer,
    Filtered,
    NoAnswer,
    Prioritized,
    Question,
    Verb,
)
from scheduler.kernel.framework.status import EXTENDER, Status, unresolvable, unschedulable

SCALE: Final = 10
"""Extenders score up to 10, plugins up to 100. Source: MaxExtenderPriority, MaxNodeScore."""

OTHER_VERB: Final = "the answer is to another question"

_INT64_RANGE: Final = 2**64
_INT64_HALF: Final = 2**63


class ExtenderError(SchedulerError):
    """An extender that cannot be ignored has failed."""


class Advice(msgspec.Struct, frozen=True):
    """What extenders have said.

    Attributes:
        nodes: where the pod may go.
        asked: the nodes they were asked about.
        rejected: why not to the others, as far as they said it.
        scores: by extender and node, what they said, unweighted.
        totals: by node, all weighted scores together.
    """

    nodes: tuple[str, ...]
    asked: frozenset[str]
    rejected: Mapping[str, Status]
    scores: Mapping[int, Mapping[str, int]]
    totals: Mapping[str, int]


class Consultation:
    """Asks about some nodes.

    Attributes:
        is_alone: whether the only node is the one the pod is nominated to, tried before all others.
    """

    def __init__(
        self,
        extenders: Extenders,
        asked: tuple[int, ...],
        nodes: tuple[str, ...],
        *,
        is_alone: bool = False,
    ) -> None:
        """Begin to ask.

        `asked` are the numbers of those that the pod concerns, `nodes` those on which it fits.
        """
        self._extenders = extenders
        self._left = nodes
        self._all = frozenset(nodes)
        self._rejected: dict[str, Status] = {}
        self._filters = [n for n in asked if extenders.all[n].config.filter_verb]
        self._scorers = [n for n in asked if extenders.all[n].config.prioritize_verb]
        self._scores: dict[int, Counter[str]] = {}
        self.is_alone = is_alone

    @property
    def leaves_nothing(self) -> bool:
        """Whether no node is left."""
        return not self._left

    def next_questions(self, now: float) -> list[Question]:
        """What is to be asked when all that was asked has been answered; nothing at the end.

        Args:
            now: extenders that are suspended at this time are not called.
        """
        while self._filters and self._left:
            number = self._filters.pop(0)
            if not self._extenders.is_skipped(number, now):
                return [Question(number, Verb.FILTER, self._left)]
        scorers, self._scorers = self._scorers, []
        if len(self._left) <= 1:
            return []
        return [
            Question(number, Verb.PRIORITIZE, self._left)
            for number in scorers
            if not self._extenders.is_skipped(number, now)
        ]

    def take(self, question: Question, answer: Answer) -> str:
        """Take over an answer; gives what went wrong and does not matter, or nothing.

        Raises:
            ExtenderError: it matters.
        """
        if isinstance(answer, Prioritized):
            self._scores[question.extender] = _summed(answer)
            return ""
        extender = self._extenders.all[question.extender]
        if isinstance(answer, Filtered):
            given = frozenset(question.nodes)
            stranger = next((name for name in answer.nodes if name not in given), None)
            if stranger is None:
                self._narrow(question, answer)
                return ""
            answer = NoAnswer(
                f'extender "{extender.name}" claims a filtered node "{stranger}" which is not '
                "found in the input node list"
            )
        problem = answer.problem if isinstance(answer, NoAnswer) else OTHER_VERB
        if question.verb is Verb.FILTER and not extender.config.ignorable:
            if not self.is_alone:
                raise ExtenderError(problem)
            # The nominated node is only tried; then all the others are.
            self._left = ()
        return problem

    def advice(self) -> Advice:
        """What was said."""
        totals: Counter[str] = Counter()
        for number, scores in self._scores.items():
            weight = self._extenders.all[number].config.weight * SCALE
            totals.update({name: score * weight for name, score in scores.items()})
        wrapped = {name: _as_int64(total) for name, total in totals.items()}
        return Advice(self._left, self._all, self._rejected, self._scores, wrapped)

    def _narrow(self, question: Question, answer: Filtered) -> None:
        kept = frozenset(answer.nodes)
        asked = frozenset(question.nodes)
        self._rejected.update(_statuses(answer, asked - kept))
        self._left = tuple(name for name in question.nodes if name in kept)


def _statuses(answer: Filtered, nodes: frozenset[str]) -> Iterator[tuple[str, Status]]:
    """Why nodes were left out; not all extenders say it. Unresolvable counts more."""
    for name, text in answer.failed.items():
        if name in nodes:
            yield name, unschedulable(text).by(EXTENDER)
    for name, text in answer.unresolvable.items():
        if name in nodes:
            yield name, unresolvable(text).by(EXTENDER)


def _summed(answer: Prioritized) -> Counter[str]:
    """A node that is named twice gets both scores."""
    scores: Counter[str] = Counter()
    for name, score in answer.scores:
        scores[name] += score
    return scores


def _as_int64(number: int) -> int:
    """Upstream's sums wrap around."""
    return (number + _INT64_HALF) % _INT64_RANGE - _INT64_HALF
