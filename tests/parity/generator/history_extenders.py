"""Objects for histories with extenders that filter, prioritize and review preemptions."""

from typing_extensions import override

from tests.parity.extender import LENIENT, STEADY, STRICT
from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.extenders import PATIENT, VERBS, AskedExtenders, new_extender
from tests.parity.generator.histories import make_case_of
from tests.parity.generator.history_sampling import NODES, with_samples
from tests.parity.generator.resources import EXTENDED, Resources

PREEMPTING = 0.4
"""The share of cases whose pods may preempt others."""
SAMPLED = 0.15
"""The share of the other cases in which extenders get a sample of many nodes."""


class LivingExtenders(AskedExtenders):
    """One to three extenders, most of which never fail; all know the nodes by name.

    kube-scheduler scores nodes that come back whole as if they were empty.
    """

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        managed = draw.some(EXTENDED, 1, 2)
        names = draw.some((*STEADY, *STEADY, *STRICT, *LENIENT), 1, 3)
        cluster.extenders = [
            new_extender(draw, name, managed, draw.some(VERBS, 1, 3))
            | PATIENT
            | {"nodeCacheCapable": True}
            for name in dict.fromkeys(names)
        ]


def make_extenders_history_case(seed: int) -> Object:
    """Make the objects of one seed; the same seed always makes the same objects."""
    preemption = Draw(f"history with extenders and preemption:{seed}")
    may = preemption.maybe(PREEMPTING)
    more, draw = [Resources(0.2), LivingExtenders()], Draw(f"history with extenders:{seed}")
    if not may and draw.maybe(SAMPLED):
        return with_samples(draw, make_case_of(seed, None, more, NODES))
    return make_case_of(seed, preemption if may else None, more)


def has_extenders(case: Object) -> bool:
    """Whether a case is one of those with extenders."""
    return bool(case["config"].get("extenders"))
