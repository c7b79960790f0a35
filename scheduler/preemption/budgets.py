"""How many pods PodDisruptionBudgets allow to be evicted, and which evictions would be too many.

Source: kubernetes pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go
filterPodsWithPDBViolation (v1.36).
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.api.disruption_budgets import DisruptionBudget
from scheduler.api.pods import LabelSet, PodInfo
from scheduler.preemption.importance import Indices, RankedPods, stable_order
from scheduler.snapshot.pod_kinds import OtherPods


class Budgets:
    """All budgets of a cluster; finds those that speak of a pod once per kind of pods."""

    def __init__(self) -> None:
        self._budgets: list[DisruptionBudget] = []
        self._by_namespace: dict[str, list[int]] = {}
        self._found: dict[tuple[str, LabelSet], list[int]] = {}

    def refresh(self, budgets: Iterable[DisruptionBudget]) -> None:
        """Take over what there is now.

        Cost: O(budgets) comparisons by identity while none has changed.
        """
        current = list(budgets)
        if len(current) == len(self._budgets) and all(map(_is_same, current, self._budgets)):
            return
        self._budgets = current
        self._by_namespace.clear()
        self._found.clear()
        for number, budget in enumerate(current):
            self._by_namespace.setdefault(budget.namespace, []).append(number)

    def violating(self, pods: RankedPods, others: OtherPods, places: Indices) -> NDArray[np.bool_]:
        """Which evictions no budget has left, if all these pods were evicted.

        Budgets are spent per node, on its pods in the order given. A pod spends of every budget
        that speaks of it, also when one of them has nothing left.

        Args:
            pods: the pods.
            others: their kinds.
            places: the place of each pod's kind among `others`.
        """
        violates = np.zeros(len(pods), np.bool_)
        allowed = np.array([b.disruptions_allowed for b in self._budgets], np.int64)
        # Of as many as may leave a node no budget runs out that allows so many.
        most = len(pods.widths)
        found = [[n for n in self._speaking_of(pod) if allowed[n] < most] for pod in others]
        counts = np.array([len(numbers) for numbers in found], np.intp)
        if not counts.any():
            return violates
        flat = np.array([number for numbers in found for number in numbers], np.intp)
        spends = counts[places]
        # One pair per pod and budget that speaks of it.
        pod = np.repeat(np.arange(len(pods)), spends)
        within = np.arange(len(pod)) - np.repeat(np.cumsum(spends) - spends, spends)
        budget = flat[(np.cumsum(counts) - counts)[places][pod] + within]
        pod, budget = self._spent(pods, pod, budget)
        order = stable_order(pods.at[pod])
        order = order[stable_order(budget[order])]
        pod, budget = pod[order], budget[order]
        # What is spent of a budget on a node lies together now, in order of importance.
        at = pods.at[pod]
        starts = np.flatnonzero((np.diff(budget, prepend=-1) != 0) | (np.diff(at, prepend=-1) != 0))
        nth = np.arange(len(pod)) - np.repeat(starts, np.diff(np.append(starts, len(pod))))
        violates[pod[nth >= allowed[budget]]] = True
        return violates

    def _spent(self, pods: RankedPods, pod: Indices, budget: Indices) -> tuple[Indices, Indices]:
        """The pairs that cost the budget something: the API server has already counted others."""
        for number, each in enumerate(self._budgets):
            names = each.disrupted_pods
            if names:
                pairs = np.flatnonzero(budget == number)
                free = np.array([o.name in names for o in pods.pods(pod[pairs])], np.bool_)
                pod, budget = np.delete(pod, pairs[free]), np.delete(budget, pairs[free])
        return pod, budget

    def _speaking_of(self, pod: PodInfo) -> Sequence[int]:
        if not pod.labels or pod.namespace not in self._by_namespace:
            return ()
        key = (pod.namespace, pod.label_set)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= _MAX_FOUND:
                self._found.clear()
            found = self._found[key] = [
                number
                for number in self._by_namespace[pod.namespace]
                if self._budgets[number].selects(pod.labels)
            ]
        return found


_MAX_FOUND = 50_000


def _is_same(one: object, other: object) -> bool:
    return one is other
