"""Allocatable and requested resources of nodes: a line per resource, a column per node.

Units: cpu in thousandths of a core, memory and ephemeral storage in bytes, others in units. All are
float64, which holds every whole number below 2**53 exactly. Larger ones are in `Amounts.oversized`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod_shape import PodShape
from scheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from scheduler.kernel.snapshot.interning import Interner

Floats: TypeAlias = NDArray[np.float64]

Content: TypeAlias = tuple[bytes, bytes, bytes, float, float]
"""The allocatable and requested amounts of a row; comparable while `layout` is the same object."""

Load: TypeAlias = tuple[Floats, Floats, int]
"""The amounts that pods add to `requested` and `non_zero_requested`, by line, and their number."""

CPU_COLUMN: Final = 0
MEMORY_COLUMN: Final = 1

_CORE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_SPARE_LINES: Final = 8
"""The most lines of resources that no node offers any more before lines are compacted."""
_EXACT_BELOW: Final = 2**53
"""float64 holds every whole number below this."""


class Amounts(msgspec.Struct, eq=False):
    """A matrix of whole numbers, one line per resource.

    Invariant: a number of less than 2**53 is exact in `floats`; a larger one is rounded there, and
    exact in `oversized`.

    Attributes:
        floats: shape (lines, capacity).
        oversized: numbers that float64 does not hold exactly, by line and row. Rare.
    """

    floats: NDArray[np.float64]
    oversized: dict[tuple[int, int], int] = {}

    def at(self, line: int, row: int) -> int:
        """The exact number."""
        rounded = self.floats.item(line, row)
        if -_EXACT_BELOW < rounded < _EXACT_BELOW:
            return int(rounded)
        return self.oversized[line, row]

    def set(self, line: int, row: int, amount: int) -> None:
        """Replace a number."""
        self.oversized.pop((line, row), None)
        if not -_EXACT_BELOW < amount < _EXACT_BELOW:
            self.oversized[line, row] = amount
        self.floats[line, row] = amount

    def add(self, line: int, row: int, amount: int) -> None:
        """Add to a number."""
        before = self.floats.item(line, row)
        if -_EXACT_BELOW < before < _EXACT_BELOW:
            now = int(before) + amount
            if -_EXACT_BELOW < now < _EXACT_BELOW:
                self.floats[line, row] = now
                return
        self.set(line, row, self.at(line, row) + amount)

    def add_all(
        self, line: int, rows: NDArray[np.intp], kinds: NDArray[np.intp], amounts: Sequence[int]
    ) -> None:
        """Add to many numbers of a line: to each row the amount of its kind; rows may be repeated.

        `kinds` has the index in `amounts` for each of `rows`.
        """
        there = self.floats[line]
        most = max(map(abs, amounts)) * int(np.bincount(rows).max())
        if most + int(np.abs(there).max()) < _EXACT_BELOW:
            np.add.at(there, rows, np.array(amounts, np.float64)[kinds])
            return
        for row, kind in zip(rows.tolist(), kinds.tolist(), strict=True):
            self.add(line, row, amounts[kind])

    def picked(
        self, rows: NDArray[np.intp], amounts: Sequence[int], times: NDArray[np.float64]
    ) -> "Amounts | None":
        """Copy some rows, with amounts added; None where float64 does not hold the result.

        Rows may be repeated. `amounts` are by line, empty for none; `times` has their factor for
        each of `rows`.
        """
        most = max(amounts, default=0)
        if self.oversized or most >= _EXACT_BELOW:
            return None
        copy = Amounts(self.floats.take(rows, axis=1))
        if not most:
            return copy
        copy.floats[: len(amounts)] += np.multiply.outer(amounts, times)
        return copy if copy.floats.max() < _EXACT_BELOW else None

    def content(self, row: int, more: NDArray[np.float64] | None = None) -> bytes:
        """The floats of a row as bytes in memory, with `more` numbers added, by line."""
        there = self.floats[:, row]
        return (there if more is None else there + more).tobytes()

    def contents(self) -> list[bytes]:
        """`content` of every row."""
        by_row = np.ascontiguousarray(self.floats.T)
        # The strides of numpy are not defined for a single row.
        size = by_row.itemsize * len(self.floats)
        contents: list[bytes] = by_row.view(f"V{size}").ravel().tolist()
        return contents

    def fit(self, lines: int, capacity: int) -> None:
        """Make room for this many lines and rows."""
        if self.floats.shape != (lines, capacity):
            floats = np.zeros((lines, capacity))
            floats[: len(self.floats), : self.floats.shape[1]] = self.floats
            self.floats = floats

    def keep_lines(self, kept: Sequence[int], lines: int) -> None:
        """Renumber the lines: the kept ones come first, in order; there will be `lines` of them."""
        floats = np.zeros((lines, self.floats.shape[1]))
        floats[: len(kept)] = self.floats[list(kept)]
        new_line = {old: new for new, old in enumerate(kept)}
        self.oversized = {
            (new_line[line], row): amount
            for (line, row), amount in self.oversized.items()
            if line in new_line
        }
        self.floats = floats

    def copy(self) -> "Amounts":
        """An independent copy."""
        return Amounts(self.floats.copy(), self.oversized.copy())


class ResourceSums:
    """Allocatable and requested amounts, by resource and row.

    A resource has a line when a node offers some of it. Of any other resource every node has 0.
    The requests of pods for it are kept outside of the lines until a node offers it.

    Attributes:
        resources: line by resource name.
        layout: another object whenever a resource gets a line or lines are renumbered.
        max_pods: allocatable pods by row.
        pod_count: pods by row.
    """

    def __init__(self, capacity: int) -> None:
        self.resources = Interner[str](_CORE)
        self.layout = object()
        self.max_pods: Floats = np.zeros(capacity)
        self.pod_count: Floats = np.zeros(capacity)
        self._allocatable = Amounts(np.zeros((len(_CORE), capacity)))
        self._requested = Amounts(np.zeros((len(_CORE), capacity)))
        self._non_zero = Amounts(np.zeros((2, capacity)))
        self._offering = [0] * len(_CORE)
        """By line, number of nodes that offer some of the resource."""
        self._unoffered: dict[str, dict[int, int]] = {}

    @property
    def allocatable(self) -> Floats:
        """Shape (resources, capacity)."""
        return self._allocatable.floats[: len(self.resources.values)]

    @property
    def requested(self) -> Floats:
        """Resources requested by the pods on each node. Shape (resources, capacity)."""
        return self._requested.floats[: len(self.resources.values)]

    @property
    def non_zero_requested(self) -> Floats:
        """Cpu and memory with defaults for containers without requests. Shape (2, capacity)."""
        return self._non_zero.floats

    # --- exact numbers --------------------------------------------------------------------------

    @property
    def has_oversized(self) -> bool:
        """Whether there are any `oversized_cells`."""
        return bool(self._allocatable.oversized or self._requested.oversized)

    def oversized_cells(self) -> set[tuple[int, int]]:
        """Lines and rows of amounts that exceed what float64 holds exactly."""
        return {*self._allocatable.oversized, *self._requested.oversized}

    def exact_allocatable(self, line: int, row: int) -> int:
        """The exact allocatable amount of a resource on a node."""
        return self._allocatable.at(line, row)

    def exact_requested(self, line: int, row: int) -> int:
        """The exact amount of a resource that the pods on a node request."""
        return self._requested.at(line, row)

    def of_row(self, row: int) -> tuple[dict[str, int], tuple[int, int], int]:
        """All sums over the pods of a row.

        Returns:
            Their requests by resource (without zeros), cpu and memory with defaults, and their
            number.
        """
        taken = {name: self._requested.at(i, row) for i, name in enumerate(self.resources.values)}
        taken.update((name, rows.get(row, 0)) for name, rows in self._unoffered.items())
        non_zero = (self._non_zero.at(0, row), self._non_zero.at(1, row))
        return {n: a for n, a in taken.items() if a}, non_zero, int(self.pod_count[row])

    # --- rows to be compared --------------------------------------------------------------------

    def load_of(self, shape: PodShape, times: int) -> Load:
        """The load that this many pods of a shape add to a row; valid until the layout changes."""
        requested = np.zeros(len(self._requested.floats))
        for line, name in enumerate(self.resources.values):
            requested[line] = shape.occupied.get(name, 0)
        return requested * times, np.array(shape.non_zero_occupied, np.float64) * times, times

    def content(self, row: int, load: Load | None = None) -> Content:
        """The allocatable and requested amounts of a row, with the load of further pods."""
        requested, non_zero, times = (None, None, 0) if load is None else load
        return (
            self._allocatable.content(row),
            self._requested.content(row, requested),
            self._non_zero.content(row, non_zero),
            self.max_pods.item(row),
            self.pod_count.item(row) + times,
        )

    def contents(self) -> list[Content]:
        """`content` of every row, without more pods."""
        return [
            *zip(
                self._allocatable.contents(),
                self._requested.contents(),
                self._non_zero.contents(),
                self.max_pods.tolist(),
                self.pod_count.tolist(),
                strict=True,
            )
        ]

    # --- changes --------------------------------------------------------------------------------

    def set_allocatable(self, row: int, amounts: Mapping[str, int]) -> None:
        """Set the allocatable amounts of a node, and its number of pods."""
        self.max_pods[row] = amounts.get(PODS, 0)
        offered = {name: a for name, a in amounts.items() if a and name != PODS}
        for name in offered:
            if self.resources.get(name) is None:
                self._new_line(name)
        for line, name in enumerate(self.resources.values):
            amount = offered.get(name, 0)
            if not amount and not self._offering[line]:
                continue
            before = self._allocatable.at(line, row)
            if amount != before:
                self._allocatable.set(line, row, amount)
                self._offering[line] += bool(amount) - bool(before)
        unused = self._offering[len(_CORE) :].count(0)
        if unused > _SPARE_LINES and 2 * unused > len(self.resources):
            self._drop_unused_lines()

    def add_pod(self, row: int, shape: PodShape, sign: int) -> None:
        """Add a pod to the sums (`sign` 1) or subtract it (-1)."""
        for name, amount in shape.occupied.items():
            line = self.resources.get(name)
            if line is None:
                self._take_unoffered(name, row, sign * amount)
            else:
                self._requested.add(line, row, sign * amount)
        for line, amount in enumerate(shape.non_zero_occupied):
            self._non_zero.add(line, row, sign * amount)
        self.pod_count[row] += sign

    def add_pods(self, rows: Sequence[int], shapes: Sequence[PodShape]) -> None:
        """Add many pods to the sums, each on its row.

        Cost: one array operation per resource for all pods; `add_pod` takes one per pod.
        """
        numbers: dict[PodShape, int] = {}
        kinds = np.array([numbers.setdefault(shape, len(numbers)) for shape in shapes], np.intp)
        at = np.array(rows, np.intp)
        for line, name in enumerate(self.resources.values):
            amounts = [shape.occupied.get(name, 0) for shape in numbers]
            if any(amounts):
                self._requested.add_all(line, at, kinds, amounts)
        # Tenants may name any number of resources that no node offers.
        unoffered = [shape.occupied.keys() - self.resources.values for shape in numbers]
        if any(unoffered):
            for row, shape, kind in zip(rows, shapes, kinds.tolist(), strict=True):
                for name in unoffered[kind]:
                    self._take_unoffered(name, row, shape.occupied[name])
        for line in range(len(self._non_zero.floats)):
            amounts = [shape.non_zero_occupied[line] for shape in numbers]
            self._non_zero.add_all(line, at, kinds, amounts)
        np.add.at(self.pod_count, at, 1)

    def fit(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        for amounts in (self._allocatable, self._requested, self._non_zero):
            amounts.fit(len(amounts.floats), capacity)
        more = np.zeros(capacity - len(self.pod_count))
        self.max_pods = np.concatenate((self.max_pods, more))
        self.pod_count = np.concatenate((self.pod_count, more))

    # --- copies ---------------------------------------------------------------------------------

    def picked(
        self, rows: NDArray[np.intp], shape: PodShape, times: Floats
    ) -> "ResourceSums | None":
        """Some rows as they would be with more pods of a shape; see `NodeTable.picked`."""
        occupied = [shape.occupied.get(name, 0) for name in self.resources.values]
        allocatable = self._allocatable.picked(rows, (), times)
        requested = self._requested.picked(rows, occupied, times)
        non_zero = self._non_zero.picked(rows, shape.non_zero_occupied, times)
        if allocatable is None or requested is None or non_zero is None:
            return None
        copy = object.__new__(ResourceSums)
        copy.__dict__.update(self.__dict__)
        copy._allocatable, copy._requested, copy._non_zero = allocatable, requested, non_zero
        copy.max_pods, copy.pod_count = self.max_pods.take(rows), self.pod_count.take(rows) + times
        return copy

    def fork(self) -> "ResourceSums":
        """A copy to which pods may be added and removed; it shares the allocatable amounts."""
        copy = object.__new__(ResourceSums)
        copy.__dict__.update(self.__dict__)
        copy._requested, copy._non_zero = self._requested.copy(), self._non_zero.copy()
        copy.pod_count = self.pod_count.copy()
        copy._unoffered = {name: rows.copy() for name, rows in self._unoffered.items()}
        return copy

    def copy(self) -> "ResourceSums":
        """An independent copy."""
        copy = object.__new__(ResourceSums)
        copy.__dict__.update(self.fork().__dict__)
        copy.resources = Interner(self.resources.values)
        copy._offering = self._offering.copy()
        copy._allocatable, copy.max_pods = self._allocatable.copy(), self.max_pods.copy()
        return copy

    # --- lines ----------------------------------------------------------------------------------

    def _new_line(self, name: str) -> None:
        line = self.resources.intern(name)
        if line >= len(self._allocatable.floats):
            self._allocatable.fit(2 * line, len(self.pod_count))
            self._requested.fit(2 * line, len(self.pod_count))
        self._offering.append(0)
        for row, amount in self._unoffered.pop(name, {}).items():
            self._requested.set(line, row, amount)
        self.layout = object()

    def _drop_unused_lines(self) -> None:
        """Drop the lines of resources that no node offers any more."""
        kept = [i for i in range(len(self.resources)) if self._offering[i] or i < len(_CORE)]
        for line in sorted(set(range(len(self.resources))).difference(kept)):
            name = self.resources.values[line]
            for row in np.flatnonzero(self._requested.floats[line]).tolist():
                self._take_unoffered(name, row, self._requested.at(line, row))
        self._allocatable.keep_lines(kept, len(kept) + _SPARE_LINES)
        self._requested.keep_lines(kept, len(kept) + _SPARE_LINES)
        self._offering = [self._offering[line] for line in kept]
        self.resources = Interner(self.resources.values[line] for line in kept)
        self.layout = object()

    def _take_unoffered(self, name: str, row: int, amount: int) -> None:
        rows = self._unoffered.setdefault(name, {})
        taken = rows.get(row, 0) + amount
        if taken:
            rows[row] = taken
        else:
            rows.pop(row, None)
        if not rows:
            del self._unoffered[name]
