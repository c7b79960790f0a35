"""The nodes that reach a volume, a class or a pool of storage: label selectors, in columns.

Source: k8s.io/component-helpers storage/volume/pv_helpers.go (CheckNodeAffinity),
scheduling/corev1/nodeaffinity; pkg/apis/core/v1/helper (MatchTopologySelectorTerms) v1.36.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.objects import LabelSelector, NodeSelector
from scheduler.api.selectors import (
    Operator,
    Requirement,
    SelectorError,
    node_requirement,
    selector_from_label_selector,
)
from scheduler.api.storage import TopologyTerm
from scheduler.kernel.snapshot import Mask, Snapshot
from scheduler.kernel.snapshot.changes import RowLog

Ids: TypeAlias = NDArray[np.intp]

Term: TypeAlias = frozenset[Requirement]
Area: TypeAlias = tuple[Term, ...] | None
"""Alternative terms, of which one must hold; None means all nodes, no terms mean no node."""

_Epoch: TypeAlias = tuple[RowLog, int]
"""A version of the nodes: equal as long as no node changes."""

EVERYWHERE: Final = 0
"""The id of the area that every node lies in."""
_MAX_REMEMBERED: Final = 512


def area_of_affinity(affinity: NodeSelector | None) -> Area:
    """The area that reaches a volume. Field requirements are ignored, as in upstream.

    A term that cannot be parsed matches nothing.
    """
    if affinity is None:
        return None
    terms: list[Term] = []
    for term in affinity.node_selector_terms:
        if not (term.match_expressions or term.match_fields):
            continue
        try:
            terms.append(frozenset(map(node_requirement, term.match_expressions)))
        except SelectorError:
            continue
    return None if frozenset() in terms else tuple(terms)


def area_of_topologies(terms: Sequence[TopologyTerm]) -> Area:
    """The area in which a class provides volumes; all nodes if there are no terms."""
    if not terms:
        return None
    return tuple(
        frozenset(
            Requirement(r.key, Operator.IN, frozenset(r.values))
            for r in term.match_label_expressions
        )
        for term in terms
        if term.match_label_expressions
    )


def area_of_selector(selector: LabelSelector | None) -> Area:
    """The area that reaches a pool of storage; no node if the selector is missing."""
    if selector is None:
        return ()
    try:
        found = selector_from_label_selector(selector).requirements
    except SelectorError:
        return ()
    return (frozenset(found),) if found else None


def contains(area: Area, labels: Mapping[str, str]) -> bool:
    """Whether a node with the labels lies in the area."""
    if area is None:
        return True
    return any(all(r.matches_value(labels.get(r.key)) for r in term) for term in area)


def rows_in(area: Area, snapshot: Snapshot) -> Mask:
    """Per row whether its node lies in the area."""
    size = snapshot.table.size
    if area is None:
        return np.ones(size, np.bool_)
    found = np.zeros(size, np.bool_)
    for term in area:
        matched = np.ones(size, np.bool_)
        for requirement in term:
            column = snapshot.label_column(requirement.key)
            matched &= column.verdicts(requirement)[column.ids(size)]
        found |= matched
    return found


class RememberedAreas:
    """The rows of areas, cached until a node changes; the oldest entry is evicted first."""

    def __init__(self) -> None:
        self._masks: OrderedDict[Area, Mask] = OrderedDict()
        self._built_at: _Epoch | None = None

    def rows_in(self, area: Area, snapshot: Snapshot) -> Mask:
        """Per row whether its node lies in the area. Read-only."""
        built_at = (snapshot.node_log, snapshot.node_log.position)
        if built_at != self._built_at:
            self._masks.clear()
            self._built_at = built_at
        found = self._masks.get(area)
        if found is None:
            found = self._masks[area] = rows_in(area, snapshot)
            if len(self._masks) > _MAX_REMEMBERED:
                self._masks.popitem(last=False)
        return found


class AreaIndex:
    """Many areas at once, as groups of rows that lie in the same areas.

    Most areas demand one value of one label (a host, a zone). These are joined with the nodes by
    value, all in one operation.

    Attributes:
        count: number of different areas.
    """

    def __init__(self) -> None:
        self._ids: dict[Area, int] = {None: EVERYWHERE}
        self._values: dict[str, tuple[list[str], list[int]]] = {}
        self._others: list[tuple[int, Area]] = []
        self._built_at: tuple[_Epoch, int] | None = None
        self._groups = Groups(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, np.intp), 0)

    @property
    def count(self) -> int:
        """Number of different areas."""
        return len(self._ids)

    def intern(self, area: Area) -> int:
        """The number of an area."""
        known = self._ids.get(area)
        if known is not None:
            return known
        number = self._ids[area] = len(self._ids)
        for term in area or ():
            only = next(iter(term)) if len(term) == 1 else None
            if only is not None and only.operator is Operator.IN:
                values, numbers = self._values.setdefault(only.key, ([], []))
                values.extend(only.values)
                numbers.extend([number] * len(only.values))
            else:
                self._others.append((number, (term,)))
        return number

    def groups(self, snapshot: Snapshot) -> "Groups":
        """The rows, grouped by the areas they lie in."""
        built_at = (snapshot.node_log, snapshot.node_log.position), len(self._ids)
        if built_at != self._built_at:
            self._groups = self._grouped(snapshot)
            self._built_at = built_at
        return self._groups

    def _grouped(self, snapshot: Snapshot) -> "Groups":
        size = snapshot.table.size
        pairs = [_joined(key, *named, snapshot) for key, named in self._values.items()]
        for number, area in self._others:
            rows = np.flatnonzero(rows_in(area, snapshot))
            pairs.append((rows, np.full(len(rows), number, np.intp)))
        empty = np.zeros(0, np.intp)
        rows = np.concatenate([pair[0] for pair in pairs]) if pairs else empty
        numbers = np.concatenate([pair[1] for pair in pairs]) if pairs else empty
        return _groups_of(rows, numbers, size)


class Groups:
    """Rows that lie in the same areas, and those areas.

    Attributes:
        of_row: by row, its group.
        members: groups of the pairs (group, area); EVERYWHERE is not listed.
        areas: areas of the same pairs.
        count: number of groups.
    """

    __slots__ = ("areas", "count", "members", "of_row")

    def __init__(self, of_row: Ids, members: Ids, areas: Ids, count: int) -> None:
        self.of_row = of_row
        self.members = members
        self.areas = areas
        self.count = count

    def highest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Per row the highest value of the areas it lies in, values being given by area."""
        found = np.full(self.count, values[EVERYWHERE])
        np.maximum.at(found, self.members, values[self.areas])
        return found[self.of_row]


def _joined(key: str, values: list[str], numbers: list[int], snapshot: Snapshot) -> tuple[Ids, Ids]:
    """The pairs (row, area) where the row's value of the key is the area's."""
    column = snapshot.label_column(key)
    ids = column.ids(snapshot.table.size)
    by_value = np.argsort(ids, kind="stable")
    starts = np.searchsorted(ids[by_value], np.arange(len(column.values) + 1))
    known = column.values.get
    wanted = [(found, number) for value, number in zip(values, numbers, strict=True)
              if (found := known(value)) is not None]  # fmt: skip
    if not wanted:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    table = np.array(wanted, np.intp)
    first, counts = starts[table[:, 0]], np.diff(starts)[table[:, 0]]
    areas = np.repeat(table[:, 1], counts)
    offsets = np.arange(len(areas)) - np.repeat(np.cumsum(counts) - counts, counts)
    return by_value[np.repeat(first, counts) + offsets], areas


def _groups_of(rows: Ids, numbers: Ids, size: int) -> Groups:
    """Group the rows by the set of their numbers, compared by a sum of random words."""
    count = int(numbers.max(initial=0)) + 1
    words = np.frombuffer(Random(0).randbytes(8 * count), np.uint64)  # noqa: S311 - no secret
    rows, numbers = np.divmod(np.unique(rows * count + numbers), count)
    signature = np.zeros(size, np.uint64)
    np.add.at(signature, rows, words[numbers])
    _, first, of_row = np.unique(signature, return_index=True, return_inverse=True)
    stands_for_group = np.zeros(size, np.bool_)
    stands_for_group[first] = True
    kept = stands_for_group[rows]
    return Groups(of_row, of_row[rows[kept]], numbers[kept], len(first))
