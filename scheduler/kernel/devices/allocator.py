"""The allocator: the nodes that can satisfy a pod's claims, and the devices chosen there.

A search reads only the properties of a node's devices that matter to the claims. These are their
usability, the attributes that constraints compare, and what remains of shared devices and counters.
Nodes for which all of these are equal form a class, and one search answers for all of them. The
classes are kept by row and computed again for the rows that changed.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(v0.36.3).
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.api.devices import MAX_ALTERNATIVES, AllocationResult, ResourceClaim
from scheduler.kernel.devices.candidates import (
    AllocationError,
    OutOfStepsError,
    SelectorFailedError,
)
from scheduler.kernel.devices.judging import Judging
from scheduler.kernel.devices.layout_keys import DevicesOfLayouts
from scheduler.kernel.devices.places import Area, Layout, Places
from scheduler.kernel.devices.plan import AllocationPlan
from scheduler.kernel.devices.pools import Rows
from scheduler.kernel.devices.results import AllocatedDevice, allocation_of
from scheduler.kernel.devices.search import Pick, Search
from scheduler.kernel.devices.usage import Usage

ALLOCATABLE: Final = 0
NOT_ALLOCATABLE: Final = 1
INVALID_POOLS: Final = 2
"""Not allocatable, and a pool of the node is invalid."""
FAILED: Final = 3
"""The claims are faulty, or a selector fails on a device; the attempt ends with an error."""
TIMED_OUT: Final = 4

CANNOT_ALLOCATE: Final = "cannot allocate all claims"
INVALID_POOLS_SEEN: Final = "invalid resource pools were encountered"

MAX_STEPS: Final = 20_000
"""Devices that one search may try; upstream's searches end after `filterTimeout`."""
_STEPS_PER_CALL: Final = 100_000
_MAX_CLASSES: Final = 20_000
_FEW: Final = 64
"""Largest number of rows that are checked one by one."""
_BUDGET: Final = 2_000_000
"""Cost limit of one evaluation of an expression, in units of CEL's cost."""


class Outcome(NamedTuple):
    """The result of a search.

    Attributes:
        code: `ALLOCATABLE` or another of these codes.
        score: the score of the chosen alternatives.
        picks: the devices, by their index among those that some request may take.
    """

    code: int
    score: int = 0
    picks: Sequence[Pick] = ()


class AllocationVerdicts(NamedTuple):
    """The allocator's verdict per node, by row. Read-only.

    Attributes:
        codes: by row, `ALLOCATABLE` or another of these codes.
        scores: the scores of the chosen alternatives of prioritized lists.
    """

    codes: NDArray[np.uint8]
    scores: NDArray[np.float64]


class Allocator:
    """Allocates devices to claims with equal requests; see `judge` and `allocate`."""

    def __init__(self, plan: AllocationPlan, judging: Judging, places: Places) -> None:
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
        """The rows to be judged again."""
        self._unknown: set[int] = set()
        """Classes with devices on which a selector is not evaluated yet."""
        self._outcomes: dict[tuple[int, int], Outcome] = {}
        self._codes: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._scores: NDArray[np.float64] = np.zeros(0)
        self._steps = 0

    # --- questions ------------------------------------------------------------------------------

    def judge(self) -> AllocationVerdicts:
        """Judge for every node whether the claims can be allocated there.

        `TIMED_OUT` may hold for this call only: the next call keeps the verdicts found so far, and
        continues the search.

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
            )
        if (
            self._area_changes != places.area_changes
            or len(self._area_class) != len(places.areas)
            or (self._unknown and not self._unknown.isdisjoint(self._area_class.tolist()))
        ):
            self._area_changes = places.area_changes
            layouts = [area.layout for area in places.areas]
            self._area_class = np.array(self._classes_of(layouts, None), np.intp)
            rows = np.arange(size)
        if len(rows):
            self._answer(rows)
        return AllocationVerdicts(self._codes, self._scores)

    def allocate(
        self,
        row: int,
        claims: Sequence[ResourceClaim],
        node_name: str,
        new_share_id: Callable[[], str],
    ) -> list[AllocationResult] | None:
        """Find the devices on the node of a row.

        Args:
            row: the row of the node.
            claims: the claims of the allocator.
            node_name: the name of the node.
            new_share_id: makes a UID for a share of a device.

        Returns:
            An allocation per claim; None if there is none.

        Raises:
            AllocationError: the attempt ends; the message is upstream's.
            OutOfStepsError: the search took too long.
        """
        layout = self._places.layout(row)
        picks: Sequence[Pick] | None = self._known_picks(row)
        if picks:
            rows = layout.rows[self._judging.takeable(layout, _BUDGET)[0]]
        else:
            search, rows = self._search(layout, [c.key for c in claims], MAX_STEPS)
            try:
                picks = search.run()
            except SelectorFailedError as problem:
                raise AllocationError(self._selector_text(problem, rows, claims)) from problem
        if picks is None:
            return None
        taken: list[list[AllocatedDevice]] = [[] for _ in claims]
        for pick in picks:
            taken[pick.claim].append(self._taken(pick, rows.item(pick.candidate)))
        return [
            allocation_of(claim, asked.requests, devices, node_name, new_share_id)
            for claim, asked, devices in zip(claims, self.plan.claims, taken, strict=True)
        ]

    def fork(self, usage: Usage, places: Places) -> "Allocator":
        """A copy of the allocator that reads copies of its inputs."""
        copy = Allocator(self.plan, self._judging.fork(usage), places)
        copy._classes = self._classes.copy()
        copy._class_of, copy._area_class = self._class_of.copy(), self._area_class.copy()
        copy._area_changes, copy._position = self._area_changes, self._position
        copy._pending, copy._unknown = self._pending.copy(), self._unknown.copy()
        copy._outcomes = self._outcomes.copy()
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
        self._unknown.clear()
        self._outcomes.clear()
        self._area_changes = -1

    def _classes_of(self, layouts: Sequence[Layout], areas: Sequence[Area] | None) -> list[int]:
        """By layout, the number of the class that it falls into.

        Args:
            layouts: devices that some nodes see.
            areas: by layout, the area of its node; None when the layouts are those of areas.
        """
        devices = DevicesOfLayouts(self.plan, self._table, self._judging, layouts, _BUDGET)
        known = self._classes
        classes = [known.setdefault(key, len(known)) for key in devices.keys(areas)]
        self._unknown.update([classes[layout] for layout in devices.unknown.tolist()])
        return classes

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
                self._codes[row], self._scores[row] = outcome.code, outcome.score
            timed_out = rows[self._codes[rows] == TIMED_OUT]
        for row in timed_out.tolist():
            if self._pair_of(row) not in self._outcomes:
                self._pending.add(row)

    def _outcome(self, row: int, pair: tuple[int, int]) -> Outcome:
        known = self._outcomes.get(pair)
        if known is not None:
            return known
        # Nodes of a class with unknown devices may differ in the verdicts of the selector.
        if self._steps <= 0 or not self._unknown.isdisjoint(pair):
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
                score = sum(MAX_ALTERNATIVES - index for index in search.chosen)
                outcome = Outcome(ALLOCATABLE, score, picks)
            else:
                outcome = Outcome(INVALID_POOLS if layout.is_invalid else NOT_ALLOCATABLE)
        self._steps -= search.steps
        if outcome.code != TIMED_OUT or search.steps > MAX_STEPS:
            self._outcomes[pair] = outcome
        return outcome

    def _known_picks(self, row: int) -> Sequence[Pick]:
        """The devices that a search found for the class of a node; none if it is not known."""
        places = self._places
        is_judged = self._position == places.log.position and places.is_current
        if not is_judged or row in self._pending:
            return ()
        known = self._outcomes.get(self._pair_of(row))
        return () if known is None else known.picks

    def _pair_of(self, row: int) -> tuple[int, int]:
        """The class of a node and that of its area, by which outcomes are kept."""
        return self._class_of.item(row), self._area_class.item(self._places.area.item(row))

    def _search(self, layout: Layout, claims: Sequence[str], max_steps: int) -> tuple[Search, Rows]:
        candidates, rows = self._judging.candidates(layout, _BUDGET)
        return Search(self.plan, candidates, claims, max_steps), rows

    def _taken(self, pick: Pick, row: int) -> AllocatedDevice:
        device, placed = self._table.columns.devices[row], self._table.placed[row]
        if device is None or placed is None:
            raise KeyError(row)
        shares = self._judging.shares(pick.ask, row) if device.allow_multiple_allocations else None
        return AllocatedDevice(pick.ask, device, placed.spec, shares)

    def _selector_text(
        self, problem: SelectorFailedError, rows: Rows, claims: Sequence[ResourceClaim]
    ) -> str:
        claim = claims[self.plan.claim_of[problem.ask.index]]
        return self._judging.selectors.error(
            problem.ask.selectors, rows.item(problem.candidate), claim.key
        )
