"""Taints and tolerations.

Source: k8s.io/component-helpers scheduling/corev1/helpers.go, k8s.io/api core/v1 toleration.go
(v0.36).
"""

import re
from collections.abc import Iterable
from typing import Final

from scheduler.api.objects import Taint, Toleration

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"
EFFECTS: Final = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)

UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class Tolerations:
    """A list of tolerations, indexed so that the cost per taint is constant.

    An empty key or effect tolerates any. `compares` is the gate TaintTolerationComparisonOperators:
    without it, tolerations with the operators Lt and Gt tolerate no taint.
    """

    __slots__ = ("_compared", "_equal", "_exists")

    def __init__(self, tolerations: Iterable[Toleration], *, compares: bool = False) -> None:
        self._exists: set[tuple[str, str]] = set()
        self._equal: set[tuple[str, str, str]] = set()
        self._compared: dict[tuple[str, str], list[tuple[bool, int]]] = {}
        for toleration in tolerations:
            if toleration.operator == "Exists":
                self._exists.add((toleration.key, toleration.effect))
            elif toleration.operator in ("", "Equal"):
                self._equal.add((toleration.key, toleration.effect, toleration.value))
            elif compares and toleration.operator in ("Lt", "Gt"):
                bound = _whole_number(toleration.value)
                if bound is not None:
                    place = toleration.key, toleration.effect
                    is_upper = toleration.operator == "Lt"
                    self._compared.setdefault(place, []).append((is_upper, bound))

    def tolerate(self, taint: Taint) -> bool:
        """Whether any of the tolerations tolerates the taint."""
        places = [(key, effect) for key in (taint.key, "") for effect in (taint.effect, "")]
        if any(place in self._exists or (*place, taint.value) in self._equal for place in places):
            return True
        number = _whole_number(taint.value) if self._compared else None
        return number is not None and any(
            number < bound if is_upper else number > bound
            for place in places
            for is_upper, bound in self._compared.get(place, ())
        )


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any of the tolerations tolerates the taint; for many taints, use `Tolerations`."""
    return Tolerations(tolerations).tolerate(taint)


def taint_text(taint: Taint) -> str:
    """A taint as kubectl writes it."""
    return f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"


_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
"""Source: k8s.io/apimachinery pkg/api/validate/content (IsDecimalInteger) v0.36."""

_INT64: Final = range(-(2**63), 2**63)


def _whole_number(text: str) -> int | None:
    """The number that a value is, or None: only the shortest form of an int64 counts."""
    if _DECIMAL.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in _INT64 else None
