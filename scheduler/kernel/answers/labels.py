"""Finds the fewest labels that each node lacks to satisfy a pod."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.objects import Node, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import SelectorError, is_label_value, parse_int64
from scheduler.kernel.answers.edits import SetLabel
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.plugins.label_obstacles import satisfied
from scheduler.kernel.plugins.node_predicates import node_term, required_terms
from scheduler.kernel.snapshot import Snapshot

_FACTS: Final = frozenset(
    {
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "node.kubernetes.io/windows-build",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
    }
)
"""Labels that state facts about the machine; the kubelet or the cloud sets them."""
_ANY_VALUE: Final = "true"
_HOPELESS: Final = 1_000
_IN: Final = "In"


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
            name = node.metadata.name
            yield row, [SetLabel(name, *label) for each in missing if (label := _wanted(each))]


def _lacking(
    choice: Sequence[NodeSelectorRequirement], snapshot: Snapshot, rows: NDArray[np.intp]
) -> Steps[NDArray[np.intp]]:
    """Return by row the number of requirements that the node does not satisfy."""
    count = np.zeros(len(rows), np.intp)
    for each in choice:
        fails = ~satisfied(NodeSelectorTerm((each,)), snapshot)[rows]
        count += fails * (_HOPELESS if _wanted(each) is None else 1)
        yield
    return count


def _has(requirement: NodeSelectorRequirement, node: Node) -> bool:
    try:
        return node_term(NodeSelectorTerm((requirement,))).matches_node(node)
    except SelectorError:
        return False


def _wanted(requirement: NodeSelectorRequirement) -> tuple[str, str | None] | None:
    """Return a label that satisfies the requirement; None if no label does that may be set.

    The value is None to remove the label.
    """
    if requirement.key in _FACTS:
        return None
    match requirement.operator:
        case "In":
            values: Iterator[str] = filter(is_label_value, sorted(requirement.values))
        case "Exists":
            values = iter((_ANY_VALUE,))
        case "Gt" | "Lt":
            values = _beyond(requirement)
        case _:
            return requirement.key, None
    value = next(values, None)
    return None if value is None else (requirement.key, value)


def _beyond(requirement: NodeSelectorRequirement) -> Iterator[str]:
    """Yield the nearest number that satisfies Gt or Lt, if a label can have it: without a sign."""
    bound = parse_int64(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None:
        return
    number = bound + (1 if requirement.operator == "Gt" else -1)
    if number >= 0 and parse_int64(str(number)) is not None:
        yield str(number)


def _terms(pod: PodInfo) -> tuple[NodeSelectorTerm, ...]:
    """Return the required terms that labels can satisfy: those without matchFields."""
    terms = required_terms(pod.spec)
    return tuple(term for term in terms if term.match_expressions and not term.match_fields)
