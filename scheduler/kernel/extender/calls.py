"""The calls to extenders about one pod: the next extender to call, and the combined result.

Nodes are known by name: while an extender works, the rows of a snapshot change. Whether a node
still fits is judged when all have answered.

Source: kubernetes pkg/scheduler/schedule_one.go (findNodesThatPassExtenders, prioritizeNodes),
framework/preemption/preemption.go (callExtenders), extender.go (Filter, ProcessPreemption) v1.36.
Differs: results for nodes that were not sent to the extender are left out.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.extender.advice import SCALE, Advice
from scheduler.kernel.extender.extenders import Extenders, KnownExtender
from scheduler.kernel.extender.questions import (
    Answer,
    Filtered,
    NoAnswer,
    Preempted,
    Prioritized,
    Question,
    Verb,
)
from scheduler.kernel.framework.results import Candidate
from scheduler.kernel.framework.runtime.diagnosis import Reviewed
from scheduler.kernel.framework.status import EXTENDER, Status, unresolvable, unschedulable

_OTHER_VERB: Final = "the answer is to another question"
_INT64_RANGE: Final = 2**64
_INT64_HALF: Final = 2**63

PodsOn: TypeAlias = Callable[[str], Mapping[str, PodInfo] | None]
"""The pods on a node by UID; None for a node that is unknown."""


class ExtenderError(SchedulerError):
    """An extender that cannot be ignored has failed."""


class CallState(Enum):
    """The verb that extenders are called with at present."""

    DECIDE = "decide"
    """No call: the scheduler decides, with the results as they are."""
    FILTER = "filter"
    """Filter the nodes; one extender after the other, each on the nodes that are left."""
    PRIORITIZE = "prioritize"
    """Score the nodes that are left; all extenders at once. A failed one scores nothing."""
    PREEMPT = "preempt"
    """Choose the victims to evict; one extender after the other, each on the candidates left."""
    FAILED = "failed"
    """No further calls about nodes: the attempt fails, unless no feasible node is left."""


class CallEvent(Enum):
    """An event of the calls about a pod."""

    NODES = "nodes"
    """Nodes on which the pod fits were found."""
    CANDIDATES = "candidates"
    """Candidate nodes for a preemption were found."""
    LAST = "last"
    """All interested extenders have answered, were skipped, or have nothing left to judge."""
    FAIL = "fail"
    """An extender that is not ignorable has failed."""


_S, _E = CallState, CallEvent

CALL_TRANSITIONS: Final = {
    (_S.DECIDE, _E.NODES): _S.FILTER,
    (_S.DECIDE, _E.CANDIDATES): _S.PREEMPT,
    (_S.FILTER, _E.LAST): _S.PRIORITIZE,
    (_S.FILTER, _E.FAIL): _S.FAILED,
    (_S.PRIORITIZE, _E.LAST): _S.DECIDE,
    (_S.FAILED, _E.CANDIDATES): _S.PREEMPT,
    (_S.PREEMPT, _E.LAST): _S.DECIDE,
    (_S.PREEMPT, _E.FAIL): _S.DECIDE,
}
"""The next state for each allowed pair; after FAIL in PREEMPT, `reviewed` has only a problem."""


class ExtenderCalls:
    """All calls about one pod.

    Attributes:
        state: the state of the calls.
        open: the calls without an answer yet, by number.
        begun: number of times that calls about nodes were begun.
        is_sample: whether the nodes are a sample of those on which the pod fits.
        candidates: the remaining candidate nodes of the preemption.
        reviewed: the reviewed candidates; None before all have answered.
        problem: the error of an extender that is not ignorable, about nodes; empty without one.
    """

    def __init__(self, extenders: Extenders) -> None:
        self._extenders = extenders
        self.state = CallState.DECIDE
        self.open: dict[int, Question] = {}
        self.begun = 0
        self.is_sample = self._is_alone = False
        self.reviewed: Reviewed | None = None
        self.problem = ""
        self._due: list[int] = []
        """Extenders that are still to filter nodes or to review candidates, in order."""
        self._scorers: list[int] = []
        self._asked: frozenset[str] = frozenset()
        self._left: tuple[str, ...] = ()
        self.candidates: tuple[Candidate, ...] = ()
        self._rejected: dict[str, Status] = {}
        self._scores: dict[int, Counter[str]] = {}

    def begin_nodes(
        self,
        asked: tuple[int, ...],
        nodes: tuple[str, ...],
        *,
        is_alone: bool = False,
        is_sample: bool = False,
    ) -> None:
        """Begin the calls about nodes.

        Args:
            asked: the numbers of the extenders interested in the pod.
            nodes: the nodes on which it fits.
            is_alone: whether the only node is the nominated one, tried before others.
            is_sample: whether the pod fits on further nodes.
        """
        self._advance(CallEvent.NODES)
        self.begun += 1
        self.is_sample, self._is_alone = is_sample, is_alone
        known = self._extenders.all
        self._due = [number for number in asked if known[number].config.filter_verb]
        self._scorers = [number for number in asked if known[number].config.prioritize_verb]
        self._asked, self._left = frozenset(nodes), nodes
        self._rejected, self._scores = {}, {}

    def begin_candidates(self, asked: tuple[int, ...], candidates: Sequence[Candidate]) -> None:
        """Begin the calls about the candidate nodes of a preemption."""
        self._advance(CallEvent.CANDIDATES)
        self._due, self.candidates = list(asked), tuple(candidates)

    @property
    def rejects_nominated(self) -> bool:
        """Whether an extender rejected the nominated node, tried alone: other nodes are next."""
        return self._is_alone and not self._left

    @property
    def gave_nominated_a_reason(self) -> bool:
        """Whether an extender gave a reason for the nominated node, tried alone."""
        return self._is_alone and bool(self._rejected)

    def next_calls(self, now: float) -> list[Question]:
        """The calls to make once all have answered; none when the scheduler is to decide.

        Args:
            now: extenders that are suspended at this time are not called.
        """
        if self.state is CallState.FILTER:
            number = self._next_due(now) if self._left else None
            if number is not None:
                return [Question(number, Verb.FILTER, self._left)]
            self._advance(CallEvent.LAST)
            calls = [
                Question(number, Verb.PRIORITIZE, self._left)
                for number in (self._scorers if len(self._left) > 1 else ())
                if not self._extenders.is_skipped(number, now)
            ]
            if calls:
                return calls
        elif self.state is CallState.PREEMPT:
            number = self._next_due(now) if self.candidates else None
            if number is not None:
                return [Question(number, Verb.PREEMPT, candidates=self.candidates)]
            self.reviewed = Reviewed(self.candidates)
        if self.state is not CallState.DECIDE:
            self._advance(CallEvent.LAST)
        return []

    def take(self, question: Question, answer: Answer, pods_on: PodsOn = lambda _: None) -> str:
        """Apply an answer; returns the text of an ignored error, or nothing.

        Raises:
            ExtenderError: an extender that is not ignorable has failed to filter.
        """
        extender = self._extenders.all[question.extender]
        if question.verb is Verb.PREEMPT:
            return self._take_candidates(extender, answer, pods_on)
        if isinstance(answer, Prioritized):
            self._scores[question.extender] = _summed(answer)
            return ""
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
        problem = _problem(answer)
        if question.verb is Verb.FILTER and not extender.config.ignorable:
            if not self._is_alone:
                self._advance(CallEvent.FAIL)
                self.problem = problem
                raise ExtenderError(problem)
            # The nominated node was tried alone; the other nodes are tried next.
            self._left = ()
        return problem

    def advice(self) -> Advice | None:
        """The combined results for nodes; None if no nodes were sent."""
        if not self.begun:
            return None
        totals: Counter[str] = Counter()
        for number, scores in self._scores.items():
            weight = self._extenders.all[number].config.weight * SCALE
            totals.update({name: score * weight for name, score in scores.items()})
        wrapped = {name: _as_int64(total) for name, total in totals.items()}
        left = frozenset(self._left)
        rejected = {name: status for name, status in self._rejected.items() if name not in left}
        return Advice(self._left, self._asked, rejected, self._scores, wrapped, self.problem)

    def _advance(self, event: CallEvent) -> None:
        self.state = CALL_TRANSITIONS[self.state, event]

    def _next_due(self, now: float) -> int | None:
        while self._due:
            number = self._due.pop(0)
            if not self._extenders.is_skipped(number, now):
                return number
        return None

    def _narrow(self, question: Question, answer: Filtered) -> None:
        kept, asked = frozenset(answer.nodes), frozenset(question.nodes)
        self._rejected.update(_statuses(answer, asked))
        self._left = tuple(name for name in question.nodes if name in kept)

    def _take_candidates(self, extender: KnownExtender, answer: Answer, pods_on: PodsOn) -> str:
        try:
            self.candidates = tuple(_candidates(extender, answer, pods_on))
        except ExtenderError as problem:
            if extender.config.ignorable:
                return str(problem)
            # PostFilter returns this problem, and the attempt fails without victims.
            self._advance(CallEvent.FAIL)
            self.reviewed = Reviewed(problem=str(problem))
        return ""


def _problem(answer: Answer) -> str:
    return answer.problem if isinstance(answer, NoAnswer) else _OTHER_VERB


def _statuses(answer: Filtered, nodes: frozenset[str]) -> Iterator[tuple[str, Status]]:
    """The reasons of nodes, where the extender gave them. Unresolvable ones win.

    A node that passed may have one: it counts if a later extender leaves the node out.
    """
    for name, text in answer.failed.items():
        if name in nodes:
            yield name, unschedulable(text).by(EXTENDER)
    for name, text in answer.unresolvable.items():
        if name in nodes:
            yield name, unresolvable(text).by(EXTENDER)


def _summed(answer: Prioritized) -> Counter[str]:
    """The scores by node; a repeated node gets the sum of its scores."""
    scores: Counter[str] = Counter()
    for name, score in answer.scores:
        scores[name] += score
    return scores


def _as_int64(number: int) -> int:
    """Wrap a sum around at 64 bits, as Go does upstream."""
    return (number + _INT64_HALF) % _INT64_RANGE - _INT64_HALF


def _candidates(extender: KnownExtender, answer: Answer, pods_on: PodsOn) -> list[Candidate]:
    if not isinstance(answer, Preempted):
        raise ExtenderError(_problem(answer))
    found = []
    for node_name, victims in answer.victims.items():
        pods = pods_on(node_name)
        if pods is None:
            raise ExtenderError(f'nodeinfo not found for node name "{node_name}"')
        uids = dict.fromkeys(victims.uids)
        chosen = tuple(_victim(extender, node_name, uid, pods) for uid in uids)
        if chosen:
            found.append(Candidate(node_name, chosen, victims.pdb_violations))
        elif not extender.config.ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{node_name}"')
    return found


def _victim(
    extender: KnownExtender, node_name: str, uid: str, pods: Mapping[str, PodInfo]
) -> PodInfo:
    pod = pods.get(uid)
    if pod is None:
        raise ExtenderError(
            # Upstream prints the struct that holds the UID.
            f"extender: {extender.name} claims to preempt pod (UID: &{{{uid}}}) on node: "
            f"{node_name}, but the pod is not found on that node"
        )
    return pod
