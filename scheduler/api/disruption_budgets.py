"""PodDisruptionBudgets as preemption reads them.

Source: k8s.io/api policy/v1 types.go (v0.36); kubernetes pkg/scheduler/framework/plugins/
defaultpreemption/default_preemption.go filterPodsWithPDBViolation v1.36.
"""

from collections.abc import Mapping

import msgspec

from scheduler.api.objects import ObjectMeta, PodDisruptionBudget
from scheduler.api.selectors import (
    NOTHING,
    Selector,
    SelectorError,
    selector_from_label_selector,
)


class DisruptionBudget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget with its selector parsed."""

    metadata: ObjectMeta
    selector: Selector
    disruptions_allowed: int
    disrupted_pods: frozenset[str]

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return self.metadata.namespace

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether the budget protects pods of its namespace with these labels.

        A budget without a selector, or with an empty one, protects none.
        """
        return not self.selector.is_everything and self.selector.matches(labels)


def disruption_budget(budget: PodDisruptionBudget) -> DisruptionBudget:
    """The budget with its selector read; one that cannot be read selects nothing."""
    try:
        selector = selector_from_label_selector(budget.spec.selector)
    except SelectorError:
        selector = NOTHING
    return DisruptionBudget(
        budget.metadata,
        selector,
        budget.status.disruptions_allowed,
        frozenset(budget.status.disrupted_pods),
    )
