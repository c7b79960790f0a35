"""Slices of devices whose amounts can be read."""

from scheduler.api.devices import ResourceSlice
from scheduler.api.quantity import QuantityError, parse


class InvalidDeviceError(ValueError):
    """A slice with a device that cannot be read; the message says which and why."""


def checked_slice(published: ResourceSlice) -> ResourceSlice:
    """The freshly decoded slice.

    Raises:
        InvalidDeviceError: an amount is no quantity.
    """
    spec = published.spec
    try:
        for device in spec.devices:
            for capacity in device.capacity.values():
                parse(capacity.value)
            for consumed in device.consumes_counters:
                for counter in consumed.counters.values():
                    parse(counter.value)
        for counters in spec.shared_counters:
            for counter in counters.counters.values():
                parse(counter.value)
    except QuantityError as problem:
        raise InvalidDeviceError(f"spec: {problem}") from problem
    return published
