"""True of any history: no pod waits for devices that it could have.

What could help a pod wakes it, so that after every event a pod that still waits waits in a fresh
engine, too, which is told of nothing but what is there now.
"""

from random import Random
from typing import Any

import msgspec
import pytest

from scheduler.api.devices import DeviceClass
from scheduler.kernel.engine.events import ObjectGone
from tests.support.builders import make_node
from tests.unit.engine.test_claims import World
from tests.unit.plugins.test_dynamic_resources import device_class, pod_of, resource_slice

NODES = ("a", "b")
CLAIMS = ("c0", "c1", "c2")
DEVICES = ("gpu-0", "gpu-1")
OTHER_CLASS = msgspec.convert(
    {
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "other"'}}]},
    },
    DeviceClass,
)
BACK_OFF = 11.0
"""Seconds, longer than any; a pod that nothing wakes is tried after five minutes all the same."""
KINDS = (
    *("pod", "pod", "slice", "slice", "slice", "no slice", "claim", "claim", "claim"),
    *("no claim", "class", "class", "no class", "node", "node", "no node"),
)
TAINT = {"key": "bad", "effect": "NoSchedule"}


class History(World):
    """A cluster whose objects come, change and go, and what is there now.

    Attributes:
        there: what a fresh engine is told of, by kind and name.
        waiting: the pods that have no node, by name.
    """

    def __init__(self) -> None:
        super().__init__(*NODES)
        self.there: dict[tuple[str, str], Any] = {}
        self.waiting: dict[str, Any] = {}
        self._done = 0
        for name in NODES:
            self.there["nodes", name] = make_node(name)
        self.there["deviceclasses", "gpu"] = device_class()
        for name in CLAIMS:
            self.there["resourceclaims", name] = self.claim(name)

    def now(self, kind: str, name: str, obj: Any) -> None:
        """An object comes, or is now like this."""
        self.there[kind, name] = obj
        self.show(kind, obj)

    def gone(self, kind: str, name: str) -> None:
        """An object goes, if it is there."""
        known = self.there.pop((kind, name), None)
        if known is not None:
            namespace = "default" if kind == "resourceclaims" else ""
            self.handle(ObjectGone(kind, namespace, name, name))

    def comes(self, name: str, claims: list[str]) -> None:
        """A pod comes; one of its name is left alone."""
        pod = pod_of(*claims, name=name, schedulerName="test")
        if ("pods", name) not in self.there:
            self.waiting[name] = pod
            self.now("pods", name, pod)

    def settle(self) -> None:
        """Decide about all that were woken; what is written is done."""
        self.later(BACK_OFF)
        under_test = self.under_test
        for write in self.writes[self._done :]:
            name = write.path.partition("/resourceclaims/")[2].partition("/")[0]
            if write.body is not None and write.body["status"].get("allocation", 1) is None:
                self.claim(name)
        self._done = len(self.writes)
        for bind in under_test.binds:
            pod = self.waiting.pop(bind.name, None)
            if pod is not None:
                claims = [each.resource_claim_name for each in pod.resource_claims]
                bound = pod_of(*claims, name=bind.name, schedulerName="test", nodeName=bind.node)
                self.now("pods", bind.name, bound)
        self.later(BACK_OFF)

    def could_run(self, name: str) -> bool:
        """Whether a fresh engine gives a waiting pod a node at once."""
        fresh = World()
        fresh.handle(ObjectGone("nodes", "", "a", "a"))
        fresh.handle(ObjectGone("deviceclasses", "", "gpu", "gpu"))
        for (kind, _), obj in self.there.items():
            if kind != "pods":
                fresh.show(kind, obj)
        for claim in self.catalog.claims.values():
            fresh.show("resourceclaims", claim)
        fresh.show("pods", self.waiting[name])
        fresh.under_test.run()
        return bool(fresh.under_test.binds)


def act(history: History, random: Random) -> None:
    """Let something happen."""
    node, claim = random.choice(NODES), random.choice(CLAIMS)
    match random.choice(KINDS):
        case "pod":
            claims = {claim, random.choice([claim, claim, *CLAIMS])}
            history.comes(f"p-{'-'.join(sorted(claims))}", sorted(claims))
        case "slice":
            names = random.choice([DEVICES, DEVICES, DEVICES[:1], ()])
            taints = random.choice([[], [], [TAINT]])
            history.now("resourceslices", node, resource_slice(node, *names, taints=taints))
        case "no slice":
            history.gone("resourceslices", node)
        case "claim":
            # New, freed, or another pod's by now: no allocation follows another one at once.
            history.there["resourceclaims", claim] = history.claim(claim)
            shape: dict[str, Any] = random.choice([{}, {}, {}, {"on": node, "users": ("another",)}])
            history.there["resourceclaims", claim] = history.claim(claim, **shape)
        case "no claim":
            # Its finalizer keeps an allocated one until it is freed.
            if ("resourceclaims", claim) in history.there:
                history.claim(claim)
            history.gone("resourceclaims", claim)
        case "class":
            made = random.choice([device_class(), device_class(), OTHER_CLASS])
            history.now("deviceclasses", "gpu", made)
        case "no class":
            history.gone("deviceclasses", "gpu")
        case "node":
            history.now("nodes", node, make_node(node))
        case _:
            history.gone("nodes", node)


@pytest.mark.parametrize("seed", range(40))
def test_what_could_help_wakes_a_pod(seed: int) -> None:
    history, random = History(), Random(seed)
    for _ in range(12):
        act(history, random)
        history.settle()

        stuck = [name for name in history.waiting if history.could_run(name)]
        assert stuck == []
    assert not history.under_test.reports
