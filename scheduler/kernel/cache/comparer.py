"""Compares the cache and the queue with the objects of the informers.

Source: kubernetes pkg/scheduler/backend/cache/debugger (CacheComparer, CacheDumper) v1.36.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from scheduler.api.nodes import occupied_by
from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.kernel.cache.cache import Cache
from scheduler.kernel.cache.states import PodState
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.term_counts import term_keys_of
from scheduler.observability.dumps import REST, Entries

K = TypeVar("K")

_AT_ONCE: Final = 1000
"""Objects that are compared before other work may run: about a millisecond."""


class CacheComparison(msgspec.Struct, frozen=True):
    """The differences; all empty if cache and API server agree.

    Attributes:
        missed_nodes: nodes in the API server, but not in the cache.
        redundant_nodes: nodes in the cache, but not in the API server.
        missed_pods: pods neither in the cache nor in the queue.
        redundant_pods: pods in the cache, but not in the API server.
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
    """The errors in the sums of some rows.

    Attributes:
        wrong: the errors as text.
        next_row: the row at which to go on; 0 once all rows have been compared.
    """

    wrong: tuple[str, ...]
    next_row: int


class CacheComparer:
    """Compares and dumps on demand (SIGUSR2, /debug/cache).

    Each object is compared with its state at one moment, so the cluster may change while others
    are compared.
    """

    def __init__(
        self,
        cache: Cache,
        nodes: Mapping[str, Node],
        pods: Mapping[str, PodInfo],
        *,
        is_wanted: Callable[[PodInfo], bool],
        is_queued: Callable[[str], bool],
    ) -> None:
        """Make a comparer.

        Args:
            cache: the cache to compare with the API server.
            nodes: the nodes of the API server, by name.
            pods: the pods of the API server, by `namespace/name`.
            is_wanted: returns whether a pod belongs into cache or queue.
            is_queued: returns whether a pod of this UID waits, or is in flight.
        """
        self._cache = cache
        self._nodes = nodes
        self._pods = pods
        self._is_wanted = is_wanted
        self._is_queued = is_queued

    def compare(self) -> CacheComparison:
        """Compare all objects in one step."""
        found = {
            what: tuple(sorted(name for name in names if isinstance(name, str)))
            for what, names in self.differences().items()
        }
        return CacheComparison(**found)

    def differences(self) -> dict[str, Iterator[object]]:
        """The differences by field of `CacheComparison`, in steps: names, with `REST` between."""
        return {
            "missed_nodes": _found(self._nodes, self._missed_node),
            "redundant_nodes": _found(self._cache.nodes, self._redundant_node),
            "missed_pods": _found(self._pods, self._missed_pod),
            "redundant_pods": _found(self._cache.pods, self._redundant_pod),
        }

    def dump(self) -> Mapping[str, object]:
        """The cache for people and for JSON; see `scheduler.observability.dumps`."""
        return {
            "nodes": Entries(self.nodes()),
            "assumedPods": len(self._cache.assumed_pods()),
            "comparison": self.differences(),
        }

    def nodes(self) -> Iterator[tuple[str, object]]:
        """Each node for people, by name."""
        nodes = self._cache.nodes
        for name in sorted(nodes):
            info = nodes.get(name)
            if info is None:
                continue  # gone while others were written
            state_of = self._cache.state_of
            pods = {pod.key: state_of(uid).value for uid, pod in info.pods.items()}
            shown: dict[str, object] = {"ghost": info.node is None, "pods": pods}
            assumed = [pod for uid, pod in info.pods.items() if state_of(uid) is PodState.ASSUMED]
            if assumed:
                shown["assumed"] = occupied_by(assumed)
            yield name, shown

    def _missed_node(self, name: str) -> str:
        return name if name in self._nodes and not self._cache.has_node(name) else ""

    def _redundant_node(self, name: str) -> str:
        return name if name not in self._nodes and self._cache.has_node(name) else ""

    def _missed_pod(self, key: str) -> str:
        pod = self._pods.get(key)
        if pod is None or not self._is_wanted(pod):
            return ""
        is_known = self._cache.pods.get(pod.uid) is not None or self._is_queued(pod.uid)
        return "" if is_known else pod.uid

    def _redundant_pod(self, uid: str) -> str:
        pod = self._cache.pods.get(uid)
        if pod is None:
            return ""
        there = self._pods.get(pod.key)
        return "" if there is not None and there.uid == uid and self._is_wanted(there) else uid


def _found(keys: Iterable[str], name_of_wrong: Callable[[str], str]) -> Iterator[object]:
    for number, key in enumerate(list(keys)):
        if number % _AT_ONCE == _AT_ONCE - 1:
            yield REST
        if name := name_of_wrong(key):
            yield name


def compare_rows(cache: Cache, snapshot: Snapshot, start: int, count: int) -> RowComparison:
    """Compare the sums of some rows of the snapshot with the pods that the cache has there.

    The snapshot must have applied all changes. Beginning at row 0 and going on at `next_row`
    covers all nodes, a few at a time.
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
            wrong.extend(f"{name}: {text}" for text in _wrong_sums(snapshot, row, pods))
    if end == table.size:
        missing = cache.node_count() - table.count
        end = 0
        if missing:
            wrong.append(f"{missing} nodes have no row")
    return RowComparison(tuple(wrong), end)


def _wrong_sums(snapshot: Snapshot, row: int, pods: Collection[PodInfo]) -> Iterator[str]:
    """Yield the differences between the sums of a row and those of its pods, as text.

    Cost: O(pods, and selectors and terms in use).
    """
    taken, non_zero, count = snapshot.table.sums.of_row(row)
    yield from _differences("requested", taken, _total(pod.shape.occupied for pod in pods))
    counted = {"cpu": non_zero[0], "memory": non_zero[1]}
    defaults = (dict(zip(counted, pod.shape.non_zero_occupied, strict=True)) for pod in pods)
    yield from _differences("requested with defaults", counted, _total(defaults))
    yield from _differences("pods", {"number": count}, {"number": len(pods)})
    ports = _counted(port for pod in pods for port in pod.shape.host_ports)
    yield from _differences("host ports", snapshot.ports.at(row), ports)
    counts = snapshot.selector_counts
    selected, expected = counts.at(row), counts.recounted(pods)
    yield from _differences("pods selected", selected, expected)
    terms = _counted(key for pod in pods for key in term_keys_of(pod))
    yield from _differences("affinity terms", snapshot.term_counts.at(row), terms)


def _total(parts: Iterator[Mapping[str, int]]) -> dict[str, int]:
    # Not a Counter: ticks do this, and making one takes longer than adding up a few pods.
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _counted(keys: Iterator[K]) -> dict[K, int]:
    counts: dict[K, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return counts


def _differences(what: str, have: Mapping[K, int], want: Mapping[K, int]) -> Iterator[str]:
    if have == want:
        return
    for key in have.keys() | want.keys():
        if have.get(key, 0) != want.get(key, 0):
            yield f"{what} ({key}): counted {have.get(key, 0)}, there are {want.get(key, 0)}"
