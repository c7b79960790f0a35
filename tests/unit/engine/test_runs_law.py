"""The law of runs: one pass that judges for many decisions decides as many passes would.

Many look-alikes wait; between their decisions the cluster goes on. One engine keeps what it knows
of their class and looks ahead, one forgets all of it each time: their instructions are equal, to
the last byte, ties included.
"""

from random import Random
from typing import Any

import pytest

from scheduler.api.pods import PodInfo
from scheduler.bootstrap import FrameworkBuilder, build_engine
from scheduler.config.load import load_object
from scheduler.engine import Engine
from scheduler.engine.events import Bound, Decide, Event, ObjectGone, ObjectSet
from scheduler.engine.instructions import Bind, Instruction
from tests.support.builders import ZONE, make_node, make_pod_info
from tests.unit.engine.cluster import encoded

PROFILE = "stowage"
NODES = 90
"""More than are looked ahead at least, so that some are not."""

SHAPES: list[dict[str, Any]] = [
    {"requests": {"cpu": "100m", "memory": "256Mi"}},
    {"requests": {"cpu": "1500m", "memory": "128Mi"}, "priority": 5},
    {},
    {"requests": {"cpu": "200m"}, "host_ports": [8080]},
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
        self.running: list[PodInfo] = []
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
        return make_pod_info(f"p{self._serial}", scheduler_name=PROFILE, **SHAPES[shape], **fields)

    def run(self, shape: int, length: int) -> None:
        """Look-alikes come and are decided about, one after the other."""
        for _ in range(length):
            self.tell(ObjectSet("pods", self.pod(shape)))
        for _ in range(length):
            for bind in [each for each in self.tell(Decide()) if isinstance(each, Bind)]:
                self.bound += 1
                self.tell(Bound(bind.attempt))
                self.confirm(bind, shape)

    def confirm(self, bind: Bind, shape: int) -> None:
        """The API server copies the zone of the node, mostly; and it may take its time."""
        labels = {ZONE: "z"} if self.draw.random() < 0.8 else {}
        pod = make_pod_info(
            bind.name,
            node_name=bind.node,
            scheduler_name=PROFILE,
            labels=labels,
            **SHAPES[shape],
        )
        self.tell(ObjectSet("pods", pod))
        self.running.append(pod)

    def disturb(self) -> None:
        """Something else happens."""
        draw = self.draw
        match draw.randrange(4):
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
            case _:
                self.tell(ObjectGone("nodes", "", f"n{draw.randrange(NODES)}", ""))


@pytest.mark.parametrize(
    "strategy", ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
)
def test_one_pass_for_many_decides_as_one_for_each(strategy: str) -> None:
    """Same nodes, same reasons, same chance."""
    world = World(strategy, Random(strategy))

    for _ in range(40):
        world.run(world.draw.randrange(len(SHAPES)), world.draw.randint(1, 25))
        for _ in range(world.draw.randint(0, 2)):
            world.disturb()

    assert world.bound > 250
    assert foreseen(world.forgetting) == 0
    assert foreseen(world.keeping) > 50
