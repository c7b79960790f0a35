"""What tells nodes apart whose devices look alike, and what shares of devices do to each other."""

import pytest

from scheduler.kernel.devices.allocator import ALLOCATABLE, FAILED, NOT_ALLOCATABLE
from scheduler.kernel.devices.candidates import AllocationError
from tests.support.claims import (
    DRIVER,
    a_claim,
    a_device,
    a_slice,
    allocate,
    cluster,
    every,
    exactly,
    nodes_of,
    take,
    verdicts,
)

FOUR = {"bandwidth": "4"}
SIX = {"bandwidth": "6"}
_POLICY = {"default": "1", "validRange": {"min": "1"}}


def _nic(name: str, **fields: object) -> dict[str, object]:
    capacity = {"bandwidth": {"value": "10", "requestPolicy": _POLICY}}
    return a_device(name, allowMultipleAllocations=True, capacity=capacity, **fields)


def test_nodes_with_equal_devices_differ_by_what_comes_between_their_pools() -> None:
    """A device that many nodes see fails the selector; one node has a better one before it."""
    big = a_device("big", attributes={"model": "big"})
    slices = [
        a_slice("first", [big], pool="a", nodeName="n"),
        a_slice("last", [big], pool="z", nodeName="m"),
        a_slice("between", [a_device("x")], pool="k", allNodes=True),
    ]
    claim = a_claim(exactly(selectors=[f'device.attributes["{DRIVER}"].model == "big"']))

    found = verdicts(cluster(slices), nodes_of("n", "m"), claim)

    assert found == {"n": ALLOCATABLE, "m": FAILED}


def test_nodes_with_equal_devices_differ_by_what_is_consumed() -> None:
    devices = cluster([a_slice("n", [_nic("nic")]), a_slice("m", [_nic("nic")])])
    nodes = nodes_of("n", "m")
    twice = a_claim(exactly("a", capacity=FOUR), exactly("b", capacity=FOUR))

    assert verdicts(devices, nodes, twice) == {"n": ALLOCATABLE, "m": ALLOCATABLE}
    take(devices, nodes, "m", a_claim(exactly(capacity=FOUR), name="other"))
    assert verdicts(devices, nodes, a_claim(exactly(capacity=FOUR)))["m"] == ALLOCATABLE
    assert verdicts(devices, nodes, twice) == {"n": ALLOCATABLE, "m": NOT_ALLOCATABLE}


@pytest.mark.parametrize("count", [1, 40])
def test_nodes_with_as_many_devices_differ_by_which_are_alike(count: int) -> None:
    """For few nodes and for many; where the values differ, but not where they are equal."""

    def numbered(name: str, *numbers: int) -> dict[str, object]:
        devices = [
            a_device(f"{name}-{place}", attributes={"numa": number})
            for place, number in enumerate(numbers)
        ]
        return a_slice(name, devices)

    names = {
        f"{kind}-{index}": numbers
        for index in range(count)
        for kind, numbers in {"pair": (3, 1, 3), "others": (7, 8, 7), "none": (1, 2, 3)}.items()
    }
    devices = cluster([numbered(name, *numbers) for name, numbers in names.items()])
    two = a_claim(exactly(count=2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])

    found = verdicts(devices, nodes_of(*names), two)

    assert {name for name, code in found.items() if code == NOT_ALLOCATABLE} == {
        name for name in names if name.startswith("none")
    }


def test_all_devices_include_shares_that_the_same_pod_has_taken_up() -> None:
    devices, nodes = cluster([a_slice("n", [_nic("nic")])]), nodes_of("n")

    assert (
        verdicts(devices, nodes, a_claim(exactly("a", capacity=SIX), every("b", capacity=FOUR)))[
            "n"
        ]
        == ALLOCATABLE
    )
    too_much = [exactly("a", capacity=SIX), every("b", capacity=SIX)]
    assert allocate(devices, nodes, "n", a_claim(*too_much)) is None
    # A constraint is looked at before the capacity, and of all devices it is an error.
    constraint = {"matchAttribute": f"{DRIVER}/none", "requests": ["b"]}
    with pytest.raises(AllocationError, match="a claim constraint would not be satisfied"):
        allocate(devices, nodes, "n", a_claim(*too_much, constraints=[constraint]))


def test_the_first_share_of_a_device_takes_its_counters_for_all() -> None:
    def consumes(amount: int) -> list[dict[str, object]]:
        return [{"counterSet": "s", "counters": {"slots": {"value": str(amount)}}}]

    sets = [{"name": "s", "counters": {"slots": {"value": "3"}}}]
    listed = [
        _nic("nic", consumesCounters=consumes(2)),
        a_device("gpu", consumesCounters=consumes(2)),
    ]
    slices = [
        a_slice("n", listed, count=2),
        a_slice("counters", pool="n", count=2, nodeName="n", sharedCounters=sets),
    ]
    devices, nodes = cluster(slices), nodes_of("n")

    assert take(devices, nodes, "n", a_claim(exactly(capacity=FOUR), name="1")) == [["r=nic"]]
    assert take(devices, nodes, "n", a_claim(exactly(capacity=FOUR), name="2")) == [["r=nic"]]
    assert verdicts(devices, nodes, a_claim(exactly())) == {"n": ALLOCATABLE}
    assert verdicts(devices, nodes, a_claim(exactly(count=2))) == {"n": NOT_ALLOCATABLE}
    devices.release("1")
    devices.release("2")
    assert take(devices, nodes, "n", a_claim(exactly(), name="3")) == [["r=nic"]]
