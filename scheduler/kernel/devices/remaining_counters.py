"""The remaining amounts of the counters that a pool's devices share, as numbers for columns.

An entry is computed again when the slices of its pool or their allocations change. Entries of pools
and generations that are gone are dropped.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias

from scheduler.kernel.devices.pools import CounterTable, Pool, PoolId
from scheduler.kernel.snapshot.interning import Interner

NO_COUNTERS: Final = 0
"""The number of the remaining counters of a pool without counters."""

_SPARE_ENTRIES: Final = 64
"""Up to this many outdated entries are kept."""

_Amounts: TypeAlias = tuple[tuple[tuple[str, str], Decimal], ...]


class _Known(NamedTuple):
    """The remaining counters of a generation of a pool.

    Attributes:
        pool: the number of changes of its slices then.
        used: the number of changes of its allocations then.
        number: the number of the amounts.
    """

    pool: int
    used: int
    number: int


class RemainingCounters:
    """The remaining counters of all pools.

    Attributes:
        numbering: number of renumberings.
    """

    def __init__(self) -> None:
        self.numbering = 0
        self._amounts = Interner[_Amounts](((),))
        self._known: dict[tuple[PoolId, int], _Known] = {}
        self._used: dict[PoolId, int] = {}

    def __len__(self) -> int:
        """Size of the largest of the three tables."""
        return max(len(self._known), len(self._used), len(self._amounts))

    def number(
        self,
        pool: Pool,
        generation: int,
        left: Callable[[Pool, int], CounterTable],
    ) -> int:
        """The number of the remaining counters of a pool's generation.

        Args:
            pool: the pool, which has counters.
            generation: the generation of its slices.
            left: computes the amounts.
        """
        key, used = (pool.id, generation), self._used.get(pool.id, 0)
        known = self._known.get(key)
        if known is None or known[:2] != (pool.changes, used):
            amounts = tuple(sorted(left(pool, generation).items()))
            known = self._known[key] = _Known(pool.changes, used, self._amounts.intern(amounts))
        return known.number

    def amounts(self, number: int) -> CounterTable:
        """The amounts with a number; they may be negative."""
        return dict(self._amounts.values[number])

    def note(self, pool_id: PoolId, pools: Mapping[PoolId, Pool]) -> None:
        """Record that allocations of a pool's devices changed; see `forget_gone`."""
        self._used[pool_id] = self._used.get(pool_id, 0) + 1
        self.forget_gone(pools)

    def forget_gone(self, pools: Mapping[PoolId, Pool]) -> None:
        """Drop outdated entries once they are the majority, and renumber the rest.

        Args:
            pools: the existing pools.
        """
        if len(self) <= 2 * max(_SPARE_ENTRIES, len(pools)):
            return
        self._used = {pool_id: used for pool_id, used in self._used.items() if pool_id in pools}
        amounts, self._amounts = self._amounts, Interner[_Amounts](((),))
        self._known = {
            key: known._replace(number=self._amounts.intern(amounts.values[known.number]))
            for key, known in self._known.items()
            if self._is_up_to_date(known, pools.get(key[0]))
        }
        self.numbering += 1

    def _is_up_to_date(self, known: _Known, pool: Pool | None) -> bool:
        return pool is not None and known[:2] == (pool.changes, self._used.get(pool.id, 0))

    def copy(self) -> "RemainingCounters":
        """An independent copy that numbers amounts alike."""
        copy = RemainingCounters()
        copy.numbering, copy._amounts = self.numbering, Interner(self._amounts.values)
        copy._known, copy._used = self._known.copy(), self._used.copy()
        return copy
