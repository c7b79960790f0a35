"""Why claims get no devices, as data."""

from scheduler.kernel.devices.catalog import Devices
from scheduler.kernel.devices.findings import AllocatorStep, PoolFinding
from scheduler.kernel.devices.pools import PoolState
from scheduler.kernel.snapshot import Snapshot
from tests.support.claims import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_slice,
    alternative,
    cluster,
    every,
    exactly,
    first_of,
    nodes_of,
    take,
)

OF_DRIVER = f'device.driver == "{DRIVER}"'
BIG = f'device.attributes["{DRIVER}"].model == "big"'


def _steps(devices: Devices, nodes: Snapshot, request: object) -> list[tuple[str, int, int]]:
    found = devices.findings([a_claim(request)], nodes).requests[0]  # type: ignore[arg-type]
    return [(left.step.value, left.devices, left.nodes) for left in found.steps]


def _a_device(name: str, **fields: object) -> dict[str, object]:
    return a_device(name, attributes={"model": fields.pop("model", "big")}, **fields)


def test_every_step_says_what_it_leaves() -> None:
    bad = [{"key": "bad", "value": "1", "effect": "NoSchedule"}]
    slices = [
        a_slice("n", [_a_device("a"), _a_device("b", model="small"), _a_device("c", taints=bad)]),
        a_slice("m", [_a_device("a"), _a_device("b")]),
        a_slice("net", [a_device("x")], driver="net", allNodes=True),
    ]
    devices = cluster(slices, [a_class("gpu", OF_DRIVER)])
    nodes = nodes_of("n", "m", "empty")
    take(devices, nodes, "n", a_claim(exactly(), name="holder"))

    found = devices.findings([a_claim(exactly(count=2, selectors=[BIG]))], nodes)

    request = found.requests[0]
    assert [(left.step, left.text, left.devices, left.nodes) for left in request.steps] == [
        (AllocatorStep.SEEN, "", 6, 3),
        (AllocatorStep.CLASS, OF_DRIVER, 5, 2),
        (AllocatorStep.SELECTOR, BIG, 4, 2),
        (AllocatorStep.TAINTS, "", 3, 2),
        (AllocatorStep.IN_USE, "", 2, 1),
    ]
    assert (request.claim, request.request, request.wanted) == ("ns/c", "r", 2)
    assert (request.taints, request.holders) == ({"bad=1:NoSchedule": 1}, {"holder": 1})
    assert (request.enough, request.problem, found.pools) == (1, "", ())
    assert (request.device_class, request.most, request.nearest) == ("gpu", 2, "m")
    assert [nodes.table.names[row] for row in found.together] == ["m"]


def test_admin_access_minds_no_holders() -> None:
    devices, nodes = cluster([a_slice("n", [_a_device("a")])]), nodes_of("n")
    take(devices, nodes, "n", a_claim(exactly(), name="holder"))

    assert _steps(devices, nodes, exactly(adminAccess=True)) == [("seen", 1, 1)]
    assert _steps(devices, nodes, exactly()) == [("seen", 1, 1), ("in use", 0, 0)]


def test_capacity_and_counters_are_steps() -> None:
    consumes = [{"counterSet": "s", "counters": {"slots": {"value": "2"}}}]
    sets = [{"name": "s", "counters": {"slots": {"value": "3"}}}]
    slices = [
        a_slice(
            "n",
            [
                _a_device(name, consumesCounters=consumes, capacity={"memory": "8Gi"})
                for name in "ab"
            ],
            count=2,
        ),
        a_slice("counters", pool="n", count=2, nodeName="n", sharedCounters=sets),
    ]
    devices, nodes = cluster(slices), nodes_of("n")
    take(devices, nodes, "n", a_claim(exactly(), name="holder"))

    assert _steps(devices, nodes, exactly(capacity={"memory": "9Gi"}))[1:] == [("capacity", 0, 0)]
    assert _steps(devices, nodes, exactly())[1:] == [("in use", 1, 1), ("counters", 0, 0)]


def test_all_means_that_no_device_which_matches_is_in_use() -> None:
    devices = cluster([a_slice(n, [_a_device("a"), _a_device("b")]) for n in ("n", "m")])
    nodes = nodes_of("n", "m")
    take(devices, nodes, "n", a_claim(exactly(), name="holder"))

    found = devices.findings([a_claim(every())], nodes)

    assert (found.requests[0].wanted, found.requests[0].enough) == (None, 1)
    assert [nodes.table.names[row] for row in found.together] == ["m"]


def test_alternatives_are_looked_at_one_by_one_and_failing_selectors_are_counted() -> None:
    devices, nodes = cluster([a_slice("n", [_a_device("a"), a_device("x")])]), nodes_of("n")
    claim = a_claim(first_of("gpu", alternative("big", selectors=[BIG]), alternative("any", 2)))

    big, anything = devices.findings([claim], nodes).requests

    assert (big.request, big.steps[-1].failing, big.enough) == ("gpu/big", 1, 1)
    assert (anything.request, anything.steps[-1].devices, anything.enough) == ("gpu/any", 2, 1)


def test_pools_that_cannot_be_used_and_requests_that_cannot_be_met_are_named() -> None:
    slices = [a_slice("n", [a_device("a"), a_device("a")]), a_slice("m", [a_device("a")], count=2)]
    devices, nodes = cluster(slices), nodes_of("n", "m")

    found = devices.findings([a_claim(every(class_="none"))], nodes)

    assert sorted(found.pools) == [
        PoolFinding(f"{DRIVER}/m", PoolState.INCOMPLETE, "", 1),
        PoolFinding(f"{DRIVER}/n", PoolState.INVALID, "duplicate device name a", 1),
    ]
    assert found.requests[0].wanted is None
    assert found.requests[0].problem.startswith("request r: could not retrieve device class none")
