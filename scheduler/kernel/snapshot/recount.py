"""Whether the sums of a row are those of the pods on it: each is found out pod by pod."""

from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

from scheduler.api.pods import PodInfo
from scheduler.kernel.snapshot.snapshot import Snapshot
from scheduler.kernel.snapshot.term_counts import term_keys_of

K = TypeVar("K")


def wrong_sums(snapshot: Snapshot, row: int, pods: Collection[PodInfo]) -> Iterator[str]:
    """What differs from what these pods come to, in words.

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
