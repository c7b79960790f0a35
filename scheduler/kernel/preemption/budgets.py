"""PodDisruptionBudgets: the evictions they allow, and those that violate them.

Source: kubernetes pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go
filterPodsWithPDBViolation (v1.36).
Differs: the work of one decision is bounded. A pod that more than eight budgets select counts as
violating one. So does a pod whose budgets are not found yet, which happens with very many budgets.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from scheduler.api.disruption_budgets import DisruptionBudget
from scheduler.api.pods import PodInfo, PodKind
from scheduler.kernel.preemption.importance import PodsAt, RankedPods, stable_order
from scheduler.kernel.snapshot import Indices
from scheduler.kernel.snapshot.pod_kinds import OtherPods
from scheduler.kernel.snapshot.pod_selectors import PodSelector, SelectorIndex

MAX_BUDGETS: Final = 8
"""The most budgets that may select one pod; eviction through the API allows one."""
MAX_COMPARED: Final = 200_000
"""The most labels that a decision compares with requirements: 60 ms; the next compares more."""
MAX_FILED: Final = 5_000
"""The most selectors of new budgets that a decision indexes: 40 ms; the next indexes more."""
_KIND_COST: Final = 16
"""Fixed cost of a search for the budgets of a kind, in comparisons."""


class _Filed:
    """A budget in the index of selectors.

    Attributes:
        pods: the selector of these pods.
        budget: its newest version.
        number: its position among all budgets.
    """

    __slots__ = ("budget", "number", "pods")

    def __init__(self, budget: DisruptionBudget) -> None:
        self.pods = PodSelector(frozenset((budget.namespace,)), budget.selector)
        self.budget = budget
        self.number = 0


_Found: TypeAlias = tuple[_Filed, ...] | None
"""The budgets that select a pod; None if there are too many."""


class Budgets:
    """All budgets of a cluster; finds those that select a pod once per kind.

    A result is valid until the selector of a budget of the namespace changes; a change of status
    does not matter.
    """

    def __init__(self) -> None:
        self._budgets: list[DisruptionBudget] = []
        self._filed: dict[tuple[str, str], _Filed] = {}
        self._index: SelectorIndex[_Filed] = SelectorIndex()
        self._in_namespace: Counter[str] = Counter()
        self._found: WeakKeyDictionary[PodKind, _Found] = WeakKeyDictionary()
        self._behind: set[str] = set()
        """Namespaces with budgets that are not indexed yet."""

    def refresh(self, budgets: Iterable[DisruptionBudget]) -> None:  # noqa: C901, PLR0912 - one pass that adds, changes and drops
        """Update the index to the current budgets.

        Cost: O(budgets) comparisons by identity, and O(changed budgets) once any has changed.
        """
        current = list(budgets)
        is_same = len(current) == len(self._budgets) and all(map(_is_same, current, self._budgets))
        if is_same and not self._behind:
            return
        self._behind.clear()
        turns = MAX_FILED
        self._budgets = current
        before, self._filed = self._filed, {}
        changed = set()
        for number, budget in enumerate(current):
            if budget.selector.nothing or budget.selector.is_everything:
                continue
            key = (budget.namespace, budget.metadata.name)
            filed = before.pop(key, None)
            if filed is None or not _selects_alike(filed.budget, budget):
                changed.add(budget.namespace)
                if filed is not None:
                    self._take_out(filed)
                if not turns:
                    self._behind.add(budget.namespace)
                    continue
                turns -= 1
                filed = self._file(budget)
            filed.budget, filed.number = budget, number
            self._filed[key] = filed
        for filed in before.values():
            changed.add(filed.budget.namespace)
            self._take_out(filed)
        if changed:
            for kind in [kind for kind in self._found if kind.namespace in changed]:
                del self._found[kind]

    def _file(self, budget: DisruptionBudget) -> _Filed:
        filed = _Filed(budget)
        self._index.add(filed)
        self._in_namespace[budget.namespace] += 1
        return filed

    def _take_out(self, filed: _Filed) -> None:
        namespace = filed.budget.namespace
        self._index.discard(filed)
        self._in_namespace[namespace] -= 1
        if not self._in_namespace[namespace]:
            del self._in_namespace[namespace]

    def violating(self, pods: RankedPods, others: OtherPods, places: Indices) -> NDArray[np.bool_]:
        """A mask of the evictions for which a budget has nothing left, if all pods were evicted.

        Budgets are spent per node, on its pods in the order given. A pod spends from every budget
        that selects it, also when one of them has nothing left.

        Args:
            pods: the pods.
            others: their kinds.
            places: the position of each pod's kind among `others`.
        """
        found = self._speaking_of(others)
        violates = np.array([each is None for each in found], np.bool_)[places]
        allowed = np.array([b.disruptions_allowed for b in self._budgets], np.int64)
        # A budget that allows as many evictions as pods may leave one node cannot run out.
        scarce = allowed < len(pods.widths)
        numbers = [[each.number for each in of or () if scarce[each.number]] for of in found]
        counts = np.array([len(each) for each in numbers], np.intp)
        if not counts.any():
            return violates
        flat = np.array([number for each in numbers for number in each], np.intp)
        spends = counts[places]
        # One pair per pod and budget that selects it.
        pod = np.repeat(np.arange(len(pods)), spends)
        within = np.arange(len(pod)) - np.repeat(np.cumsum(spends) - spends, spends)
        budget = flat[(np.cumsum(counts) - counts)[places][pod] + within]
        pod, budget = self._spent(pods, pod, budget)
        order = stable_order(pods.at[pod])
        order = order[stable_order(budget[order])]
        pod, budget = pod[order], budget[order]
        # The pairs of a budget and a node are adjacent now, in order of importance.
        at = pods.at[pod]
        starts = np.flatnonzero((np.diff(budget, prepend=-1) != 0) | (np.diff(at, prepend=-1) != 0))
        nth = np.arange(len(pod)) - np.repeat(starts, np.diff(np.append(starts, len(pod))))
        violates[pod[nth >= allowed[budget]]] = True
        return violates

    def violating_together(
        self, pods: PodsAt, others: OtherPods, places: Indices, units: Indices
    ) -> NDArray[np.bool_]:
        """A mask of the units for which a budget has nothing left, if they left in the order given.

        A unit violates a budget when any of its pods does; the rest of it then spends nothing.
        Budgets are spent cluster-wide, and a pod that finds one spent takes from no other.

        Args:
            pods: the pods, unit by unit.
            others: their kinds.
            places: the position of each pod's kind among `others`.
            units: the number of each pod's unit.

        Source: pkg/scheduler/framework/preemption/preemption.go (filterVictimsWithPDBViolation).
        """
        found = self._speaking_of(others)
        violates = np.zeros(int(units[-1]) + 1 if len(units) else 0, np.bool_)
        concerned = np.flatnonzero(np.array([each != () for each in found], np.bool_)[places])
        left = [budget.disruptions_allowed for budget in self._budgets]
        for at, pod in zip(concerned.tolist(), pods.pods(concerned), strict=True):
            unit = units[at]
            if not violates[unit]:
                violates[unit] = self._spend(pod, found[places[at]], left)
        return violates

    def _spend(self, pod: PodInfo, found: _Found, left: list[int]) -> bool:
        """Take one eviction from each budget of a pod; return whether one had nothing left."""
        for filed in () if found is None else sorted(found, key=lambda filed: filed.number):
            if pod.name not in self._budgets[filed.number].disrupted_pods:
                left[filed.number] -= 1
                if left[filed.number] < 0:
                    return True
        return found is None

    def _spent(self, pods: RankedPods, pod: Indices, budget: Indices) -> tuple[Indices, Indices]:
        """The pairs that take from a budget; the API server has already counted disruptedPods."""
        budgets = self._budgets
        names = frozenset().union(*(b.disrupted_pods for b in budgets if b.disrupted_pods))
        if not names:
            return pod, budget
        disrupts = np.array([bool(b.disrupted_pods) for b in budgets], np.bool_)
        maybe = np.flatnonzero(disrupts[budget])
        free = [
            place
            for place, number, each in zip(
                maybe.tolist(), budget[maybe].tolist(), pods.pods(pod[maybe]), strict=True
            )
            if each.name in names and each.name in budgets[number].disrupted_pods
        ]
        return np.delete(pod, free), np.delete(budget, free)

    def _speaking_of(self, others: OtherPods) -> list[_Found]:
        """The budgets that select each kind; for some kinds they may not be known yet."""
        kinds = [*others]
        unknown: dict[str, list[PodKind]] = {}
        for kind in kinds:
            namespace = kind.namespace
            is_filed = namespace in self._in_namespace and namespace not in self._behind
            if is_filed and kind not in self._found:
                unknown.setdefault(namespace, []).append(kind)
        for of_namespace in unknown.values():
            # Each namespace gets the same share of comparisons.
            left = MAX_COMPARED // len(unknown)
            for kind in of_namespace:
                left = self._look(kind, left)
                if left <= 0:
                    break
        return [*map(self._known_of, kinds)]

    def _known_of(self, kind: PodKind) -> _Found:
        """The budgets of a kind; None where they are not known or too many."""
        if kind.namespace in self._behind and kind.labels:
            return None
        return self._found.get(kind) if kind.namespace in self._in_namespace else ()

    def _look(self, kind: PodKind, left: int) -> int:
        """Find the budgets of a kind; return how many of the `left` comparisons remain."""
        labels, found = kind.labels, []
        left -= _KIND_COST + len(labels)
        for filed in self._index.candidates(labels, kind.namespace) if labels else ():
            left -= 1 + len(filed.pods.selector.requirements)
            if left <= 0:
                return left
            if filed.budget.selects(labels):
                found.append(filed)
            if len(found) > MAX_BUDGETS:
                break
        self._found[kind] = tuple(found) if len(found) <= MAX_BUDGETS else None
        return left


def _is_same(one: object, other: object) -> bool:
    return one is other


def _selects_alike(one: DisruptionBudget, other: DisruptionBudget) -> bool:
    return one is other or one.selector == other.selector
