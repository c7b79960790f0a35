"""Reasons why claims get no devices, as data: each step with its remaining devices and nodes.

The steps are those of the allocator in its order. They look at each request by itself: competition
of requests for the same devices and failing constraints remain as reasons when every step leaves
enough.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.api.devices import ResourceClaim
from scheduler.api.objects import Taint
from scheduler.api.taints import taint_text
from scheduler.kernel.cel import ERROR, TRUE
from scheduler.kernel.devices.judging import Judging
from scheduler.kernel.devices.places import Layout, Places
from scheduler.kernel.devices.plan import RequestData
from scheduler.kernel.devices.pools import NO_ROWS, PoolState, Rows
from scheduler.kernel.snapshot import Mask, Snapshot

_MOST_HELD: Final = 4096
"""Largest number of devices in use whose claims are looked up."""


class AllocatorStep(Enum):
    """A step of the allocator that excludes devices."""

    SEEN = "seen"
    """Before all steps: the devices of usable pools that any node sees."""
    CLASS = "class"
    SELECTOR = "selector"
    CAPACITY = "capacity"
    TAINTS = "taints"
    IN_USE = "in use"
    COUNTERS = "counters"


class Left(NamedTuple):
    """The devices that remain after a step.

    Attributes:
        step: the kind of step.
        text: the expression of a selector.
        devices: number of devices left.
        nodes: number of nodes that see one of them.
        failing: number of the devices before this step on which the expression fails.
    """

    step: AllocatorStep
    text: str
    devices: int
    nodes: int
    failing: int = 0


class RequestFinding(NamedTuple):
    """The result of each step for one request, or for one alternative.

    Attributes:
        claim: `namespace/name`.
        request: its name, as written in an allocation.
        wanted: number of devices requested; None for all.
        steps: the remaining devices after each step, in order.
        taints: by taint, the number of otherwise suitable devices that it excludes.
        holders: by the UID of a claim, the number of otherwise suitable devices that it holds; not
            all claims where thousands of devices are in use.
        enough: number of nodes on which enough devices are left.
        problem: the reason why nothing can be allocated for it anywhere; empty without one.
        device_class: the name of the class.
        most: the largest number of devices left on one node.
        nearest: that node; empty where nothing is left.
    """

    claim: str
    request: str
    wanted: int | None
    steps: tuple[Left, ...]
    taints: Mapping[str, int]
    holders: Mapping[str, int]
    enough: int
    problem: str
    device_class: str = ""
    most: int = 0
    nearest: str = ""


class PoolFinding(NamedTuple):
    """A pool that cannot be used on some nodes.

    Attributes:
        pool: `driver/pool`.
        state: the reason.
        problem: the error in an invalid pool.
        nodes: number of nodes on which it cannot be used.
    """

    pool: str
    state: PoolState
    problem: str
    nodes: int


class Findings(NamedTuple):
    """The findings for all requests of a pod's claims.

    Attributes:
        requests: one by one.
        pools: the pools that cannot be used.
        together: the rows of the nodes on which every request by itself has enough.
    """

    requests: tuple[RequestFinding, ...]
    pools: tuple[PoolFinding, ...]
    together: Rows = NO_ROWS


class _Looked(NamedTuple):
    """The devices found for one request, by node.

    Attributes:
        finding: the explanation.
        wanted: by node, the number of devices that it needs there.
        matching: by node, the number of suitable devices if none were in use.
        left: by node, the number of devices left.
        held: by device that a node sees, whether its allocation is the only obstacle.
    """

    finding: RequestFinding
    wanted: Rows
    matching: Rows
    left: Rows
    held: Mask


class Freeing(NamedTuple):
    """Claims that may have to be freed on a node, by UID; the largest holders first."""

    row: int
    claims: tuple[str, ...]


class Examination:
    """An examination of all devices of all nodes, shared by all requests."""

    def __init__(self, judging: Judging, places: Places, snapshot: Snapshot) -> None:
        self._judging = judging
        self._nodes = snapshot.table.live_rows()
        self._names = snapshot.table.names
        layouts = [places.layout(row) for row in self._nodes.tolist()]
        self._layouts = layouts
        self._rows = _joined(layout.rows for layout in layouts)
        self._owner = np.repeat(np.arange(len(layouts)), [len(layout.rows) for layout in layouts])
        self._here = np.ones(len(self._rows), np.bool_)
        if any(layout.here is not None for layout in layouts):
            self._here = np.concatenate([_here(layout) for layout in layouts])
        self._short = np.zeros(len(self._rows), np.bool_)
        if judging.usage.table.columns.consumption.of(self._rows).any():
            available = [judging.availabilities(layout) for layout in layouts if len(layout.rows)]
            self._short = judging.short(self._rows, _joined(available))

    def findings(self, claims: Sequence[ResourceClaim]) -> Findings:
        """The finding for every request of the plan's claims."""
        plan = self._judging.plan
        looked = [
            self._look(ask, claims[claim].key)
            for ask, claim in zip(plan.asks, plan.claim_of, strict=True)
        ]
        together = self._all_of(looked, lambda one: _is_enough(one, one.left))
        found = (
            one.finding._replace(
                holders=self._holders(np.unique(self._rows[one.held])[:_MOST_HELD])
            )
            for one in looked
        )
        return Findings(tuple(found), self._pools(), self._nodes[together])

    def rows_if_free(self) -> Rows:
        """The rows of nodes on which every request would have enough if nothing were in use."""
        looked = [self._look(ask, "") for ask in self._judging.plan.asks]
        return self._nodes[self._all_of(looked, lambda one: _is_enough(one, one.matching))]

    def to_free(self, rows: Rows, most: int, may_free: Callable[[str, int], bool]) -> list[Freeing]:
        """Find claims whose release on some of the rows could leave enough devices there.

        Args:
            rows: the rows of nodes.
            most: the largest number of nodes; nodes with the fewest missing devices come first.
            may_free: whether the claim of a UID may be released on a row.
        """
        looked = [self._look(ask, "") for ask in self._judging.plan.asks]
        missing = np.zeros(len(self._nodes), np.intp)
        able = np.isin(self._nodes, rows) & self._all_of(
            looked, lambda one: _is_enough(one, one.matching)
        )
        for one in looked:
            missing += np.maximum(one.wanted - one.left, 0)
        indexes = np.flatnonzero(able)
        order = indexes[np.argsort(missing[indexes], kind="stable")[:most]]
        return [
            Freeing(int(self._nodes[index]), self._holders_on(index, looked, may_free))
            for index in order.tolist()
        ]

    def _holders_on(
        self, index: int, looked: Sequence[_Looked], may_free: Callable[[str, int], bool]
    ) -> tuple[str, ...]:
        """The claims to release on a node: enough holders per request, or all for counters."""
        usage, row = self._judging.usage, int(self._nodes[index])
        chosen: dict[str, None] = {}
        here = self._owner == index
        for one in looked:
            missing = int(one.wanted[index] - one.left[index])
            for uid, devices in self._holders(self._rows[here & one.held]).items():
                if missing > 0 and may_free(uid, row):
                    chosen[uid] = None
                    missing -= devices
            if missing > 0:
                seen = self._rows[here]
                every = self._holders(seen[usage.allocated[seen]])
                chosen |= dict.fromkeys(uid for uid in every if may_free(uid, row))
        return tuple(chosen)

    def _all_of(self, looked: Sequence[_Looked], holds: Callable[[_Looked], Mask]) -> Mask:
        """By node, whether something holds for every request, or an alternative of it."""
        plan = self._judging.plan
        found: dict[tuple[int, str], Mask] = {}
        for ask, claim, one in zip(plan.asks, plan.claim_of, looked, strict=True):
            known = found.get((claim, ask.base_name))
            found[claim, ask.base_name] = holds(one) if known is None else known | holds(one)
        every = np.ones(len(self._nodes), np.bool_)
        for mask in found.values():
            every &= mask
        return every

    def _look(self, ask: RequestData, claim: str) -> _Looked:  # noqa: PLR0915 - the steps of one request, counted one after the other
        """Run the steps for one request and count the devices that remain after each."""
        judging, usage, rows = self._judging, self._judging.usage, self._rows
        left = self._here.copy()
        steps = [self._left(AllocatorStep.SEEN, "", left)]
        for selector in ask.selectors:
            verdicts = judging.selectors.verdicts(selector.expression)[rows]
            failing = self._distinct(left & (verdicts == ERROR))
            left &= verdicts == TRUE
            step = AllocatorStep.SELECTOR if selector.device_class is None else AllocatorStep.CLASS
            steps.append(self._left(step, selector.expression, left)._replace(failing=failing))
        fits = judging.fits(ask, rows)
        if (left & ~fits).any():
            left &= fits
            steps.append(self._left(AllocatorStep.CAPACITY, "", left))
        tolerated = judging.tolerated(ask, rows)
        taints = self._taints(ask, np.unique(rows[left & ~tolerated]))
        # A request for all devices needs each device that matches.
        wanted = self._per_node(left) if ask.is_all else np.full(len(self._nodes), ask.count)
        if taints:
            left &= tolerated
            steps.append(self._left(AllocatorStep.TAINTS, "", left))
        matching = self._per_node(left)
        held = left & usage.in_use[rows] & (not ask.is_admin)
        if held.any():
            left &= ~held
            steps.append(self._left(AllocatorStep.IN_USE, "", left))
        if (left & self._short).any():
            left &= ~self._short
            steps.append(self._left(AllocatorStep.COUNTERS, "", left))
        per_node = self._per_node(left)
        most = int(per_node.max(initial=0))
        finding = RequestFinding(
            claim,
            ask.full_name,
            None if ask.is_all else ask.count,
            tuple(steps),
            taints,
            {},
            0,
            ask.problem,
            ask.class_name,
            most,
            self._names[self._nodes[int(per_node.argmax())]] if most else "",
        )
        looked = _Looked(finding, wanted, matching, per_node, held)
        enough = int(np.count_nonzero(_is_enough(looked, per_node)))
        return looked._replace(finding=finding._replace(enough=enough))

    def _per_node(self, left: Mask) -> Rows:
        return np.bincount(self._owner[left], minlength=len(self._layouts))

    def _left(self, step: AllocatorStep, text: str, left: Mask) -> Left:
        nodes = int(np.count_nonzero(self._per_node(left)))
        return Left(step, text, self._distinct(left), nodes)

    def _distinct(self, mask: Mask) -> int:
        seen = np.zeros(self._judging.usage.table.columns.size, np.bool_)
        seen[self._rows[mask]] = True
        return int(np.count_nonzero(seen))

    def _taints(self, ask: RequestData, rows: Rows) -> dict[str, int]:
        taints = self._judging.usage.table.columns.taints
        counts: Counter[str] = Counter()
        for number in taints.of(rows).tolist():
            for taint in taints.values.values[number]:
                written = Taint(taint.key, taint.value, taint.effect)
                if not ask.tolerations.tolerate(written):
                    counts[taint_text(written)] += 1
        return dict(counts.most_common())

    def _holders(self, rows: Rows) -> dict[str, int]:
        usage = self._judging.usage
        counts: Counter[str] = Counter()
        for row in rows.tolist():
            counts.update(usage.holders(usage.table.id_of(row)))
        return dict(counts.most_common())

    def _pools(self) -> tuple[PoolFinding, ...]:
        counts = Counter(
            (view.pool.id.text, view.state, view.problem)
            for layout in self._layouts
            if layout.is_incomplete or layout.is_invalid
            for view in layout.views
            if view.state is not PoolState.READY
        )
        return tuple(PoolFinding(*key, nodes) for key, nodes in counts.most_common())


def _is_enough(one: _Looked, devices: Rows) -> Mask:
    """By node, whether a number of devices is enough; for "all", at least one."""
    enough: Mask = devices >= np.maximum(one.wanted, 1)
    return enough


def _joined(parts: Iterable[NDArray[np.intp]]) -> Rows:
    return np.concatenate([np.zeros(0, np.intp), *parts])


def _here(layout: Layout) -> Mask:
    return np.ones(len(layout.rows), np.bool_) if layout.here is None else layout.here
