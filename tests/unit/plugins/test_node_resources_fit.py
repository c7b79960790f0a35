"""NodeResourcesFit: room, reasons, and scores by what is left."""

from typing import Any

import pytest

from scheduler.api.devices import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequestAllocationResult,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.api.objects import Container, Node, ObjectMeta, ResourceRequirements
from scheduler.api.pods import PodInfo
from scheduler.config.args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    ScoringStrategyType,
    UtilizationShapePoint,
)
from scheduler.kernel.devices.claim_catalog import CLASS, SLICE, ClaimCatalog
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from scheduler.kernel.plugins.node_resources_fit_hints import (
    is_schedulable_after_class_change,
    is_schedulable_after_node_change,
    is_schedulable_after_pod_event,
)
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.handles import make_handle
from tests.support.plugin_answers import FITS, filter_answers, score_answers, statuses

GPU = "example.com/gpu"
LARGEST = 2**63 - 1
NIC = "vendor.example/nic"
LEAST = ScoringStrategyType.LEAST_ALLOCATED
MOST = ScoringStrategyType.MOST_ALLOCATED
RATIO = ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO


def no(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def hopeless(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def plugin(
    kind: ScoringStrategyType = LEAST,
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1)),
    shape: tuple[tuple[int, int], ...] = (),
    **ignored: tuple[str, ...],
) -> NodeResourcesFit:
    """The plugin with a strategy and with resources that it ignores."""
    points = tuple(UtilizationShapePoint(utilization=x, score=y) for x, y in shape)
    strategy = ScoringStrategy(
        type=kind,
        resources=tuple(ResourceSpec(name=name, weight=weight) for name, weight in resources),
        requested_to_capacity_ratio=RequestedToCapacityRatioParam(shape=points) if shape else None,
    )
    return NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=strategy, **ignored))


def small_node(**allocatable: str | int) -> Node:
    """A node with 1 core, 1000 bytes and room for 10 pods."""
    return make_node("n", allocatable={"cpu": 1, "memory": 1000, "pods": 10, **allocatable})


def on_node(name: str = "running", **requests: str | int) -> PodInfo:
    return make_pod_info(name, node_name="n", requests=requests)


# --- filter -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param({}, FITS, id="nothing requested"),
        pytest.param({"cpu": "400m", "memory": 400}, FITS, id="exactly what is left"),
        pytest.param({"cpu": "401m"}, no("Insufficient cpu"), id="too much cpu"),
        pytest.param({"cpu": "1"}, no("Insufficient cpu"), id="all of an occupied node"),
        pytest.param({"cpu": "1001m"}, hopeless("Insufficient cpu"), id="more than the node"),
        pytest.param(
            {"cpu": "500m", "memory": 401},
            no("Insufficient cpu", "Insufficient memory"),
            id="two reasons",
        ),
        pytest.param(
            {"cpu": "500m", "memory": 1001},
            hopeless("Insufficient cpu", "Insufficient memory"),
            id="one hopeless reason makes all hopeless",
        ),
        pytest.param(
            {"ephemeral-storage": 1},
            hopeless("Insufficient ephemeral-storage"),
            id="storage the node has not",
        ),
        pytest.param({GPU: 1}, hopeless(f"Insufficient {GPU}"), id="device nobody has"),
        pytest.param({GPU: 0}, FITS, id="no device"),
        pytest.param({"hugepages-2Mi": 2}, hopeless("Insufficient hugepages-2Mi"), id="huge pages"),
        pytest.param({"storage": 5}, FITS, id="a resource that is not counted"),
    ],
)
def test_a_node_must_have_room(requests: dict[str, str | int], expected: Status) -> None:
    """Every resource that lacks room is a reason; 600m and 600 bytes are taken."""
    snapshot = make_snapshot([small_node()], [on_node(cpu="600m", memory=600)])

    answers = filter_answers(NodeResourcesFit(), make_pod_info(requests=requests), snapshot)

    assert answers == {"n": expected}


def test_reasons_come_in_a_fixed_order() -> None:
    """Pods, cpu, memory, ephemeral storage, then the others by name."""
    pod = make_pod_info(
        requests={NIC: 1, "ephemeral-storage": 1, "memory": "1Ti", GPU: 1, "cpu": 9}
    )

    answers = filter_answers(NodeResourcesFit(), pod, make_snapshot([small_node(pods=0)]))

    assert answers == {
        "n": hopeless(
            "Too many pods",
            "Insufficient cpu",
            "Insufficient memory",
            "Insufficient ephemeral-storage",
            f"Insufficient {GPU}",
            f"Insufficient {NIC}",
        )
    }


def test_a_node_takes_only_so_many_pods() -> None:
    """Also pods that request nothing; removing pods would help, so there is hope."""
    snapshot = make_snapshot([small_node(pods=1)], [on_node()])

    assert filter_answers(NodeResourcesFit(), make_pod_info(), snapshot) == {
        "n": no("Too many pods")
    }


@pytest.mark.parametrize(
    ("ignored", "expected"),
    [
        pytest.param({}, hopeless(f"Insufficient {GPU}", f"Insufficient {NIC}"), id="none"),
        pytest.param({"ignored_resources": (GPU,)}, hopeless(f"Insufficient {NIC}"), id="by name"),
        pytest.param(
            {"ignored_resource_groups": ("vendor.example",)},
            hopeless(f"Insufficient {GPU}"),
            id="by group",
        ),
        pytest.param(
            {"ignored_resources": (GPU, NIC, "cpu")}, FITS, id="both; cpu cannot be ignored"
        ),
    ],
)
def test_extended_resources_can_be_ignored(
    ignored: dict[str, tuple[str, ...]], expected: Status
) -> None:
    """Somebody else, an extender perhaps, looks after them."""
    pod = make_pod_info(requests={GPU: 1, NIC: 1})

    answers = filter_answers(plugin(**ignored), pod, make_snapshot([small_node()]))

    assert answers == {"n": expected}


def test_core_resources_cannot_be_ignored() -> None:
    """Ignoring is for extended resources."""
    answers = filter_answers(
        plugin(ignored_resources=("cpu",)),
        make_pod_info(requests={"cpu": 2}),
        make_snapshot([small_node()]),
    )

    assert answers == {"n": hopeless("Insufficient cpu")}


def test_pod_level_requests_replace_those_of_containers() -> None:
    """The filter believes the pod, not the sum of its containers."""
    pod = make_pod_info(
        requests={"cpu": 5, "memory": 5000},
        resources=ResourceRequirements(requests={"cpu": "500m"}),
    )

    answers = filter_answers(NodeResourcesFit(), pod, make_snapshot([small_node()]))

    assert answers == {"n": hopeless("Insufficient memory")}


@pytest.mark.parametrize(
    ("taken", "asked", "expected"),
    [
        pytest.param((2**53 + 1,), LARGEST - 2**53 - 1, FITS, id="exactly what is left"),
        pytest.param((2**53 + 1,), LARGEST - 2**53, no(f"Insufficient {GPU}"), id="one more"),
        pytest.param((LARGEST, 1), 1, no(f"Insufficient {GPU}"), id="a sum beyond 64 bits"),
        pytest.param((LARGEST, LARGEST), 1, no(f"Insufficient {GPU}"), id="twice what there is"),
        pytest.param((LARGEST,) * 3, 1, FITS, id="so much that it has come round"),
    ],
)
def test_amounts_that_no_float_holds(taken: tuple[int, ...], asked: int, expected: Status) -> None:
    """To the last unit, and in 64 bits, as kube-scheduler's sums are."""
    running = [on_node(f"running-{i}", **{GPU: amount}) for i, amount in enumerate(taken)]
    snapshot = make_snapshot([small_node(**{GPU: LARGEST})], running)

    answers = filter_answers(plugin(), make_pod_info("p", requests={GPU: asked}), snapshot)

    assert answers == {"n": expected}


def test_a_resource_that_appears_later_is_seen() -> None:
    """What was prepared for a class knows its columns, whatever nodes bring later."""
    snapshot = make_snapshot([make_node("old")])
    pod, state = make_pod_info(requests={GPU: 1}), CycleState()
    NodeResourcesFit().pre_filter(state, pod, snapshot)
    late = make_snapshot([make_node("new", allocatable={NIC: 3, GPU: 1})])

    assert statuses(NodeResourcesFit(), state, pod, snapshot) == {
        "old": hopeless(f"Insufficient {GPU}")
    }
    assert filter_answers(NodeResourcesFit(), pod, late) == {"new": FITS}


def test_filter_demands_pre_filter() -> None:
    """As upstream, the filter fails where a profile switches PreFilter off."""
    snapshot = make_snapshot([small_node()])

    with pytest.raises(KeyError, match="NodeResourcesFit"):
        NodeResourcesFit().filter(CycleState(), make_pod_info(), snapshot, snapshot.table.all_rows)


# --- scores -------------------------------------------------------------------------------------


def score(fit: NodeResourcesFit, node: Node, pod: PodInfo, *running: PodInfo) -> int:
    scores = score_answers(fit, pod, make_snapshot([node], running))
    assert isinstance(scores, dict)
    return scores["n"]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param({"cpu": "300m", "memory": 100}, (70 + 90) // 2, id="mean of what is left"),
        pytest.param({"cpu": "339m", "memory": 339}, (66 + 66) // 2, id="rounded per resource"),
        pytest.param({"cpu": "300m", "memory": 111}, (70 + 88) // 2, id="rounded down"),
        pytest.param({"cpu": "2", "memory": 100}, 90 // 2, id="more than there is counts 0"),
        pytest.param({}, 90 // 2, id="100m and 200Mi where nothing is requested"),
        pytest.param({"cpu": 0, "memory": 0}, 100, id="an explicit 0 is 0"),
    ],
)
def test_least_allocated_prefers_what_is_left(
    requests: dict[str, str | int], expected: int
) -> None:
    """The share left after the pod, in whole points, mean over cpu and memory."""
    assert score(NodeResourcesFit(), small_node(), make_pod_info(requests=requests)) == expected


def test_most_allocated_prefers_what_is_used() -> None:
    """The share used after the pod; more than there is counts as all."""
    fit = plugin(MOST)

    assert score(fit, small_node(), make_pod_info(requests={"cpu": "300m", "memory": 155})) == 22
    assert score(fit, small_node(), make_pod_info(requests={"cpu": "300m"})) == (30 + 100) // 2


def test_running_pods_without_requests_count_defaults() -> None:
    """100m for the running pod and 300m for the new one."""
    running = on_node(memory=0)
    pod = make_pod_info(requests={"cpu": "300m", "memory": 0})

    assert score(NodeResourcesFit(), small_node(), pod, running) == (60 + 100) // 2


def test_weights_make_a_weighted_mean() -> None:
    """Whole numbers all the way."""
    fit = plugin(resources=(("cpu", 3), ("memory", 2)))
    pod = make_pod_info(requests={"cpu": "300m", "memory": 500})

    assert score(fit, small_node(), pod) == (70 * 3 + 50 * 2) // 5


@pytest.mark.parametrize(
    ("kind", "shape", "each"),
    [
        pytest.param(LEAST, (), (70, 50), id="least"),
        pytest.param(MOST, (), (30, 50), id="most"),
        pytest.param(RATIO, ((0, 0), (100, 10)), (30, 50), id="ratio"),
    ],
)
def test_a_resource_that_is_listed_twice_counts_twice(
    kind: ScoringStrategyType, shape: tuple[tuple[int, int], ...], each: tuple[int, int]
) -> None:
    """Upstream accepts such a list, too."""
    fit = plugin(kind, (("cpu", 3), ("memory", 1), ("cpu", 1)), shape)
    pod = make_pod_info(requests={"cpu": "300m", "memory": 500})

    assert score(fit, small_node(), pod) == (each[0] * 4 + each[1]) // 5


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param({"cpu": "500m", GPU: 1}, (50 + 75 * 3) // 4, id="a device is asked for"),
        pytest.param({"cpu": "500m"}, 50, id="no device is asked for"),
        pytest.param({"cpu": "500m", GPU: 0}, 50, id="zero devices are asked for"),
    ],
)
def test_devices_count_only_for_pods_that_want_them(
    requests: dict[str, str | int], expected: int
) -> None:
    """Other pods are scored as if the resource were not listed, weight included."""
    fit = plugin(resources=((GPU, 3), ("cpu", 1)))

    assert score(fit, small_node(**{GPU: 4}), make_pod_info(requests=requests)) == expected


def test_what_a_node_has_nothing_of_does_not_count() -> None:
    """Neither the resource nor its weight."""
    fit = plugin(resources=((GPU, 3), ("cpu", 1), ("storage", 9), ("pods", 9)))
    pod = make_pod_info(requests={"cpu": "500m", GPU: 1})

    assert score(fit, small_node(), pod) == 50
    assert score(fit, small_node(cpu=0), pod) == 0


def test_ephemeral_storage_counts_also_when_it_is_not_asked_for() -> None:
    """It is no device: every node's free storage says something."""
    fit = plugin(resources=(("ephemeral-storage", 1), ("cpu", 1)))
    node = small_node(**{"ephemeral-storage": 1000})
    running = make_pod_info("r", node_name="n", requests={"ephemeral-storage": 400, "cpu": 0})

    assert score(fit, node, make_pod_info(requests={"cpu": "200m"}), running) == (60 + 80) // 2


def test_no_resource_that_counts_scores_zero() -> None:
    """There is nothing to compare."""
    for kind in (LEAST, MOST):
        assert score(plugin(kind, (("storage", 1),)), small_node(), make_pod_info()) == 0
    ratio = plugin(RATIO, ((GPU, 1),), ((0, 10), (100, 10)))
    assert score(ratio, small_node(**{GPU: 1}), make_pod_info()) == 0


def test_scores_ignore_pod_level_requests() -> None:
    """As upstream: the scorer looks at containers only, the filter at the pod."""
    pod = make_pod_info(
        containers=[
            Container(name="a", resources=ResourceRequirements(requests={"cpu": "200m"})),
            Container(name="b"),
        ],
        resources=ResourceRequirements(requests={"cpu": "900m", "memory": 900}),
        overhead={"cpu": "50m"},
    )
    fit = plugin(resources=(("cpu", 1),))

    assert score(fit, small_node(), pod) == 100 - (200 + 100 + 50) // 10


@pytest.mark.parametrize(
    ("shape", "used_percent", "expected"),
    [
        pytest.param(((0, 0), (100, 10)), 37, 37, id="rising"),
        pytest.param(((0, 10), (100, 0)), 37, 63, id="falling"),
        pytest.param(((20, 3), (80, 9)), 10, 30, id="before the first point"),
        pytest.param(((20, 3), (80, 9)), 90, 90, id="after the last point"),
        pytest.param(((20, 3), (80, 9)), 50, 60, id="between points"),
        pytest.param(((0, 10), (7, 4)), 3, 75, id="a fall is rounded toward zero"),
        pytest.param(((0, 4), (7, 10)), 3, 65, id="a rise is rounded down"),
        pytest.param(((50, 7),), 50, 70, id="one point"),
    ],
)
def test_ratio_follows_the_shape(
    shape: tuple[tuple[int, int], ...], used_percent: int, expected: int
) -> None:
    """Scores of the shape count ten times; between points lies a line."""
    fit = plugin(RATIO, (("cpu", 1),), shape)

    assert (
        score(fit, small_node(), make_pod_info(requests={"cpu": f"{used_percent}0m"})) == expected
    )


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param("250m", 260, 26, id="halves are rounded up"),
        pytest.param("0", 260, 26, id="a score of 0 does not count in the mean"),
        pytest.param("2", 260, 63, id="more than there is counts as all"),
        pytest.param("0", 0, 0, id="nothing scores"),
    ],
)
def test_ratio_takes_the_mean_of_what_scores(cpu: str, memory: int, expected: int) -> None:
    """The mean over resources that score anything, rounded to the nearest."""
    fit = plugin(RATIO, shape=((0, 0), (100, 10)))
    pod = make_pod_info(requests={"cpu": cpu, "memory": memory})

    assert score(fit, small_node(), pod) == expected


def test_score_works_without_pre_score() -> None:
    """A profile may switch PreScore off."""
    snapshot = make_snapshot([small_node()])
    pod = make_pod_info(requests={"cpu": "300m", "memory": 100})

    scores = NodeResourcesFit().score(CycleState(), pod, snapshot, snapshot.table.all_rows)

    assert scores.tolist() == [80]


def test_requests_and_what_they_count_for_are_signed() -> None:
    """A container without requests counts a default: another class than one that asks for 0."""
    sign = NodeResourcesFit().sign

    assert sign(make_pod_info(requests={"cpu": 1})) == sign(
        make_pod_info(requests={"cpu": "1000m"})
    )
    assert sign(make_pod_info(requests={"cpu": 0})) != sign(make_pod_info())


# --- events -------------------------------------------------------------------------------------

WAITING = make_pod_info("waiting", requests={"cpu": "500m", "memory": 0, GPU: 1})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(on_node(), None, QueueingHint.QUEUE, id="a running pod is gone"),
        pytest.param(make_pod_info(), None, QueueingHint.SKIP, id="a waiting pod is gone"),
        pytest.param(
            make_pod_info(nominated_node_name="n"), None, QueueingHint.QUEUE, id="nominated, gone"
        ),
        pytest.param(on_node(cpu=2), on_node(cpu=1), QueueingHint.QUEUE, id="takes less cpu"),
        pytest.param(on_node(cpu=1), on_node(cpu=2), QueueingHint.SKIP, id="takes more cpu"),
        pytest.param(on_node(memory=2), on_node(), QueueingHint.SKIP, id="less of something else"),
        pytest.param(on_node(**{GPU: 1}), on_node(), QueueingHint.QUEUE, id="gives a device back"),
        pytest.param(
            make_pod_info(requests={"cpu": 2}),
            make_pod_info(requests={"cpu": 1}),
            QueueingHint.SKIP,
            id="another waiting pod",
        ),
        pytest.param(
            make_pod_info("waiting", requests={"cpu": 2}), WAITING, QueueingHint.QUEUE, id="itself"
        ),
    ],
)
def test_freed_resources_wake_the_pod(
    old: PodInfo, new: PodInfo | None, expected: QueueingHint
) -> None:
    """What matters is what the pod asks for and a running pod lets go."""
    assert is_schedulable_after_pod_event(WAITING, old, new) is expected


BIG = make_node(allocatable={GPU: 1})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, BIG, QueueingHint.QUEUE, id="new node with room"),
        pytest.param(None, make_node(), QueueingHint.SKIP, id="new node without the device"),
        pytest.param(
            None, make_node(allocatable={GPU: 1, "pods": 0}), QueueingHint.SKIP, id="takes no pods"
        ),
        pytest.param(BIG, BIG, QueueingHint.SKIP, id="as large as before"),
        pytest.param(
            BIG, make_node(allocatable={GPU: 1, "cpu": 5}), QueueingHint.QUEUE, id="more cpu"
        ),
        pytest.param(
            BIG, make_node(allocatable={GPU: 1, "cpu": 3}), QueueingHint.SKIP, id="less cpu"
        ),
        pytest.param(
            BIG,
            make_node(allocatable={GPU: 1, "memory": "64Gi"}),
            QueueingHint.SKIP,
            id="more of what is not asked for",
        ),
        pytest.param(
            BIG, make_node(allocatable={GPU: 1, "pods": 200}), QueueingHint.QUEUE, id="more pods"
        ),
        pytest.param(make_node(), BIG, QueueingHint.QUEUE, id="has the device now"),
    ],
)
def test_a_larger_node_wakes_the_pod(old: Node | None, new: Node, expected: QueueingHint) -> None:
    """The pod must fit the empty node, and the node must have grown in what the pod asks for."""
    assert is_schedulable_after_node_change(WAITING, old, new) is expected


def test_the_events_are_upstreams() -> None:
    """Pods that go or shrink, nodes that come or change their allocatable, device classes."""
    plugin = NodeResourcesFit()
    assert [
        (registered.event, registered.queueing_hint) for registered in plugin.events_to_register()
    ] == [
        (
            ClusterEvent(EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN),
            is_schedulable_after_pod_event,
        ),
        (
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE),
            plugin._after_node_change,
        ),
        (
            ClusterEvent(EventResource.DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE),
            is_schedulable_after_class_change,
        ),
    ]


class OfDevices:
    """The plugin where a device class stands for GPUs."""

    def __init__(self) -> None:
        self.catalog = ClaimCatalog()
        self.set_class(GPU)
        handle = make_handle({ClaimCatalog: self.catalog})
        self.plugin = NodeResourcesFit(NodeResourcesFitArgs(), handle)

    def set_class(self, resource: str | None) -> None:
        """Let the class stand for a resource, or for none beside its own."""
        old = self.catalog.devices.classes.get("gpu")
        meta = ObjectMeta(name="gpu", creation_timestamp=str(self.catalog.class_names.version))
        self.catalog.on_event(CLASS, old, DeviceClass(meta, DeviceClassSpec((), (), resource)))


def test_what_devices_serve_need_not_be_offered() -> None:
    """A node that offers some serves it from that; without a class it is missing everywhere."""
    world = OfDevices()
    nodes = [
        make_node("none"),
        make_node("one", allocatable={GPU: 1, "cpu": 4}),
        make_node("two", allocatable={GPU: 2, "cpu": 4}),
        make_node("zero", allocatable={GPU: 0, "cpu": 4}),
    ]
    snapshot = make_snapshot(nodes)
    pod = make_pod_info("p", requests={GPU: 2})

    found = filter_answers(world.plugin, pod, snapshot)
    world.set_class(None)
    without = filter_answers(world.plugin, pod, snapshot)

    missing = hopeless(f"Insufficient {GPU}")
    assert found == {"none": FITS, "one": missing, "two": FITS, "zero": FITS}
    assert without == {"none": missing, "one": missing, "two": FITS, "zero": missing}


def test_pods_are_signed_anew_when_a_class_stands_for_something_else() -> None:
    """So what was remembered of the class of pods is not asked any more."""
    world, pod = OfDevices(), make_pod_info("p", requests={GPU: 2})
    before = world.plugin.sign(pod), world.plugin.signs_under()
    world.set_class(None)

    assert world.plugin.sign(pod) != before[0]
    assert world.plugin.signs_under() != before[1]
    plain = make_pod_info("p", requests={"cpu": 2})
    assert world.plugin.sign(plain) == NodeResourcesFit().sign(plain)


def test_a_node_without_the_resource_wakes_a_pod_that_devices_serve() -> None:
    """It is new, or changed at all."""
    pod, node = make_pod_info("p", requests={GPU: 2}), make_node()

    assert is_schedulable_after_node_change(pod, None, node) is QueueingHint.SKIP
    assert is_schedulable_after_node_change(pod, None, node, {GPU}) is QueueingHint.QUEUE
    assert is_schedulable_after_node_change(pod, node, node, {GPU}) is QueueingHint.QUEUE


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, GPU, QueueingHint.QUEUE),
        (None, NIC, QueueingHint.SKIP),
        (NIC, GPU, QueueingHint.QUEUE),
        (GPU, GPU, QueueingHint.SKIP),
        (GPU, None, QueueingHint.SKIP),
    ],
)
def test_a_class_wakes_pods_that_ask_for_what_it_stands_for_now(
    before: str | None, after: str | None, expected: QueueingHint
) -> None:
    """And did not before."""
    old, new = (
        DeviceClass(ObjectMeta(name="gpu"), DeviceClassSpec((), (), name))
        for name in (before, after)
    )
    pod = make_pod_info("p", requests={GPU: 2})

    assert is_schedulable_after_class_change(pod, old if before else None, new) is expected


def test_what_devices_serve_is_no_reason_beside_others() -> None:
    """A node that lacks something else is rejected for that alone, and can be helped."""
    world = OfDevices()
    snapshot = make_snapshot(
        [make_node("a", allocatable={"cpu": 4})],
        [make_pod_info("q", node_name="a", requests={"cpu": 3})],
    )
    pod = make_pod_info("p", requests={"cpu": 2, GPU: 2})

    assert filter_answers(world.plugin, pod, snapshot) == {"a": no("Insufficient cpu")}


@pytest.mark.parametrize(
    "kind", [NodeResourcesFit, NodeResourcesBalancedAllocation], ids=lambda kind: kind.__name__
)
def test_devices_count_where_a_node_offers_none(kind: type[Any]) -> None:
    """As many as are of the class and not allocated; answers are not shared then."""
    world = OfDevices()
    spec = ResourceSliceSpec(
        driver="d",
        node_name="a",
        pool=ResourcePool("a", 1, 1),
        devices=tuple(Device(f"gpu-{i}") for i in range(4)),
    )
    world.catalog.on_event(SLICE, None, ResourceSlice(ObjectMeta(name="a"), spec))
    resources = (ResourceSpec(name=GPU, weight=1),)
    args: Any = NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(type=LEAST, resources=resources)
    )
    if kind is NodeResourcesBalancedAllocation:
        cpu = ResourceSpec(name="cpu", weight=1)
        args = NodeResourcesBalancedAllocationArgs(resources=(cpu, *resources))
    plugin = kind(args, make_handle({ClaimCatalog: world.catalog}))
    snapshot = make_snapshot(
        [make_node("a"), make_node("b", allocatable={GPU: 2, "cpu": 4}), make_node("c")]
    )
    pod = make_pod_info("p", requests={"cpu": 2, GPU: 1})

    free = score_answers(plugin, pod, snapshot)
    results = tuple(DeviceRequestAllocationResult("r", "d", "a", f"gpu-{i}") for i in range(2))
    allocation = AllocationResult(devices=DeviceAllocationResult(results))
    world.catalog.devices.allocate("claim", allocation)
    taken = score_answers(plugin, pod, snapshot)

    assert plugin.sign(pod) is None
    assert free != taken
    if kind is NodeResourcesFit:
        assert free == {"a": 75, "b": 50, "c": 0}
        assert taken == {"a": 25, "b": 50, "c": 0}
