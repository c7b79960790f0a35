"""The unmet requirements on node labels and names, and the values that nodes have instead."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.api.selectors import SelectorError
from scheduler.kernel.framework.obstacles import LabelObstacle, ValueCount
from scheduler.kernel.plugins.examples import count_in, values_of
from scheduler.kernel.plugins.node_predicates import node_term
from scheduler.kernel.snapshot import Mask, Snapshot

NODE_SELECTOR: Final = "spec.nodeSelector"
NODE_AFFINITY: Final = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
ADDED_AFFINITY: Final = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"

_TERMS: Final = 16
"""Largest number of terms reported; a pod may have any number."""
_IN: Final = "In"


def of_selector(
    labels: Mapping[str, str], snapshot: Snapshot, rows: NDArray[np.intp]
) -> Iterator[LabelObstacle]:
    """The requirements of `spec.nodeSelector` that exclude rows."""
    for key, value in labels.items():
        requirement = NodeSelectorRequirement(key, _IN, (value,))
        path = f"{NODE_SELECTOR}[{key}]"
        yield from _obstacle(path, NodeSelectorTerm((requirement,)), snapshot, rows)


def of_terms(
    selector: NodeSelector | None, path: str, snapshot: Snapshot, rows: NDArray[np.intp]
) -> Iterator[LabelObstacle]:
    """The requirements of required terms that exclude rows, each by itself."""
    for i, term in enumerate(() if selector is None else selector.node_selector_terms[:_TERMS]):
        at = f"{path}.nodeSelectorTerms[{i}]"
        for j, label in enumerate(term.match_expressions):
            alone = NodeSelectorTerm(match_expressions=(label,))
            yield from _obstacle(f"{at}.matchExpressions[{j}]", alone, snapshot, rows)
        for j, field in enumerate(term.match_fields):
            alone = NodeSelectorTerm(match_fields=(field,))
            yield from _obstacle(f"{at}.matchFields[{j}]", alone, snapshot, rows)


def satisfied(term: NodeSelectorTerm, snapshot: Snapshot) -> Mask:
    """Per row whether its node satisfies a term; an unreadable term is satisfied nowhere."""
    table = snapshot.table
    try:
        return node_term(term).matches(snapshot, table.all_rows)
    except SelectorError:
        return np.zeros(table.size, np.bool_)


def _obstacle(
    path: str, term: NodeSelectorTerm, snapshot: Snapshot, rows: NDArray[np.intp]
) -> Iterator[LabelObstacle]:
    """The obstacle of a term with one requirement, if it excludes any of the rows."""
    nodes = count_in(~satisfied(term, snapshot), rows)
    if not nodes:
        return
    having: tuple[int, tuple[ValueCount, ...]] = snapshot.table.count, ()
    if term.match_expressions:
        having = values_of(snapshot, term.match_expressions[0].key)
    (written,) = (*term.match_expressions, *term.match_fields)
    yield LabelObstacle(path, written.key, written.operator, written.values, nodes, *having)
