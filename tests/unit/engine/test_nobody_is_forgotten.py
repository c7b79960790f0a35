"""The law of waiting: when all has come to rest, nobody waits who fits.

One rejection stands for equal pods, one of them is woken for all, some events are not looked at: in
whatever way time is saved, a pod that fits somewhere must be tried.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from scheduler.api.objects import Taint
from scheduler.api.pods import PodInfo
from scheduler.engine.events import Bound, Decide, Event, Evicted, ObjectGone, ObjectSet, Tick
from scheduler.engine.instructions import Bind, Evict
from scheduler.offline.cluster import DEFAULT_PROFILE, Profiles
from scheduler.offline.reading import ClusterObjects
from tests.support.builders import make_node, make_pod_info

NODES = ("a", "b", "c", "d")
STEPS = 250
KINDS: tuple[dict[str, Any], ...] = (
    {"requests": {"cpu": "1"}},
    {"requests": {"cpu": "3"}, "priority": 5},
    {"requests": {"cpu": "9"}},
    {"requests": {"cpu": "1"}, "labels": {"app": "x"}, "node_selector": {"zone": "y"}},
    {"requests": {"cpu": "2"}, "host_ports": (80,)},
)


class World:
    """A cluster whose answers are given at once."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.profiles = Profiles(None)
        self.engine = self.profiles.load(ClusterObjects(), seed=seed).engine
        self.now = 1000.0
        self.pods: dict[str, PodInfo] = {}
        self.serial = 0

    def handle(self, event: Event) -> None:
        for told in self.engine.handle(event, self.now):
            if isinstance(told, Bind):
                attempt = self.engine.attempts.get(told.attempt)
                assert attempt is not None
                self.pods[told.uid] = attempt.pod
                self.handle(Bound(told.attempt))
                self.handle(ObjectSet("pods", self.pods[told.uid]))
            elif isinstance(told, Evict):
                self.handle(Evicted(told.uid))
                self.end(told.uid)

    def end(self, uid: str) -> None:
        pod = self.pods.pop(uid)
        self.handle(ObjectGone("pods", pod.namespace, pod.name, uid))

    def step(self) -> None:
        draw = self.draw
        happens = draw.choice(("pod", "pod", "end", "node", "gone", "tick", "decide", "decide"))
        if happens == "pod":
            for _ in range(draw.choice((1, 1, 4))):
                self.serial += 1
                name = f"p{self.serial}"
                fields = draw.choice(KINDS)
                pod = make_pod_info(name, uid=name, scheduler_name=DEFAULT_PROFILE, **fields)
                self.pods[name] = pod
                self.handle(ObjectSet("pods", pod))
        elif happens == "end" and self.pods:
            self.end(draw.choice(sorted(self.pods)))
        elif happens == "node":
            self.handle(ObjectSet("nodes", self.node()))
        elif happens == "gone" and draw.random() < 0.2:
            self.handle(ObjectGone("nodes", "", draw.choice(NODES), "u"))
        elif happens == "tick":
            self.now += draw.choice((1.0, 1.0, 12.0, 40.0))
            self.handle(Tick())
        else:
            self.handle(Decide())

    def node(self) -> Any:
        draw = self.draw
        taints = draw.choice(((), (), (Taint("t", "v", "NoSchedule"),)))
        return make_node(
            draw.choice(NODES),
            labels={"zone": draw.choice("xy")},
            allocatable={"cpu": draw.choice(("2", "4", "4", "8")), "pods": "20"},
            taints=taints,
        )

    def settle(self) -> None:
        for _ in range(30):
            while self.engine.has_ready:
                self.handle(Decide())
            self.now += 1.0
            self.handle(Tick())

    def forgotten(self) -> Iterator[str]:
        """Pods that wait although they fit."""
        core = self.engine.core
        core.catch_up()
        for pod in self.pods.values():
            if not pod.node_name:
                framework = self.profiles.framework_of(pod)
                found = framework.find_nodes_that_fit(pod, core.snapshot, core.queue.nominator)
                if len(found.feasible_rows()):
                    yield pod.name


@pytest.mark.parametrize("seed", range(12))
def test_nobody_waits_who_fits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for the five minutes after which everybody is tried again.

    With some seeds so little is asked at once that rounds are under way most of the time.
    """
    if seed % 3 == 0:
        monkeypatch.setattr("scheduler.queue.scheduling_queue._QUESTIONS_AT_ONCE", 2)
    world = World(seed)
    waited = 0
    for number in range(STEPS):
        world.step()
        world.engine.validate()
        if number % 50 == 49:
            world.settle()
            waited += sum(not pod.node_name for pod in world.pods.values())
            assert list(world.forgotten()) == []

    assert waited
