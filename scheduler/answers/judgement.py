"""What a profile says about one pod: about thousands of nodes, most of which are alike."""

from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.answers.model import FeasibleNode, PluginScore, PodAnswer, RejectedNode, Rejection
from scheduler.framework.interface import Scores
from scheduler.framework.runtime import Feasibility, Verdicts
from scheduler.framework.runtime.verdicts import FEASIBLE
from scheduler.framework.status import EXTENDER, Status
from scheduler.snapshot import Snapshot

_encode = msgspec.json.Encoder().encode
_NAMELESS = b'{"node":""'


class NodeNames(msgspec.Struct, frozen=True):
    """The nodes of a cluster in the order in which they are told of.

    Attributes:
        names: sorted.
        heads: how the JSON about each begins.
        rows: of the snapshot.
        by_row: names by row as they were, to see that they still are.
    """

    names: Sequence[str] = ()
    heads: Sequence[bytes] = ()
    rows: NDArray[np.intp] = msgspec.field(default_factory=lambda: np.zeros(0, np.intp))
    by_row: Sequence[str] = ()

    @classmethod
    def of(cls, snapshot: Snapshot) -> "NodeNames":
        """Those of a snapshot.

        Cost: O(n log n); comparing `by_row` instead is some microseconds for thousands of nodes.
        """
        by_row = list(snapshot.table.names)
        rows = sorted(snapshot.table.live_rows().tolist(), key=by_row.__getitem__)
        names = [by_row[row] for row in rows]
        heads = [b'{"node":' + _encode(name) for name in names]
        return cls(names, heads, np.array(rows, np.intp), by_row)

    def are_of(self, snapshot: Snapshot) -> bool:
        """Whether they are those of a snapshot."""
        return self.by_row == snapshot.table.names


class Judgement(msgspec.Struct, frozen=True):
    """What a profile says about one pod. It stays as it is when the cluster changes.

    Attributes:
        summary: the answer without its nodes.
        nodes: those it is about.
        verdicts: what is said about them, each distinct one once, without a name.
        of_node: which of the verdicts is about which node.
    """

    summary: PodAnswer
    nodes: NodeNames = NodeNames()
    verdicts: Sequence[FeasibleNode | RejectedNode] = ()
    of_node: NDArray[np.intp] = msgspec.field(default_factory=lambda: np.zeros(0, np.intp))

    def answer(self) -> PodAnswer:
        """The whole of it."""
        nodes = tuple(
            msgspec.structs.replace(self.verdicts[verdict], node=name)
            for name, verdict in zip(self.nodes.names, self.of_node.tolist(), strict=True)
        )
        return msgspec.structs.replace(self.summary, nodes=nodes)

    def json(self, nodes: Collection[str] = ()) -> msgspec.Raw:
        """The same as JSON, with all nodes or some only.

        A verdict is written once, however many nodes it is about.
        """
        heads, of_node = self.nodes.heads, self.of_node.tolist()
        if nodes:
            named = [place for place, name in enumerate(self.nodes.names) if name in nodes]
            heads, of_node = [heads[place] for place in named], [of_node[place] for place in named]
        tails = [_encode(verdict).removeprefix(_NAMELESS) + b"," for verdict in self.verdicts]
        written = [b""] * (2 * len(of_node))
        written[::2] = heads
        written[1::2] = map(tails.__getitem__, of_node)
        before, _, after = _encode(self.summary).partition(b'"nodes":[]')
        if written:
            written[-1] = written[-1][:-1]
        return msgspec.Raw(b"".join((before, b'"nodes":[', *written, b"]", after)))

    @property
    def likeness(self) -> Hashable:
        """Equal where two judgements differ in nothing but the pod's name."""
        summary = _encode(msgspec.structs.replace(self.summary, pod=""))
        return summary, _encode(self.verdicts), self.of_node.tobytes()

    def best(self) -> list[tuple[str, FeasibleNode]]:
        """The nodes that fit with what is said about them, those with the highest total first."""
        fitting = [
            (name, said)
            for name, verdict in zip(self.nodes.names, self.of_node.tolist(), strict=True)
            if isinstance(said := self.verdicts[verdict], FeasibleNode)
        ]
        # Names are sorted, and stay so among equals.
        return sorted(fitting, key=lambda pair: -pair[1].total)


class Scored(msgspec.Struct, frozen=True):
    """The scores of the nodes that fit.

    Attributes:
        rows: of the nodes.
        columns: name, weight and normalised scores of every plugin that takes part.
        totals: the weighted sums.
    """

    rows: NDArray[np.intp]
    columns: Sequence[tuple[str, int, Scores]]
    totals: Scores


def judgement_of(
    summary: PodAnswer,
    snapshot: Snapshot,
    nodes: NodeNames,
    found: Feasibility,
    scored: Scored,
    every: Sequence[Verdicts] | None = None,
    refused: Sequence[tuple[Status, NDArray[np.intp]]] = (),
) -> Judgement:
    """Put together what filters and scores said.

    Args:
        summary: the answer without its nodes.
        snapshot: the cluster that it is about.
        nodes: its nodes.
        found: what filters said; its verdicts must not be None.
        scored: what scores said.
        every: what each filter says by itself, where that was asked for.
        refused: what extenders say about rows that filters let pass.

    Raises:
        PluginError: a plugin that rejects nodes cannot say why.
    """
    table = snapshot.table
    of_row = np.zeros(table.size, np.intp)
    said: list[FeasibleNode | RejectedNode] = []
    rejected, fitting = _rejections(found, snapshot, every, refused), _scores(scored)
    about: Iterator[tuple[FeasibleNode | RejectedNode, NDArray[np.intp]]]
    about = chain(rejected, fitting)
    for node, rows in about:
        of_row[rows] = len(said)
        said.append(node)
    return Judgement(summary, nodes, said, of_row[nodes.rows])


def rejection_of(status: Status) -> Rejection:
    """A status for people and programs."""
    return Rejection(status.plugin, status.code.upstream_name, status.reasons)


def _rejections(
    found: Feasibility,
    snapshot: Snapshot,
    every: Sequence[Verdicts] | None,
    refused: Sequence[tuple[Status, NDArray[np.intp]]],
) -> Iterator[tuple[RejectedNode, NDArray[np.intp]]]:
    """Distinct rejections, each with the rows it is about."""
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
    """One rejection split by what the other filters say about its rows."""
    bits = np.array([np.where(v.first[rows] == FEASIBLE, 0, v.bits[rows]) for v in every])
    _, firsts, of_row = np.unique(bits, axis=1, return_index=True, return_inverse=True)
    for group, first in enumerate(firsts.tolist()):
        row = int(rows[first])
        statuses = [*known, *(v.status(row) for v in every if v.first[row] != FEASIBLE)]
        rejections = tuple(rejection_of(status) for status in statuses)
        yield msgspec.structs.replace(node, rejections=rejections), rows[of_row.ravel() == group]


def _scores(scored: Scored) -> Iterator[tuple[FeasibleNode, NDArray[np.intp]]]:
    """Distinct combinations of scores, each with the rows it is about."""
    if not len(scored.rows):
        return
    rows_of: dict[tuple[float, ...], list[int]] = {}
    columns = (scored.totals.tolist(), *(column.tolist() for _, _, column in scored.columns))
    for row, combination in zip(scored.rows.tolist(), zip(*columns, strict=True), strict=True):
        rows_of.setdefault(combination, []).append(row)
    for (total, *values), rows in rows_of.items():
        scores = {
            name: PluginScore(int(value), int(value) * weight)
            for (name, weight, _), value in zip(scored.columns, values, strict=True)
        }
        yield FeasibleNode("", scores, int(total)), np.array(rows, np.intp)
