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


class Tolerations:
    """A list of tolerations, filed so that a taint is looked up and not searched for.

    An empty key or effect tolerates any.
    """

    __slots__ = ("_equal", "_exists")

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._exists: set[tuple[str, str]] = set()
        self._equal: set[tuple[str, str, str]] = set()
        for toleration in tolerations:
            if toleration.operator == "Exists":
                self._exists.add((toleration.key, toleration.effect))
            elif toleration.operator in ("", "Equal"):
                self._equal.add((toleration.key, toleration.effect, toleration.value))

    def tolerate(self, taint: Taint) -> bool:
        """Whether any of the tolerations tolerates the taint."""
        places = [(key, effect) for key in (taint.key, "") for effect in (taint.effect, "")]
        return any(
            place in self._exists or (*place, taint.value) in self._equal for place in places
        )


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any of the tolerations tolerates the taint; of many taints, ask `Tolerations`."""
    return Tolerations(tolerations).tolerate(taint)


def taint_text(taint: Taint) -> str:
    """A taint as kubectl writes it."""
    return f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"
