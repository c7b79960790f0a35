"""The candidate nodes of a preemption, and the choice of one of them.

Source: kubernetes pkg/scheduler/framework/preemption/preemption.go (pickOneNodeForPreemption),
pkg/scheduler/util/utils.go (GetEarliestPodStartTime) v1.36.
"""

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.kernel.framework.results import Candidate
from scheduler.kernel.preemption.dry_run import DryRunResult
from scheduler.kernel.preemption.importance import start_time
from scheduler.kernel.snapshot import Indices, Snapshot

_PRIORITY_OFFSET = 2**31
"""Makes all priorities positive, so that fewer victims of a low priority weigh less than more."""


class Candidates(Sequence[Candidate]):
    """Candidates of a dry run, those that violate no budget first; each is built on access."""

    def __init__(self, snapshot: Snapshot, batches: Sequence[DryRunResult]) -> None:
        self._names = snapshot.table.names
        self._batches = batches
        places = [np.flatnonzero(tried.is_candidate) for tried in batches]
        # Sorting is stable: within each sort the order of trying is kept.
        violates = [t.violations[p].clip(0, 1) for t, p in zip(batches, places, strict=True)]
        order = np.argsort(_joined(violates), kind="stable")
        self._batch = np.repeat(np.arange(len(batches)), [len(p) for p in places])[order]
        self._place = _joined(places)[order]

    @override
    def __len__(self) -> int:
        return len(self._place)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Candidate]: ...

    @override
    def __getitem__(self, index: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = int(self._place[index])
        tried = self._batches[int(self._batch[index])]
        start, end = np.searchsorted(tried.victims.at, (place, place + 1)).tolist()
        victims = tried.victims.pods(slice(start, end))
        name = self._names[int(tried.rows[place])]
        return Candidate(name, tuple(victims), int(tried.violations[place]))

    def best(self) -> Candidate | None:
        """Choose the candidate to take, by the first of these criteria on which they differ.

        1. fewest violations of budgets
        2. fewest victims that were placed together with others; upstream has no such criterion
        3. the lowest priority of the most important victim
        4. the smallest sum of priorities
        5. fewest victims
        6. the latest start of the earliest started victim of the highest priority
        7. the candidate that was tried first
        """
        if not len(self):
            return None
        left = np.arange(len(self))
        for column in self._criteria():
            values = column[left]
            left = left[values == values.min()]
        return self[int(left[0])]

    def _criteria(self) -> list[NDArray[np.int64]]:
        """The criteria in order, each a column to minimize with a value per candidate."""
        parts = [_criteria_of(tried) for tried in self._batches]
        offsets = np.cumsum([0, *(len(tried.rows) for tried in self._batches)])
        return list(np.concatenate(parts, axis=1)[:, offsets[self._batch] + self._place])


def best_of(candidates: Sequence[Candidate]) -> Candidate | None:
    """Choose among candidates that extenders returned, mostly as `Candidates.best` does.

    Their victims come in any order: the first one counts as the most important, as upstream.
    """
    return min(candidates, key=_rank, default=None)


def _rank(candidate: Candidate) -> tuple[int, int, int, int, "_Latest"]:
    victims = candidate.victims
    highest = max(victim.priority for victim in victims)
    return (
        candidate.pdb_violations,
        victims[0].priority,
        sum(victim.priority + _PRIORITY_OFFSET for victim in victims),
        len(victims),
        _Latest(min(start_time(victim) for victim in victims if victim.priority == highest)),
    )


class _Latest(str):
    """A time as text; later times sort first."""

    __slots__ = ()

    @override
    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _criteria_of(tried: DryRunResult) -> NDArray[np.int64]:
    """The criteria by row, shape (criteria, rows); meaningless for rows without victims."""
    rows, victims = len(tried.rows), tried.victims
    counts: Indices = np.bincount(victims.at, minlength=rows)
    # The most important victim comes first, and started first among its equals.
    has_any = np.flatnonzero(counts)
    first = (np.cumsum(counts) - counts)[has_any]
    highest, starts = np.zeros((2, rows), np.int64)
    highest[has_any] = victims.priorities[first]
    starts[has_any] = victims.starts[first]
    # The sums stay below 2**53, so they are exact.
    offsets = (victims.priorities + _PRIORITY_OFFSET).astype(np.float64)
    sums = np.bincount(victims.at, offsets, rows)
    return np.array([tried.violations, tried.together, highest, sums, counts, -starts], np.int64)


def _joined(parts: Sequence[Indices]) -> Indices:
    return np.concatenate(parts) if parts else np.zeros(0, np.intp)
