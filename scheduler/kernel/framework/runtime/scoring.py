"""From feasible nodes to their totals.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go (RunPreScorePlugins,
RunScorePlugins), pkg/scheduler/schedule_one.go (prioritizeNodes) v1.36.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod_shape import EVERY_NEED
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import Scores
from scheduler.kernel.framework.runtime.bound import BoundScore
from scheduler.kernel.framework.runtime.class_plugins import RawScore
from scheduler.kernel.framework.runtime.diagnosis import Feasibility
from scheduler.kernel.framework.runtime.plugin_set import ProfilePlugins
from scheduler.kernel.framework.runtime.pod_class import PodClass
from scheduler.kernel.framework.runtime.ranking import INFEASIBLE_TOTAL, NO_ROWS
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE
from scheduler.kernel.framework.status import Code
from scheduler.kernel.snapshot import Indices, Rows, Snapshot
from scheduler.kernel.snapshot.label_columns import Topology

_TOTAL_WITHOUT_PLUGINS: Final = 1.0
"""The total of every node when neither a score plugin nor an extender could rank them."""


class Best(msgspec.Struct, frozen=True):
    """The nodes with the highest total.

    Attributes:
        rows: the rows of these nodes.
        feasible: number of nodes that fit.
        candidates: the rows of `totals`; None for all rows of the table.
        alone: the totals of the candidates without `by_domain`, until the snapshot changes.
        left_out: the scores that are the same on every node, where `totals` lacks them.
        is_of_class: whether the totals are those of the pod's class alone.
        by_domain: the score added to each row, by its domain.
    """

    rows: NDArray[np.intp]
    feasible: int
    candidates: NDArray[np.intp] | None = None
    alone: Scores | NDArray[np.int64] | None = None
    left_out: Sequence[RawScore] = ()
    is_of_class: bool = False
    by_domain: tuple[Topology, Scores] | None = None

    @property
    def totals(self) -> Scores | NDArray[np.int64] | None:
        """The totals of the candidates, until the snapshot changes.

        Below zero for a row that does not fit. Whole numbers of int64 where extenders added to
        them. None where there was no choice.
        """
        if self.alone is None or self.by_domain is None:
            return self.alone
        topology, scores = self.by_domain
        totals: Scores = self.alone + scores[topology.ids]
        totals[self.alone == INFEASIBLE_TOTAL] = INFEASIBLE_TOTAL
        return totals


class Scoring:
    """The PreScore and Score plugins of one profile.

    Methods raise `PluginError` if a plugin failed, or returned a score out of range.
    """

    def __init__(self, plugins: ProfilePlugins, *, has_extenders: bool = False) -> None:
        self._calls = plugins.calls
        self._has_extenders = has_extenders
        self._all = plugins.score
        self._cluster = [scored for scored in plugins.score if not scored.is_row_local]
        # A plugin whose PreFilter is not enabled may fail for lack of its state: never skip it.
        prepared = {plugin.name for plugin in plugins.pre_filter}
        self._cluster_by_needs = [
            [p for p in self._cluster if p.name not in prepared or not p.needs & ~needs]
            for needs in range(EVERY_NEED + 1)
        ]
        scoring = {scored.name for scored in plugins.score}
        self._only_preparing = [p for p in plugins.pre_score if p.name not in scoring]
        self._are_trusted = all(scored.is_trusted for scored in self._cluster)

    def best_nodes(
        self,
        found: Feasibility,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: NDArray[np.intp] | None = None,
        bonus: NDArray[np.int64] | None = None,
        within: NDArray[np.intp] | None = None,
    ) -> Best:
        """Find the nodes with the highest weighted sum of all scores.

        Candidates are the feasible `rows`, or the feasible rows `within`; None stands for all.
        `bonus` is added to the totals of `rows`. It is int64, because extenders may return numbers
        that float64 cannot hold.
        """
        if rows is None:
            best = self._best_by_class(found, pod, snapshot, within)
            if best is not None:
                return best
            if within is None and self._is_about_all_rows(found, snapshot):
                totals = self.totals(found, pod, snapshot, snapshot.table.all_rows)
                return Best((totals == totals.max()).nonzero()[0], len(totals), None, totals)
            rows = found.feasible_rows(within)
        if len(rows) <= 1:
            return Best(rows, len(rows))
        totals = self.totals(found, pod, snapshot, rows)
        exact = totals if bonus is None else totals.astype(np.int64) + bonus
        return Best(rows[(exact == exact.max()).nonzero()[0]], len(rows), rows, exact)

    def _best_by_class(
        self,
        found: Feasibility,
        pod: PodInfo,
        snapshot: Snapshot,
        within: NDArray[np.intp] | None,
    ) -> Best | None:
        """The best nodes by the totals of the class; None where more must be added to these."""
        pod_class, verdicts = found.pod_class, found.verdicts
        if verdicts is None or not self._keeps_totals(found):
            return None
        adding = self._adding_scores(found, pod, snapshot)
        if adding:
            if within is not None:
                return None
            return self._best_by_domain(adding, found, pod, snapshot)
        start = self._calls.now()
        if verdicts.is_shared:
            best = self.best_of_class(pod_class, snapshot, within)
        else:
            # Whole numbers; a `where` takes long for rows that fit here and there.
            totals = pod_class.total[: snapshot.table.size] - INFEASIBLE_TOTAL
            totals *= verdicts.first == FEASIBLE
            totals += INFEASIBLE_TOTAL
            totals = totals if within is None else totals[within]
            best = Best(*_best_rows(totals, within), within, totals, pod_class.raw_scores)
        if best.feasible > 1:
            start = self._calls.point_done("PreScore", Code.SUCCESS, start)
            self._calls.point_done("Score", Code.SUCCESS, start)
        return best

    def best_of_class(
        self, pod_class: PodClass, snapshot: Snapshot, within: NDArray[np.intp] | None = None
    ) -> Best:
        """Find the nodes with the highest total of a class, where nothing else adds to it."""
        if within is None:
            totals = pod_class.total[: snapshot.table.size]
            rows, feasible = pod_class.ranking.best_rows(totals)
        else:
            totals = pod_class.total[within]
            rows, feasible = _best_rows(totals, within)
        return Best(rows, feasible, within, totals, pod_class.raw_scores, is_of_class=True)

    def _best_by_domain(
        self, adding: Sequence[BoundScore], found: Feasibility, pod: PodInfo, snapshot: Snapshot
    ) -> Best | None:
        """The best nodes where a single plugin adds scores, and by domain; else None."""
        if not (found.is_of_class and self._are_trusted) or len(adding) != 1:
            return None
        pod_class, score_by_domain = found.pod_class, adding[0].score_by_domain
        if score_by_domain is None:
            return None
        start = self._calls.now()
        returned = score_by_domain(found.state, pod, snapshot, pod_class.fitting_domains)
        if returned is None:
            return None
        topology, by_domain = returned
        by_domain = by_domain * adding[0].weight
        rows, feasible = pod_class.best_by_domain(topology, by_domain)
        if not feasible:
            return Best(rows, 0)
        start = self._calls.point_done("PreScore", Code.SUCCESS, start)
        self._calls.point_done("Score", Code.SUCCESS, start)
        alone = pod_class.total[: len(topology.ids)]
        return Best(
            rows, feasible, None, alone, pod_class.raw_scores, by_domain=(topology, by_domain)
        )

    def _keeps_totals(self, found: Feasibility) -> bool:
        """Whether the class's totals are complete, except for scores that are constant."""
        pod_class, verdicts = found.pod_class, found.verdicts
        if verdicts is None or verdicts.rows is not None or self._only_preparing:
            return False
        if pod_class.plugins.score_failure is not None:
            return False
        return not any(raw.varies for raw in pod_class.raw_scores)

    def _adding_scores(
        self, found: Feasibility, pod: PodInfo, snapshot: Snapshot
    ) -> list[BoundScore]:
        """The plugins that add to the class's totals; only the first where not all are trusted."""
        adding: list[BoundScore] = []
        for scored in self._cluster_by_needs[pod.needs]:
            skips = scored.skips_score
            if skips is None or not (scored.name in found.silent or skips(pod, snapshot)):
                adding.append(scored)
                if not self._are_trusted:
                    break
        return adding

    def _is_about_all_rows(self, found: Feasibility, snapshot: Snapshot) -> bool:
        """Whether all rows fit and the plugins take a slice: then no indices are needed."""
        size = snapshot.table.size
        if size <= 1 or self._only_preparing or not (found.is_of_class and self._are_trusted):
            return False
        return found.pod_class.ranking.best_rows(found.pod_class.total[:size])[1] == size

    def totals(self, found: Feasibility, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """The weighted sum of all scores for the given feasible rows. Read-only."""
        if not (self._all or self._has_extenders):
            return np.full(len(snapshot.table.alive[rows]), _TOTAL_WITHOUT_PLUGINS)
        start = self._calls.now()
        taking_part = self._cluster_by_needs[pod.needs]
        active = self._prepare(taking_part, found.state, pod, snapshot, rows)
        start = self._calls.point_done("PreScore", Code.SUCCESS, start)
        total = self._row_local_total(found, pod, snapshot, rows)
        for scored, column in self._columns(active, found.state, pod, snapshot, rows):
            weighted = column * scored.weight
            weighted += total
            total = weighted
        self._calls.point_done("Score", Code.SUCCESS, start)
        return total

    def score_table(
        self, found: Feasibility, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> list[tuple[str, int, Scores]]:
        """Every score plugin that takes part: name, weight, and its normalised scores by row.

        For `explain` and for comparisons; attempts add up the scores without keeping them.
        """
        active = self._prepare(self._all, found.state, pod, snapshot, rows)
        columns = self._columns(active, found.state, pod, snapshot, rows)
        return [(scored.name, scored.weight, column) for scored, column in columns]

    def _prepare(
        self,
        plugins: Sequence[BoundScore],
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: Rows,
    ) -> list[BoundScore]:
        """Run PreScore before the first plugin scores; return the plugins that do not skip."""
        for plugin in self._only_preparing:
            plugin.call(state, pod, snapshot, rows)
        return [
            scored
            for scored in plugins
            if scored.pre_score is None
            or scored.pre_score(state, pod, snapshot, rows).code is not Code.SKIP
        ]

    def _row_local_total(
        self, found: Feasibility, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Scores:
        pod_class: PodClass = found.pod_class
        if found.looks_at_few:
            total, raw_columns = pod_class.score(snapshot, rows)
            for raw, column in raw_columns:
                total += raw.scored.normalized(found.state, pod, column) * raw.scored.weight
            return total
        pod_class.plugins.raise_score_failure()
        total, constant = pod_class.total[rows], 0.0
        for raw in pod_class.raw_scores:
            if raw.varies:
                column = raw.scored.normalized(found.state, pod, raw.column[rows])
                total = total + column * raw.scored.weight
            else:
                constant += raw.constant
        return total + constant if constant else total

    def _columns(
        self,
        plugins: Sequence[BoundScore],
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: Rows,
    ) -> Iterator[tuple[BoundScore, Scores]]:
        """The normalised scores of plugins that are prepared."""
        for scored in plugins:
            column = scored.score(state, pod, snapshot, rows)
            yield scored, scored.normalized(state, pod, column)


def _best_rows(totals: Scores, candidates: Indices | None) -> tuple[Indices, int]:
    """The candidates with the highest total, and the number of candidates that fit."""
    feasible = int(np.count_nonzero(totals != INFEASIBLE_TOTAL))
    if not feasible:
        return NO_ROWS, 0
    best = (totals == totals.max()).nonzero()[0]
    return best if candidates is None else candidates[best], feasible
