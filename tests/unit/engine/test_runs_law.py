"""The law of runs: one pass that judges for many decisions decides as many passes would.

Many look-alikes wait; between their decisions the cluster goes on. One engine keeps what it knows
of their class, looks ahead and lets what it found out about one pod stand for the next; one forgets
all of it each time: their instructions are equal, to the last byte, ties included.
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
    Service,
    ServiceSpec,
    TopologySpreadConstraint,
)
from scheduler.api.pods import PodInfo
from scheduler.config.load import load_object
from scheduler.daemon.bootstrap import FrameworkBuilder, build_engine
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Bound, Decide, Event, ObjectGone, ObjectSet
from scheduler.kernel.engine.instructions import Bind, Instruction
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod_info
from tests.unit.engine.cluster import encoded

PROFILE = "stowage"
NODES = 90
"""More than are looked ahead at least, so that some are not."""

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


def configuration(strategy: str) -> Any:
    """The default profile with another strategy of scoring."""
    written: dict[str, Any] = {"type": strategy}
    if strategy == "RequestedToCapacityRatio":
        shape = [{"utilization": 0, "score": 2}, {"utilization": 60, "score": 10}]
        written["requestedToCapacityRatio"] = {"shape": shape}
    args = {"scoringStrategy": written}
    profile = {
        "schedulerName": PROFILE,
        "pluginConfig": [{"name": "NodeResourcesFit", "args": args}],
    }
    return load_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
    )


def engine(config: Any, **settings: int) -> Engine:
    builder = FrameworkBuilder(lambda: 0.0, **settings)
    return build_engine(config, builder, builder.build(config), seed=7)


class Alike:
    """Counts the decisions for which an earlier one stood."""

    def __init__(self, engine: Engine) -> None:
        self.count = 0
        algorithm = engine.core.algorithm
        self._schedule = algorithm.schedule_alike
        algorithm.schedule_alike = self

    def __call__(self, *args: Any) -> Any:
        found = self._schedule(*args)
        self.count += found is not None
        return found


def foreseen(engine: Engine) -> int:
    """How many rows were as they had been foreseen."""
    classes = engine.core.frameworks[PROFILE].classes
    return sum(kept._foresight.used for kept in classes._classes.values())


class World:
    """Both engines, told the same."""

    def __init__(self, strategy: str, draw: Random) -> None:
        config = configuration(strategy)
        self.draw = draw
        self.keeping, self.forgetting = engine(config), engine(config, class_cache_bytes=0)
        self.alike, self.never = Alike(self.keeping), Alike(self.forgetting)
        self.running: list[PodInfo] = []
        self.late: list[Bind] = []
        self.told: dict[str, dict[str, Any]] = {}
        self.bound = 0
        self._serial = 0
        for number in range(NODES):
            self.set_node(number)

    def tell(self, event: Event) -> list[Instruction]:
        told = list(self.keeping.handle(event, 0.0))
        assert encoded(told) == encoded(list(self.forgetting.handle(event, 0.0)))
        return told

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

    def run(self, shape: int, length: int) -> None:
        """Look-alikes come and are decided about, one after the other; few things come between."""
        draw = self.draw
        for _ in range(length):
            is_stranger = draw.random() < 0.04
            pod = self.pod(draw.randrange(len(SHAPES)) if is_stranger else shape)
            self.tell(ObjectSet("pods", pod))
        for _ in range(length):
            self.late += [each for each in self.tell(Decide()) if isinstance(each, Bind)]
            while self.late and draw.random() < 0.7:
                self.confirm(self.late.pop(0))
            if draw.random() < 0.05:
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
def test_one_pass_for_many_decides_as_one_for_each(strategy: str) -> None:
    """Same nodes, same reasons, same chance."""
    world = World(strategy, Random(strategy))

    for _ in range(70):
        world.run(world.draw.randrange(len(SHAPES)), world.draw.randint(1, 25))
        for _ in range(world.draw.randint(0, 2)):
            world.disturb()

    assert world.bound > 250
    assert foreseen(world.forgetting) == world.never.count == 0
    assert foreseen(world.keeping) > 50
    assert world.alike.count > 10
