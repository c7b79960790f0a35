"""Finds the fewest labels that each node lacks to satisfy a pod."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.objects import Node, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import SelectorError
from scheduler.kernel.answers.edits import SetLabel
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.plugins.label_obstacles import satisfied
from scheduler.kernel.plugins.node_predicates import node_term, required_terms
from scheduler.kernel.snapshot import Snapshot

_NOT_TO_BE_SET: Final = frozenset({"kubernetes.io/hostname"})
_ANY_VALUE: Final = "true"
_HOPELESS: Final = 1_000
_IN: Final = "In"
_WHOLE: Final = re.compile(r"[-+]?[0-9]+")
"""A whole number as plugins read it; the API server accepts any text."""


def fewest_labels(
    pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp], most: int
) -> Iterator[tuple[int, list[SetLabel]] | None]:
    """Yield at most `most` rows and the labels that they lack, rows with the fewest first.

    Yields None where other work may run before the search continues.
    """
    demanded = [
        NodeSelectorRequirement(key, _IN, (value,)) for key, value in pod.spec.node_selector.items()
    ]
    choices: list[Sequence[NodeSelectorRequirement]] = [
        term.match_expressions for term in _terms(pod)
    ]
    if not required_terms(pod.spec):
        choices = [()]
    if not (choices and len(rows)):
        return
    always = yield from _lacking(demanded, snapshot, rows)
    fewest, chosen = np.full(len(rows), np.inf), np.zeros(len(rows), np.intp)
    for number, choice in enumerate(choices):
        lacking = yield from _lacking(choice, snapshot, rows)
        is_less = lacking < fewest
        fewest[is_less], chosen[is_less] = lacking[is_less], number
    fewest += always
    for at in np.argsort(fewest, kind="stable")[:most].tolist():
        if fewest[at] < _HOPELESS:
            row = int(rows[at])
            node = snapshot.node(row)
            missing = (r for r in (*demanded, *choices[chosen[at]]) if not _has(r, node))
            yield row, [SetLabel(node.metadata.name, *_wanted(each)) for each in missing]


def _lacking(
    choice: Sequence[NodeSelectorRequirement], snapshot: Snapshot, rows: NDArray[np.intp]
) -> Steps[NDArray[np.intp]]:
    """Return by row the number of requirements that the node does not satisfy."""
    count = np.zeros(len(rows), np.intp)
    for each in choice:
        fails = ~satisfied(NodeSelectorTerm((each,)), snapshot)[rows]
        count += fails * (1 if _can_be_set(each) else _HOPELESS)
        yield
    return count


def _has(requirement: NodeSelectorRequirement, node: Node) -> bool:
    try:
        return node_term(NodeSelectorTerm((requirement,))).matches_node(node)
    except SelectorError:
        return False


def _can_be_set(requirement: NodeSelectorRequirement) -> bool:
    """Whether a label of a node can be set so that it satisfies the requirement."""
    if requirement.key in _NOT_TO_BE_SET:
        return False
    match requirement.operator:
        case "In":
            return bool(requirement.values)
        case "Gt" | "Lt":
            return any(map(_WHOLE.fullmatch, requirement.values[:1]))
        case _:
            return True


def _wanted(requirement: NodeSelectorRequirement) -> tuple[str, str | None]:
    """Return a label that satisfies the requirement; the value is None to remove the label."""
    values = sorted(requirement.values)
    match requirement.operator:
        case "In":
            return requirement.key, values[0]
        case "Exists":
            return requirement.key, _ANY_VALUE
        case "Gt" | "Lt":
            above = 1 if requirement.operator == "Gt" else -1
            return requirement.key, str(int(values[0]) + above)
        case _:
            return requirement.key, None


def _terms(pod: PodInfo) -> tuple[NodeSelectorTerm, ...]:
    """Return the required terms that labels can satisfy: those without matchFields."""
    terms = required_terms(pod.spec)
    return tuple(term for term in terms if term.match_expressions and not term.match_fields)
