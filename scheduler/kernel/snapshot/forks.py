"""The pods that are added to a fork, or removed from it, and the counts that they change.

A fork reads the counts of its original and copies only those that these pods change. The copies are
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


class ChangedPods:
    """All pods by which a fork differs from the snapshot that is updated.

    Attributes:
        changes: the pods, in order.
        has_terms: whether any of them has terms that affect other pods.
    """

    def __init__(self, changes: Sequence[PodChange], namespaces: NamespaceLabels) -> None:
        self.changes = changes
        self._namespaces = namespaces
        self._counts: dict[PodSelector, RowCounts] = {}
        self._terms: dict[TermKey, list[tuple[int, int]]] = {}
        for row, pod, sign in changes:
            for key in term_keys_of(pod):
                self._terms.setdefault(key, []).append((row, sign))
        self.has_terms = bool(self._terms)

    def counts(self, pods: PodSelector, original: SelectorCounts, capacity: int) -> RowCounts:
        """The count per row of the pods a selector matches."""
        found = self._counts.get(pods)
        if found is None:
            found = original.counts(pods, capacity)
            matching = [c for c in self.changes if pods.matches(c[1], self._namespaces)]
            if matching:
                found = found.copy()
                for row, _, sign in matching:
                    found.add(row, sign, capacity)
            self._counts[pods] = found
        return found

    def terms_about(
        self, kind: TermKind, pod: PodInfo, original: TermCounts, labels: LabelColumns
    ) -> list[TermClass]:
        """The classes of a kind whose terms match the pod, without sums of classes."""
        found = {cls.key: cls for cls in original.about(kind, pod)}
        for key, rows in self._terms.items():
            key_kind, pods, topology_key, _ = key
            if key_kind is not kind or topology_key not in labels:
                continue
            if pods.matches(pod, self._namespaces):
                known = found.get(key)
                changed = TermClass(key, None if known is None else known.counts.copy())
                for row, sign in rows:
                    changed.counts.add(row, sign, row + 1)
                found[key] = changed
        return [cls for cls in found.values() if cls.counts.total]
