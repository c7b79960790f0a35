"""The verdict of a profile on one pod, over thousands of nodes with few distinct verdicts."""

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from scheduler.kernel.answers.model import (
    DeviceTaken,
    FeasibleNode,
    NodeCounts,
    PluginRejection,
    PluginScore,
    PodAnswer,
    RejectedNode,
    RejectedNodes,
)
from scheduler.kernel.framework.interface import Scores
from scheduler.kernel.framework.runtime import Feasibility, Verdicts
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE
from scheduler.kernel.framework.status import EXTENDER, Status
from scheduler.kernel.snapshot import Snapshot

TOLD: Final = 5
"""Nodes at most that are named in counts of nodes."""

_encode = msgspec.json.Encoder().encode
_NAMELESS = b'{"node":""'
_NODES: Final = b'"nodes":[]'

_Verdict: TypeAlias = FeasibleNode | RejectedNode
_About: TypeAlias = tuple[_Verdict, NDArray[np.intp]]
"""A verdict without a node name, and the rows of the nodes that it applies to."""


def _no_rows() -> NDArray[np.intp]:
    return np.zeros(0, np.intp)


class NodeNames(msgspec.Struct, frozen=True):
    """The nodes of a cluster in output order.

    Attributes:
        names: the names, sorted.
        heads: the beginning of each node's JSON.
        rows: the row of each name in the snapshot.
        places: by row, the index among the names.
    """

    names: Sequence[str] = ()
    heads: Sequence[bytes] = ()
    rows: NDArray[np.intp] = msgspec.field(default_factory=_no_rows)
    places: NDArray[np.intp] = msgspec.field(default_factory=_no_rows)

    @classmethod
    def of(cls, snapshot: Snapshot) -> "NodeNames":
        """Sort the names of a snapshot. Cost: O(n log n)."""
        table = snapshot.table
        places, live = table.name_ranks(), table.live_rows()
        rows = np.empty_like(live)
        rows[places[live]] = live
        names = [table.names[row] for row in rows.tolist()]
        return cls(names, [b'{"node":' + _encode(name) for name in names], rows, places)

    def are_of(self, snapshot: Snapshot) -> bool:
        """Return whether these are the names of this snapshot."""
        return self.places is snapshot.table.name_ranks()

    def place_of(self, name: str) -> int | None:
        """Return the index of a name; None if there is no such node."""
        place = bisect_left(self.names, name)
        return place if self.names[place : place + 1] == [name] else None

    def first(self, rows: NDArray[np.intp]) -> tuple[str, ...]:
        """Return the first `TOLD` names of some rows, in order."""
        places = self.places[rows]
        if len(places) > TOLD:
            places = np.partition(places, TOLD)[:TOLD]
        return tuple(self.names[place] for place in np.sort(places).tolist())


class Scored(msgspec.Struct, frozen=True):
    """The scores of the feasible nodes.

    Attributes:
        rows: the rows of the nodes.
        columns: name, weight and normalised scores of every plugin that is not skipped.
        totals: the weighted sums of the scores.
        devices: by node, the devices that the pod's claims would get; empty if not requested.
    """

    rows: NDArray[np.intp] = msgspec.field(default_factory=_no_rows)
    columns: Sequence[tuple[str, int, Scores]] = ()
    totals: Scores = msgspec.field(default_factory=lambda: np.zeros(0))
    devices: Sequence[dict[str, tuple[DeviceTaken, ...]]] = ()

    def about(self, position: int, name: str = "") -> FeasibleNode:
        """Return the verdict on the node at a position of `rows`."""
        scores = {
            plugin: PluginScore(int(column[position]), int(column[position]) * weight)
            for plugin, weight, column in self.columns
        }
        devices = (self.devices[position] if self.devices else {}) or UNSET
        return FeasibleNode(name, scores, int(self.totals[position]), devices=devices)

    def verdicts(self) -> Iterator[_About]:
        """Yield the distinct combinations of scores, each with its rows."""
        if self.devices:
            # Names of devices differ from node to node.
            for position in range(len(self.rows)):
                yield self.about(position), self.rows[position : position + 1]
            return
        positions_of: dict[tuple[float, ...], list[int]] = {}
        columns = (self.totals.tolist(), *(column.tolist() for _, _, column in self.columns))
        for position, combination in enumerate(zip(*columns, strict=True)):
            positions_of.setdefault(combination, []).append(position)
        for positions in positions_of.values():
            yield self.about(positions[0]), self.rows[positions]


class PodVerdict(msgspec.Struct, frozen=True):
    """The verdict of a profile on one pod; a change of the cluster does not change it.

    Attributes:
        summary: the answer without its nodes.
        nodes: the judged nodes.
        rejected: the distinct rejections, without a node name, each with its rows.
        scored: the feasible nodes.
    """

    summary: PodAnswer
    nodes: NodeNames = NodeNames()
    rejected: Sequence[tuple[RejectedNode, NDArray[np.intp]]] = ()
    scored: Scored = Scored()

    @property
    def feasible(self) -> int:
        """Number of feasible nodes."""
        return len(self.scored.rows)

    def answer(self) -> PodAnswer:
        """Return the complete answer, with all nodes."""
        verdicts, of_node = self._verdicts()
        nodes = tuple(
            msgspec.structs.replace(verdicts[verdict], node=name)
            for name, verdict in zip(self.nodes.names, of_node.tolist(), strict=True)
        )
        return msgspec.structs.replace(self.summary, nodes=nodes)

    def json(self, nodes: Collection[str] = ()) -> msgspec.Raw:
        """Return the answer as JSON, with all nodes or only the given ones.

        Each distinct verdict is encoded once, for any number of nodes.
        """
        verdicts, numbers = self._verdicts()
        heads, of_node = self.nodes.heads, numbers.tolist()
        if nodes:
            named = sorted({p for p in map(self.nodes.place_of, nodes) if p is not None})
            heads, of_node = [heads[place] for place in named], [of_node[place] for place in named]
        tails = [_encode(verdict).removeprefix(_NAMELESS) + b"," for verdict in verdicts]
        written = [b""] * (2 * len(of_node))
        written[::2] = heads
        written[1::2] = map(tails.__getitem__, of_node)
        before, _, after = _encode(self.summary).partition(_NODES)
        if written:
            written[-1] = written[-1][:-1]
        return msgspec.Raw(b"".join((before, b'"nodes":[', *written, b"]", after)))

    def short_json(self) -> msgspec.Raw:
        """Return the answer as JSON, with its nodes counted instead of listed."""
        summary = msgspec.structs.replace(self.summary, counts=self.counts())
        before, _, after = _encode(summary).partition(_NODES + b",")
        return msgspec.Raw(before + after)

    def counts(self) -> NodeCounts | UnsetType:
        """Count the feasible nodes, and the rejected ones by reason; UNSET without any nodes."""
        if not self.nodes.names:
            return UNSET
        rejected: dict[tuple[str, str, tuple[str, ...]], list[NDArray[np.intp]]] = {}
        for node, rows in self.rejected:
            # With all rejections requested, several entries may share the same first one.
            rejected.setdefault((node.plugin, node.code, node.reasons), []).append(rows)
        counts = [
            RejectedNodes(sum(map(len, rows)), *reason, self.nodes.first(np.concatenate(rows)))
            for reason, rows in rejected.items()
        ]
        counts.sort(key=lambda each: (-each.nodes, each.examples))
        best = tuple(self.best(TOLD))
        return NodeCounts(len(self.nodes.names), self.feasible, best, tuple(counts))

    @property
    def likeness(self) -> Hashable:
        """A key that is equal for two verdicts that differ only in the pod's name."""
        summary = _encode(msgspec.structs.replace(self.summary, pod=""))
        verdicts, of_node = self._verdicts()
        return summary, _encode(verdicts), of_node.tobytes()

    def best(self, count: int) -> list[FeasibleNode]:
        """Return the `count` best feasible nodes: the highest total first, equal ones by name."""
        names, places = self.nodes.names, self.nodes.places[self.scored.rows]
        order = np.lexsort((places, -self.scored.totals))
        return [self.scored.about(i, names[places[i]]) for i in order[:count].tolist()]

    def about(self, name: str) -> FeasibleNode | None:
        """Return the verdict on a feasible node; None for other nodes."""
        place = self.nodes.place_of(name)
        if place is None:
            return None
        found = np.flatnonzero(self.scored.rows == self.nodes.rows[place])
        return self.scored.about(int(found[0]), name) if len(found) else None

    def rank(self, total: int) -> int:
        """Return the rank of a total among the feasible nodes: 1 plus the number of higher ones."""
        return 1 + int(np.count_nonzero(self.scored.totals > total))

    def _verdicts(self) -> tuple[list[_Verdict], NDArray[np.intp]]:
        """Return the distinct verdicts, and by node the index of its verdict."""
        of_row = np.zeros(len(self.nodes.places), np.intp)
        verdicts: list[_Verdict] = []
        about: Iterator[_About] = chain(self.rejected, self.scored.verdicts())
        for node, rows in about:
            of_row[rows] = len(verdicts)
            verdicts.append(node)
        return verdicts, of_row[self.nodes.rows]


def judgement_of(  # noqa: PLR0913, PLR0917 - what one cycle has found
    summary: PodAnswer,
    snapshot: Snapshot,
    nodes: NodeNames,
    found: Feasibility,
    scored: Scored,
    every: Sequence[Verdicts] | None = None,
    refused: Sequence[tuple[Status, NDArray[np.intp]]] = (),
) -> PodVerdict:
    """Combine the verdicts of filters, the rejections of extenders, and the scores.

    The verdicts of `found` must not be None. `every` has each filter's own verdicts, if they were
    requested; `refused` has the extenders' rejections of rows that passed the filters.

    Raises:
        PluginError: a plugin failed when it was asked for the reason of a rejection.
    """
    rejected = tuple(_rejections(found, snapshot, every, refused))
    return PodVerdict(summary, nodes, rejected, scored)


def rejection_of(status: Status) -> PluginRejection:
    """Convert a status to its output form."""
    return PluginRejection(status.plugin, status.code.upstream_name, status.reasons)


def _rejections(
    found: Feasibility,
    snapshot: Snapshot,
    every: Sequence[Verdicts] | None,
    refused: Sequence[tuple[Status, NDArray[np.intp]]],
) -> Iterator[tuple[RejectedNode, NDArray[np.intp]]]:
    """Yield the distinct rejections, each with its rows."""
    verdicts = found.verdicts
    if verdicts is None:
        return
    groups = list(verdicts.groups())
    if verdicts.rows is not None:
        groups = [(status, verdicts.rows[positions]) for status, positions in groups]
        absent = np.setdiff1d(snapshot.table.live_rows(), verdicts.rows)
        if len(absent):
            groups.append((found.absent or Status(), absent))
    groups.extend(refused)
    for status, rows in groups:
        node = RejectedNode("", status.plugin, status.code.upstream_name, status.reasons)
        if not every:
            yield node, rows
        else:
            is_filters = status.plugin not in ("", EXTENDER)
            by_filter = [] if is_filters else [status]
            yield from _with_every_rejection(node, rows, by_filter, every)


def _with_every_rejection(
    node: RejectedNode,
    rows: NDArray[np.intp],
    known: Sequence[Status],
    every: Sequence[Verdicts],
) -> Iterator[tuple[RejectedNode, NDArray[np.intp]]]:
    """Split one rejection by the verdicts of all filters on its rows."""
    bits = np.array([np.where(v.first[rows] == FEASIBLE, 0, v.bits[rows]) for v in every])
    _, firsts, of_row = np.unique(bits, axis=1, return_index=True, return_inverse=True)
    for group, first in enumerate(firsts.tolist()):
        row = int(rows[first])
        statuses = [*known, *(v.status(row) for v in every if v.first[row] != FEASIBLE)]
        rejections = tuple(rejection_of(status) for status in statuses)
        yield msgspec.structs.replace(node, rejections=rejections), rows[of_row.ravel() == group]
