"""Quantities in slices and claims: a message names the place of one that does not parse."""

from typing import Any

import msgspec
import pytest

from scheduler.api.device_amounts import InvalidDeviceError, checked_claim, checked_slice
from scheduler.api.devices import ResourceClaim, ResourceSlice

COUNTERS = {"counters": {"c": {"value": "1x"}}}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"sharedCounters": [{}, COUNTERS]}, "sharedCounters[1].counters[c].value"),
        (
            {"devices": [{"consumesCounters": [COUNTERS]}]},
            "devices[0].consumesCounters[0].counters[c].value",
        ),
        (
            {"devices": [{"capacity": {"m": {"value": "1x"}}}]},
            "devices[0].capacity[m].value",
        ),
        (
            {"devices": [{"capacity": {"m": {"requestPolicy": {"validValues": ["1", "1x"]}}}}]},
            "devices[0].capacity[m].requestPolicy.validValues[1]",
        ),
        (
            {"devices": [{"capacity": {"m": {"requestPolicy": {"validRange": {"max": "1x"}}}}}]},
            "devices[0].capacity[m].requestPolicy.validRange.max",
        ),
    ],
)
def test_a_slice_names_the_place(spec: dict[str, Any], path: str) -> None:
    published = msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)

    with pytest.raises(InvalidDeviceError) as caught:
        checked_slice(published)

    assert str(caught.value).startswith(f"spec.{path}: '1x' is not a quantity: expected")


def test_a_claim_names_the_place() -> None:
    result = {"consumedCapacity": {"m": "1x"}}
    status = {"allocation": {"devices": {"results": [{}, result]}}}
    claim = msgspec.convert({"metadata": {"name": "c"}, "status": status}, ResourceClaim)

    with pytest.raises(InvalidDeviceError) as caught:
        checked_claim(claim)

    path = "status.allocation.devices.results[1].consumedCapacity[m]"
    assert str(caught.value).startswith(f"{path}: '1x' is not a quantity: expected")
