"""Requests that cannot all have devices are found without trying all orders."""

from collections.abc import Sequence
from itertools import permutations

from hypothesis import given, strategies as st

from scheduler.api.devices import ResourceClaim
from scheduler.kernel.devices.allocator import ALLOCATABLE, NOT_ALLOCATABLE
from scheduler.kernel.devices.shortage import Need, is_short
from tests.support.claims import (
    DRIVER,
    a_claim,
    a_device,
    a_slice,
    alternative,
    cluster,
    exactly,
    first_of,
    nodes_of,
    verdicts,
)

_needs = st.lists(
    st.builds(
        Need, st.integers(0, 2), st.lists(st.integers(0, 5), unique=True, max_size=6).map(tuple)
    ),
    max_size=4,
)


def _tried(needs: Sequence[Need]) -> bool:
    """Whether every order of the devices leaves a request without."""
    wanted = [set(need.options) for need in needs for _ in range(need.devices)]
    return not any(
        all(device in good for device, good in zip(order, wanted, strict=True))
        for order in permutations(range(6), min(len(wanted), 6))
        if len(order) == len(wanted)
    )


@given(_needs)
def test_it_says_what_trying_all_orders_says(needs: list[Need]) -> None:
    """Also where a request must give up its device for another one."""
    assert is_short(needs) == _tried(needs)


def test_requests_that_starve_together_are_rejected() -> None:
    """Each by itself could have devices; trying all orders would take millions of steps."""
    small = [f'device.attributes["{DRIVER}"].model == "small"']
    models = ["big"] * 6 + ["small"] * 7
    gpus = [a_device(f"gpu-{i}", attributes={"model": models[i]}) for i in range(13)]
    devices, nodes = cluster([a_slice("n", gpus)]), nodes_of("n")

    def claim(count: int) -> ResourceClaim:
        return a_claim(
            exactly("any", 4),
            *(exactly(f"r{i}", selectors=small) for i in range(count)),
            first_of("last", alternative("three", 3, selectors=small), alternative("two", 2)),
        )

    assert verdicts(devices, nodes, claim(7)) == {"n": ALLOCATABLE}
    assert verdicts(devices, nodes, claim(8)) == {"n": NOT_ALLOCATABLE}
