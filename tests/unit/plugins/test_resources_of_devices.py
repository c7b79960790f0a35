"""Scores of extended resources that devices serve on nodes that offer none of them."""

import pytest

from scheduler.api.devices import DeviceClass, DeviceClassSpec
from scheduler.api.objects import ObjectMeta
from scheduler.config.args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
    ScoringStrategyType,
)
from scheduler.kernel.devices.claim_catalog import CLASS, SLICE, ClaimCatalog
from scheduler.kernel.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.claims import a_claim, a_device, a_slice, exactly, take
from tests.support.handles import make_handle
from tests.support.plugin_answers import score_answers

GPU = "example.com/gpu"
RESOURCES = (ResourceSpec(name=GPU, weight=1), ResourceSpec(name="cpu", weight=1))


class World:
    """A node with devices, one that offers the resource itself, and one with neither."""

    def __init__(self) -> None:
        self.catalog = ClaimCatalog()
        spec = DeviceClassSpec((), (), GPU)
        self.catalog.on_event(CLASS, None, DeviceClass(ObjectMeta(name="gpu"), spec))
        devices = [a_device(f"gpu-{i}") for i in range(4)]
        self.catalog.on_event(SLICE, None, a_slice("devices", devices))
        self.handle = make_handle({ClaimCatalog: self.catalog})
        self.snapshot = make_snapshot(
            [
                make_node("devices", allocatable={"cpu": 4}),
                make_node("neither", allocatable={"cpu": 4}),
                make_node("plugin", allocatable={"cpu": 4, GPU: 2}),
            ]
        )
        self.pod = make_pod_info("p", requests={GPU: 1, "cpu": 1})

    def take(self) -> None:
        """Allocate a device to another claim."""
        take(self.catalog.devices, self.snapshot, "devices", a_claim(exactly()))


@pytest.mark.parametrize("taken", [False, True], ids=["all free", "one taken"])
def test_devices_count_in_the_strategy(*, taken: bool) -> None:
    """A device is a unit of what the node has, taken or not; the pod's cpu counts as ever."""
    world = World()
    strategy = ScoringStrategy(type=ScoringStrategyType.MOST_ALLOCATED, resources=RESOURCES)
    plugin = NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=strategy), world.handle)
    if taken:
        world.take()

    scores = score_answers(plugin, world.pod, world.snapshot)

    own = (50 + 25) // 2 if taken else (25 + 25) // 2
    assert scores == {"devices": own, "neither": 25, "plugin": (50 + 25) // 2}


def test_devices_count_in_the_balance() -> None:
    """A quarter of the devices leans to one side of half the cpu; beside another it is even."""
    world = World()
    pod = make_pod_info("p", requests={GPU: 1, "cpu": 2})
    args = NodeResourcesBalancedAllocationArgs(resources=RESOURCES)
    plugin = NodeResourcesBalancedAllocation(args, world.handle)

    before = score_answers(plugin, pod, world.snapshot)
    world.take()
    after = score_answers(plugin, pod, world.snapshot)

    assert before == {"devices": 68, "neither": 75, "plugin": 75}
    assert after == {"devices": 81, "neither": 75, "plugin": 75}


def test_what_counts_devices_is_not_remembered() -> None:
    """Devices are taken without a change of their node; other pods are signed as ever."""
    world = World()
    strategy = ScoringStrategy(type=ScoringStrategyType.LEAST_ALLOCATED, resources=RESOURCES)
    counting = NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=strategy), world.handle)
    plain = NodeResourcesFit(NodeResourcesFitArgs(), world.handle)
    balance = NodeResourcesBalancedAllocation(
        NodeResourcesBalancedAllocationArgs(resources=RESOURCES), world.handle
    )
    other = make_pod_info("q", requests={"cpu": 1})

    assert counting.sign(world.pod) is None
    assert balance.sign(world.pod) is None
    assert plain.sign(world.pod) is not None
    assert counting.sign(other) is not None
    assert balance.sign(other) is not None
