"""What budgets say about evictions, and what it costs to find that out."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import pytest
from typing_extensions import override

from scheduler.api.disruption_budgets import (
    DisruptionBudget,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    disruption_budget,
)
from scheduler.api.objects import LabelSelector, LabelSelectorRequirement, ObjectMeta
from scheduler.api.pods import PodInfo
from scheduler.kernel.preemption.budgets import MAX_BUDGETS, MAX_COMPARED, MAX_FILED, Budgets
from scheduler.kernel.preemption.importance import Importance
from scheduler.kernel.snapshot.pod_kinds import OtherPods, kinds_used
from tests.support.builders import make_node, make_pod_info
from tests.unit.preemption.naive import placed

compared: list[str] = []
"""The budget of each comparison with the labels of a pod."""


class Counted(DisruptionBudget, frozen=True):
    """Keeps a record of comparisons."""

    @override
    def selects(self, labels: dict[str, str]) -> bool:
        compared.append(self.metadata.name)
        return super().selects(labels)


@pytest.fixture(autouse=True)
def _nothing_compared() -> None:
    compared.clear()


def budget(
    name: str,
    selector: LabelSelector | None = None,
    *,
    allowed: int = 0,
    namespace: str = "default",
) -> DisruptionBudget:
    """A budget of the pods of an app of its name, or of others."""
    made = disruption_budget(
        PodDisruptionBudget(
            ObjectMeta(name, namespace),
            PodDisruptionBudgetSpec(selector or LabelSelector({"app": name})),
            PodDisruptionBudgetStatus(allowed, {}),
        )
    )
    return Counted(made.metadata, made.selector, allowed, made.disrupted_pods)


def app(name: str, *, namespace: str = "default", label: str = "app") -> PodInfo:
    """A pod that runs."""
    return make_pod_info(f"{name}-0", namespace=namespace, labels={label: name}, node_name="n")


def lacks(key: str) -> LabelSelector:
    """All pods without a label: such a budget is not found by any label."""
    requirement = LabelSelectorRequirement(key, "DoesNotExist")
    return LabelSelector(match_expressions=(requirement,))


class Evictions:
    """All pods of a node are evicted, again and again."""

    def __init__(self, pods: Sequence[PodInfo]) -> None:
        _, self._snapshot = placed([make_node("n")], pods)
        self.budgets = Budgets()

    def violating(self, budgets: Iterable[DisruptionBudget]) -> set[str]:
        """The names of those that leave against a budget."""
        self.budgets.refresh(budgets)
        pods = Importance().ranked(self._snapshot, np.array([0]))
        numbers, places = kinds_used(pods.kinds)
        others = OtherPods(self._snapshot.kinds, numbers)
        violates = self.budgets.violating(pods, others, places)
        return {pod.name for pod in pods.pods(np.flatnonzero(violates))}


def test_a_changed_status_compares_nothing_again() -> None:
    """It counts all the same."""
    evictions = Evictions([app(f"a{i}") for i in range(5)])
    budgets = [budget(f"a{i}") for i in range(5)]
    before = evictions.violating(budgets)
    compared.clear()

    budgets[3] = msgspec.structs.replace(budgets[3], disruptions_allowed=1)
    after = evictions.violating(budgets)

    assert (before - after, after - before) == ({"a3-0"}, set())
    assert compared == []


def test_a_budget_is_compared_with_pods_that_have_its_label() -> None:
    """An ordinary namespace, with a budget for each of its apps, costs as much as it has apps."""
    evictions = Evictions([app(f"a{i}") for i in range(100)])

    violating = evictions.violating(budget(f"a{i}", allowed=i % 2) for i in range(100))

    assert violating == {f"a{i}-0" for i in range(0, 100, 2)}
    assert len(compared) == 100


def test_a_changed_selector_concerns_its_namespace() -> None:
    """New and removed budgets, too; what was found in others stands."""
    pods = [app("a"), app("b"), app("a", namespace="other"), app("b", namespace="other")]
    evictions = Evictions(pods)
    ours, theirs = budget("a"), budget("a", namespace="other")
    assert evictions.violating([ours, theirs]) == {"a-0"}
    compared.clear()

    changed = budget("a", LabelSelector({"app": "b"}))
    found = [
        evictions.violating(budgets)
        for budgets in ([changed, theirs], [changed, theirs, budget("more")], [theirs], [])
    ]

    assert found == [{"b-0", "a-0"}, {"b-0", "a-0"}, {"a-0"}, set()]
    assert set(compared) <= {"a", "more"}
    assert len(compared) == 2


def test_a_pod_of_very_many_budgets_leaves_against_one() -> None:
    """However much these allow; so pairs of pods and budgets are bounded."""
    evictions = Evictions([app("a")])
    many = [budget(f"b{i}", LabelSelector({"app": "a"}), allowed=9) for i in range(MAX_BUDGETS + 1)]

    assert evictions.violating(many[:-1]) == set()
    assert evictions.violating(many) == {"a-0"}
    assert evictions.violating(many[1:]) == set()


def test_what_one_decision_compares_is_bounded() -> None:
    """Pods whose budgets are not known yet leave against one; no namespace delays another."""
    hostile = [app(f"h{i}", namespace="hostile") for i in range(400)]
    evictions = Evictions([*hostile, app("a"), app("b")])
    budgets = [
        *(budget(f"h{i}", lacks("app"), namespace="hostile") for i in range(600)),
        budget("a"),
        budget("b", allowed=1),
    ]

    first = evictions.violating(budgets)
    at_first = len(compared)
    decisions = 1
    while evictions.violating(budgets) != {"a-0"}:
        decisions += 1

    assert {"a-0", "h399-0"} <= first
    assert "b-0" not in first
    assert at_first <= MAX_COMPARED // 2
    assert decisions < 10
    assert len(compared) <= 400 * 600 + decisions * 600 + 2


def test_so_many_new_budgets_are_filed_in_a_decision() -> None:
    """Pods of a namespace that is behind leave against one; the next decision goes on."""
    pods = [app("a"), app("b"), app("a", namespace="other")]
    evictions = Evictions([*pods, make_pod_info("plain", namespace="third", node_name="n")])
    budgets = [
        budget("of-others", LabelSelector({"app": "b"}), namespace="other"),
        *(budget(f"b{i}", allowed=1) for i in range(MAX_FILED)),
    ]

    first, second = evictions.violating(budgets), evictions.violating(budgets)

    assert first == {"a-0", "b-0"}
    assert second == set()
