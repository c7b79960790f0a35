"""Objects for histories with more: resources of all sorts, odd values, arguments of plugins.

They are those of the families about single parts, all in one life.
"""

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.feature import Feature
from tests.parity.generator.histories import make_case_of
from tests.parity.generator.odd import POD_CHANGES
from tests.parity.generator.placement import DeclaredFeatures, NodeAffinity
from tests.parity.generator.resources import Resources
from tests.parity.generator.topology import PodAffinity, Spread

PREEMPTING = 0.4
"""The share of cases whose pods may preempt others."""
MARK = "more"
"""The name of a namespace that only these cases have."""
_LEFT_OUT = (
    "_no_pod_labels",
    "_phase",
    "_odd_ports",
    "_odd_image_names",
    "_odd_gates",
    "_odd_users",
)
_CHANGES: Sequence[Callable[[Draw, Any], None]] = [
    change for change in POD_CHANGES if change.__name__ not in _LEFT_OUT
]


class OddLives(Feature):
    """Pods with what few pods have, and that does not end a life."""

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        if draw.maybe(self.density):
            for change in draw.some(_CHANGES, 1, 2):
                change(draw, pod)


def make_more_history_case(seed: int) -> Object:
    """Make the objects of one seed; the same seed always makes the same objects."""
    preemption = Draw(f"history with more and preemption:{seed}")
    draw = Draw(f"history with more:{seed}")
    features: list[Feature] = [
        Resources(draw.pick((0.1, 0.5)), configured=0.5),
        NodeAffinity(0.1, configured=0.4),
        Spread(0.15, configured=0.4, owned=0.5),
        PodAffinity(0.15, configured=0.5),
        DeclaredFeatures(0.2),
        OddLives(draw.pick((0.0, 0.1, 0.3))),
    ]
    may = preemption.maybe(PREEMPTING)
    more = [*draw.some(features[:-1], 2, 5), features[-1]]
    case = make_case_of(seed, preemption if may else None, more)
    mark = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MARK}}
    return {**case, "objects": [mark, *case["objects"]]}


def has_more(case: Object) -> bool:
    """Whether a case is one of those with more."""
    return any(
        each["kind"] == "Namespace" and each["metadata"]["name"] == MARK for each in case["objects"]
    )
