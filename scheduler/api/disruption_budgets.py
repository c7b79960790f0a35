"""PodDisruptionBudgets: as they decode from the API server, and as preemption reads them.

Source: k8s.io/api policy/v1 types.go (v0.36); kubernetes pkg/scheduler/framework/plugins/
defaultpreemption/default_preemption.go filterPodsWithPDBViolation v1.36.
"""

from collections.abc import Mapping

import msgspec

from scheduler.api.objects import LabelSelector, ObjectMeta
from scheduler.api.selectors import (
    NOTHING,
    Selector,
    SelectorError,
    selector_from_label_selector,
)
from scheduler.api.wire import ApiStruct


class PodDisruptionBudgetSpec(ApiStruct, frozen=True):
    """The selector of the pods that the budget protects."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True):
    """The disruptions that the disruption controller allows at present.

    Attributes:
        disruptions_allowed: evictions that are left.
        disrupted_pods: by name of a pod, the time of an eviction that is counted already.
    """

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str | None] = {}


class PodDisruptionBudget(ApiStruct, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


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
