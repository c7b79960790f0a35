"""The share of a device's capacities that a request consumes, as exact amounts.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/consumable_capacity.go
(v0.36.3). Policies are assumed valid by the API server's rules (resource/v1 validation).
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias

from scheduler.api.devices import (
    CapacityRequestPolicy,
    CapacityRequirements,
    DeviceCapacity,
)
from scheduler.api.objects import Quantity
from scheduler.api.quantity import ceil, parse

Amounts: TypeAlias = Mapping[str, Decimal]
"""Amounts by the name of a capacity."""

_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIXES: Final = ("", "k", "M", "G", "T", "P", "E")
_KIBI: Final = 1024
_KILO: Final = 1000
_NOTHING: Final = Decimal(0)


class CapacityShare(NamedTuple):
    """The share of one capacity of a device that a request consumes.

    Attributes:
        name: the name of the capacity.
        text: the amount as it is written into the allocation.
        amount: the amount as a number.
        limit: the total capacity of the device.
    """

    name: str
    text: Quantity
    amount: Decimal
    limit: Decimal


def shares_of(
    capacities: Mapping[str, DeviceCapacity], asked: CapacityRequirements | None
) -> tuple[CapacityShare, ...] | None:
    """Compute the share of every capacity of a device that a request consumes.

    Returns:
        None when the device lacks a requested capacity, or its policy does not allow the amount.

    Raises:
        QuantityError: an amount does not parse.
    """
    requests = {} if asked is None else asked.requests
    if not requests.keys() <= capacities.keys():
        return None
    shares: list[CapacityShare] = []
    for name, capacity in capacities.items():
        text = _consumed(requests.get(name), capacity)
        if _violates(text, capacity.request_policy):
            return None
        shares.append(CapacityShare(name, text, parse(text), parse(capacity.value)))
    return tuple(shares)


def fit(shares: tuple[CapacityShare, ...], consumed: Amounts, taking: Amounts) -> bool:
    """Whether the shares fit beside those of other claims and those this search has taken."""
    return all(
        consumed.get(share.name, _NOTHING) + share.amount + taking.get(share.name, _NOTHING)
        <= share.limit
        for share in shares
    )


def _consumed(asked: Quantity | None, capacity: DeviceCapacity) -> Quantity:
    policy = capacity.request_policy
    if asked is None:
        if policy is not None and policy.default is not None:
            return policy.default
        return capacity.value
    if policy is None:
        return asked
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_up(asked, policy.valid_range.min, policy.valid_range.step)
    amount = parse(asked)
    return next((v for v in policy.valid_values if amount <= parse(v)), asked)


def _rounded_up(asked: Quantity, least: Quantity, step: Quantity | None) -> Quantity:
    if parse(asked) < parse(least):
        return least
    if step is None:
        return asked
    first, width = ceil(parse(least)), ceil(parse(step))
    steps = -((first - ceil(parse(asked))) // width) if width else 0
    return binary_text(first + steps * width)


def _violates(taken: Quantity, policy: CapacityRequestPolicy | None) -> bool:
    """Whether a policy refuses an amount.

    As upstream, an amount equals the default only as text: `1G` is not `1000M`.
    """
    if policy is None or (policy.default is not None and str(taken) == str(policy.default)):
        return False
    amount, limits = parse(taken), policy.valid_range
    if limits is None:
        return bool(policy.valid_values) and all(amount != parse(v) for v in policy.valid_values)
    if limits.max is not None and amount > parse(limits.max):
        return True
    width = 0 if limits.step is None else ceil(parse(limits.step))
    first = 0 if limits.min is None else ceil(parse(limits.min))
    return bool(width) and (ceil(amount) - first) % width != 0


def binary_text(amount: int) -> str:
    """A whole amount as Go writes a quantity of the format BinarySI.

    Source: k8s.io/apimachinery pkg/api/resource (Quantity.CanonicalizeBytes, v0.36).
    """
    base, suffixes = _KIBI, _BINARY_SUFFIXES
    if -_KIBI < amount < _KIBI:
        base, suffixes = _KILO, _DECIMAL_SUFFIXES
    power = 0
    while amount and amount % base == 0 and power + 1 < len(suffixes):
        amount //= base
        power += 1
    return f"{amount}{suffixes[power]}"
