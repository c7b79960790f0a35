"""What extenders say about the nodes that could be cleared for a pod.

Source: kubernetes pkg/scheduler/framework/preemption/preemption.go (callExtenders), extender.go
(ProcessPreemption) v1.36.
"""

from collections.abc import Callable, Mapping, Sequence

from scheduler.api.pods import PodInfo
from scheduler.kernel.extender.consultation import OTHER_VERB, ExtenderError
from scheduler.kernel.extender.extenders import Extenders, KnownExtender
from scheduler.kernel.extender.questions import (
    Answer,
    NoAnswer,
    Preempted,
    Question,
    Verb,
)
from scheduler.kernel.framework.interface import Candidate

PodsOn = Callable[[str], Mapping[str, PodInfo] | None]
"""The pods on a node by UID; None for a node that is unknown."""


class Review:
    """Asks about candidates: each extender sees what the one before it has left.

    Attributes:
        candidates: what is left.
    """

    def __init__(
        self, extenders: Extenders, asked: tuple[int, ...], candidates: Sequence[Candidate]
    ) -> None:
        self._extenders = extenders
        self._waiting = list(asked)
        self.candidates = tuple(candidates)

    def next_questions(self, now: float) -> list[Question]:
        """What is to be asked next; nothing at the end. See `Consultation.next_questions`."""
        while self._waiting and self.candidates:
            number = self._waiting.pop(0)
            if not self._extenders.is_skipped(number, now):
                return [Question(number, Verb.PREEMPT, candidates=self.candidates)]
        return []

    def take(self, question: Question, answer: Answer, pods_on: PodsOn) -> str:
        """Take over an answer; gives what went wrong and does not matter, or nothing.

        Raises:
            ExtenderError: it matters.
        """
        extender = self._extenders.all[question.extender]
        try:
            self.candidates = tuple(_candidates(extender, answer, pods_on))
        except ExtenderError as problem:
            if not extender.config.ignorable:
                raise
            return str(problem)
        return ""


def _candidates(extender: KnownExtender, answer: Answer, pods_on: PodsOn) -> list[Candidate]:
    if not isinstance(answer, Preempted):
        raise ExtenderError(answer.problem if isinstance(answer, NoAnswer) else OTHER_VERB)
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
            f"extender: {extender.name} claims to preempt pod (UID: {uid}) on node: {node_name}, "
            "but the pod is not found on that node"
        )
    return pod
