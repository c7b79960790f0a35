"""The check that all quantities in a ResourceSlice parse."""

from scheduler.api.devices import ResourceSlice
from scheduler.api.quantity import QuantityError, parse


class InvalidDeviceError(ValueError):
    """A slice with a quantity that does not parse; the message has the reason."""


def checked_slice(published: ResourceSlice) -> ResourceSlice:
    """Check a freshly decoded slice and return it.

    Raises:
        InvalidDeviceError: a quantity does not parse.
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
