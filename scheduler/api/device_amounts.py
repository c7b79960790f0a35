"""The check that all quantities in slices, claims and templates parse."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from scheduler.api.devices import (
    CapacityRequestPolicy,
    Device,
    DeviceClaim,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.api.objects import Quantity
from scheduler.api.quantity import QuantityError, parse

_Path: TypeAlias = tuple[str | int | tuple[str], ...]
"""Fields as texts, indexes as numbers, and keys in tuples."""
_Amount: TypeAlias = tuple[Quantity, _Path]


class InvalidDeviceError(ValueError):
    """A quantity about devices does not parse; the message has its path and the reason."""


def checked_slice(published: ResourceSlice) -> ResourceSlice:
    """Check a freshly decoded slice and return it.

    Raises:
        InvalidDeviceError: a quantity does not parse.
    """
    _check(_of_slice(published.spec))
    return published


def checked_claim(claim: ResourceClaim) -> ResourceClaim:
    """Check a freshly decoded claim and return it.

    Raises:
        InvalidDeviceError: a quantity does not parse.
    """
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    _check(_of_requests(claim.spec.devices, ("spec", "devices")))
    _check(_of_results(results, ("status", "allocation", "devices")))
    return claim


def checked_template(template: ResourceClaimTemplate) -> ResourceClaimTemplate:
    """Check a freshly decoded template and return it.

    Raises:
        InvalidDeviceError: a quantity does not parse.
    """
    _check(_of_requests(template.spec.spec.devices, ("spec", "spec", "devices")))
    return template


def _check(amounts: Iterable[_Amount]) -> None:
    for amount, path in amounts:
        try:
            parse(amount)
        except QuantityError as problem:
            raise InvalidDeviceError(f"{_text(path)}: {problem}") from problem


def _text(path: _Path) -> str:
    steps = (
        f".{s}" if isinstance(s, str) else f"[{s if isinstance(s, int) else s[0]}]" for s in path
    )
    return "".join(steps).removeprefix(".")


def _of_slice(spec: ResourceSliceSpec) -> Iterator[_Amount]:
    for index, device in enumerate(spec.devices):
        yield from _of_device(device, ("spec", "devices", index))
    for index, counters in enumerate(spec.shared_counters):
        for name, counter in counters.counters.items():
            path = ("spec", "sharedCounters", index, "counters", (name,), "value")
            yield counter.value, path


def _of_device(device: Device, at: _Path) -> Iterator[_Amount]:
    for name, capacity in device.capacity.items():
        yield capacity.value, (*at, "capacity", (name,), "value")
        if capacity.request_policy is not None:
            path = (*at, "capacity", (name,), "requestPolicy")
            yield from _of_policy(capacity.request_policy, path)
    for index, consumed in enumerate(device.consumes_counters):
        for name, counter in consumed.counters.items():
            yield counter.value, (*at, "consumesCounters", index, "counters", (name,), "value")


def _of_policy(policy: CapacityRequestPolicy, at: _Path) -> Iterator[_Amount]:
    if policy.default is not None:
        yield policy.default, (*at, "default")
    for index, value in enumerate(policy.valid_values):
        yield value, (*at, "validValues", index)
    limits = policy.valid_range
    if limits is not None:
        named = {"min": limits.min, "max": limits.max, "step": limits.step}
        for name, amount in named.items():
            if amount is not None:
                yield amount, (*at, "validRange", name)


def _of_requests(devices: DeviceClaim, at: _Path) -> Iterator[_Amount]:
    for index, request in enumerate(devices.requests):
        path = (*at, "requests", index)
        if request.exactly is not None:
            yield from _of_request(request.exactly, (*path, "exactly"))
        for place, alternative in enumerate(request.first_available):
            yield from _of_request(alternative, (*path, "firstAvailable", place))


def _of_request(request: ExactDeviceRequest | DeviceSubRequest, at: _Path) -> Iterator[_Amount]:
    for name, amount in request.capacity.requests.items() if request.capacity else ():
        yield amount, (*at, "capacity", "requests", (name,))


def _of_results(results: Iterable[DeviceRequestAllocationResult], at: _Path) -> Iterator[_Amount]:
    for index, result in enumerate(results):
        for name, amount in result.consumed_capacity.items():
            yield amount, (*at, "results", index, "consumedCapacity", (name,))
