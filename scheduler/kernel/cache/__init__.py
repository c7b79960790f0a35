"""The nodes and the pods on them, including assumed pods.

The snapshot is updated from the cache. The cache uses no plugins, no queue and no API.
"""

from scheduler.kernel.cache.cache import MANY_CHANGES, Cache, CacheInvariantError, Rebuilt
from scheduler.kernel.cache.comparer import CacheComparer, RowComparison, compare_rows
from scheduler.kernel.cache.states import PodEvent, PodState

__all__ = [
    "MANY_CHANGES",
    "Cache",
    "CacheComparer",
    "CacheInvariantError",
    "PodEvent",
    "PodState",
    "Rebuilt",
    "RowComparison",
    "compare_rows",
]
