"""Why claims get no devices, as data: what leaves how many devices, on how many nodes.

The steps are those of the allocator in its order. They look at each request by itself: that several
requests want the same devices, or that constraints do not hold, is left over when every step leaves
enough.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.api.devices import ResourceClaim
from scheduler.api.objects import Taint
from scheduler.api.taints import taint_text
from scheduler.kernel.cel import ERROR, TRUE
from scheduler.kernel.devices.judging import Judging
from scheduler.kernel.devices.places import Layout, Places
from scheduler.kernel.devices.plan import Ask
from scheduler.kernel.devices.pools import NO_ROWS, Mask, PoolState, Rows
from scheduler.kernel.snapshot import Snapshot


class Step(Enum):
    """What leaves devices out."""

    SEEN = "seen"
    """Nothing yet: devices that any node sees, of pools that can be used."""
    CLASS = "class"
    SELECTOR = "selector"
    CAPACITY = "capacity"
    TAINTS = "taints"
    IN_USE = "in use"
    COUNTERS = "counters"


class Left(NamedTuple):
    """What a step leaves.

    Attributes:
        step: the kind of step.
        text: the expression of a selector.
        devices: how many devices are left.
        nodes: how many nodes see one of them.
        failing: on how many of the devices before it the expression fails.
    """

    step: Step
    text: str
    devices: int
    nodes: int
    failing: int = 0


class RequestFinding(NamedTuple):
    """What becomes of one request, or of one alternative.

    Attributes:
        claim: `namespace/name`.
        request: its name, as an allocation has it.
        wanted: how many devices it asks for; None for all.
        steps: what each step leaves, in order.
        taints: by taint, how many devices it keeps away that would do otherwise.
        holders: by the UID of a claim, how many devices it has that would do otherwise.
        enough: nodes on which enough devices are left.
        problem: why nothing can be allocated for it anywhere; empty when there is no reason.
        device_class: the name of the class.
        most: as many devices are left on the node that has most of them.
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
        state: why.
        problem: what is wrong with an invalid one.
        nodes: on how many nodes.
    """

    pool: str
    state: PoolState
    problem: str
    nodes: int


class Findings(NamedTuple):
    """What becomes of the requests of a pod's claims.

    Attributes:
        requests: one by one.
        pools: those that cannot be used.
        together: the rows of the nodes on which every request by itself has enough.
    """

    requests: tuple[RequestFinding, ...]
    pools: tuple[PoolFinding, ...]
    together: Rows = NO_ROWS


class Examination:
    """Looks at all devices of all nodes once, for all requests."""

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
        if judging.usage.table.columns.consumption[self._rows].any():
            available = [judging.availabilities(layout) for layout in layouts if len(layout.rows)]
            self._short = judging.short(self._rows, _joined(available))

    def findings(self, claims: Sequence[ResourceClaim]) -> Findings:
        """What becomes of every request of the claims that the plan is of."""
        plan = self._judging.plan
        found: list[RequestFinding] = []
        enough: dict[tuple[int, str], Mask] = {}
        for ask, claim in zip(plan.asks, plan.claim_of, strict=True):
            finding, nodes = self._finding(ask, claims[claim].key)
            found.append(finding)
            # Any alternative of a request will do.
            known = enough.get((claim, ask.base_name))
            enough[claim, ask.base_name] = nodes if known is None else known | nodes
        together = np.ones(len(self._nodes), np.bool_)
        for nodes in enough.values():
            together &= nodes
        return Findings(tuple(found), self._pools(), self._nodes[together])

    def _finding(self, ask: Ask, claim: str) -> tuple[RequestFinding, Mask]:
        """What becomes of a request, and by node whether enough is left for it."""
        judging, usage, rows = self._judging, self._judging.usage, self._rows
        left = self._here.copy()
        steps = [self._left(Step.SEEN, "", left)]
        for selector in ask.selectors:
            verdicts = judging.selectors.verdicts(selector.expression)[rows]
            failing = self._distinct(left & (verdicts == ERROR))
            left &= verdicts == TRUE
            step = Step.SELECTOR if selector.device_class is None else Step.CLASS
            steps.append(self._left(step, selector.expression, left)._replace(failing=failing))
        fits = judging.fits(ask, rows)
        if (left & ~fits).any():
            left &= fits
            steps.append(self._left(Step.CAPACITY, "", left))
        matching = self._per_node(left)
        tolerated = judging.tolerated(ask, rows)
        taints = self._taints(ask, np.unique(rows[left & ~tolerated]))
        if taints:
            left &= tolerated
            steps.append(self._left(Step.TAINTS, "", left))
        held = left & usage.in_use[rows] & (not ask.is_admin)
        holders = self._holders(np.unique(rows[held]))
        if holders:
            left &= ~held
            steps.append(self._left(Step.IN_USE, "", left))
        if (left & self._short).any():
            left &= ~self._short
            steps.append(self._left(Step.COUNTERS, "", left))
        per_node = self._per_node(left)
        # All means each one that matches, so that none may be missing.
        enough = (per_node == matching) & (matching > 0) if ask.is_all else per_node >= ask.count
        most = int(per_node.max(initial=0))
        finding = RequestFinding(
            claim,
            ask.full_name,
            None if ask.is_all else ask.count,
            tuple(steps),
            taints,
            holders,
            int(enough.sum()),
            ask.problem,
            ask.class_name,
            most,
            self._names[self._nodes[int(per_node.argmax())]] if most else "",
        )
        return finding, enough

    def _per_node(self, left: Mask) -> Rows:
        return np.bincount(self._owner[left], minlength=len(self._layouts))

    def _left(self, step: Step, text: str, left: Mask) -> Left:
        nodes = int(np.count_nonzero(self._per_node(left)))
        return Left(step, text, self._distinct(left), nodes)

    def _distinct(self, mask: Mask) -> int:
        seen = np.zeros(self._judging.usage.table.columns.size, np.bool_)
        seen[self._rows[mask]] = True
        return int(np.count_nonzero(seen))

    def _taints(self, ask: Ask, rows: Rows) -> dict[str, int]:
        columns = self._judging.usage.table.columns
        counts: Counter[str] = Counter()
        for number in columns.taint_set[rows].tolist():
            for taint in columns.taint_sets.values[number]:
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


def _joined(parts: Iterable[NDArray[np.intp]]) -> Rows:
    return np.concatenate([np.zeros(0, np.intp), *parts])


def _here(layout: Layout) -> Mask:
    return np.ones(len(layout.rows), np.bool_) if layout.here is None else layout.here
