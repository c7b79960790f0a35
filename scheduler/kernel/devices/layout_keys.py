"""Keys of the devices that nodes see, by all properties that matter to the claims of a pod.

Nodes of equal keys are of one class: one search answers for all of them.
"""

from bisect import bisect
from collections.abc import Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.devices.candidates import UNKNOWN, USABLE
from scheduler.kernel.devices.constraints import MISSING
from scheduler.kernel.devices.judging import Judging, may_be_taken
from scheduler.kernel.devices.places import Area, Layout
from scheduler.kernel.devices.plan import AllocationPlan
from scheduler.kernel.devices.pools import NO_ROWS, Rows
from scheduler.kernel.devices.selectors import Codes
from scheduler.kernel.devices.table import SliceTable
from scheduler.kernel.snapshot import Mask

_MAX_KEY: Final = 256
_DIGEST: Final = 32
_FEW: Final = 64
_Columns = dict[str, NDArray[np.integer]]


class DevicesOfLayouts:
    """The devices of several layouts that some request may take, judged.

    Attributes:
        unknown: indexes of layouts with devices on which a selector is not evaluated yet.
    """

    def __init__(
        self,
        plan: AllocationPlan,
        table: SliceTable,
        judging: Judging,
        layouts: Sequence[Layout],
        budget: int,
    ) -> None:
        """Judge the devices of the layouts.

        Args:
            plan: the requests.
            table: the devices.
            judging: the verdicts of the requests on devices.
            layouts: devices that some nodes see.
            budget: cost limit of one expression, in units of CEL's cost.
        """
        self._plan, self._table, self._judging, self._layouts = plan, table, judging, layouts
        rows, owner = _joined(layouts)
        here = None
        if any(layout.here is not None for layout in layouts):
            here = np.concatenate([_mask(layout) for layout in layouts])
        short = None
        self._consumption = judging.consumptions(rows)
        if self._consumption is not None:
            self._availabilities = np.concatenate([judging.availabilities(one) for one in layouts])
            short = judging.short(rows, self._availabilities)
        codes = judging.codes(rows, here, short, budget)
        self._kept = kept = may_be_taken(codes)
        self.unknown: Rows = NO_ROWS
        if judging.is_pending:
            self.unknown = np.concatenate([NO_ROWS, *(owner[c == UNKNOWN] for c in codes)])
        self._rows, self._owner = rows[kept], owner[kept]
        self._codes: list[Codes] = [c[kept] for c in codes]

    def keys(self, areas: Sequence[Area] | None) -> list[Hashable]:
        """By layout, its key: layouts of equal keys are alike.

        Args:
            areas: by node, its area; None when the layouts are those of areas.
        """
        flags = [
            (layout.is_incomplete and self._plan.has_all, layout.is_invalid)
            for layout in self._layouts
        ]
        is_alone = areas is not None and not any(area.layout.views for area in areas)
        if is_alone and self._only_counts():
            counts = np.bincount(self._owner, minlength=len(self._layouts)).tolist()
            return list(zip(counts, flags, strict=True))
        columns = self._columns(is_alone=is_alone)
        if areas is None:
            # The pools of a node are tried between those of its area: see "slot".
            columns["pool"] = self._pools()
        elif not is_alone:
            slots = np.concatenate(list(map(_slots, self._layouts, areas)))
            columns["slot"] = slots[self._kept]
        return _keys(columns, self._owner, flags)

    def _pools(self) -> Rows:
        """By device, the position of its pool among those of its layout."""
        pools: Rows = np.concatenate([layout.pool_of for layout in self._layouts])[self._kept]
        return pools

    def _columns(self, *, is_alone: bool) -> _Columns:
        """The device columns that a search reads; `is_alone` if the nodes see no other devices."""
        columns: _Columns = {f"ask {i}": c for i, c in enumerate(self._codes)}
        values = self._judging.value_columns(self._rows)
        for name, column in zip(self._plan.attributes, values, strict=True):
            if is_alone:
                columns[f"alike {name}"] = _alike(column.numbers, self._owner)
            else:
                columns[f"value {name} {column.numbering}"] = column.numbers
        columns |= self._shared_columns()
        if self._consumption is not None and self._consumption[self._kept].any():
            columns["pool"] = self._pools()
            consumed, remaining = (
                self._table.columns.consumption,
                self._judging.usage.remaining_counters,
            )
            columns[f"consumption {consumed.numbering}"] = self._consumption[self._kept]
            columns[f"available {remaining.numbering}"] = self._availabilities[self._kept]
        return columns

    def _only_counts(self) -> bool:
        """Whether the devices are interchangeable, so that only their number matters."""
        plan, consumption = self._plan, self._consumption
        if not plan.only_counts:
            return False
        if plan.asks[0].count > 1 and consumption is not None and consumption[self._kept].any():
            return False
        return not np.count_nonzero(self._codes[0] != USABLE)

    def _shared_columns(self) -> _Columns:
        """The columns that distinguish shared devices: capacities and consumed amounts."""
        rows, capacity_sets = self._rows, self._table.columns.capacity_sets
        state, multiple = self._judging.usage.state, self._table.columns.multiple[rows]
        if not multiple.any():
            return {}
        return {
            f"capacities {capacity_sets.numbering}": np.where(
                multiple, capacity_sets.of(rows) + 1, 0
            ),
            f"state {state.numbering}": np.where(multiple, state.of(rows), 0),
        }


def _joined(layouts: Sequence[Layout]) -> tuple[Rows, Rows]:
    """The rows of all layouts, and by row the index of its layout."""
    if not layouts:
        return NO_ROWS, NO_ROWS
    if len(layouts) == 1:
        # Most often one node has changed.
        return layouts[0].rows, np.zeros(len(layouts[0].rows), np.intp)
    sizes = [len(layout.rows) for layout in layouts]
    rows = np.concatenate([layout.rows for layout in layouts])
    return rows, np.repeat(np.arange(len(layouts)), sizes)


def _mask(layout: Layout) -> Mask:
    return np.ones(len(layout.rows), np.bool_) if layout.here is None else layout.here


def _slots(layout: Layout, area: Area) -> Rows:
    """By device of a layout, the number of an area's pools that are tried before it."""
    keys = [view.key for view in area.layout.views]
    return np.array([bisect(keys, view.key) for view in layout.views], np.intp)[layout.pool_of]


def _alike(values: Rows, owner: Rows) -> Rows:
    """Values numbered by their first position among the devices of their node.

    Constraints compare only the equality of values: nodes with different values, but the same
    pattern of equal ones, are alike.
    """
    if not len(values):
        return values
    starts = np.searchsorted(owner, owner)
    if len(values) <= _FEW:
        # Most often one node has changed: comparing all pairs costs a fifth of sorting them.
        equal = (values[:, np.newaxis] == values) & (owner[:, np.newaxis] == owner)
        firsts = equal.argmax(axis=1)
    else:
        spread = values + 1
        pairs = owner * (int(spread.max()) + 1) + spread
        _, places, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        firsts = places[inverse]
    return np.where(values == MISSING, MISSING, firsts - starts)


def _keys(
    columns: Mapping[str, NDArray[np.integer]], owner: Rows, flags: Sequence[Hashable]
) -> list[Hashable]:
    """By layout, its key, of all columns of its devices."""
    if not columns:
        # Claims without requests take no devices.
        return list(flags)
    names = tuple(columns)
    matrix = np.column_stack([column.astype(np.int32) for column in columns.values()])
    data, width = matrix.tobytes(), matrix.shape[1] * matrix.itemsize
    ends = (np.searchsorted(owner, np.arange(len(flags) + 1)) * width).tolist()
    return [
        (names, _short(data[start:end]), flag)
        for start, end, flag in zip(ends[:-1], ends[1:], flags, strict=True)
    ]


def _short(data: bytes) -> bytes:
    """The data, or a digest: the size of a key must not depend on the size of pods' requests."""
    return data if len(data) <= _MAX_KEY else blake2b(data, digest_size=_DIGEST).digest()
