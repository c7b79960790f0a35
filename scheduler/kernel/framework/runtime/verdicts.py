"""The verdicts of filters on nodes, as columns, and the meaning of these.

`judge` is the only caller of filters, for all nodes and single ones, for attempts and simulations.
Results in the cache of pod classes are its results, too.

Source: kubernetes pkg/scheduler/framework/types.go (NodeToStatus) v1.36.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import Bits
from scheduler.kernel.framework.results import Reason
from scheduler.kernel.framework.runtime.bound import BoundFilter
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.runtime.plugin_calls import PluginError
from scheduler.kernel.framework.status import SUCCESS, Code, Status
from scheduler.kernel.snapshot import Indices, Rows, Snapshot

FEASIBLE: Final = 32767
"""In `Verdicts.first`: no plugin rejects the node."""
DEAD: Final = -1
"""In `Verdicts.first`: the row is not a node."""

First: TypeAlias = NDArray[np.int16]


class Verdicts(msgspec.Struct):
    """The first rejection of every judged row.

    Methods that return reasons or statuses raise `PluginError` if a plugin fails to return reasons.

    Attributes:
        first: index of the first filter that rejects the row, or FEASIBLE, or DEAD.
        settled: that filter's answer, without the rejections in `answers`.
        rows: the judged rows; None for all of the snapshot.
        attempt: the filters that answered; None where the caller never reads reasons.
        failures: filters that failed, by index; they count as rejecting all rows they were given.
        statuses: the statuses made so far.
        is_shared: whether `first` and `settled` are the columns of a class, which others use.
        answers: rows that filters reject and their answers, in order, while `settled` is still the
            column of a class. `bits` writes them to a copy of it; attempts that succeed spare it.
    """

    first: First
    settled: NDArray[np.uint64]
    rows: NDArray[np.intp] | None = None
    attempt: "FilterAttempt | None" = None
    failures: dict[int, PluginError] = msgspec.field(default_factory=dict)
    statuses: dict[tuple[int, int], Status] = msgspec.field(default_factory=dict)
    is_shared: bool = False
    answers: list[tuple[NDArray[np.bool_], Bits]] | None = None

    @property
    def bits(self) -> NDArray[np.uint64]:
        """By row, the answer of the first filter that rejects it."""
        if self.answers is not None:
            self.settled = self.settled.copy()
            for hit, answer in self.answers:
                np.copyto(self.settled, answer, where=hit)
            self.answers = None
        return self.settled

    def reject(self, index: int, answer: Bits, positions: NDArray[np.intp] | None = None) -> None:
        """Add a filter's rejections of rows that no earlier filter rejects; copy shared columns.

        `positions` are those of the answer's rows among the judged rows; None for all.
        """
        if self.is_shared:
            self.first, self.is_shared, self.answers = self.first.copy(), False, []
        first, hit = self.first, answer != 0
        if positions is not None:
            first[positions[hit]] = index
            self.bits[positions[hit]] = answer[hit]
            return
        hit &= first > index
        # Not `copyto` for thousands of rows: the processor cannot predict which of them are hit.
        limit = np.multiply(hit, index - FEASIBLE, dtype=np.int16)
        limit += FEASIBLE
        np.minimum(first, limit, out=first)
        if self.answers is None:
            np.copyto(self.settled, answer, where=hit)
        else:
            self.answers.append((hit, answer))

    def feasible_rows(self) -> NDArray[np.intp]:
        """The rows no filter rejects."""
        found = np.flatnonzero(self.first == FEASIBLE)
        return found if self.rows is None else self.rows[found]

    def at(self, positions: NDArray[np.intp]) -> "Verdicts":
        """The verdicts on some of the judged rows."""
        rows = positions if self.rows is None else self.rows[positions]
        first, bits = self.first[positions], self.bits[positions]
        return Verdicts(first, bits, rows, self.attempt, self.failures.copy())

    def position_of(self, row: int) -> int | None:
        """The position of the row among the judged rows; None when it was not judged."""
        if self.rows is None:
            return row
        found = np.flatnonzero(self.rows == row)
        return int(found[0]) if len(found) else None

    def status(self, position: int) -> Status:
        """The verdict on one of the judged rows, as a status."""
        first = int(self.first[position])
        return SUCCESS if first == FEASIBLE else self._status(first, int(self.bits[position]))

    def reasons(self, position: int) -> Sequence[Reason]:
        """The reasons that reject one of the judged rows, with the numbers of its node."""
        first = int(self.first[position])
        if first in (FEASIBLE, DEAD) or self.attempt is None:
            return ()
        row = position if self.rows is None else int(self.rows[position])
        return self.attempt.reasons(first, int(self.bits[position]), row)

    def groups(self) -> Iterator[tuple[Status, NDArray[np.intp]]]:
        """Distinct rejections, each with its positions."""
        for first in _distinct(self.first):
            if first in (FEASIBLE, DEAD):
                continue
            positions = np.flatnonzero(self.first == first)
            of_plugin = self.bits[positions]
            for bits in _distinct(of_plugin):
                yield self._status(first, bits), positions[of_plugin == bits]

    def raise_failure(self) -> None:
        """Fail the attempt when a filter failed on a node that no filter before it rejects.

        Upstream does not run the filter on the other nodes.

        Raises:
            PluginError: the failure of that filter.
        """
        for index, problem in self.failures.items():
            if (self.first == index).any():
                raise problem

    def _status(self, first: int, bits: int) -> Status:
        known = self.statuses.get((first, bits))
        if known is None:
            if self.attempt is None:
                raise LookupError("no attempt gives these answers a meaning")
            reasons = self.attempt.reasons(first, bits)
            code = max((reason.code for reason in reasons), default=Code.UNSCHEDULABLE)
            texts = tuple(reason.text for reason in reasons if reason.text)
            known = self.statuses[first, bits] = Status(code, texts, self.attempt.name(first))
        return known


def _distinct(values: NDArray[Any]) -> list[int]:
    """The distinct numbers in ascending order; the usual case of a single one is quick."""
    if len(values) and (values == values[0]).all():
        return [int(values[0])]
    found: list[int] = np.unique(values).tolist()
    return found


def blank_verdicts(
    snapshot: Snapshot, rows: Indices | None = None, attempt: "FilterAttempt | None" = None
) -> Verdicts:
    """Make verdicts that no filter has added to yet: every live node fits."""
    looked_at: Rows = snapshot.table.all_rows if rows is None else rows
    first = np.where(snapshot.table.alive[looked_at], FEASIBLE, DEAD).astype(np.int16)
    return Verdicts(first, np.zeros(len(first), np.uint64), rows, attempt)


def as_view(rows: Rows) -> Rows:
    """The same rows, but one row as a slice: slices make views, indices make copies."""
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

    The filters may come in any order. Their answers are added to the verdicts. A filter that fails
    rejects all its rows, so that `raise_failure` determines whether that matters.
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


class FilterAttempt(msgspec.Struct, eq=False):
    """The filters that take part for one pod, to judge rows of the cluster or of a fork.

    It asks plugins for the meaning of their answers only when a caller reads reasons.

    Attributes:
        filters: the filters that take part: those of the pod's class, then the others.
        state: the state after PreFilter.
        pod: the pod.
        snapshot: the cluster.
        nominated: pods that count in the numbers of reasons, as if they ran on their nodes.
    """

    filters: Sequence[BoundFilter]
    state: CycleState
    pod: PodInfo
    snapshot: Snapshot
    nominated: NominatedPods | None = None
    _placed: Snapshot | None = None
    """The cluster with the nominated pods; made when a caller reads reasons of a row."""

    def verdicts(self, rows: Indices | None = None) -> Verdicts:
        """The verdicts of all filters on some rows; None for all rows."""
        verdicts = blank_verdicts(self.snapshot, rows, self)
        judge(self.filters, self.state, self.pod, self.snapshot, verdicts)
        return verdicts

    def reasons(self, index: int, answer: int, row: int | None = None) -> Sequence[Reason]:
        """The reasons in an answer of the filter with this index, for one row or for any."""
        snapshot = self.snapshot
        if row is not None and self.nominated is not None:
            if self._placed is None:
                found = self.nominated.before(self.pod, snapshot)
                self._placed = snapshot.fork(() if found is None else found.pods_on(snapshot))
            snapshot = self._placed
        return self._filter(index).reasons_in(self.state, self.pod, snapshot, answer, row)

    def name(self, index: int) -> str:
        """The name of the filter with this index."""
        return self._filter(index).name

    def _filter(self, index: int) -> BoundFilter:
        return next(each for each in self.filters if each.index == index)
