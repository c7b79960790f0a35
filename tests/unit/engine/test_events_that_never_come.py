"""Directed histories: what a pod waits for is there, and no watch tells of it."""

from typing import Any

import pytest

from scheduler.api.pods import PodInfo
from scheduler.config.args import DynamicResourcesArgs, NodeResourcesFitArgs, VolumeBindingArgs
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.engine.events import ObjectGone, ObjectSet
from scheduler.kernel.engine.instructions import Bind, RunPreBind
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.plugins.dynamic_resources import DynamicResources
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from scheduler.kernel.plugins.volume_binding import VolumeBinding
from scheduler.kernel.volumes.catalog import VolumeCatalog
from tests.support.builders import make_node
from tests.support.storage import (
    claims_of,
    make_claim as make_volume_claim,
    make_class,
    make_volume,
)
from tests.unit.engine.driven import DrivenEngine, Holds, Prepares
from tests.unit.plugins.test_dynamic_resources import (
    GPU,
    device_class,
    make_claim,
    pod_of,
    resource_slice,
)

BACK_OFF = 15.0
"""Longer than any, and much shorter than the five minutes after which all pods are tried."""


class Cluster(DrivenEngine):
    """One node with one device, and what pods claim; Permit holds every pod that has a place."""

    def __init__(self, *plugins: Plugin) -> None:
        super().__init__(
            lambda handle: NodeResourcesFit(NodeResourcesFitArgs(), handle),
            lambda handle: DynamicResources(DynamicResourcesArgs(), handle),
            lambda handle: VolumeBinding(VolumeBindingArgs(), handle),
            Holds(),
            *plugins,
            nodes=(make_node("a", allocatable={"cpu": "8"}),),
            kinds=(*ClaimCatalog.WATCHES, *VolumeCatalog.WATCHES),
        )
        self.show("resourceslices", resource_slice("a", "gpu-0"))

    def show(self, kind: str, obj: Any) -> None:
        self.handle(ObjectSet(kind, obj))

    def comes(self, pod: PodInfo) -> PodInfo:
        """A pod comes, and is decided about."""
        self.set(pod)
        self.run()
        return pod

    def later(self) -> None:
        """Back-off ends, and all that were woken are decided about."""
        self.tick(BACK_OFF)
        self.run()


@pytest.mark.parametrize("other", ["d", "c"], ids=["a claim of its own", "the same claim"])
def test_devices_that_were_never_written_are_given_back(other: str) -> None:
    """The pod that was to have them goes while Permit holds it: its claim never shows them."""
    cluster = Cluster()
    cluster.show("deviceclasses", device_class())
    for name in ("c", "d"):
        cluster.show("resourceclaims", make_claim(name))
    first = cluster.comes(pod_of("c", name="first", schedulerName="test"))
    second = cluster.comes(pod_of(other, name="second", schedulerName="test"))
    before = cluster.stage(first), cluster.stage(second)

    cluster.gone(first)
    cluster.later()

    assert before == ("held", "unschedulable")
    assert cluster.stage(second) == "held"


def test_a_volume_that_was_never_written_is_given_back() -> None:
    """As for devices: the volume itself has not changed."""
    cluster = Cluster()
    cluster.show("storageclasses", make_class())
    cluster.show("persistentvolumes", make_volume("only"))
    for name in ("c", "d"):
        cluster.show("persistentvolumeclaims", make_volume_claim(name))
    first = cluster.add("first", volumes=claims_of("c"))
    cluster.run()
    second = cluster.add("second", volumes=claims_of("d"))
    cluster.run()
    before = cluster.stage(first), cluster.stage(second)

    cluster.gone(first)
    cluster.later()

    assert before == ("held", "unschedulable")
    assert cluster.stage(second) == "held"


def test_a_class_comes_that_stands_for_a_resource_that_no_node_has() -> None:
    """The pod asks for more than any node has, and no node ever changes."""
    cluster = Cluster()
    pod = cluster.rejected("p", requests={"cpu": 1, GPU: 1})
    other = cluster.rejected("q", requests={"cpu": 9})

    cluster.show("deviceclasses", device_class("gpu", GPU))
    cluster.later()

    assert cluster.stage(pod) == "held"
    assert cluster.is_asleep(other)


@pytest.mark.parametrize("plugins", [[], [Prepares()]], ids=["bind", "prepare"])
def test_a_pod_that_permit_holds_needs_another_node_when_its_own_goes(
    plugins: list[Plugin],
) -> None:
    """What its plugin says later is about an attempt that has ended."""
    cluster = Cluster(*plugins)
    pod = cluster.add("p")
    cluster.run()

    cluster.handle(ObjectGone("nodes", "", "a", "uid-a"))
    cluster.engine.core.waiting.allow(pod.uid, "Holds")
    cluster.tick()

    assert cluster.stage(pod) == "backoff"
    assert 'node "a" not found' in cluster.notes[-1]
    assert (cluster.all(RunPreBind), cluster.all(Bind)) == ([], [])


def test_a_held_pod_is_not_bound_to_another_node_of_the_same_name() -> None:
    """The machine was replaced by a smaller one: nothing has judged the pod on it."""
    cluster = Cluster()
    pod = cluster.add("p", requests={"cpu": 4})
    cluster.run()

    cluster.handle(ObjectGone("nodes", "", "a", "uid-a"))
    cluster.handle(ObjectSet("nodes", make_node("a", allocatable={"cpu": "2"})))
    cluster.engine.core.waiting.allow(pod.uid, "Holds")
    cluster.later()

    assert cluster.is_asleep(pod)
    assert "Insufficient cpu" in cluster.notes[-1]
    assert cluster.all(Bind) == []
