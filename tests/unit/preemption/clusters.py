"""Small random clusters that are full of less important pods."""

import random

from scheduler.api.disruption_budgets import (
    DisruptionBudget,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    disruption_budget,
)
from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    ObjectMeta,
    PodAffinitySpec,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from scheduler.api.pods import PodInfo
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod_info
from tests.unit.preemption.naive import World

APPS = ("web", "db", "job")


class RandomWorld:
    """A cluster, and pods that want to get into it."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        nodes = [
            make_node(
                f"n{i}",
                zone=draw.choice("abc"),
                allocatable={"cpu": draw.choice(("1", "2")), "pods": draw.choice((2, 4, 110))},
            )
            for i in range(draw.randint(1, 6))
        ]
        names = [node.metadata.name for node in nodes]
        pods = [
            self._pod(f"run-{i}", i, draw.choice((-3, 0, 0, 5, 9)), node_name=draw.choice(names))
            for i in range(draw.randint(0, 5 * len(nodes)))
        ]
        waiting = [self._pod(f"wait-{i}", i, draw.choice((0, 5, 9, 10))) for i in range(4)]
        nominated = [(pod, draw.choice(names)) for pod in waiting[:2] if draw.random() < 0.5]
        budgets = [self._budget(i) for i in range(draw.randint(0, 3))]
        self.world = World(nodes, pods, budgets, nominated)
        self.waiting = waiting

    def _pod(self, name: str, number: int, priority: int, node_name: str = "") -> PodInfo:
        draw = self.draw
        app = draw.choice(APPS)
        # A port that two pods of a node share is none that a scheduler gave away.
        port = 1000 + number if node_name and draw.random() < 0.5 else draw.choice((1001, 1003))
        constraints = (
            TopologySpreadConstraint(1, draw.choice((ZONE, HOSTNAME)), "DoNotSchedule", _app(app)),
        )
        return make_pod_info(
            name,
            namespace=draw.choice(("red", "red", "blue")),
            labels={"app": app} if draw.random() < 0.9 else None,
            node_name=node_name,
            priority=priority,
            requests={"cpu": f"{draw.choice((0, 100, 400, 900))}m"},
            host_ports=(port,) if draw.random() < 0.3 and (not node_name or port >= 1000) else (),
            affinity=self._affinity() if draw.random() < 0.3 else None,
            topology_spread_constraints=constraints if draw.random() < 0.3 else (),
            start_time=f"2026-01-01T00:{number * 17 % 60:02}:{number % 60:02}Z",
        )

    def _affinity(self) -> Affinity:
        draw = self.draw
        term = PodAffinityTerm(draw.choice((ZONE, HOSTNAME)), _app(draw.choice(APPS)))
        spec = PodAffinitySpec((term,))
        if draw.random() < 0.6:
            return Affinity(pod_anti_affinity=spec)
        return Affinity(pod_affinity=spec)

    def _budget(self, number: int) -> DisruptionBudget:
        draw = self.draw
        disrupted = {f"run-{draw.randint(0, 9)}": None} if draw.random() < 0.4 else {}
        return disruption_budget(
            PodDisruptionBudget(
                ObjectMeta(f"pdb-{number}", draw.choice(("red", "red", "blue"))),
                PodDisruptionBudgetSpec(
                    draw.choice((_app(draw.choice(APPS)), LabelSelector(), None))
                ),
                PodDisruptionBudgetStatus(draw.choice((0, 1, 2)), disrupted),
            )
        )


def _app(name: str) -> LabelSelector:
    return LabelSelector({"app": name})
