"""How many devices of a class nodes have: what scores of extended resources are made of."""

from scheduler.kernel.devices.catalog import Devices
from scheduler.kernel.snapshot import Snapshot
from tests.support.claims import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_slice,
    cluster,
    exactly,
    nodes_of,
    set_nodes,
    take,
)

BIG = f'device.attributes["{DRIVER}"].model == "big"'


def _counts(devices: Devices, snapshot: Snapshot) -> dict[str, tuple[int, int]]:
    found = devices.counts("gpu", snapshot)
    assert found is not None
    return {
        name: (int(found.allocatable[row]), int(found.allocated[row]))
        for name, row in snapshot.table.row_of.items()
    }


def _models(*models: str) -> list[dict[str, object]]:
    return [a_device(f"d{i}", attributes={"model": m}) for i, m in enumerate(models)]


def test_devices_of_a_class_are_counted_where_they_are_seen() -> None:
    slices = [
        a_slice("n", _models("big", "small", "big")),
        a_slice("everywhere", _models("big"), allNodes=True),
        a_slice(
            "each",
            [
                a_device("x", nodeName="n", attributes={"model": "big"}),
                a_device("y", nodeName="m", attributes={"model": "small"}),
            ],
            perDeviceNodeSelection=True,
        ),
        a_slice("unknown", _models("big"), nodeName="not-there"),
    ]
    devices, nodes = cluster(slices, [a_class("gpu", BIG)]), nodes_of("n", "m")

    assert _counts(devices, nodes) == {"n": (4, 0), "m": (1, 0)}
    take(devices, nodes, "n", a_claim(exactly(count=2)))
    assert _counts(devices, nodes) == {"n": (4, 2), "m": (1, 1)}
    devices.release("c")
    set_nodes(nodes, "not-there")
    assert _counts(devices, nodes) == {"n": (4, 0), "m": (1, 0), "not-there": (2, 0)}
    assert devices.counts("none", nodes) is None


def test_devices_of_pools_that_cannot_be_used_count_too() -> None:
    slices = [
        a_slice("old", _models("big"), pool="p", nodeName="n"),
        a_slice("new", _models("big"), pool="p", generation=2, count=2, nodeName="n"),
    ]

    assert _counts(cluster(slices, [a_class("gpu", BIG)]), nodes_of("n")) == {"n": (2, 0)}


def test_a_selector_that_fails_counts_nothing_on_its_node() -> None:
    slices = [a_slice("n", [*_models("big"), a_device("x")]), a_slice("m", _models("big"))]
    devices = cluster(slices, [a_class("gpu", BIG)])

    assert _counts(devices, nodes_of("n", "m")) == {"n": (0, 0), "m": (1, 0)}


def test_a_device_that_changes_is_counted_as_it_is() -> None:
    devices, nodes = cluster([a_slice("n", _models("big"))], [a_class("gpu", BIG)]), nodes_of("n")
    fork = devices.fork()

    assert _counts(devices, nodes) == {"n": (1, 0)}
    devices.set_slice(a_slice("n", _models("small", "big", "big")))
    assert _counts(devices, nodes) == {"n": (2, 0)}
    assert _counts(fork, nodes) == {"n": (1, 0)}
