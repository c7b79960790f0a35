"""Which nodes have the devices that a pod's claims ask for, and which devices they are.

A search is only about what of a node's devices matters to the claims: which of them are usable,
what constraints compare, what is left of shared ones and of counters. Nodes for which all of that
is equal form a class, and one search answers for all of them. The classes are kept by row and
worked out again for the rows that changed.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(v0.36.3).
"""

from bisect import bisect
from collections.abc import Callable, Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.api.devices import MAX_ALTERNATIVES, AllocationResult, ResourceClaim
from scheduler.kernel.devices.constraints import MISSING
from scheduler.kernel.devices.judging import Judging
from scheduler.kernel.devices.places import Area, Layout, Places
from scheduler.kernel.devices.plan import Plan
from scheduler.kernel.devices.pools import Mask, Rows
from scheduler.kernel.devices.results import Taken, allocation_of
from scheduler.kernel.devices.search import (
    SKIPPED,
    UNKNOWN,
    USABLE,
    AllocationError,
    OutOfStepsError,
    Pick,
    Search,
    SelectorFailedError,
)
from scheduler.kernel.devices.selectors import Codes

ALLOCATABLE: Final = 0
NOT_ALLOCATABLE: Final = 1
INVALID_POOLS: Final = 2
"""Not allocatable, and a pool of the node is wrong."""
FAILED: Final = 3
"""Something is wrong with the claims or with a device; the attempt ends."""
TIMED_OUT: Final = 4

CANNOT_ALLOCATE: Final = "cannot allocate all claims"
INVALID_POOLS_SEEN: Final = "invalid resource pools were encountered"

MAX_STEPS: Final = 20_000
"""Devices that one search may try; upstream's searches end after `filterTimeout`."""
_STEPS_PER_CALL: Final = 100_000
_MAX_CLASSES: Final = 20_000
_MAX_KEY: Final = 256
_DIGEST: Final = 32
_FEW: Final = 64
"""Rows that are quicker looked at one by one."""
_BUDGET: Final = 2_000_000
"""What one expression may cost per call, in units of CEL's cost."""


class Outcome(NamedTuple):
    """What a search comes to.

    Attributes:
        code: `ALLOCATABLE` or another of its kind.
        score: what the chosen alternatives are worth.
    """

    code: int
    score: int = 0


class Judgement(NamedTuple):
    """What is true of the nodes, by row. Not to be written to.

    Attributes:
        codes: `ALLOCATABLE` or another of its kind.
        scores: what the chosen alternatives of prioritized lists are worth.
    """

    codes: NDArray[np.uint8]
    scores: NDArray[np.float64]


class Allocator:
    """Answers for all claims that ask for the same; see `judge` and `allocate`."""

    def __init__(self, plan: Plan, judging: Judging, places: Places) -> None:
        self.plan = plan
        self._judging = judging
        self._places = places
        self._table = judging.usage.table
        self._classes: dict[Hashable, int] = {}
        self._class_of: Rows = np.zeros(0, np.intp)
        self._area_class: Rows = np.zeros(0, np.intp)
        self._area_changes = -1
        self._position = -1
        self._pending: set[int] = set()
        self._outcomes: dict[tuple[int, int], Outcome] = {}
        self._codes: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._scores: NDArray[np.float64] = np.zeros(0)
        self._steps = 0

    # --- questions ------------------------------------------------------------------------------

    def judge(self) -> Judgement:
        """Say of every node whether the claims can be allocated there.

        `TIMED_OUT` may be for this call only: what was found out is kept, and the next call goes on
        from there.

        Cost: O(nodes that changed), plus one search per new class of nodes.
        """
        places = self._places
        self._steps = _STEPS_PER_CALL
        size = len(places.number)
        rows = self._changed(size)
        if len(self._classes) > _MAX_CLASSES:
            self._forget()
            rows = np.arange(size)
        if len(rows):
            self._class_of[rows] = self._classes_of(
                [places.local_layout(row) for row in rows.tolist()],
                [places.areas[area] for area in places.area[rows].tolist()],
                rows,
            )
        if self._area_changes != places.area_changes or len(self._area_class) != len(places.areas):
            self._area_changes = places.area_changes
            layouts = [area.layout for area in places.areas]
            self._area_class = np.array(self._classes_of(layouts, None, None), np.intp)
            rows = np.arange(size)
        if len(rows):
            self._answer(rows)
        return Judgement(self._codes, self._scores)

    def allocate(
        self,
        row: int,
        claims: Sequence[ResourceClaim],
        node_name: str,
        new_share_id: Callable[[], str],
    ) -> list[AllocationResult] | None:
        """Find the devices on the node of a row.

        Args:
            row: of the node.
            claims: those that the allocator is for.
            node_name: of the node.
            new_share_id: makes a UID for a share of a device.

        Returns:
            An allocation per claim; None when there is no way.

        Raises:
            AllocationError: the attempt ends; the message is upstream's.
            OutOfStepsError: the search took too long.
        """
        search, rows = self._search(self._places.layout(row), [c.key for c in claims], MAX_STEPS)
        try:
            picks = search.run()
        except SelectorFailedError as problem:
            raise AllocationError(self._selector_text(problem, rows, claims)) from problem
        if picks is None:
            return None
        taken: list[list[Taken]] = [[] for _ in claims]
        for pick in picks:
            taken[pick.claim].append(self._taken(pick, rows[pick.candidate]))
        return [
            allocation_of(claim, asked.requests, devices, node_name, new_share_id)
            for claim, asked, devices in zip(claims, self.plan.claims, taken, strict=True)
        ]

    def fork(self, judging: Judging, places: Places) -> "Allocator":
        """The same for copies of what it looks at."""
        copy = Allocator(self.plan, judging, places)
        copy._classes = self._classes.copy()
        copy._class_of, copy._area_class = self._class_of.copy(), self._area_class.copy()
        copy._area_changes, copy._position = self._area_changes, self._position
        copy._pending, copy._outcomes = self._pending.copy(), self._outcomes.copy()
        copy._codes, copy._scores = self._codes.copy(), self._scores.copy()
        return copy

    # --- which nodes are alike ------------------------------------------------------------------

    def _changed(self, size: int) -> Rows:
        log = self._places.log
        changed = log.since(self._position) if self._position >= 0 else None
        self._position = log.position
        if changed is None or len(self._class_of) != size:
            self._class_of = np.zeros(size, np.intp)
            self._codes, self._scores = np.zeros(size, np.uint8), np.zeros(size)
            return np.arange(size)
        if self._pending:
            changed = np.union1d(changed, np.array(sorted(self._pending), np.intp))
            self._pending.clear()
        return changed

    def _forget(self) -> None:
        self._classes.clear()
        self._outcomes.clear()
        self._area_changes = -1

    def _classes_of(  # noqa: C901, PLR0912, PLR0915 - one pass over the requests, with columns that all steps share
        self, layouts: Sequence[Layout], areas: Sequence[Area] | None, nodes: Rows | None
    ) -> list[int]:
        """By layout, the number of the class that it falls into.

        Args:
            layouts: devices that some nodes see.
            areas: what each of the nodes sees beside; None when the layouts are those of areas.
            nodes: the rows of the nodes, if they are nodes.
        """
        rows, owner = _joined(layouts)
        here = None
        if any(layout.here is not None for layout in layouts):
            here = np.concatenate([_mask(layout) for layout in layouts])
        judging = self._judging
        availabilities = np.zeros(len(rows), np.intp)
        consumption = self._table.columns.consumption.of(rows)
        if consumption.any():
            availabilities = np.concatenate([judging.availabilities(one) for one in layouts])
        short = judging.short(rows, availabilities)
        codes = judging.codes(rows, here, short, _BUDGET)
        flags = [
            (layout.is_incomplete and self.plan.has_all, layout.is_invalid) for layout in layouts
        ]
        kept = (
            np.flatnonzero(np.logical_or.reduce([c != SKIPPED for c in codes]))
            if codes
            else rows[:0]
        )
        if nodes is not None:
            unknown = [owner[c == UNKNOWN] for c in codes]
            self._pending.update(nodes[np.concatenate(unknown)].tolist() if unknown else ())
        rows, owner = rows[kept], owner[kept]
        codes = [c[kept] for c in codes]
        beside = areas is not None and any(area.layout.views for area in areas)
        if not beside and self._only_counts(codes, consumption[kept]):
            counts = np.bincount(owner, minlength=len(layouts)).tolist()
            keys: list[Hashable] = list(zip(counts, flags, strict=True))
        else:
            alone = areas is not None and not beside
            columns: dict[str, NDArray[np.integer]] = {f"ask {i}": c for i, c in enumerate(codes)}
            for name, column in zip(self.plan.attributes, judging.value_columns(rows), strict=True):
                if alone:
                    columns[f"alike {name}"] = _alike(column.numbers, owner)
                else:
                    columns[f"value {name} {column.numbering}"] = column.numbers
            columns |= self._shared_columns(rows)
            if consumption[kept].any():
                columns["pool"] = np.concatenate([layout.pool_of for layout in layouts])[kept]
                consumed, rests = self._table.columns.consumption, judging.usage.rests
                columns[f"consumption {consumed.numbering}"] = consumption[kept]
                columns[f"available {rests.numbering}"] = availabilities[kept]
            if beside and areas is not None:
                columns["slot"] = np.concatenate(list(map(_slots, layouts, areas)))[kept]
            keys = _keys(columns, owner, flags)
        return [self._classes.setdefault(key, len(self._classes)) for key in keys]

    def _only_counts(self, codes: Sequence[Codes], consumption: Rows) -> bool:
        """Whether nothing tells the devices apart, so that their number says all."""
        if not self.plan.only_counts or (self.plan.asks[0].count > 1 and consumption.any()):
            return False
        return bool((codes[0] == USABLE).all())

    def _shared_columns(self, rows: Rows) -> dict[str, Rows]:
        """What tells devices apart that are shared: their capacities, and what is consumed."""
        sizes, state = self._table.columns.sizes, self._judging.usage.state
        multiple = self._table.columns.multiple[rows]
        if not multiple.any():
            return {}
        return {
            f"capacities {sizes.numbering}": np.where(multiple, sizes.of(rows) + 1, 0),
            f"state {state.numbering}": np.where(multiple, state.of(rows), 0),
        }

    # --- answers --------------------------------------------------------------------------------

    def _answer(self, rows: Rows) -> None:
        classes, areas = self._class_of[rows], self._area_class[self._places.area[rows]]
        if len(rows) > _FEW:
            pairs = classes * len(self._classes) + areas
            _, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
            found = [
                self._outcome(int(rows[first]), (int(classes[first]), int(areas[first])))
                for first in firsts.tolist()
            ]
            self._codes[rows] = np.array([o.code for o in found], np.uint8)[inverse]
            self._scores[rows] = np.array([o.score for o in found], np.float64)[inverse]
            timed_out = rows[self._codes[rows] == TIMED_OUT]
        else:
            for row, class_, area in zip(
                rows.tolist(), classes.tolist(), areas.tolist(), strict=True
            ):
                outcome = self._outcome(row, (class_, area))
                self._codes[row], self._scores[row] = outcome
            timed_out = rows[self._codes[rows] == TIMED_OUT]
        for row in timed_out.tolist():
            pair = (int(self._class_of[row]), int(self._area_class[self._places.area[row]]))
            if pair not in self._outcomes:
                self._pending.add(row)

    def _outcome(self, row: int, pair: tuple[int, int]) -> Outcome:
        known = self._outcomes.get(pair)
        if known is not None:
            return known
        if self._steps <= 0:
            return Outcome(TIMED_OUT)
        layout = self._places.layout(row)
        search, _ = self._search(layout, [""] * len(self.plan.claims), min(self._steps, MAX_STEPS))
        try:
            picks = search.run()
        except AllocationError:
            outcome = Outcome(FAILED)
        except OutOfStepsError:
            outcome = Outcome(TIMED_OUT)
        else:
            if picks is not None:
                score = sum(MAX_ALTERNATIVES - place for place in search.chosen)
                outcome = Outcome(ALLOCATABLE, score)
            else:
                outcome = Outcome(INVALID_POOLS if layout.is_invalid else NOT_ALLOCATABLE)
        self._steps -= search.steps
        if outcome.code != TIMED_OUT or search.steps > MAX_STEPS:
            self._outcomes[pair] = outcome
        return outcome

    def _search(
        self, layout: Layout, claims: Sequence[str], max_steps: int
    ) -> tuple[Search, list[int]]:
        candidates, rows = self._judging.candidates(layout, _BUDGET)
        return Search(self.plan, candidates, claims, max_steps), rows

    def _taken(self, pick: Pick, row: int) -> Taken:
        device, placed = self._table.columns.devices[row], self._table.placed[row]
        if device is None or placed is None:
            raise KeyError(row)
        shares = self._judging.shares(pick.ask, row) if device.allow_multiple_allocations else None
        return Taken(pick.ask, device, placed.spec, shares)

    def _selector_text(
        self, problem: SelectorFailedError, rows: Sequence[int], claims: Sequence[ResourceClaim]
    ) -> str:
        claim = claims[self.plan.claim_of[problem.ask.index]]
        return self._judging.selectors.error(
            problem.ask.selectors, rows[problem.candidate], claim.key
        )


def _joined(layouts: Sequence[Layout]) -> tuple[Rows, Rows]:
    """The rows of all layouts, and by row the place of its layout."""
    if not layouts:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    sizes = [len(layout.rows) for layout in layouts]
    rows = np.concatenate([layout.rows for layout in layouts])
    return rows, np.repeat(np.arange(len(layouts)), sizes)


def _mask(layout: Layout) -> Mask:
    return np.ones(len(layout.rows), np.bool_) if layout.here is None else layout.here


def _slots(layout: Layout, area: Area) -> Rows:
    """By device of a layout, how many pools of an area are tried before it."""
    keys = [view.key for view in area.layout.views]
    return np.array([bisect(keys, view.key) for view in layout.views], np.intp)[layout.pool_of]


def _alike(values: Rows, owner: Rows) -> Rows:
    """Values numbered by where each comes first among the devices of its node.

    What constraints compare is only whether values are equal: nodes whose devices have different
    values, but equal where others' are equal, are alike.
    """
    if not len(values):
        return values
    spread = values + 1
    pairs = owner * (int(spread.max()) + 1) + spread
    _, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    starts = np.searchsorted(owner, owner)
    return np.where(values == MISSING, MISSING, firsts[inverse] - starts)


def _keys(
    columns: Mapping[str, NDArray[np.integer]], owner: Rows, flags: Sequence[Hashable]
) -> list[Hashable]:
    """By layout, what tells it from others: all columns of its devices."""
    names = tuple(columns)
    matrix = np.column_stack([column.astype(np.int32) for column in columns.values()])
    data, width = matrix.tobytes(), matrix.shape[1] * matrix.itemsize
    ends = (np.searchsorted(owner, np.arange(len(flags) + 1)) * width).tolist()
    return [
        (names, _short(data[start:end]), flag)
        for start, end, flag in zip(ends[:-1], ends[1:], flags, strict=True)
    ]


def _short(data: bytes) -> bytes:
    """The data, or a digest: what is remembered must not depend on how much pods ask for."""
    return data if len(data) <= _MAX_KEY else blake2b(data, digest_size=_DIGEST).digest()
