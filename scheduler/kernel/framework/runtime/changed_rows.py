"""The verdicts of filters on rows to which pods are added, or from which they are removed.

Each row is judged by itself: a change on one does not affect the others. So one call judges the
changes of many rows: preemption removes pods from them, nominations add pods.

Filters that count (`CountingFilterPlugin`) receive sums. The answers of filters that read nodes
only do not change. All others run on a fork of the snapshot, row by row where they follow single
pods (`PreFilterExtensions`).

Source: kubernetes pkg/scheduler/framework/runtime/framework.go (RunFilterPluginsWithNominatedPods,
RunPreFilterExtensionAddPod, RunPreFilterExtensionRemovePod) v1.36.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.interface import Reads
from scheduler.kernel.framework.runtime.bound import BoundCounting, BoundFilter
from scheduler.kernel.framework.runtime.verdicts import (
    FEASIBLE,
    FilterAttempt,
    Verdicts,
    blank_verdicts,
    judge,
)
from scheduler.kernel.snapshot import Indices, Rows, Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods

PodsOf: TypeAlias = Callable[[], Sequence[PodInfo]]

_Move: TypeAlias = tuple[PodInfo, bool]
"""A pod, and whether it is added; False if it is removed."""
_Moves: TypeAlias = list[dict[str, _Move]]
"""By row, the pods that were added to it or removed from it, by UID."""

_READS_PODS: Final = Reads.PODS | Reads.CLUSTER


class _Counted(msgspec.Struct):
    """A filter that counts: its counters are these lines of all counters."""

    index: int
    counting: BoundCounting
    lines: slice


class ChangedRows:
    """The filters of one attempt on rows to which pods are added, or from which they are removed.

    Methods raise `PluginError` if a plugin failed.

    Attributes:
        rows: the rows; all methods take rows as positions among them.
    """

    def __init__(
        self,
        attempt: FilterAttempt,
        snapshot: Snapshot,
        rows: Indices,
        others: OtherPods,
    ) -> None:
        """Prepare for pods of the kinds `others` to be added to the rows, and removed."""
        self.rows = rows
        self._places = np.arange(len(rows))
        self._attempt = attempt
        self._snapshot = snapshot
        self._counted: list[_Counted] = []
        self._asked: list[BoundFilter] = []
        fixed: list[BoundFilter] = []
        weights: list[NDArray[np.float64]] = []
        lines = 0
        for active in attempt.filters:
            if active.counting is not None:
                counting = active.counting(attempt.state, attempt.pod, snapshot, rows, others)
                count = len(counting.weights)
                self._counted.append(_Counted(active.index, counting, slice(lines, lines + count)))
                weights.append(counting.weights)
                lines += count
            elif active.reads & _READS_PODS:
                self._asked.append(active)
            else:
                fixed.append(active)
        self._weights = np.vstack(weights) if weights else np.zeros((0, len(others)))
        self._changes = np.zeros((lines, len(rows)))
        self._nominated = np.zeros((lines, len(rows)))
        self._has_nominated = np.zeros(len(rows), np.bool_)
        # Noted only where a filter must see the pods.
        noted = range(len(rows) if self._asked else 0)
        self._moves: _Moves = [{} for _ in noted]
        self._nominations: _Moves = [{} for _ in noted]
        self._fixed = blank_verdicts(snapshot, rows, attempt)
        """The verdicts of the filters that no change concerns."""
        judge(fixed, attempt.state, attempt.pod, snapshot, self._fixed)

    @property
    def follows_single_pods(self) -> bool:
        """Whether some filter must see the pods themselves, which has a cost for each row."""
        return bool(self._asked)

    def remove(self, at: Indices, kinds: Indices, pods: PodsOf) -> None:
        """Remove pods from rows.

        Args:
            at: the position of each pod's row.
            kinds: the position of each pod's kind among `others`.
            pods: returns the pods, should a filter need them.
        """
        self._change(self._changes, at, kinds, -1)
        if self._asked:
            _note(self._moves, at, pods(), comes=False)

    def try_back(self, at: Rows, kinds: Indices, pods: PodsOf) -> NDArray[np.bool_]:
        """Add one pod back to each row where the attempt's pod still fits beside it.

        Arguments as in `remove`; no row comes twice. The result is undefined for rows on which the
        attempt's pod does not fit already.

        Returns:
            A mask of the pods that are not added back.
        """
        # Not `[:, kinds]`: its memory layout is by row, and all sums read it by line.
        more = self._weights.take(kinds, axis=1)
        if self._asked:
            misses = self._misses_of_any(self._places[at], more, pods())
        else:
            misses = self._misses(at, self._changes[:, at] + more)
        more *= ~misses
        self._changes[:, at] += more
        return misses

    def nominate(self, at: Indices, kinds: Indices, pods: PodsOf) -> None:
        """Nominate pods to rows; arguments as in `remove`."""
        self._change(self._nominated, at, kinds, 1)
        self._has_nominated[at] = True
        if self._asked:
            _note(self._nominations, at, pods(), comes=True)

    def judge(self, at: Indices | None = None) -> Verdicts:
        """The first rejection of each of some rows as they are now; of all when None.

        A row with nominated pods is judged with them, and if that passes, without them.
        """
        at = self._places if at is None else at
        with_nominated = self._judge(at, nominated=True)
        nominated = self._has_nominated[at]
        if nominated.any():
            again = np.flatnonzero(nominated & (with_nominated.first == FEASIBLE))
            without = self._judge(at[again], nominated=False)
            with_nominated.first[again] = without.first
            with_nominated.bits[again] = without.bits
        return with_nominated

    def _misses_of_any(
        self, at: Indices, more: NDArray[np.float64], pods: Sequence[PodInfo]
    ) -> NDArray[np.bool_]:
        """The rows on which the pod no longer fits with one pod more, by all filters, as a mask."""
        before = self._changes[:, at]
        self._changes[:, at] += more
        _note(self._moves, at, pods, comes=True)
        misses: NDArray[np.bool_] = self.judge(at).first != FEASIBLE
        _note(self._moves, at[misses], [*compress(pods, misses.tolist())], comes=False)
        self._changes[:, at] = before
        return misses

    def _misses(self, at: Rows, changes: NDArray[np.float64]) -> NDArray[np.bool_]:
        """The rows on which the pod no longer fits, by the counting filters, as a mask.

        Filters that no change concerns need not run: they passed these rows before.
        """
        misses = self._rejected(at, changes)
        nominated = self._has_nominated[at] & ~misses
        if nominated.any():
            here = self._places[at][nominated]
            together = changes[:, nominated] + self._nominated[:, here]
            misses[nominated] = self._rejected(here, together)
        return misses

    def _rejected(self, at: Rows, changes: NDArray[np.float64]) -> NDArray[np.bool_]:
        rejected = np.zeros(changes.shape[1], np.bool_)
        for counted in self._counted:
            answer = counted.counting.rejects(at, changes[counted.lines])
            if answer is not None:
                rejected |= answer
        return rejected

    def judge_with_nominated(self) -> Verdicts:
        """The first rejection of each row as it is with the nominated pods."""
        return self._judge(self._places, nominated=True)

    def _change(
        self, counters: NDArray[np.float64], at: Indices, kinds: Indices, sign: int
    ) -> None:
        rows = len(self.rows)
        for line, weights in enumerate(self._weights):
            counters[line] += sign * np.bincount(at, weights=weights[kinds], minlength=rows)

    def _judge(self, at: Indices, *, nominated: bool) -> Verdicts:
        # Mostly all rows are judged, in order: a view spares copies.
        is_all = len(at) == len(self.rows) and bool((at == self._places).all())
        view = slice(None) if is_all else at
        found = self._fixed.at(at)
        changes = self._changes[:, view]
        if nominated and self._has_nominated.any():
            changes = changes + self._nominated[:, view]
        for counted in self._counted:
            answer = counted.counting.judge(at, changes[counted.lines])
            if answer is not None:
                found.reject(counted.index, answer)
        if self._asked:
            self._ask(at, found, nominated=nominated)
        found.raise_failure()
        return found

    def _ask(self, at: Indices, found: Verdicts, *, nominated: bool) -> None:
        """Run the filters that cannot count, on forks."""
        moved = [list(self._moves[place].values()) for place in at.tolist()]
        if nominated:
            for moves, place in zip(moved, at.tolist(), strict=True):
                moves.extend(self._nominations[place].values())
        together = self._fork([move for moves in moved for move in moves])
        attempt = self._attempt
        for active in self._asked:
            if active.follow is None and (active.is_row_local or active.is_by_node):
                # The filter judges each row by itself: one fork with all changes serves all rows.
                judge((active,), attempt.state, attempt.pod, together, found)
                continue
            for place, moves in enumerate(moved):
                if found.first[place] > active.index:
                    self._ask_about_one(active, found, place, moves)

    def _ask_about_one(
        self, active: BoundFilter, found: Verdicts, place: int, moves: Sequence[_Move]
    ) -> None:
        attempt = self._attempt
        one = slice(place, place + 1)
        rows = None if found.rows is None else found.rows[one]
        single = Verdicts(found.first[one], found.bits[one], rows, found.attempt, found.failures)
        state = attempt.state.clone()
        if active.follow is not None:
            add_pod, remove_pod = active.follow
            for pod, comes in moves:
                follow, row = add_pod if comes else remove_pod, self._snapshot.table.row_of
                follow(state, attempt.pod, self._snapshot, pod, row[pod.node_name])
        judge((active,), state, attempt.pod, self._fork(moves), single)

    def _fork(self, moves: Sequence[_Move]) -> Snapshot:
        return self._snapshot.fork(
            [pod for pod, comes in moves if comes], [pod for pod, comes in moves if not comes]
        )


def _note(moves: _Moves, at: Indices, pods: Sequence[PodInfo], *, comes: bool) -> None:
    """Note pods as added or removed; a removed pod that is added back is noted no more."""
    for row, pod in zip(at.tolist(), pods, strict=True):
        if moves[row].pop(pod.uid, None) is None:
            moves[row][pod.uid] = (pod, comes)
