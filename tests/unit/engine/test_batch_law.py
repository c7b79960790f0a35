"""The law of batches: equal pods are placed in one step as they would be one by one.

Many equal pods wait; between the steps the cluster goes on. One engine schedules them in batches;
the other has a step for each, and keeps nothing of their class: their instructions are equal, to
the last byte, ties included.
"""

from random import Random
from typing import Any

import pytest

from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    ObjectMeta,
    PodAffinitySpec,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from scheduler.api.pods import PodInfo
from scheduler.api.workloads import Service, ServiceSpec
from scheduler.kernel.engine.events import Bound, ObjectGone, ObjectSet
from scheduler.kernel.engine.instructions import Bind
from scheduler.kernel.engine.placing import MAX_BATCH, Lookahead
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod_info
from tests.unit.engine.twins import PROFILE, Counted, Twins, configuration

NODES = 90
"""More than are foreseen at least, so that some are not."""

LABELS = {"app": "web"}

LONE = {"app": "lone"}
APART = PodAffinityTerm(HOSTNAME, LabelSelector(LONE))

SHAPES: list[dict[str, Any]] = [
    {"requests": {"cpu": "100m", "memory": "256Mi"}},
    {"requests": {"cpu": "1500m", "memory": "128Mi"}, "priority": 5},
    {},
    {"requests": {"cpu": "200m"}, "host_ports": [8080]},
    {"labels": LONE, "affinity": Affinity(pod_anti_affinity=PodAffinitySpec((APART,)))},
    {
        "requests": {"cpu": "50m"},
        "topology_spread_constraints": [
            TopologySpreadConstraint(1, ZONE, "ScheduleAnyway", LabelSelector(LABELS))
        ],
    },
]


def with_strategy(strategy: str) -> Any:
    """The default profile with another strategy of scoring."""
    written: dict[str, Any] = {"type": strategy}
    if strategy == "RequestedToCapacityRatio":
        shape = [{"utilization": 0, "score": 2}, {"utilization": 60, "score": 10}]
        written["requestedToCapacityRatio"] = {"shape": shape}
    args = {"scoringStrategy": written}
    return configuration(pluginConfig=[{"name": "NodeResourcesFit", "args": args}])


class World(Twins):
    """A cluster around both engines."""

    def __init__(self, strategy: str, draw: Random) -> None:
        super().__init__(with_strategy(strategy))
        self.draw = draw
        self.running: list[PodInfo] = []
        self.late: list[Bind] = []
        self.told: dict[str, dict[str, Any]] = {}
        self.bound = 0
        self._serial = 0
        for number in range(NODES):
            self.set_node(number)

    def set_node(self, number: int) -> None:
        """A node of one of few sizes, so that there are ties."""
        cpu, pods = self.draw.choice((4, 8)), self.draw.choice((5, 110))
        node = make_node(
            f"n{number}",
            zone=f"z{number % 3}",
            allocatable={"cpu": cpu, "pods": pods},
            unschedulable=self.draw.random() < 0.05,
        )
        self.tell(ObjectSet("nodes", node))

    def pod(self, shape: int, **fields: Any) -> PodInfo:
        self._serial += 1
        told = {"scheduler_name": PROFILE, "labels": LABELS, **SHAPES[shape], **fields}
        pod = make_pod_info(f"p{self._serial}", **told)
        self.told[pod.uid] = told
        return pod

    def come(self, shape: int, length: int) -> None:
        """Equal pods come and are scheduled, some at a time; few things come between."""
        draw = self.draw
        for _ in range(length):
            is_stranger = draw.random() < 0.04
            self.add(self.pod(draw.randrange(len(SHAPES)) if is_stranger else shape))
        while self.batching.has_ready:
            told = self.schedule(draw.choice((1, 3, 10, MAX_BATCH)))
            self.late += [each for each in told if isinstance(each, Bind)]
            while self.late and draw.random() < 0.8:
                self.confirm(self.late.pop(0))
            if draw.random() < 0.1:
                self.disturb()

    def confirm(self, bind: Bind) -> None:
        """The API server copies the zone of the node, mostly; and it may take its time."""
        self.bound += 1
        self.tell(Bound(bind.attempt))
        zone = {ZONE: "z"} if self.draw.random() < 0.8 else {}
        told = self.told[bind.uid]
        told = {**told, "node_name": bind.node, "labels": {**told["labels"], **zone}}
        pod = make_pod_info(bind.name, **told)
        self.tell(ObjectSet("pods", pod))
        self.running.append(pod)

    def disturb(self) -> None:
        """Something else happens."""
        draw = self.draw
        match draw.randrange(6):
            case 0:
                self.set_node(draw.randrange(NODES))
            case 1 if self.running:
                gone = self.running.pop(draw.randrange(len(self.running)))
                self.tell(ObjectGone("pods", gone.namespace, gone.name, gone.uid))
            case 2:
                node = f"n{draw.randrange(NODES)}"
                pod = self.pod(draw.randrange(3), node_name=node)
                self.tell(ObjectSet("pods", pod))
                self.running.append(pod)
            case 3:
                self.tell(ObjectGone("nodes", "", f"n{draw.randrange(NODES)}", ""))
            case 4:
                # Now and then a service selects the look-alikes: they are to be spread by default.
                selector = LABELS if draw.random() < 0.3 else {"app": "other"}
                service = Service(ObjectMeta(name="s", namespace="default"), ServiceSpec(selector))
                self.tell(ObjectSet("services", service))
            case _:
                node = f"n{draw.randrange(NODES)}"
                self.tell(ObjectSet("pods", self.pod(0, nominated_node_name=node)))


@pytest.mark.parametrize(
    "strategy", ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
)
def test_a_batch_places_pods_as_one_by_one(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same nodes, same reasons, same chance."""
    counted = Counted()
    monkeypatch.setattr(Lookahead, "place", counted.counting())
    world = World(strategy, Random(strategy))

    for _ in range(70):
        world.come(world.draw.randrange(len(SHAPES)), world.draw.randint(1, 40))
        for _ in range(world.draw.randint(0, 2)):
            world.disturb()

    assert world.bound > 250
    assert world.attempts("hint_used") > 50
    assert counted.count > world.attempts("hint_used") + 50
