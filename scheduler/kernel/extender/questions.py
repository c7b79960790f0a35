"""Calls to an extender and their possible answers. Answers can be written down and read back."""

from enum import Enum
from typing import TypeAlias

import msgspec

from scheduler.kernel.framework.results import Candidate


class Verb(Enum):
    """The verbs of an extender beside binding."""

    FILTER = "filter"
    PRIORITIZE = "prioritize"
    PREEMPT = "preempt"


class Question(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        extender: its number among all.
        verb: the verb to call.
        nodes: the remaining nodes for the pod (filter, prioritize).
        candidates: the candidate nodes of its preemption, with their victims (preempt).
    """

    extender: int
    verb: Verb
    nodes: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()


class _Answer(msgspec.Struct, frozen=True, gc=False, tag=True, omit_defaults=True):
    """Common settings of answers."""


class Filtered(_Answer, frozen=True):
    """The nodes that passed a filter call.

    Attributes:
        nodes: names, as they were answered.
        failed: by node, the reason; removing other pods might help.
        unresolvable: by node, the reason; removing other pods cannot help.
    """

    nodes: tuple[str, ...]
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}


class Prioritized(_Answer, frozen=True):
    """The scores of nodes: names and scores, as they were answered."""

    scores: tuple[tuple[str, int], ...]


class MetaVictims(_Answer, frozen=True):
    """The victims on one node, by UID, and the number of them that violate a budget."""

    uids: tuple[str, ...]
    pdb_violations: int = 0


class Preempted(_Answer, frozen=True):
    """The candidate nodes of a preemption, with the victims on each."""

    victims: dict[str, MetaVictims]


class NoAnswer(_Answer, frozen=True):
    """An extender reported an error, did not answer, or its answer cannot be parsed.

    Attributes:
        problem: the reason, for people.
        is_late: whether the call timed out.
        is_certain: False if the extender may have carried out the request.
    """

    problem: str
    is_late: bool = False
    is_certain: bool = True


Answer: TypeAlias = Filtered | Prioritized | Preempted | NoAnswer
