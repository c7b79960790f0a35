"""Holds the cache and the queue against what the informers know.

Source: kubernetes pkg/scheduler/backend/cache/debugger (CacheComparer, CacheDumper) v1.36.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.cache.cache import Cache
from scheduler.observability.dumps import Entries
from scheduler.snapshot import Snapshot
from scheduler.snapshot.recount import wrong_sums


class Comparison(msgspec.Struct, frozen=True):
    """What differs; everything empty means that cache and API server agree.

    Attributes:
        missed_nodes: the API server has them, the cache does not.
        redundant_nodes: the other way round.
        missed_pods: pods neither in the cache nor in the queue.
        redundant_pods: pods in the cache that the API server does not know.
    """

    missed_nodes: tuple[str, ...]
    redundant_nodes: tuple[str, ...]
    missed_pods: tuple[str, ...]
    redundant_pods: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return not any(msgspec.structs.astuple(self))


class RowComparison(msgspec.Struct, frozen=True):
    """What is wrong with the sums of some rows.

    Attributes:
        wrong: in words.
        next_row: where to go on; 0 once all rows have been looked at.
    """

    wrong: tuple[str, ...]
    next_row: int


class CacheComparer:
    """Compares and dumps on demand (SIGUSR2, /debug/cache)."""

    def __init__(
        self,
        cache: Cache,
        nodes: Callable[[], Iterable[Node]],
        pods: Callable[[], Iterable[PodInfo]],
        queued_uids: Callable[[], Iterable[str]],
    ) -> None:
        self._cache = cache
        self._nodes = nodes
        self._pods = pods
        self._queued_uids = queued_uids

    def compare(self) -> Comparison:
        """What the cache and queue have too much or too little."""
        want_nodes = {node.metadata.name for node in self._nodes()}
        have_nodes = {name for name, info in self._cache.nodes.items() if info.node is not None}
        want_pods = {pod.uid for pod in self._pods()}
        cached = self._cache.pods()
        known = set(cached) | set(self._queued_uids())
        return Comparison(
            missed_nodes=tuple(sorted(want_nodes - have_nodes)),
            redundant_nodes=tuple(sorted(have_nodes - want_nodes)),
            missed_pods=tuple(sorted(want_pods - known)),
            redundant_pods=tuple(sorted(set(cached) - want_pods)),
        )

    def dump(self) -> Mapping[str, object]:
        """The cache for people and for JSON; see `scheduler.observability.dumps`."""
        return {
            "nodes": Entries(self._nodes_for_people()),
            "assumedPods": self._cache.assumed_pod_count(),
            "comparison": lambda: msgspec.to_builtins(self.compare()),
        }

    def _nodes_for_people(self) -> Iterator[tuple[str, object]]:
        nodes = self._cache.nodes
        for name in sorted(nodes):
            info = nodes.get(name)
            if info is None:
                continue  # gone while others were written
            state_of = self._cache.state_of
            pods = {pod.key: state_of(uid).value for uid, pod in info.pods.items()}
            shown = {"ghost": info.node is None, "pods": pods}
            yield name, shown


def compare_rows(cache: Cache, snapshot: Snapshot, start: int, count: int) -> RowComparison:
    """Hold the sums of some rows of the snapshot against the pods that the cache has there.

    The snapshot must have taken over all changes. Beginning at row 0 and going on at `next_row`
    looks at all nodes, a few at a time.
    """
    table = snapshot.table
    end = min(start + count, table.size)
    wrong: list[str] = []
    for row in range(start, end):
        name = table.names[row]
        info = cache.nodes.get(name)
        if name and (info is None or info.node is None):
            wrong.append(f"{name}: not a node")
        elif info is not None:
            pods = info.pods.values()
            wrong.extend(f"{name}: {text}" for text in wrong_sums(snapshot, row, pods))
    if end == table.size:
        missing = cache.node_count() - table.count
        end = 0
        if missing:
            wrong.append(f"{missing} nodes have no row")
    return RowComparison(tuple(wrong), end)
