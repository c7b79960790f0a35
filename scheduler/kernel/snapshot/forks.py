"""Counts of a fork: those of its original, with a few pods added or removed.

The fork reads the counts of the original and copies only those that these pods change. They are
invalid once the original changes.
"""

from collections.abc import Sequence
from typing import TypeAlias

from scheduler.api.pods import PodInfo
from scheduler.kernel.snapshot.label_columns import LabelColumns
from scheduler.kernel.snapshot.pod_selectors import NamespaceLabels, PodSelector
from scheduler.kernel.snapshot.row_counts import RowCounts
from scheduler.kernel.snapshot.selector_counts import SelectorCounts
from scheduler.kernel.snapshot.term_counts import (
    TermClass,
    TermCounts,
    TermKey,
    TermKind,
    term_keys_of,
)

PodChange: TypeAlias = tuple[int, PodInfo, int]
"""A row, and a pod that is added to it (1) or removed (-1)."""


class ForkedSelectorCounts:
    """The `SelectorCounts` of a fork."""

    def __init__(
        self,
        original: "SelectorCounts | ForkedSelectorCounts",
        changes: Sequence[PodChange],
        namespaces: NamespaceLabels,
    ) -> None:
        self._original = original
        self._changes = changes
        self._namespaces = namespaces
        self._counts: dict[PodSelector, RowCounts] = {}

    def counts(self, pods: PodSelector, capacity: int) -> RowCounts:
        """The count per row of the pods a selector matches."""
        found = self._counts.get(pods)
        if found is None:
            found = self._original.counts(pods, capacity)
            matching = [c for c in self._changes if pods.matches(c[1], self._namespaces)]
            if matching:
                found = found.copy()
                for row, _, sign in matching:
                    found.add(row, sign, capacity)
            self._counts[pods] = found
        return found


class ForkedTermCounts:
    """The `TermCounts` of a fork."""

    def __init__(
        self,
        original: "TermCounts | ForkedTermCounts",
        changes: Sequence[PodChange],
        namespaces: NamespaceLabels,
        labels: LabelColumns,
    ) -> None:
        self._original = original
        self._namespaces = namespaces
        self._labels = labels
        self._by_key: dict[TermKey, list[tuple[int, int]]] = {}
        for row, pod, sign in changes:
            for key in term_keys_of(pod):
                self._by_key.setdefault(key, []).append((row, sign))

    def matching(self, kind: TermKind, pod: PodInfo, capacity: int) -> list[TermClass]:
        """The classes of a kind whose terms match the pod."""
        if not self._by_key:
            return self._original.matching(kind, pod, capacity)
        return self.about(kind, pod)

    def about(self, kind: TermKind, pod: PodInfo) -> list[TermClass]:
        """The classes of a kind whose terms match the pod, without sums of classes."""
        found = {cls.key: cls for cls in self._original.about(kind, pod)}
        for key, rows in self._by_key.items():
            key_kind, pods, topology_key, _ = key
            if key_kind is not kind or topology_key not in self._labels:
                continue
            if pods.matches(pod, self._namespaces):
                known = found.get(key)
                changed = TermClass(key, None if known is None else known.counts.copy())
                for row, sign in rows:
                    changed.counts.add(row, sign, row + 1)
                found[key] = changed
        return [cls for cls in found.values() if cls.counts.total]

    def __len__(self) -> int:
        """An upper bound of the number of terms."""
        return len(self._original) + len(self._by_key)
