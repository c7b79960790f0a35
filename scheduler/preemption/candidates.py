"""The nodes that could be cleared, and the choice of one of them.

Source: kubernetes pkg/scheduler/framework/preemption/preemption.go (pickOneNodeForPreemption),
pkg/scheduler/util/utils.go (GetEarliestPodStartTime) v1.36.
"""

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.framework.interface import Candidate
from scheduler.preemption.dry_run import Tried
from scheduler.preemption.importance import Indices, start_time
from scheduler.snapshot import Snapshot

_PRIORITY_OFFSET = 2**31
"""Makes all priorities positive, so that fewer victims of a low priority weigh less than more."""


class Candidates(Sequence[Candidate]):
    """Candidates of a dry run, those that violate no budget first; each is made when it is read."""

    def __init__(self, snapshot: Snapshot, batches: Sequence[Tried]) -> None:
        self._names = snapshot.table.names
        self._batches = batches
        found = [
            (batch, place, int(tried.violations[place]) > 0)
            for batch, tried in enumerate(batches)
            for place in np.flatnonzero(tried.is_candidate).tolist()
        ]
        # Sorting is stable: within each sort the order of trying is kept.
        self._places = [(b, p) for b, p, _ in sorted(found, key=lambda each: each[2])]

    @override
    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Candidate]: ...

    @override
    def __getitem__(self, index: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        batch, place = self._places[index]
        tried = self._batches[batch]
        start, end = np.searchsorted(tried.victims.at, (place, place + 1)).tolist()
        victims = tried.victims.pods(slice(start, end))
        name = self._names[int(tried.rows[place])]
        return Candidate(name, tuple(victims), int(tried.violations[place]))

    def best(self) -> Candidate | None:
        """The candidate to take, by the first of these that tells them apart.

        Fewest violations of budgets; the most important victim of the lowest priority; the smallest
        sum of priorities; fewest victims; the latest start of the earliest started among the
        victims of the highest priority; the one that was tried first.
        """
        if not self._places:
            return None
        left = np.arange(len(self))
        for column in self._criteria():
            values = column[left]
            left = left[values == values.min()]
        if len(left) > 1:
            # The most important victim is the one that started first among its equals.
            return self[max(left.tolist(), key=lambda index: start_time(self._first_victim(index)))]
        return self[int(left[0])]

    def _first_victim(self, index: int) -> PodInfo:
        batch, place = self._places[index]
        victims = self._batches[batch].victims
        start = int(np.searchsorted(victims.at, place))
        return victims.pods(slice(start, start + 1))[0]

    def _criteria(self) -> list[NDArray[np.int64]]:
        """What to keep small, one after the other; a value for each candidate."""
        parts = [_criteria_of(tried) for tried in self._batches]
        offsets = np.cumsum([0, *(len(tried.rows) for tried in self._batches)])
        at = np.array([offsets[batch] + place for batch, place in self._places], np.intp)
        return list(np.concatenate(parts, axis=1)[:, at])


def best_of(candidates: Sequence[Candidate]) -> Candidate | None:
    """The candidate to take of some whose victims were chosen elsewhere, as `Candidates.best`.

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
    """A time that sorts before all earlier ones."""

    __slots__ = ()

    @override
    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _criteria_of(tried: Tried) -> NDArray[np.int64]:
    """By criterion and row; rows without victims get what does not matter."""
    rows, victims = len(tried.rows), tried.victims
    highest = np.full(rows, np.iinfo(np.int64).min)
    np.maximum.at(highest, victims.at, victims.priorities)
    sums = np.zeros(rows, np.int64)
    np.add.at(sums, victims.at, victims.priorities + _PRIORITY_OFFSET)
    counts: Indices = np.bincount(victims.at, minlength=rows)
    return np.array([tried.violations, highest, sums, counts], np.int64)
