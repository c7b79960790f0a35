"""The judgement of devices by requests, in columns: usable devices, and the input of a search.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(allocateOne, isSelectable, taintPreventsAllocation, checkAvailableCounters, v0.36.3).
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

import numpy as np

from scheduler.api.devices import DeviceTaint
from scheduler.api.objects import Taint
from scheduler.kernel.cel import ERROR, FALSE, PENDING, TRUE
from scheduler.kernel.devices.candidates import (
    BLOCKED,
    FAILING,
    SKIPPED,
    UNKNOWN,
    USABLE,
    CandidateDevices,
    CandidatePool,
)
from scheduler.kernel.devices.capacities import Amounts, CapacityShare, fit, shares_of
from scheduler.kernel.devices.columns import Consumed
from scheduler.kernel.devices.constraints import Attributes, ValueColumn
from scheduler.kernel.devices.places import Layout
from scheduler.kernel.devices.plan import AllocationPlan, RequestData
from scheduler.kernel.devices.pools import NO_ROWS, CounterTable, Rows
from scheduler.kernel.devices.selectors import Codes, Selectors
from scheduler.kernel.devices.usage import UNTOUCHED, Usage
from scheduler.kernel.snapshot import Mask

_OF_VERDICT: Final = np.zeros(4, np.uint8)
_OF_VERDICT[[FALSE, TRUE, ERROR, PENDING]] = SKIPPED, USABLE, FAILING, UNKNOWN
_MATCHING: Final = (USABLE, BLOCKED)
_MAX_COLUMNS: Final = 4
"""Requests of a pod that keep a column each. A claim may have 32 requests of 8 alternatives."""
_NOTHING: Final[Amounts] = {}


class _AskColumns:
    """One request's verdicts on devices.

    Args:
        ask: the request.
        keeps: whether to keep a column of verdicts.

    Attributes:
        ask: the request.
        is_pending: whether a selector may not be evaluated on all devices yet.
    """

    def __init__(self, ask: RequestData, *, keeps: bool) -> None:
        self.ask = ask
        self.is_pending = True
        self._keeps = keeps
        self._unused: Codes = np.zeros(0, np.uint8)
        self._position = -1
        # By the numbers of the values; dropped when the numbering changes.
        self._shares: list[tuple[CapacityShare, ...] | None] = []
        self._fits_beside: dict[tuple[int, int], bool] = {}
        self._numberings = (0, 0)

    def unused(self, usage: Usage, selectors: Selectors, rows: Rows, budget: int | None) -> Codes:
        """By given row, the code of the device if no claim had any device."""
        if self._keeps:
            found: Codes = self._caught_up(usage, selectors, budget)[rows]
            return found
        return self._judge(usage, selectors, rows, budget)

    def _caught_up(self, usage: Usage, selectors: Selectors, budget: int | None) -> Codes:
        """The codes by row of the table, kept until the device changes. Read-only."""
        log = usage.table.device_log
        if self.is_pending or self._position != log.position:
            codes = np.full(usage.table.columns.size, UNKNOWN, np.uint8)
            changed = log.since(self._position) if self._position >= 0 else None
            if changed is not None:
                codes[: len(self._unused)] = self._unused
                codes[changed] = UNKNOWN
            rows = (codes == UNKNOWN).nonzero()[0]
            codes[rows] = self._judge(usage, selectors, rows, budget)
            self._unused, self._position = codes, log.position
            self.is_pending = bool((codes == UNKNOWN).any())
        return self._unused

    def tolerated(self, usage: Usage, rows: Rows) -> Mask:
        """By given row, whether the request tolerates all taints of the device."""
        taints = usage.table.columns.taints
        return _by_number(taints.of(rows), lambda n: self._tolerates(taints.values.values[n]))

    def fits(self, usage: Usage, rows: Rows) -> Mask:
        """By given row, whether the device's free capacity covers the request."""
        found = self._fits_unused(usage, rows)
        for index in usage.state.of(rows).nonzero()[0].tolist():
            found[index] = self.fits_beside(usage, rows.item(index))
        return found

    def fits_beside(self, usage: Usage, row: int) -> bool:
        """Whether the capacity that other claims leave of a shared device covers the request."""
        self._forget_old_numbers(usage)
        pair = (usage.table.columns.capacity_sets.number_of(row), usage.state.number_of(row))
        known = self._fits_beside.get(pair)
        if known is None:
            known = self._fits_beside[pair] = self._fit(usage, *pair)
        return known

    def shares(self, usage: Usage, size: int) -> tuple[CapacityShare, ...] | None:
        """The request's shares of a device with capacity set `size`; None if it does not fit."""
        self._forget_old_numbers(usage)
        while len(self._shares) <= size:
            capacities = usage.table.columns.capacities_of(len(self._shares))
            self._shares.append(shares_of(capacities, self.ask.capacity))
        return self._shares[size]

    def fork(self) -> "_AskColumns":
        """A copy for a fork of the allocations."""
        copy = _AskColumns(self.ask, keeps=self._keeps)
        copy.is_pending, copy._unused, copy._position = (
            self.is_pending,
            self._unused,
            self._position,
        )
        return copy

    def _judge(self, usage: Usage, selectors: Selectors, rows: Rows, budget: int | None) -> Codes:
        codes: Codes = _OF_VERDICT[selectors.select(self.ask.selectors, rows, budget)]
        usable = codes == USABLE
        blocked = BLOCKED if self.ask.is_all else SKIPPED
        codes[usable & ~self.tolerated(usage, rows)] = blocked
        codes[usable & ~self._fits_unused(usage, rows)] = SKIPPED
        return codes

    def _fits_unused(self, usage: Usage, rows: Rows) -> Mask:
        """By given row, whether the device's whole capacity covers the request."""
        capacity_sets = usage.table.columns.capacity_sets.of(rows)
        return _by_number(capacity_sets, lambda number: self._fit(usage, number, UNTOUCHED))

    def _forget_old_numbers(self, usage: Usage) -> None:
        numberings = (usage.table.columns.capacity_sets.numbering, usage.state.numbering)
        if self._numberings == numberings:
            return
        self._shares, self._fits_beside, self._numberings = [], {}, numberings

    def _fit(self, usage: Usage, size: int, state: int) -> bool:
        shares = self.shares(usage, size)
        return shares is not None and fit(shares, dict(usage.state.values.values[state]), _NOTHING)

    def _tolerates(self, taints: Sequence[DeviceTaint]) -> bool:
        tolerations = self.ask.tolerations
        return all(tolerations.tolerate(Taint(t.key, t.value, t.effect)) for t in taints)


def _by_number(numbers: Rows, holds: Callable[[int], bool]) -> Mask:
    """By given number, whether something holds for it; evaluated once for equal numbers."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return np.array([holds(number) for number in distinct.tolist()], np.bool_)[inverse]


class Judging:
    """The verdicts of a plan's requests on devices.

    Attributes:
        plan: the requests.
        usage: the allocated devices.
        selectors: the verdicts of CEL expressions on devices.
    """

    def __init__(
        self, plan: AllocationPlan, usage: Usage, selectors: Selectors, attributes: Attributes
    ) -> None:
        self.plan = plan
        self.usage = usage
        self.selectors = selectors
        self._attributes = attributes
        keeps = len(plan.asks) <= _MAX_COLUMNS
        self._asks = [_AskColumns(ask, keeps=keeps) for ask in plan.asks]
        self._short: dict[tuple[int, int], bool] = {}
        self._numberings = (0, 0)

    @property
    def is_pending(self) -> bool:
        """Whether a selector is not evaluated on all devices yet."""
        return any(asked.is_pending for asked in self._asks)

    def codes(
        self, rows: Rows, here: Mask | None, short: Mask | None, budget: int | None
    ) -> list[Codes]:
        """By request and given row, the code of the device, before any search.

        Args:
            rows: the rows of devices.
            here: whether they are for the node; None for all of them.
            short: whether they lack counters; None if all have them.
            budget: cost limit of one expression, in units of CEL's cost.
        """
        usage = self.usage
        in_use = usage.in_use[rows]
        touched = usage.state.of(rows).nonzero()[0].tolist()
        found: list[Codes] = []
        for asked in self._asks:
            ask = asked.ask
            codes = asked.unused(usage, self.selectors, rows, budget)
            if here is not None:
                codes[~here & (codes != FAILING) & (codes != UNKNOWN)] = SKIPPED
            if short is not None:
                codes[short & (codes == USABLE)] = BLOCKED if ask.is_all else SKIPPED
            if ask.is_all and not ask.is_admin:
                codes[in_use & (codes == USABLE)] = BLOCKED
            elif not ask.is_admin:
                codes[in_use] = SKIPPED
            for index in touched:
                if codes[index] in _MATCHING and not asked.fits_beside(usage, rows.item(index)):
                    codes[index] = SKIPPED
            found.append(codes)
        return found

    def consumptions(self, rows: Rows) -> Rows | None:
        """By given row, the number of the counters that its device consumes; None without any."""
        column = self.usage.table.columns.consumption
        if len(column.values) == 1:
            return None
        found = column.of(rows)
        return found if found.any() else None

    def short(self, rows: Rows, availabilities: Rows) -> Mask:
        """By given row, whether its pool lacks the counters that the device consumes.

        Args:
            rows: the rows of devices.
            availabilities: by given row, the number of its pool's remaining counters.
        """
        usage, columns = self.usage, self.usage.table.columns
        consumptions = columns.consumption.of(rows)
        numberings = (columns.consumption.numbering, usage.remaining_counters.numbering)
        if self._numberings != numberings:
            self._short, self._numberings = {}, numberings
        found = np.zeros(len(rows), np.bool_)
        for index in consumptions.nonzero()[0].tolist():
            pair = (int(consumptions[index]), int(availabilities[index]))
            known = self._short.get(pair)
            if known is None:
                known = self._short[pair] = _is_short(
                    columns.consumption.values.values[pair[0]], usage.availability(pair[1])
                )
            row = rows[index]
            # The first share of a device takes the counters for all its shares.
            found[index] = known and not (columns.multiple[row] and usage.is_touched(row))
        return found

    def fork(self, usage: Usage) -> "Judging":
        """A copy that reads a copy of the allocations."""
        copy = Judging(self.plan, usage, self.selectors, self._attributes)
        copy._asks = [asked.fork() for asked in self._asks]
        return copy

    def availabilities(self, layout: Layout) -> Rows:
        """By position in a layout's rows, the number of its pool's remaining counters."""
        numbers = [self.usage.availability_of(view.pool, view.generation) for view in layout.views]
        return np.array(numbers, np.intp)[layout.pool_of]

    def fits(self, ask: RequestData, rows: Rows) -> Mask:
        """By given row, whether the device has capacity for a request."""
        return self._asks[ask.index].fits(self.usage, rows)

    def tolerated(self, ask: RequestData, rows: Rows) -> Mask:
        """By given row, whether a request tolerates the taints of the device."""
        return self._asks[ask.index].tolerated(self.usage, rows)

    def shares(self, ask: RequestData, row: int) -> tuple[CapacityShare, ...]:
        """The capacities that a request consumes of a shared device."""
        number = self.usage.table.columns.capacity_sets.number_of(row)
        return self._asks[ask.index].shares(self.usage, number) or ()

    def value_columns(self, rows: Rows) -> list[ValueColumn]:
        """By attribute that constraints name, the values of given rows."""
        columns = [self._attributes.column(name) for name in self.plan.attributes]
        return [ValueColumn(column.numbering, column.numbers[rows]) for column in columns]

    def takeable(self, layout: Layout, budget: int | None) -> tuple[Rows, list[Codes]]:
        """The devices of a node that some request may take.

        Returns:
            Their positions in the layout, and by request their codes.
        """
        rows, short = layout.rows, None
        if self.consumptions(rows) is not None:
            short = self.short(rows, self.availabilities(layout))
        codes = self.codes(rows, layout.here, short, budget)
        places = may_be_taken(codes)
        return places, [each[places] for each in codes]

    def candidates(self, layout: Layout, budget: int | None) -> tuple[CandidateDevices, Rows]:
        """The devices of a node that some request may take, for a search, and their rows."""
        usage, table = self.usage, self.usage.table
        columns = table.columns
        places, codes = self.takeable(layout, budget)
        rows, pool_of = layout.rows[places], layout.pool_of[places]
        ids = [table.id_of(row) for row in rows.tolist()]
        multiple: list[bool] = columns.multiple[rows].tolist()
        capacities: list[int] = columns.capacity_sets.of(rows).tolist()
        consumptions: list[int] = columns.consumption.of(rows).tolist()
        firsts = pool_of.searchsorted(np.arange(len(layout.views))).tolist()
        values = self.value_columns(rows)
        return (
            CandidateDevices(
                names=[device.text for device in ids],
                codes=[asked.tolist() for asked in codes],
                pools=[
                    CandidatePool(
                        view.pool.id.text,
                        view.state,
                        first,
                        usage.availability(usage.availability_of(view.pool, view.generation)),
                    )
                    for view, first in zip(layout.views, firsts, strict=True)
                ],
                pool_of=pool_of.tolist(),
                multiple=multiple,
                consumptions=[columns.consumption.values.values[n] for n in consumptions],
                shares=[
                    [
                        (asked.shares(usage, number) or ()) if shared else ()
                        for number, shared in zip(capacities, multiple, strict=True)
                    ]
                    for asked in self._asks
                ],
                consumed=[usage.consumed(device) for device in ids],
                values={
                    name: column.numbers.tolist()
                    for name, column in zip(self.plan.attributes, values, strict=True)
                },
            ),
            rows,
        )


def may_be_taken(codes: Sequence[Codes]) -> Rows:
    """The positions of the devices that some request may take, from their codes by request."""
    if not codes:
        return NO_ROWS
    found = codes[0] != SKIPPED
    for each in codes[1:]:
        found |= each != SKIPPED
    places: Rows = found.nonzero()[0]
    return places


def _is_short(consumption: Sequence[Consumed], available: CounterTable) -> bool:
    """Whether a device cannot be allocated even by itself; checks every counter of its pool."""
    needed: dict[tuple[str, str], Decimal] = {}
    for consumed in consumption:
        counter = (consumed.counter_set, consumed.counter)
        needed[counter] = needed.get(counter, Decimal(0)) + consumed.amount
    return any(amount < needed.get(counter, 0) for counter, amount in available.items())
