"""Predicates of a pod on the labels, names and taints of nodes, shared by several plugins.

Predicates are parsed once per pod specification and evaluated for any rows. Label requirements are
evaluated once per distinct label value, taints once per distinct list of taints.

Source: k8s.io/component-helpers scheduling/corev1/nodeaffinity/nodeaffinity.go,
scheduling/corev1/helpers.go (v0.36).
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np

from scheduler.api.objects import (
    Node,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    PreferredSchedulingTerm,
    Taint,
)
from scheduler.api.selectors import (
    Operator,
    Requirement,
    SelectorError,
    field_requirement,
    node_requirement,
)
from scheduler.api.taints import NO_EXECUTE, NO_SCHEDULE, Tolerations
from scheduler.kernel.framework.interface import Scores
from scheduler.kernel.plugins.columns import Judged, count_of
from scheduler.kernel.snapshot import Mask, Rows, Snapshot

NAME_FIELD: Final = "metadata.name"
"""The only node field that selectors may name."""

DO_NOT_SCHEDULE: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""Effects of taints that keep pods away."""


class NodeTerm(msgspec.Struct, frozen=True, gc=False):
    """One term of a node selector: requirements on labels and names that must all hold."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()
    matches_nothing: bool = False

    def matches(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """Per given row whether its node satisfies the term."""
        if self.matches_nothing:
            return np.zeros(count_of(rows, snapshot.table.size), np.bool_)
        mask = labels_match(self.labels, snapshot, rows)
        for requirement in self.names:
            named = _is_named(requirement, snapshot, rows)
            mask = named if mask is None else mask & named
        return _everything(snapshot, rows) if mask is None else mask

    def matches_node(self, node: Node) -> bool:
        """Whether one node object satisfies the term."""
        return (
            not self.matches_nothing
            and labels_match_node(self.labels, node)
            and all(r.matches_value(node.metadata.name) for r in self.names)
        )


NEVER: Final = NodeTerm(matches_nothing=True)
_UNREADABLE: Final = NodeTerm(matches_nothing=True)
"""Stands for a term that cannot be parsed."""


class RequiredNodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """The node selector and the required node affinity of a pod.

    Attributes:
        labels: the requirements of `spec.nodeSelector`.
        terms: required affinity, of which one term must hold; None without one.
        is_readable: whether all terms can be parsed; the others match nothing.
    """

    labels: tuple[Requirement, ...]
    terms: tuple[NodeTerm, ...] | None
    is_readable: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether every node matches."""
        return not self.labels and self.terms is None

    def matches(self, snapshot: Snapshot, rows: Rows) -> Mask | None:
        """Per given row whether its node matches; None if there is no requirement."""
        mask = labels_match(self.labels, snapshot, rows)
        if self.terms is None:
            return mask
        affinity = any_term_matches(self.terms, snapshot, rows)
        return affinity if mask is None else mask & affinity

    def matches_node(self, node: Node) -> bool:
        """Whether one node object satisfies both."""
        return labels_match_node(self.labels, node) and (
            self.terms is None or any(term.matches_node(node) for term in self.terms)
        )


class PreferredNodeTerms(msgspec.Struct, frozen=True, gc=False):
    """Preferred terms; a node scores the weight of each term that it satisfies."""

    terms: tuple[tuple[int, NodeTerm], ...]

    def score(self, snapshot: Snapshot, rows: Rows) -> Scores:
        """Per given row, the sum of the weights of the terms that its node satisfies."""
        total = np.zeros(count_of(rows, snapshot.table.size))
        for weight, term in self.terms:
            total += weight * term.matches(snapshot, rows)
        return total


def required_node_affinity_of(spec: PodSpec) -> RequiredNodeAffinity:
    """The node selector and required node affinity of a pod.

    A term that cannot be parsed matches nothing: the API server keeps such terms of old objects.
    """
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    selector = None
    if affinity is not None:
        selector = affinity.required_during_scheduling_ignored_during_execution
    terms = None
    if selector is not None:
        terms = tuple(map(_term_if_readable, selector.node_selector_terms))
    labels = (
        Requirement(key, Operator.IN, frozenset((value,)))
        for key, value in spec.node_selector.items()
    )
    is_readable = all(term is not _UNREADABLE for term in terms or ())
    return RequiredNodeAffinity(tuple(labels), terms, is_readable)


def required_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...]:
    """The unparsed terms of the required node affinity."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None:
        return ()
    required = affinity.required_during_scheduling_ignored_during_execution
    return () if required is None else required.node_selector_terms


def node_selector_terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """The terms of a node selector.

    Raises:
        SelectorError: a term cannot be read.
    """
    return tuple(map(node_term, selector.node_selector_terms))


def preferred_node_terms(terms: Iterable[PreferredSchedulingTerm]) -> PreferredNodeTerms:
    """The preferred terms whose weight is not 0 and that can match.

    Raises:
        SelectorError: a term cannot be read.
    """
    parsed = ((t.weight, node_term(t.preference)) for t in terms if t.weight)
    return PreferredNodeTerms(tuple((w, t) for w, t in parsed if not t.matches_nothing))


def node_term(term: NodeSelectorTerm) -> NodeTerm:
    """The parsed term; a term without requirements matches nothing.

    Raises:
        SelectorError: a requirement cannot be parsed.
    """
    labels = tuple(map(node_requirement, term.match_expressions))
    fields = tuple(map(field_requirement, term.match_fields))
    if not (labels or fields):
        return NEVER
    # No other field exists: no node matches In for it, and every node matches NotIn.
    others = [r for r in fields if r.key != NAME_FIELD]
    if any(r.operator is Operator.IN for r in others):
        return NEVER
    return NodeTerm(labels, tuple(r for r in fields if r.key == NAME_FIELD))


def any_term_matches(terms: Iterable[NodeTerm], snapshot: Snapshot, rows: Rows) -> Mask:
    """Per given row whether its node satisfies one of the terms."""
    mask: Mask | None = None
    for term in terms:
        matched = term.matches(snapshot, rows)
        mask = matched if mask is None else mask | matched
    return ~_everything(snapshot, rows) if mask is None else mask


def labels_match(
    requirements: Iterable[Requirement], snapshot: Snapshot, rows: Rows
) -> Mask | None:
    """Per given row whether its node's labels satisfy all requirements; None without any."""
    tables = []
    for requirement in requirements:
        column = snapshot.label_column(requirement.key)
        verdicts = column.verdicts(requirement)
        if not verdicts.any():
            return ~_everything(snapshot, rows)
        tables.append((column, verdicts))
    mask: Mask | None = None
    for column, verdicts in tables:
        verdict = verdicts[column.ids(snapshot.table.size)[rows]]
        mask = verdict if mask is None else mask & verdict
    return mask


def labels_match_node(requirements: Iterable[Requirement], node: Node) -> bool:
    """Whether the labels of one node object satisfy all requirements."""
    labels = node.metadata.labels
    return all(r.matches_value(labels.get(r.key)) for r in requirements)


def has_untolerated_taint(taints: Iterable[Taint], tolerations: Tolerations) -> bool:
    """Whether any NoSchedule or NoExecute taint is not tolerated."""
    return any(t.effect in DO_NOT_SCHEDULE and not tolerations.tolerate(t) for t in taints)


def tolerated_taints(tolerations: Tolerations, snapshot: Snapshot, rows: Rows) -> Mask | None:
    """Per given row whether the pod tolerates all its taints; None if it does so on all rows."""
    judged: Judged[tuple[Taint, ...], np.bool_] = Judged(
        lambda taints: not has_untolerated_taint(taints, tolerations), np.bool_
    )
    mask = judged.of(snapshot.table.taint_sets, snapshot.table.taint_set[rows])
    return None if mask.all() else mask


def _term_if_readable(term: NodeSelectorTerm) -> NodeTerm:
    try:
        return node_term(term)
    except SelectorError:
        return _UNREADABLE


def _is_named(requirement: Requirement, snapshot: Snapshot, rows: Rows) -> Mask:
    """Per given row whether the name of its node satisfies the requirement."""
    (name,) = requirement.values
    row = snapshot.table.row_of.get(name, -1)
    if isinstance(rows, slice):
        named = np.zeros(snapshot.table.size, np.bool_)
        named[row : row + 1] = row >= 0
        named = named[rows]
    else:
        named = rows == row
    return named if requirement.operator is Operator.IN else ~named


def _everything(snapshot: Snapshot, rows: Rows) -> Mask:
    return np.ones(count_of(rows, snapshot.table.size), np.bool_)
