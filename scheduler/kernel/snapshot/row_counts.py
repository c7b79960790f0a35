"""A count per node: a dictionary while few nodes have one, an array when many do.

`PortCounts` has such counts of the pods that hold each host port.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias
from weakref import ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.host_ports import HostPort
from scheduler.kernel.snapshot.label_columns import Topology

WILDCARD_IP: Final = "0.0.0.0"  # noqa: S104 - the API's word for "every address"

_DENSE_FRACTION: Final = 32
"""An array takes less memory once one row in this many has a count."""
_SPARSE_FRACTION: Final = 128
"""The array becomes a dictionary again once no more than one row in this many has a count."""
_MIN_DENSE_ROWS: Final = 16
_MAX_SPARSE_ROWS: Final = 4
_BASE_BYTES: Final = 256
_BYTES_PER_ENTRY: Final = 100
_MAX_SUMS: Final = 2
"""Topologies with sums kept up to date: most callers sum by zone, or by zone and node name."""


class _Sums(msgspec.Struct, eq=False):
    """The counts by domain of one topology, kept up to date while the topology exists."""

    topology: ref[Topology]
    by_domain: NDArray[np.float64]

    def add(self, row: int, amount: float) -> None:
        """Add a change of a row's count."""
        topology = self.topology()
        if topology is None or row >= len(topology.ids):
            return
        if topology.eligible is None or topology.eligible[row]:
            self.by_domain[topology.ids[row]] += amount


class RowCounts:
    """Counts by row; all rows start at 0.

    Attributes:
        total: the sum over all rows.
    """

    __slots__ = ("_dense", "_dense_rows", "_sparse", "_sums", "total")

    def __init__(self) -> None:
        # Integers: Python shares small ones, and there may be as many of these as pods.
        self._sparse: dict[int, int] = {}
        self._dense: NDArray[np.float64] | None = None
        self._dense_rows = 0
        self._sums: tuple[_Sums, ...] = ()
        self.total = 0

    def add(self, row: int, amount: int, capacity: int) -> None:
        """Add to the count of a row; `capacity` is the current number of rows of the table."""
        self.total += amount
        for sums in self._sums:
            sums.add(row, amount)
        if self._dense is not None:
            self._add_dense(self._dense, row, amount, capacity)
            return
        sparse = self._sparse
        count = sparse.get(row, 0) + amount
        if count:
            sparse[row] = count
            if len(sparse) > max(_MIN_DENSE_ROWS, capacity // _DENSE_FRACTION):
                self._densify(capacity)
        else:
            sparse.pop(row, None)

    def column(self, size: int) -> NDArray[np.float64]:
        """The counts of the first `size` rows. Read-only."""
        dense = self._dense
        if dense is not None:
            if len(dense) < size:
                dense = self._resize(size)
            return dense[:size]
        column = np.zeros(size)
        if self._sparse:
            rows, counts = self._pairs()
            column[rows] = counts
        return column

    def copy(self) -> "RowCounts":
        """An independent copy."""
        copy = RowCounts()
        copy.total = self.total
        copy._sparse = self._sparse.copy()
        copy._dense = None if self._dense is None else self._dense.copy()
        copy._dense_rows = self._dense_rows
        return copy

    @classmethod
    def sum_of(cls, parts: Iterable["RowCounts"], capacity: int) -> "RowCounts":
        """Sum counts up by row."""
        column = np.zeros(capacity)
        for part in parts:
            part.add_to(column)
        return cls.of_column(column)

    @classmethod
    def of_column(cls, column: NDArray[np.float64]) -> "RowCounts":
        """Make counts from a column with one number for each row of the capacity."""
        counts = cls()
        held = np.flatnonzero(column)
        counts.total = int(column.sum())
        counts._sparse = _by_row(held, column[held])
        if len(held) > max(_MIN_DENSE_ROWS, len(column) // _DENSE_FRACTION):
            counts._densify(len(column))
        return counts

    def add_to(self, column: NDArray[np.float64]) -> None:
        """Add the counts to an array."""
        if self._dense is not None:
            column[: len(self._dense)] += self._dense
        for row, count in self._sparse.items():
            column[row] += count

    def at(self, row: int) -> float:
        """The count of one row."""
        if self._dense is not None:
            return float(self._dense[row]) if row < len(self._dense) else 0.0
        return self._sparse.get(row, 0)

    def rows(self) -> NDArray[np.intp]:
        """The rows whose count is not 0."""
        if self._dense is not None:
            return np.flatnonzero(self._dense)
        return self._pairs()[0]

    def by_domain(self, topology: Topology) -> NDArray[np.float64]:
        """The counts of eligible rows summed by domain. The caller owns the array.

        The sums are kept up to date from then on, where they take no more memory than the counts.

        Cost: O(rows with counts) the first time, then O(domains).
        """
        if not self._sparse and self._dense is None:
            return np.zeros(topology.count)
        for known in self._sums:
            if known.topology() is topology:
                return known.by_domain.copy()
        found = self._summed(topology)
        if found.nbytes <= self._own_bytes:
            kept = [sums for sums in self._sums if sums.topology() is not None]
            self._sums = (*kept[1 - _MAX_SUMS :], _Sums(ref(topology), found.copy()))
        return found

    @property
    def size_bytes(self) -> int:
        """The approximate memory of the counts and their sums."""
        return self._own_bytes + sum(sums.by_domain.nbytes for sums in self._sums)

    @property
    def is_empty(self) -> bool:
        """Whether every row counts 0."""
        return not self._sparse and not self._dense_rows

    @property
    def _own_bytes(self) -> int:
        dense = 0 if self._dense is None else self._dense.nbytes
        return _BASE_BYTES + dense + _BYTES_PER_ENTRY * len(self._sparse)

    def _summed(self, topology: Topology) -> NDArray[np.float64]:
        ids, eligible = topology.ids, topology.eligible
        if self._dense is not None:
            weights = self.column(len(ids))
            if eligible is not None:
                weights = weights * eligible
        else:
            rows, weights = self._pairs()
            if eligible is not None:
                weights = weights * eligible[rows]
            ids = ids[rows]
        sums = np.bincount(ids, weights=weights, minlength=topology.count)
        return sums.astype(np.float64, copy=False)

    def _add_dense(
        self, dense: NDArray[np.float64], row: int, amount: float, capacity: int
    ) -> None:
        if row >= len(dense):
            dense = self._resize(capacity)
        before = float(dense[row])
        now = dense[row] = before + amount
        if not before:
            self._dense_rows += 1
        if not now:
            self._dense_rows -= 1
            if self._dense_rows <= max(_MAX_SPARSE_ROWS, len(dense) // _SPARSE_FRACTION):
                self._sparsify()

    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        n = len(self._sparse)
        return (
            np.fromiter(self._sparse.keys(), np.intp, n),
            np.fromiter(self._sparse.values(), np.float64, n),
        )

    def _resize(self, capacity: int) -> NDArray[np.float64]:
        old = self._dense
        new = np.zeros(capacity)
        if old is not None:
            new[: len(old)] = old
        self._dense = new
        return new

    def _densify(self, capacity: int) -> None:
        dense = np.zeros(max(capacity, max(self._sparse) + 1))
        rows, counts = self._pairs()
        dense[rows] = counts
        self._dense = dense
        self._dense_rows = len(rows)
        self._sparse = {}

    def _sparsify(self) -> None:
        rows = self.rows()
        counts = self.column(int(rows[-1]) + 1 if len(rows) else 0)[rows]
        self._sparse = _by_row(rows, counts)
        self._dense = None
        self._dense_rows = 0


def _by_row(rows: NDArray[np.intp], counts: NDArray[np.float64]) -> dict[int, int]:
    return dict(zip(rows.tolist(), counts.astype(np.intp).tolist(), strict=True))


_PortKey: TypeAlias = tuple[str, int]
_ByAddress: TypeAlias = dict[str, RowCounts]


class PortCounts:
    """Pods per node for every host port in use."""

    def __init__(self) -> None:
        self._by_port: dict[_PortKey, _ByAddress] = {}

    def change(self, row: int, ports: Sequence[HostPort], sign: int, capacity: int) -> None:
        """Add the ports of a pod to the counts (`sign` 1) or remove them (-1)."""
        for port in ports:
            by_address = self._by_port.setdefault((port.protocol, port.port), {})
            counts = by_address.setdefault(port.host_ip, RowCounts())
            counts.add(row, sign, capacity)
            if not counts.total:
                del by_address[port.host_ip]
                if not by_address:
                    del self._by_port[port.protocol, port.port]

    def conflicts(self, port: HostPort, size: int) -> NDArray[np.float64] | None:
        """Number of pods on each row that hold the port; None when it is free everywhere.

        Two addresses conflict when they are equal or one of them is the wildcard.
        Source: k8s.io/kube-scheduler framework/types.go HostPortInfo.CheckConflict.
        """
        holders: NDArray[np.float64] | None = None
        for ip, counts in self._by_port.get((port.protocol, port.port), {}).items():
            if WILDCARD_IP in (ip, port.host_ip) or ip == port.host_ip:
                column = counts.column(size)
                holders = column if holders is None else holders + column
        return holders

    def at(self, row: int) -> dict[HostPort, int]:
        """Number of pods on a row that hold each port."""
        return {
            HostPort(ip, protocol, number): int(counts.at(row))
            for (protocol, number), by_address in self._by_port.items()
            for ip, counts in by_address.items()
            if counts.at(row)
        }

    def copy(self) -> "PortCounts":
        """An independent copy."""
        return self.fork(self._by_port)

    def fork(self, ports: Iterable[_PortKey]) -> "PortCounts":
        """A copy in which only the counts of these ports may change; it shares all others."""
        copy = PortCounts()
        copy._by_port = self._by_port.copy()
        for key in ports:
            by_address = self._by_port.get(key, {})
            copy._by_port[key] = {ip: counts.copy() for ip, counts in by_address.items()}
        return copy
