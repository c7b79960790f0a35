"""Required (anti-)affinity: matching pods by domain, and the effect of adding or removing pods.

Source: kubernetes pkg/scheduler/framework/plugins/interpodaffinity/filtering.go (v1.36)
preFilterState, updateWithPod, satisfyPodAffinity.
"""

from collections import Counter
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.pods import PodInfo, PodKind
from scheduler.kernel.framework.counting import Counting
from scheduler.kernel.framework.interface import Bits
from scheduler.kernel.plugins.own_affinity_terms import OwnTerms, speaks_of
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.label_columns import ABSENT
from scheduler.kernel.snapshot.pod_kinds import OtherPods
from scheduler.kernel.snapshot.pod_selectors import pod_selector_of

AFFINITY: Final = np.uint64(1)
ANTI_AFFINITY: Final = np.uint64(2)
EXISTING_ANTI_AFFINITY: Final = np.uint64(4)

Sums: TypeAlias = dict[str, NDArray[np.float64]]
"""By topology key, a sum by domain; 0 for nodes that lack the key."""

_Counter: TypeAlias = tuple[np.uint64, str]
"""The key of a counter: a reason, and the topology key under which pods or terms count."""

_NO_REASON: Final = np.uint64(0)

U = TypeVar("U", np.uint8, np.uint64)


class RequiredState:
    """Matching pods by domain, for the required terms.

    Attributes:
        own: the terms of the incoming pod.
        near: by key, the pods that satisfy all its affinity terms.
        away: by key, the pods that its anti-affinity terms select.
        existing: by key, the anti-affinity terms of running pods that select it.
    """

    __slots__ = ("away", "existing", "near", "own")

    def __init__(self, own: OwnTerms, near: Sums, away: Sums, existing: Sums) -> None:
        self.own = own
        self.near = near
        self.away = away
        self.existing = existing


class Company(Counting):
    """Counts the pods that the pod's terms select, and the terms that select the pod."""

    def __init__(
        self,
        required: RequiredState,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: NDArray[np.intp],
        others: OtherPods,
    ) -> None:
        own = required.own
        namespaces = snapshot.namespaces
        self._is_own_kind = own.near is not None and speaks_of(own.near, pod, namespaces)
        self._places = sum(int(np.count_nonzero(sums)) for sums in required.near.values())
        by_reason = {
            AFFINITY: required.near,
            ANTI_AFFINITY: required.away,
            EXISTING_ANTI_AFFINITY: required.existing,
        }
        weights = [_weights_of(other, own, pod, snapshot) for other in others]
        self._counters: list[_Counter] = list(
            dict.fromkeys(
                (
                    *((AFFINITY, key) for key in own.affinity_keys),
                    *((reason, key) for reason, sums in by_reason.items() for key in sums),
                    *(counter for counts in weights for counter in counts),
                )
            )
        )
        self._ids = [snapshot.topology(key).ids[rows] for _, key in self._counters]
        self._held = [
            by_reason[reason][key][ids] if key in by_reason[reason] else np.zeros(len(rows))
            for (reason, key), ids in zip(self._counters, self._ids, strict=True)
        ]
        self.weights = np.array(
            [[counts[counter] for counts in weights] for counter in self._counters], np.float64
        ).reshape(len(self._counters), len(others))

    @override
    def judge(self, at: Rows, changes: NDArray[np.float64]) -> Bits | None:
        count = changes.shape[1]
        found = np.zeros(count, np.uint64)
        affinity: list[tuple[NDArray[np.bool_], NDArray[np.float64]]] = []
        places = np.full(count, self._places)
        for i, (reason, _) in enumerate(self._counters):
            has_key = self._ids[i][at] != ABSENT
            before = self._held[i][at]
            now = before + changes[i] * has_key
            if reason == AFFINITY:
                places += (now != 0).astype(np.intp) - (before != 0)
                affinity.append((has_key, now))
            else:
                found |= np.where(has_key & (now > 0), reason, _NO_REASON)
        # While no pod satisfies the terms, a pod that satisfies its own terms fits.
        is_first = (places == 0) & self._is_own_kind
        for has_key, now in affinity:
            is_met = has_key & (is_first | (now > 0))
            found |= np.where(is_met, _NO_REASON, AFFINITY)
        return first_reason(found) if found.any() else None


def first_reason(bits: NDArray[U]) -> NDArray[U]:
    """The first reason of each set, which is its lowest bit."""
    lowest: NDArray[U] = bits & np.negative(bits)
    return lowest


def _weights_of(
    other: PodKind, own: OwnTerms, pod: PodInfo, snapshot: Snapshot
) -> Counter[_Counter]:
    """The amounts that another pod of a kind adds to each counter."""
    namespaces = snapshot.namespaces
    counts: Counter[_Counter] = Counter()
    if own.near is not None and speaks_of(own.near, other, namespaces):
        counts.update({(AFFINITY, key): 1 for key in own.affinity_keys})
    for term in own.away:
        if speaks_of(term.pods, other, namespaces):
            counts[ANTI_AFFINITY, term.topology_key] += 1
    affinity = other.shape.affinity
    for theirs in () if affinity is None else affinity.required_anti:
        if speaks_of(pod_selector_of(theirs, other.namespace), pod, namespaces):
            counts[EXISTING_ANTI_AFFINITY, theirs.topology_key] += 1
    return counts
