"""Computes a pod's requests, and the specification with a lower request."""

from contextlib import suppress
from decimal import Decimal

from msgspec.structs import replace

from scheduler.api.objects import Container, PodSpec, Quantity, ResourceRequirements
from scheduler.api.quantity import MILLI, QuantityError, ceil, parse
from scheduler.api.resources import CPU, HUGEPAGES_PREFIX
from scheduler.kernel.answers.edits import LowerRequest


def amount_of(edit: LowerRequest) -> int:
    """Return the amount after an edit, in the units of `scheduler.api.resources`."""
    amount = parse(edit.at_most)
    return ceil(amount * MILLI) if edit.resource == CPU else ceil(amount)


def least(spec: PodSpec, resource: str) -> int:
    """Return the amount that the pod requests if no container requests any: its overhead."""
    overhead = parse(spec.overhead.get(resource, 0))
    return ceil(overhead * MILLI) if resource == CPU else ceil(overhead)


def page_size(resource: str) -> int:
    """Return the amount of which requests are multiples: the size of a huge page, else 1."""
    size = 0
    if resource.startswith(HUGEPAGES_PREFIX):
        with suppress(QuantityError):
            size = ceil(parse(resource.removeprefix(HUGEPAGES_PREFIX)))
    return max(size, 1)


def with_request(spec: PodSpec, resource: str, amount: int) -> PodSpec:
    """Return the specification that requests `amount` in all, but at least its overhead.

    The first container requests the amount; other containers and the pod level request none.
    """
    of_containers = Decimal(amount) / (MILLI if resource == CPU else 1)
    of_containers -= parse(spec.overhead.get(resource, 0))
    first, *others = (_without(container, resource) for container in spec.containers)
    if of_containers > 0:
        first = _with(first, resource, f"{of_containers:f}")
    pod_level = spec.resources
    if pod_level is not None:
        pod_level = ResourceRequirements(_others(pod_level, resource))
    return replace(
        spec,
        containers=(first, *others),
        init_containers=tuple(_without(each, resource) for each in spec.init_containers),
        resources=pod_level,
    )


def _without(container: Container, resource: str) -> Container:
    return replace(
        container, resources=ResourceRequirements(_others(container.resources, resource))
    )


def _with(container: Container, resource: str, amount: Quantity) -> Container:
    requests = {**container.resources.requests, resource: amount}
    return replace(container, resources=ResourceRequirements(requests))


def _others(resources: ResourceRequirements, resource: str) -> dict[str, Quantity]:
    return {name: amount for name, amount in resources.requests.items() if name != resource}
