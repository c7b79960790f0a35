"""The law of kinds: what is known of pods goes with them, however many different ones there were.

Each pod has labels and a specification that no other has. Plugins, queue and snapshot work out what
they work out once for each kind: signatures, spread plans, affinity terms, selectors, budgets.
"""

import gc
from random import Random
from typing import Any
from weakref import ref

import pytest

from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    ObjectMeta,
    PodAffinitySpec,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from scheduler.api.pods import PodInfo, PodKind
from scheduler.api.workloads import Service, ServiceSpec
from scheduler.config.load import default_configuration
from scheduler.daemon.bootstrap import FrameworkBuilder, build_engine
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Bound, Decide, Evicted, ObjectGone, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Bind, Evict
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod_info

PROFILE = "stowage"
PODS = 300
THERE = 20
"""Pods at a time."""
LEFT_BEHIND = 4 * THERE
"""Preemption keeps the pods of rows in blocks until most of these are out of date."""


def different(number: int, draw: Random) -> PodInfo:
    """A pod unlike all others."""
    labels = {"app": "web", "index": str(number)}
    selects = LabelSelector({"index": str(number)})
    apart = PodAffinitySpec((PodAffinityTerm(HOSTNAME, selects),))
    fields: list[dict[str, Any]] = [
        {},
        {"affinity": Affinity(pod_anti_affinity=apart)},
        {
            "topology_spread_constraints": [
                TopologySpreadConstraint(
                    1,
                    ZONE,
                    "ScheduleAnyway",
                    LabelSelector({"app": "web"}),
                    None,
                    None,
                    None,
                    ("index",),
                )
            ]
        },
    ]
    return make_pod_info(
        f"p{number}",
        labels=labels,
        scheduler_name=PROFILE,
        priority=draw.choice((0, 0, 0, 10)),
        requests={"cpu": draw.choice(("1", "2", "9"))},
        **draw.choice(fields),
    )


class Churn:
    """A small cluster in which pods come and go."""

    def __init__(self, draw: Random) -> None:
        config = default_configuration(PROFILE)
        builder = FrameworkBuilder(lambda: 0.0)
        self.engine: Engine = build_engine(config, builder, builder.build(config), seed=7)
        self.draw = draw
        self.now = 0.0
        self.pods: dict[str, PodInfo] = {}
        self.placed = self.evicted = 0
        for number in range(6):
            node = make_node(f"n{number}", zone=f"z{number % 3}", allocatable={"cpu": "4"})
            self.tell(ObjectSet("nodes", node))
        service = Service(ObjectMeta("web", "default"), ServiceSpec({"app": "web"}))
        self.tell(ObjectSet("services", service))

    def tell(self, event: Any) -> None:
        for told in self.engine.handle(event, self.now):
            if isinstance(told, Bind):
                self.placed += 1
                self.tell(Bound(told.attempt))
                self.tell(ObjectSet("pods", self.pods[told.uid].on_node(told.node)))
            elif isinstance(told, Evict):
                self.evicted += 1
                self.tell(Evicted(told.uid))
                self.go(told.uid)

    def come(self, pod: PodInfo) -> None:
        self.pods[pod.uid] = pod
        self.tell(ObjectSet("pods", pod))
        self.tell(Decide())

    def go(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.tell(ObjectGone("pods", pod.namespace, pod.name, uid))


def test_what_is_known_of_pods_goes_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they were placed, rejected or evicted."""
    monkeypatch.setattr("scheduler.kernel.preemption.importance._MIN_PODS", 4)
    draw = Random(5)
    churn = Churn(draw)
    kinds: list[ref[PodKind]] = []

    for number in range(PODS):
        pod = different(number, draw)
        kinds.append(ref(pod.kind))
        churn.come(pod)
        while len(churn.pods) > THERE:
            churn.go(draw.choice([*churn.pods]))
        churn.now += 1.0
        if not number % 10:
            churn.tell(Tick())
            churn.tell(Decide())
    assert churn.placed > PODS // 4
    assert churn.evicted > 10
    for uid in [*churn.pods]:
        churn.go(uid)
    del pod
    churn.tell(Tick())
    gc.collect()

    alive = [number for number, kind in enumerate(kinds) if kind() is not None]
    assert len(alive) <= LEFT_BEHIND, alive
