"""The law of waiting: when all has come to rest, nobody waits who fits.

One rejection stands for equal pods, one of them is woken for all, some events are not looked at: in
whatever way time is saved, a pod that fits somewhere must be tried.
"""

from random import Random
from typing import Any

import pytest

from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    PodAffinitySpec,
    PodAffinityTerm,
    Taint,
    TopologySpreadConstraint,
)
from scheduler.kernel.engine.events import Decide, ObjectGone, ObjectSet, Tick
from scheduler.kernel.framework.events import QueueingHint
from scheduler.kernel.framework.runtime import Framework
from scheduler.testing.validation import validate_engine
from tests.support.builders import make_node
from tests.unit.engine.answered import AnsweredCluster

NODES = ("a", "b", "c", "d")
STEPS = 250
KINDS: tuple[dict[str, Any], ...] = (
    {"requests": {"cpu": "1"}},
    {"requests": {"cpu": "3"}, "priority": 5},
    {"requests": {"cpu": "9"}},
    {"requests": {"cpu": "1"}, "labels": {"app": "x"}, "node_selector": {"zone": "y"}},
    {"requests": {"cpu": "2"}, "host_ports": (80,)},
)


def _term(app: str) -> PodAffinitySpec:
    return PodAffinitySpec((PodAffinityTerm("zone", LabelSelector({"app": app})),))


RELATED: tuple[dict[str, Any], ...] = (
    {"labels": {"app": "y"}, "affinity": Affinity(pod_affinity=_term("x"))},
    {"labels": {"app": "z"}, "affinity": Affinity(pod_anti_affinity=_term("x"))},
    {
        "labels": {"app": "x"},
        "topology_spread_constraints": [
            TopologySpreadConstraint(1, "zone", label_selector=LabelSelector({"app": "x"}))
        ],
    },
)


class World(AnsweredCluster):
    """It changes at random."""

    def __init__(self, seed: int, kinds: tuple[dict[str, Any], ...] = KINDS) -> None:
        super().__init__(seed)
        self.kinds = kinds
        self.draw = Random(seed)
        self.serial = 0

    def step(self) -> None:
        draw = self.draw
        happens = draw.choice(("pod", "pod", "end", "node", "gone", "tick", "decide", "decide"))
        if happens == "pod":
            for _ in range(draw.choice((1, 1, 4))):
                self.serial += 1
                self.add(f"p{self.serial}", **draw.choice(self.kinds))
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


@pytest.mark.parametrize("seed", range(12))
def test_nobody_waits_who_fits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for the five minutes after which everybody is tried again.

    With some seeds so little is asked at once that rounds are under way most of the time.
    """
    if seed % 3 == 0:
        monkeypatch.setattr("scheduler.kernel.queue.waking.QUESTIONS_AT_ONCE", 2)
    world = World(seed)
    waited = 0
    for number in range(STEPS):
        world.step()
        validate_engine(world.engine)
        if number % 50 == 49:
            world.run()
            world.pass_time(30)
            waited += len(world.waiting())
            assert list(world.forgotten()) == []

    assert waited


@pytest.mark.parametrize("seed", range(8))
def test_a_pod_that_fits_waits_five_minutes_at_most_though_hints_are_deaf(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pod is tried again then, and what it is told is true."""
    monkeypatch.setattr(Framework, "run_queueing_hint", lambda *_: QueueingHint.SKIP)
    world = World(seed, (*KINDS, *RELATED))
    found = 0
    for number in range(STEPS):
        world.step()
        validate_engine(world.engine)
        if number % 50 == 49:
            world.run()
            forgotten = set(world.forgotten())
            # One that finds a place may let another one fit, which has just been told that it
            # does not.
            for _ in range(len(RELATED)):
                world.pass_time(305)
            assert list(world.forgotten()) == []
            found += len(forgotten)

    assert found
