"""Taints and tolerations.

Source: k8s.io/component-helpers scheduling/corev1/helpers.go, k8s.io/api core/v1 toleration.go
(v0.36, without the alpha operators Lt and Gt).
"""

from collections.abc import Iterable
from typing import Final

from scheduler.api.objects import Taint, Toleration

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration tolerates the taint; an empty key or effect matches any."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any of the tolerations tolerates the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)
