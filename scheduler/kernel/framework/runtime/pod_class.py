"""The row-local answers for all pods of one class, kept up to date row by row.

Pods that are equal in everything the row-local plugins read (their signature) are one class. Per
class the answers of those plugins stay as columns; the next pod of the class re-evaluates only the
rows that changed since. Answers that depend on the whole cluster are not kept here.

Invariant: after `refresh`, the columns equal those of a class made anew (a test runs random
histories and compares).
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.api.images import image_names
from scheduler.api.pod_shape import PodShape
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.interface import Reads, Scores
from scheduler.kernel.framework.runtime.class_plugins import ClassPlugins, RawScore
from scheduler.kernel.framework.runtime.nominated_layer import NominatedLayer
from scheduler.kernel.framework.runtime.plugin_set import ProfilePlugins
from scheduler.kernel.framework.runtime.ranking import BYTES_PER_ROW, INFEASIBLE_TOTAL, Ranking
from scheduler.kernel.framework.runtime.verdicts import (
    FEASIBLE,
    FilterAttempt,
    First,
    Verdicts,
    as_view,
    blank_verdicts,
)
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.label_columns import Topology
from scheduler.kernel.snapshot.resource_sums import Content, Load, ResourceSums

_MAX_TOPOLOGIES: Final = 2
"""The most topologies whose best rows are kept: most pods of a class are spread by zone."""
_FULL_PASS_FRACTION: Final = 4
"""Once one row in this many has changed, all rows are evaluated again: slices beat indices."""
_FEW: Final = 8
"""The most changed rows that are looked up; judging more of them together takes no longer."""
_MAX_KEPT: Final = 1024
_MAX_ANSWER_BYTES: Final = _MAX_KEPT * 512
"""The most memory that the kept answers of a class take."""

C = TypeVar("C", bound=np.generic)

Judged: TypeAlias = tuple[First, NDArray[np.uint64], Scores]
"""`first`, `bits` and `total` of some rows; see `PodClass`."""
RowAnswer: TypeAlias = tuple[int, int, float]
"""`first`, `bits` and `total` of one row."""
Key: TypeAlias = tuple[RowAnswer, Content]
"""The answer of plugins that read the node alone, and the capacity and load of a row."""


class RowAnswers:
    """The answers of a class by the content of a row, for one layout of the sums.

    Rows with equal keys get equal answers, at any time. So no entry is ever invalidated: a row that
    changes has another key.
    """

    def __init__(self) -> None:
        self._by_key: dict[Key, RowAnswer] = {}
        self._layout: object = None

    def get(self, layout: object, key: Key) -> RowAnswer | None:
        """The answer for such a row, or None."""
        return self._by_key.get(key) if layout is self._layout else None

    def put(self, layout: object, keys: Iterable[Key], answers: Iterable[RowAnswer]) -> None:
        """Keep answers for rows."""
        if layout is not self._layout or len(self._by_key) >= _MAX_KEPT:
            self._by_key.clear()
            self._layout = layout
        self._by_key.update(zip(keys, answers, strict=True))


class PodClass:
    """The row-local answers for all pods of one signature.

    Attributes:
        plugins: the row-local plugins of the class.
        first: by row, the index of the first row-local filter that rejects it, FEASIBLE or DEAD.
        bits: by row, that filter's reasons.
        total: by row, the weighted sum of row-local scores that need no normalisation;
            INFEASIBLE_TOTAL where `first` rejects.
        ranking: the best rows by `total`, as of the last `refresh`; see `Ranking`.
        nominated_layer: the rows on which nominated pods exclude the class.
    """

    def __init__(self, pod: PodInfo, profile: ProfilePlugins, snapshot: Snapshot) -> None:
        self.plugins = ClassPlugins(pod, profile, snapshot)
        self._spec = pod.spec
        self.nominated_layer = NominatedLayer()
        self._known = RowAnswers()
        self.ranking = Ranking()
        self._rankings = [self.ranking]
        """The ranking of all rows, and those by domain, oldest first."""
        self._node_position = self._pod_position = self._images_changed_at = -1
        self._node_first = np.zeros(0, np.int16)
        self._node_bits = np.zeros(0, np.uint64)
        self._node_total = np.zeros(0)
        self.first = np.zeros(0, np.int16)
        self.bits = np.zeros(0, np.uint64)
        self.total = np.zeros(0)

    @cached_property
    def raw_scores(self) -> list[RawScore]:
        """The scores that need normalisation."""
        plugins, size = self.plugins, len(self.first)
        return [
            RawScore(each, plugins.constant(each), np.zeros(size), bool(each.reads & Reads.PODS))
            for each in plugins.raw_scores
        ]

    @cached_property
    def _image_names(self) -> tuple[str, ...]:
        return image_names(self._spec) if self.plugins.reads_images else ()

    def size_bytes(self, capacity: int) -> int:
        """The most memory that the class takes where its columns have this many rows."""
        columns = (self._node_first, self._node_bits, self._node_total)
        per_row = 3 * sum(c.itemsize for c in columns) + 8 * len(self.raw_scores)
        per_row += _MAX_TOPOLOGIES * BYTES_PER_ROW
        return per_row * capacity + (_MAX_ANSWER_BYTES if self.plugins.can_foresee else 0)

    def counted(self, snapshot: Snapshot, pods: int) -> None:
        """Note that the columns include the latest pods of the snapshot already, as many as given.

        With any other change since, `refresh` judges all changed rows.
        """
        log = snapshot.sum_log
        if log.position == self._pod_position + pods:
            self._pod_position = log.position

    def answer(self, sums: ResourceSums, row: int, load: Load | None = None) -> RowAnswer | None:
        """The answer for a row, with the load of more pods on it; None if it was not judged yet."""
        if not self.plugins.can_foresee or sums.has_oversized:
            return None
        return self._known.get(sums.layout, self._key(sums, row, load))

    def judge_with_more(
        self,
        snapshot: Snapshot,
        shape: PodShape,
        rows: NDArray[np.intp],
        times: NDArray[np.float64],
    ) -> None:
        """Judge rows as if `times` more pods of a shape ran on each, for `answer`.

        Each row may be given any number of times.
        """
        plugins = self.plugins
        if not plugins.can_foresee or plugins.have_failed():
            return
        after = snapshot.picked(rows, shape, times)
        if after is None:
            return
        with plugins.unmeasured():
            judged = self._judged(after, after.table.all_rows, rows)
        if plugins.have_failed():
            # The failure concerns hypothetical pods: it must not fail the present attempt.
            plugins.forget_failures()
            return
        node = (self._node_first[rows], self._node_bits[rows], self._node_total[rows])
        keys = zip(_listed(*node), after.table.sums.contents(), strict=True)
        self._known.put(after.table.sums.layout, keys, _listed(*judged))

    def fits_with_more(
        self,
        snapshot: Snapshot,
        shape: PodShape,
        rows: NDArray[np.intp],
        times: NDArray[np.float64],
    ) -> NDArray[np.bool_] | None:
        """The rows that would still take a pod of the class, with `times` more pods on each.

        A mask, as of the last `refresh`; None where the class cannot judge hypothetical pods.
        """
        plugins = self.plugins
        if not plugins.can_foresee or plugins.have_failed():
            return None
        after = snapshot.picked(rows, shape, times)
        if after is None:
            return None
        verdicts = Verdicts(self._node_first[rows], self._node_bits[rows])
        with plugins.unmeasured():
            plugins.judge(plugins.pod_filters, after, verdicts)
        if plugins.have_failed():
            plugins.forget_failures()
            return None
        fits: NDArray[np.bool_] = verdicts.first == FEASIBLE
        return fits

    def refresh(self, snapshot: Snapshot) -> None:
        """Judge the rows that have changed."""
        if self.plugins.have_failed():
            # The plugin may work now: judge all rows again.
            self.plugins.forget_failures()
            self._node_position = -1
        if snapshot.table.capacity != len(self.first):
            self._grow(snapshot.table.capacity)
        size = snapshot.table.size
        changed_nodes = snapshot.node_log.since(self._node_position)
        pod_log = snapshot.sum_log if self.plugins.reads_sums else snapshot.pod_log
        changed_pods = pod_log.since(self._pod_position)
        images_changed_at = snapshot.images.changed_at(self._image_names)
        if images_changed_at != self._images_changed_at:
            holders = snapshot.images.holders(self._image_names)
            changed_nodes = _joined(changed_nodes, holders)
            changed_pods = _joined(changed_pods, holders)
        node_rows = self._changed(changed_nodes, size)
        pod_rows = self._changed(changed_pods, size)
        if node_rows is not None:
            # Their topologies do not have the rows of new nodes.
            del self._rankings[1:]
            self._evaluate_nodes(snapshot, node_rows)
            if isinstance(node_rows, slice):
                pod_rows = node_rows
        if pod_rows is not None and not self._is_known(snapshot.table.sums, pod_rows):
            self._evaluate_pods(snapshot, pod_rows)
        self._node_position = snapshot.node_log.position
        self._pod_position = pod_log.position
        self._images_changed_at = images_changed_at

    def verdicts(self, attempt: FilterAttempt) -> Verdicts:
        """The verdicts of the row-local filters on every row, for a pod of the class."""
        self.refresh(attempt.snapshot)
        size = attempt.snapshot.table.size
        first, bits, failures = self.first[:size], self.bits[:size], self.plugins.failures.copy()
        return Verdicts(first, bits, None, attempt, failures, is_shared=True)

    def score(self, snapshot: Snapshot, rows: Rows) -> tuple[Scores, list[tuple[RawScore, Scores]]]:
        """Compute the total and the raw scores on some rows, without keeping them."""
        plugins = self.plugins
        plugins.score_failure = None
        total = plugins.total((*plugins.node_scores, *plugins.pod_scores), snapshot, rows)
        raw = [(raw, plugins.score(raw.scored, snapshot, rows)) for raw in self.raw_scores]
        plugins.raise_score_failure()
        return total, raw

    def best_by_domain(self, topology: Topology, by_domain: Scores) -> tuple[NDArray[np.intp], int]:
        """The rows with the best sum of total and `by_domain`; the number of rows that fit."""
        total = self.total[: len(topology.ids)]
        return self._ranking_by(topology).best_rows(total, by_domain)

    def fitting_domains(self, topology: Topology) -> NDArray[np.bool_]:
        """The domains with a row that fits, as of the last `refresh`, as a mask."""
        return self._ranking_by(topology).fitting_domains(self.total[: len(topology.ids)])

    def _ranking_by(self, topology: Topology) -> Ranking:
        for ranking in self._rankings:
            if ranking.topology is topology:
                return ranking
        del self._rankings[1 : len(self._rankings) - _MAX_TOPOLOGIES + 1]
        self._rankings.append(Ranking(topology))
        return self._rankings[-1]

    def become(self, row: int, first: int, bits: int, total: float) -> None:
        """Set the answers for a row."""
        before = self.total.item(row)
        for ranking in self._rankings:
            ranking.follow(row, before, total)
        self.first[row], self.bits[row], self.total[row] = first, bits, total

    # --- evaluation -----------------------------------------------------------------------------

    def _changed(self, rows: NDArray[np.intp] | None, size: int) -> Rows | None:
        """The rows to evaluate: all rows, the changed ones, or None."""
        if rows is None or self._node_position < 0 or len(rows) * _FULL_PASS_FRACTION > size:
            return slice(0, size)
        return rows if len(rows) else None

    def _evaluate_nodes(self, snapshot: Snapshot, rows: Rows) -> None:
        verdicts = blank_verdicts(snapshot, None if isinstance(rows, slice) else rows)
        self.plugins.judge(self.plugins.node_filters, snapshot, verdicts)
        self._node_first[rows] = verdicts.first
        self._node_bits[rows] = verdicts.bits
        self._node_total[rows] = self.plugins.total(self.plugins.node_scores, snapshot, rows)
        self._evaluate_raw(snapshot, rows, reads_pods=False)

    def _evaluate_pods(self, snapshot: Snapshot, rows: Rows) -> None:
        view = as_view(rows)
        first, bits, total = judged = self._judged(snapshot, rows, view)
        if isinstance(rows, slice):
            for ranking in self._rankings:
                ranking.forget()
        else:
            if len(rows) <= _FEW:
                self._remember(snapshot.table.sums, rows, judged)
            for ranking in self._rankings:
                ranking.follow_all(rows, self.total, total)
        self.first[view], self.bits[view], self.total[view] = first, bits, total
        self._evaluate_raw(snapshot, rows, reads_pods=True)

    def _is_known(self, sums: ResourceSums, rows: Rows) -> bool:
        """Set the known answers of rows with the same load; return False if one is missing."""
        if isinstance(rows, slice) or len(rows) > _FEW:
            return False
        for row in rows.tolist():
            answer = self.answer(sums, row)
            if answer is None:
                return False
            self.become(row, *answer)
        return True

    def _remember(self, sums: ResourceSums, rows: NDArray[np.intp], judged: Judged) -> None:
        """Keep the answers for a few rows."""
        if self.plugins.can_foresee and not (sums.has_oversized or self.plugins.have_failed()):
            keys = [self._key(sums, row) for row in rows.tolist()]
            self._known.put(sums.layout, keys, _listed(*judged))

    def _key(self, sums: ResourceSums, row: int, load: Load | None = None) -> Key:
        node = self._node_first.item(row), self._node_bits.item(row), self._node_total.item(row)
        return node, sums.content(row, load)

    def _judged(self, snapshot: Snapshot, rows: Rows, own: Rows) -> Judged:
        """Compute the first rejection of each row, its bits, and the total, without keeping them.

        `own` are the same rows by the numbers that the class has for them.
        """
        first, bits = self._node_first[own].copy(), self._node_bits[own].copy()
        verdicts = Verdicts(first, bits, None if isinstance(rows, slice) else rows)
        self.plugins.judge(self.plugins.pod_filters, snapshot, verdicts)
        total = self.plugins.total(self.plugins.pod_scores, snapshot, rows)
        total += self._node_total[own]
        total[first != FEASIBLE] = INFEASIBLE_TOTAL
        return first, bits, total

    def _evaluate_raw(self, snapshot: Snapshot, rows: Rows, *, reads_pods: bool) -> None:
        for raw in self.raw_scores:
            if raw.reads_pods is not reads_pods:
                continue
            scores = self.plugins.score(raw.scored, snapshot, rows)
            raw.column[rows] = scores
            varies = bool(scores.any())
            raw.varies = varies if isinstance(rows, slice) else raw.varies or varies

    def _grow(self, capacity: int) -> None:
        before = len(self.total)
        for name in ("_node_first", "_node_bits", "_node_total", "first", "bits", "total"):
            setattr(self, name, _grown(getattr(self, name), capacity))
        # Rows without a node yet: the ranking must not take a new row for one that fitted.
        self.total[before:] = INFEASIBLE_TOTAL
        for raw in self.raw_scores:
            raw.column = _grown(raw.column, capacity)


def _listed(first: First, bits: NDArray[np.uint64], total: Scores) -> list[RowAnswer]:
    return [*zip(first.tolist(), bits.tolist(), total.tolist(), strict=True)]


def _joined(rows: NDArray[np.intp] | None, others: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """The rows of both, each once; None when all are meant."""
    return None if rows is None else np.union1d(rows, others)


def _grown(column: NDArray[C], capacity: int) -> NDArray[C]:
    new = np.zeros(capacity, column.dtype)
    new[: len(column)] = column[:capacity]
    return new
