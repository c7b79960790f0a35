"""Claims that ask for more than is looked at, and those that ask for just as much."""

from collections.abc import Callable

import pytest

from scheduler.api.devices import ResourceClaim
from scheduler.api.limits import MAX_ATTRIBUTES, MAX_DEVICE_REQUESTS, MAX_SELECTORS
from scheduler.kernel.cel import Program, compile_expression
from scheduler.kernel.devices.allocator import ALLOCATABLE
from scheduler.kernel.devices.candidates import AllocationError
from scheduler.kernel.devices.catalog import Devices
from tests.support.claims import (
    a_claim,
    a_class,
    a_device,
    a_slice,
    alternative,
    cluster,
    exactly,
    first_of,
    nodes_of,
    verdicts,
)


def requests(count: int) -> list[ResourceClaim]:
    """One of them has alternatives; the last of these is for few devices."""
    many = [alternative(str(number), count=33) for number in range(count - 2)]
    return [a_claim(exactly()), a_claim(first_of("r", *many, alternative("last")))]


def selectors(count: int) -> list[ResourceClaim]:
    """Two claims, one of which has those of the other as well."""
    written = [f'device.driver != "{number}"' for number in range(count)]
    return [a_claim(exactly(selectors=written)), a_claim(exactly(selectors=written[:1]))]


def attributes(count: int) -> list[ResourceClaim]:
    """All of them have values."""
    written = [{"matchAttribute": f"example.com/a{number}"} for number in range(count)]
    return [a_claim(exactly(count=2), constraints=written * 2)]


def devices_of(*nodes: str) -> Devices:
    """Each node has one device more than the one before it."""
    values = {f"example.com/a{number}": "x" for number in range(MAX_ATTRIBUTES)}
    return cluster(
        a_slice(node, [a_device(f"d{i}", attributes=values) for i in range(count)])
        for count, node in enumerate(nodes, 2)
    )


@pytest.mark.parametrize(
    ("claims", "limit", "what"),
    [
        (requests, MAX_DEVICE_REQUESTS, "device requests"),
        (selectors, MAX_SELECTORS, "different selectors of devices"),
        (attributes, MAX_ATTRIBUTES, "attributes in constraints of devices"),
    ],
)
def test_claims_over_a_limit_fail_with_its_name(
    claims: Callable[[int], list[ResourceClaim]], limit: int, what: str
) -> None:
    """As much as the limit is looked at, one more is not."""
    devices, nodes = devices_of("n"), nodes_of("n")

    assert verdicts(devices, nodes, *claims(limit)) == {"n": ALLOCATABLE}
    with pytest.raises(AllocationError) as failed:
        verdicts(devices, nodes, *claims(limit + 1))

    message = f"pod has {limit + 1} {what}, more than the {limit} that are looked at"
    assert str(failed.value) == message


def test_selectors_of_the_class_count() -> None:
    """They are evaluated like those of the claim."""
    devices = cluster([a_slice("n", [a_device("d")])], [a_class("gpu", "true")])

    with pytest.raises(AllocationError, match=f"pod has {MAX_SELECTORS + 1} different"):
        verdicts(devices, nodes_of("n"), *selectors(MAX_SELECTORS))


def test_an_expression_is_compiled_once_for_all_nodes() -> None:
    """Also if a claim has as many as a pod may have, and all nodes differ."""
    compiled: list[str] = []

    def count(expression: str) -> Program:
        compiled.append(expression)
        return compile_expression(expression)

    devices, names = Devices(count), [f"n{number}" for number in range(5)]
    devices.set_class(a_class())
    for size, name in enumerate(names, 1):
        devices.set_slice(a_slice(name, [a_device(f"d{i}") for i in range(size)]))

    found = verdicts(devices, nodes_of(*names), *selectors(MAX_SELECTORS)[:1])

    assert set(found.values()) == {ALLOCATABLE}
    assert sorted(compiled) == sorted(set(compiled))
