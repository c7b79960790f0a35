"""Pools of devices: the slices that count, and the part of them that a node sees.

A pool is published as slices of one generation. A node's view of a pool depends on the slices
for the node, and on the total number of slices of the pool.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/pools_incubating.go
(GatherPools, buildPool, v0.36.3).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.devices import ResourceSliceSpec
from scheduler.api.quantity import parse
from scheduler.kernel.snapshot import Mask

Rows: TypeAlias = NDArray[np.intp]
CounterTable: TypeAlias = Mapping[tuple[str, str], Decimal]
"""Amounts by counter set and counter."""

NO_ROWS: Final[Rows] = np.zeros(0, np.intp)
_NO_COUNTERS: Final[CounterTable] = {}


class PoolId(NamedTuple):
    """The name of a pool in the cluster; in the order in which pools are tried."""

    driver: str
    pool: str

    @property
    def text(self) -> str:
        """The pool as upstream writes it in messages."""
        return f"{self.driver}/{self.pool}"


class PlacedSlice:
    """A slice, and the rows of its devices.

    Attributes:
        name: the name of the slice, by which slices of a pool are ordered.
        spec: its spec.
        rows: by device, its row.
        nodes: the numbers of the nodes that it names; None for a condition.
        here: by node number, which devices are for the node; empty when all are.
        pool_id: its pool.
        generation: the generation of that pool.
        names: the names of its devices.
        duplicate: a name that two devices have, or empty.
        consumes: whether a device consumes counters.
        is_bound: whether a device has a list of binding conditions, even an empty one.
    """

    __slots__ = (
        "consumes",
        "duplicate",
        "generation",
        "here",
        "is_bound",
        "name",
        "names",
        "nodes",
        "pool_id",
        "rows",
        "spec",
    )

    def __init__(self, name: str, spec: ResourceSliceSpec, rows: Rows) -> None:
        self.name = name
        self.spec = spec
        self.pool_id = PoolId(spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.rows = rows
        self.nodes: tuple[int, ...] | None = None
        self.here: dict[int, Mask] = {}
        self.names = frozenset(device.name for device in spec.devices)
        self.duplicate = ""
        if len(self.names) != len(spec.devices):
            counts = Counter(device.name for device in spec.devices)
            self.duplicate = next(name for name, count in counts.items() if count > 1)
        self.consumes = any(device.consumes_counters for device in spec.devices)
        self.is_bound = any(device.binding_conditions is not None for device in spec.devices)


class Seen(NamedTuple):
    """A slice that a node sees.

    Attributes:
        placed: the slice.
        here: by device, whether it is for the node; None for all of them.
    """

    placed: PlacedSlice
    here: Mask | None = None


class PoolState(Enum):
    """Whether devices of a pool can be allocated."""

    READY = "ready"
    INCOMPLETE = "incomplete"
    INVALID = "invalid"


class PoolView:
    """A node's view of a pool.

    Attributes:
        pool: the pool.
        state: whether its devices can be allocated.
        problem: the reason why it is invalid.
        rows: its devices, in the order in which they are tried.
        here: by device of `rows`, whether it is for the node; None for all of them.
        generation: the generation of its slices.
        key: its sort key among the pools of a node.
    """

    __slots__ = ("generation", "here", "key", "pool", "problem", "rows", "state")

    def __init__(
        self,
        pool: "Pool",
        generation: int,
        state: PoolState,
        problem: str = "",
        seen: Sequence[Seen] = (),
    ) -> None:
        self.pool = pool
        self.generation = generation
        self.state = state
        self.problem = problem
        self.rows = NO_ROWS
        self.here: Mask | None = None
        bound = False
        if len(seen) == 1:
            placed, self.here = seen[0]
            self.rows, bound = placed.rows, placed.is_bound
        elif seen:
            self.rows = np.concatenate([s.placed.rows for s in seen])
            if any(s.here is not None for s in seen):
                self.here = np.concatenate([_here(s) for s in seen])
            bound = any(s.placed.is_bound for s in seen)
        # Pools with binding conditions are tried last.
        self.key = (bound, pool.id)

    @property
    def mask(self) -> Mask:
        """By device of `rows`, whether it is for the node."""
        return np.ones(len(self.rows), np.bool_) if self.here is None else self.here


class Pool:
    """All slices of a pool, of every generation.

    Attributes:
        id: its name.
        placed: its slices by name.
        local: by node number, the slices that name the node.
        broad: slices whose nodes are given by a condition.
        counting: slices with counters, which every node sees; they hold no devices.
        changes: grows when a slice is added or removed; a new pool of the name continues to count.
    """

    __slots__ = (
        "_consuming",
        "_counters",
        "_generations",
        "broad",
        "changes",
        "counting",
        "id",
        "local",
        "placed",
    )

    def __init__(self, pool_id: PoolId, changes: int = 0) -> None:
        self.id = pool_id
        self.placed: dict[str, PlacedSlice] = {}
        self.local: dict[int, list[PlacedSlice]] = {}
        self.broad: dict[str, PlacedSlice] = {}
        self.counting: dict[str, PlacedSlice] = {}
        self.changes = changes
        self._consuming = 0
        self._generations: Counter[int] = Counter()
        self._counters: dict[int, tuple[CounterTable, str]] = {}

    def add(self, placed: PlacedSlice) -> None:
        """Add a slice."""
        self.placed[placed.name] = placed
        self._generations[placed.generation] += 1
        self._consuming += placed.consumes
        self._counters.clear()
        self.changes += 1
        if placed.spec.shared_counters:
            self.counting[placed.name] = placed
        elif placed.nodes is None:
            self.broad[placed.name] = placed
        for node in placed.nodes or ():
            self.local.setdefault(node, []).append(placed)

    def remove(self, placed: PlacedSlice) -> None:
        """Remove a slice."""
        del self.placed[placed.name]
        self._generations[placed.generation] -= 1
        self._consuming -= placed.consumes
        self._counters.clear()
        self.changes += 1
        if not self._generations[placed.generation]:
            del self._generations[placed.generation]
        self.broad.pop(placed.name, None)
        self.counting.pop(placed.name, None)
        for node in placed.nodes or ():
            self.local[node].remove(placed)
            if not self.local[node]:
                del self.local[node]

    def copy(self) -> "Pool":
        """An independent copy; slices are shared, they do not change."""
        copy = Pool(self.id, self.changes)
        copy.placed = self.placed.copy()
        copy.local = {node: list(placed) for node, placed in self.local.items()}
        copy.broad = self.broad.copy()
        copy.counting = self.counting.copy()
        copy._consuming = self._consuming
        copy._generations = self._generations.copy()
        copy._counters = self._counters.copy()
        return copy

    @property
    def is_seen_everywhere(self) -> bool:
        """Whether the pool matters to nodes that none of its slices names.

        A pool that only has counters there matters as long as it is incomplete or invalid.
        """
        if self.broad:
            return True
        view = self.view([*map(Seen, self.counting.values())])
        return view is not None and view.state is not PoolState.READY

    def local_view(self, number: int, elsewhere: Iterable[Seen]) -> PoolView | None:
        """The view of the node of a number, which sees its own slices and those of `elsewhere`."""
        seen = [Seen(placed, placed.here.get(number)) for placed in self.local.get(number, ())]
        seen.extend(map(Seen, self.counting.values()))
        seen.extend(elsewhere)
        return self.view(seen)

    def view(self, slices: Sequence[Seen]) -> PoolView | None:
        """Build the pool view of a node that sees these slices; None if it sees none that count."""
        if not slices:
            return None
        first = slices[0]
        # Most pools are one slice: a start looks at thousands of them.
        if len(slices) > 1:
            newest = max(s.placed.generation for s in slices)
            slices = sorted(
                (s for s in slices if s.placed.generation == newest), key=lambda s: s.placed.name
            )
            # The first slice gives the expected count; upstream puts slices of the node first.
            first = min(slices, key=lambda s: s.placed.nodes is None)
        generation, expected = first.placed.generation, first.placed.spec.pool.resource_slice_count
        if len(slices) != expected:
            if max(self._generations) > generation:
                return None
            if self._generations[generation] != expected:
                return PoolView(self, generation, PoolState.INCOMPLETE)
        with_devices = slices
        if self.counting:
            with_devices = [s for s in slices if not s.placed.spec.shared_counters]
        problem = self._problem(generation, with_devices)
        if problem:
            return PoolView(self, generation, PoolState.INVALID, problem)
        return PoolView(self, generation, PoolState.READY, "", with_devices)

    def counters(self, generation: int) -> CounterTable:
        """All counters that the devices of a generation share, as published."""
        return self._counters_of(generation)[0]

    def _problem(self, generation: int, slices: Sequence[Seen]) -> str:
        names: frozenset[str] = frozenset()
        for placed, _ in slices:
            twice = placed.duplicate or (names and min(names & placed.names, default=""))
            if twice:
                return f"duplicate device name {twice}"
            names = names | placed.names if names else placed.names
        return self._counters_of(generation)[1]

    def _counters_of(self, generation: int) -> tuple[CounterTable, str]:
        if not self._consuming and not self.counting:
            return _NO_COUNTERS, ""
        found = self._counters.get(generation)
        if found is None:
            found = self._counters[generation] = self._gather_counters(generation)
        return found

    def _gather_counters(self, generation: int) -> tuple[CounterTable, str]:
        ordered = sorted(self.placed.items())
        slices = [placed for _, placed in ordered if placed.generation == generation]
        table: dict[tuple[str, str], Decimal] = {}
        sets: set[str] = set()
        for placed in slices:
            for counter_set in placed.spec.shared_counters:
                if counter_set.name in sets:
                    return {}, f"duplicate counter set name {counter_set.name}"
                sets.add(counter_set.name)
                for name, counter in counter_set.counters.items():
                    table[counter_set.name, name] = parse(counter.value)
        consuming = (placed.spec for placed in slices if placed.consumes)
        return table, _unknown_counter(consuming, sets, table)


def _unknown_counter(
    slices: Iterable[ResourceSliceSpec], sets: set[str], table: CounterTable
) -> str:
    for spec in slices:
        for device in spec.devices:
            for consumption in device.consumes_counters:
                if consumption.counter_set not in sets:
                    return f"counter set {consumption.counter_set} not found"
                for name in consumption.counters:
                    if (consumption.counter_set, name) not in table:
                        return f"counter {name} not found in counter set {consumption.counter_set}"
    return ""


def _here(seen: Seen) -> Mask:
    return np.ones(len(seen.placed.rows), np.bool_) if seen.here is None else seen.here
