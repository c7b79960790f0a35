"""Node conditions of slices and devices that do not name a single node.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/pools_incubating.go
(NodeMatches); k8s.io/component-helpers scheduling/corev1/nodeaffinity (NodeSelector, v0.36.3).
Differs: a term that cannot be read matches nothing; upstream ends the attempt (docs/parity.md).
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np

from scheduler.api.devices import Device, ResourceSliceSpec
from scheduler.api.objects import Node, NodeSelector, NodeSelectorTerm
from scheduler.api.selectors import (
    Operator,
    Requirement,
    SelectorError,
    field_requirement,
    node_requirement,
)
from scheduler.kernel.devices.pools import Rows
from scheduler.kernel.snapshot import Mask, Snapshot

NAME_FIELD: Final = "metadata.name"
"""The only node field that selectors may name."""


class NodePredicate(msgspec.Struct, frozen=True, gc=False):
    """A condition on nodes.

    Attributes:
        terms: alternatives, of which at least one must hold; None holds for every node.
    """

    terms: "tuple[Term, ...] | None"

    def matches(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """Per given row whether the condition holds for its node."""
        if self.terms is None:
            return np.ones(len(rows), np.bool_)
        found = np.zeros(len(rows), np.bool_)
        for term in self.terms:
            found |= term.matches(snapshot, rows)
        return found

    def matches_node(self, node: Node) -> bool:
        """Whether the condition holds for one node."""
        return self.terms is None or any(term.matches_node(node) for term in self.terms)


class Term(msgspec.Struct, frozen=True, gc=False):
    """Requirements on labels and on names that must all hold."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()

    def matches(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """Per given row whether all requirements hold for its node."""
        mask = np.ones(len(rows), np.bool_)
        for requirement in self.labels:
            column = snapshot.label_column(requirement.key)
            mask &= column.verdicts(requirement)[column.ids(snapshot.table.size)[rows]]
        for requirement in self.names:
            names = snapshot.table.names
            named = [requirement.matches_value(names[row]) for row in rows.tolist()]
            mask &= np.array(named, np.bool_)
        return mask

    def matches_node(self, node: Node) -> bool:
        """Whether all requirements hold for one node."""
        labels = node.metadata.labels
        return all(r.matches_value(labels.get(r.key)) for r in self.labels) and all(
            r.matches_value(node.metadata.name) for r in self.names
        )


EVERYWHERE: Final = NodePredicate(None)
NOWHERE: Final = NodePredicate(())


def condition_of(selection: Device | ResourceSliceSpec) -> NodePredicate:
    """The predicate for the nodes of a slice, or of a device with `perDeviceNodeSelection`."""
    if selection.node_name:
        named = Requirement(NAME_FIELD, Operator.IN, frozenset((selection.node_name,)))
        return NodePredicate((Term(names=(named,)),))
    if selection.all_nodes:
        return EVERYWHERE
    if selection.node_selector is not None:
        return _condition(selection.node_selector)
    return NOWHERE


def conditions_of(spec: ResourceSliceSpec) -> Iterable[NodePredicate]:
    """The node conditions of a slice, and of its devices."""
    if leaves_it_to_devices(spec):
        return map(condition_of, spec.devices)
    return (condition_of(spec),)


def leaves_it_to_devices(spec: ResourceSliceSpec) -> bool:
    """Whether each device has its own node selection; upstream checks the slice first."""
    return spec.per_device_node_selection and not (
        spec.node_name or spec.all_nodes or spec.node_selector is not None
    )


def _condition(selector: NodeSelector) -> NodePredicate:
    terms = map(_term, selector.node_selector_terms)
    return NodePredicate(tuple(term for term in terms if term is not None))


def _term(term: NodeSelectorTerm) -> Term | None:
    if not (term.match_expressions or term.match_fields):
        return None
    if any(field.key != NAME_FIELD for field in term.match_fields):
        return None
    try:
        labels = tuple(map(node_requirement, term.match_expressions))
        return Term(labels, tuple(map(field_requirement, term.match_fields)))
    except SelectorError:
        return None
