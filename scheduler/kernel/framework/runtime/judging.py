"""The only caller of filters: their verdicts on rows, and the meaning of these.

`judge` is called for whole clusters and single nodes, for plain decisions and "what if", by the
cache of pod classes and past it.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import Bits, Reason
from scheduler.kernel.framework.runtime.bound import BoundFilter
from scheduler.kernel.framework.runtime.plugin_calls import PluginError
from scheduler.kernel.framework.runtime.verdicts import Verdicts
from scheduler.kernel.snapshot import Rows, Snapshot


def as_view(rows: Rows) -> Rows:
    """The same rows, as a slice where it is only one: slices make views, indices make copies."""
    if isinstance(rows, slice) or len(rows) != 1:
        return rows
    row = int(rows[0])
    return slice(row, row + 1)


def judge(
    filters: Sequence[BoundFilter],
    state: CycleState,
    pod: PodInfo,
    snapshot: Snapshot,
    verdicts: Verdicts,
) -> None:
    """Let filters reject rows that no filter before them in the profile's order rejects.

    Args:
        filters: the filters that take part, in any order.
        state: the state after PreFilter.
        pod: the pod.
        snapshot: the cluster, or a fork of it.
        verdicts: the rows and their verdicts so far; the answers are added to it. A filter that
            fails rejects all its rows, so that `raise_failure` determines whether that matters.
    """
    rows = snapshot.table.all_rows if verdicts.rows is None else as_view(verdicts.rows)
    for each in filters:
        if each.is_by_node:
            # Each row costs a call: pass only rows that no filter before this one rejects.
            candidates = np.flatnonzero(verdicts.first > each.index)
            asked: Rows = candidates if verdicts.rows is None else verdicts.rows[candidates]
        else:
            candidates, asked = None, rows
        answer: Bits | None
        try:
            answer = each.filter(state, pod, snapshot, asked)
        except PluginError as problem:
            verdicts.failures[each.index] = problem
            count = len(verdicts.first) if candidates is None else len(candidates)
            answer = np.ones(count, np.uint64)
        if answer is not None:
            verdicts.reject(each.index, answer, candidates)


class FilterAttempt(msgspec.Struct, frozen=True):
    """The filters that take part for one pod, to judge rows as they are or might be.

    It knows the meaning of their answers; a plugin returns it only when a caller reads it.

    Attributes:
        filters: the filters that take part, in any order.
        state: the state after PreFilter.
        pod: the pod.
        snapshot: the cluster.
    """

    filters: Sequence[BoundFilter]
    state: CycleState
    pod: PodInfo
    snapshot: Snapshot

    def judge(self, verdicts: Verdicts) -> None:
        """Let all filters reject rows; see `judge`."""
        judge(self.filters, self.state, self.pod, self.snapshot, verdicts)

    def reasons(self, index: int, answer: int, row: int | None = None) -> Sequence[Reason]:
        """The reasons in an answer of the filter with this index, for one row or for any.

        Raises:
            PluginError: the plugin failed to return them.
        """
        ask = self._filter(index).reasons_in
        return ask(self.state, self.pod, self.snapshot, answer, row)

    def name(self, index: int) -> str:
        """The name of the filter with this index."""
        return self._filter(index).name

    def _filter(self, index: int) -> BoundFilter:
        return next(each for each in self.filters if each.index == index)
