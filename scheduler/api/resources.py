"""The requests of pods and the capacity of nodes, as whole numbers by resource name.

Units: cpu in thousandths of a core, memory and ephemeral storage in bytes, others in units.

Source: k8s.io/component-helpers resource/helpers.go (PodRequests, PodLimits); kubernetes
pkg/scheduler/framework/types.go (calculateResource, getNonMissingContainerRequests) v1.36.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final, TypeAlias

from scheduler.api.objects import Container, Pod, PodSpec, Quantity, ResourceList
from scheduler.api.quantity import MILLI, ceil, parse

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGEPAGES_PREFIX: Final = "hugepages-"
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Each device class serves the extended resource with this prefix and the name of the class."""

DEFAULT_MILLI_CPU_REQUEST: Final = 100
"""Assumed for a container without a cpu request when nodes are scored (thousandths of a core)."""
DEFAULT_MEMORY_REQUEST: Final = 200 * 1024 * 1024
"""Assumed for a container without a memory request when nodes are scored (bytes)."""

Requests: TypeAlias = Mapping[str, int]
_Exact: TypeAlias = dict[str, Decimal]

_NON_ZERO_DEFAULTS: Final = {
    CPU: Decimal(DEFAULT_MILLI_CPU_REQUEST) / MILLI,
    MEMORY: Decimal(DEFAULT_MEMORY_REQUEST),
}


def may_be_devices(name: str) -> bool:
    """Whether a device class can serve a resource of this name.

    Source: pkg/scheduler/util (IsDRAExtendedResourceName) v1.36.
    """
    return is_extended_resource(name) or name.startswith(DEVICE_CLASS_PREFIX)


def is_scalar_resource(name: str) -> bool:
    """Whether the scheduler counts this resource besides cpu, memory and ephemeral storage.

    Source: pkg/scheduler/util/utils.go IsScalarResourceName.
    """
    if name.startswith((HUGEPAGES_PREFIX, "attachable-volumes-")):
        return True
    return "/" in name and ("kubernetes.io/" in name or not name.startswith("requests."))


def is_extended_resource(name: str) -> bool:
    """Whether the name is that of an extended resource (`vendor.example/thing`).

    Source: pkg/apis/core/v1/helper/helpers.go IsExtendedResourceName.
    """
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def whole_units(resources: Mapping[str, Quantity]) -> dict[str, int]:
    """A resource list in whole units, with the resources that scheduling counts.

    Raises:
        QuantityError: a quantity does not parse.
    """
    return _whole_units(tuple(resources.items())).copy()


@lru_cache(maxsize=4096)
def _whole_units(resources: tuple[tuple[str, Quantity], ...]) -> dict[str, int]:
    """Compute the units once per resource list: nodes of one type have equal lists."""
    return _rounded({name: parse(text) for name, text in resources})


def quantity(resource: str, amount: int) -> str:
    """Format an amount exactly, as a quantity in a pod."""
    if resource == CPU and amount % 1000:
        return f"{amount}m"
    return str(amount // 1000 if resource == CPU else amount)


def pod_requests(pod: Pod, *, use_status: bool) -> dict[str, int]:
    """Compute the resources that the pod takes from a node.

    `use_status`: whether the kubelet's allocation in an in-place resize counts, as it does for pods
    on a node.

    Raises:
        QuantityError: a quantity does not parse.
    """
    return _rounded(_pod_requests(pod, use_status=use_status, non_missing={}))


def milli_requests(pod: Pod) -> dict[str, int]:
    """Compute what the pod takes from a node, in thousandths, of every resource that it names.

    Raises:
        QuantityError: a quantity does not parse.
    """
    exact = _pod_requests(pod, use_status=True, non_missing={})
    return {name: ceil(amount * MILLI) for name, amount in exact.items()}


def non_zero_requests(pod: Pod, *, use_status: bool) -> tuple[int, int]:
    """Cpu and memory for scoring, where a container without a request counts a default.

    Returns:
        Thousandths of a core, and bytes.

    Raises:
        QuantityError: a quantity does not parse.
    """
    exact = _pod_requests(pod, use_status=use_status, non_missing={})
    defaults = _NON_ZERO_DEFAULTS
    if _has_pod_level_requests(pod):
        # A resource requested at pod level needs no container default.
        defaults = {name: value for name, value in defaults.items() if name not in exact}
    if defaults:
        exact = _pod_requests(pod, use_status=use_status, non_missing=defaults)
    rounded = _rounded(exact)
    return rounded.get(CPU, 0), rounded.get(MEMORY, 0)


def pod_limits(spec: PodSpec) -> dict[str, int]:
    """Compute the limits of a pod, by resource; a resource without any limit is left out.

    The overhead counts for resources with a limit other than zero. A container without a limit
    counts as 0.

    Raises:
        QuantityError: a quantity does not parse.
    """
    limits = exact_container_limits(spec)
    if spec.resources is not None:
        of_pod = _exact(spec.resources.limits)
        limits.update((n, amount) for n, amount in of_pod.items() if _is_pod_level_resource(n))
    for name, amount in _exact(spec.overhead).items():
        if limits.get(name):
            limits[name] += amount
    return _rounded(limits)


def exact_container_requests(spec: PodSpec) -> dict[str, Decimal]:
    """Compute the requests of all containers together, without pod level and overhead.

    Raises:
        QuantityError: a quantity does not parse.
    """
    return _over_containers(spec, lambda container, _: _exact(container.resources.requests))


def exact_container_limits(spec: PodSpec) -> dict[str, Decimal]:
    """Compute the limits of all containers together, without pod level and overhead.

    Raises:
        QuantityError: a quantity does not parse.
    """
    return _over_containers(spec, lambda container, _: _exact(container.resources.limits))


def scoring_requests(pod: Pod) -> dict[str, int]:
    """Compute the requests of an incoming pod that NodeResourcesFit scores nodes with.

    Only containers and overhead count, not requests at pod level; a container without a cpu or
    memory request counts the default.

    Raises:
        QuantityError: a quantity does not parse.

    Source: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go
    calculatePodResourceRequest, without the pod-level option, which Fit's scorer never sets.
    """
    requests = _container_requests(pod, use_status=False, non_missing=_NON_ZERO_DEFAULTS)
    _add(requests, _exact(pod.spec.overhead))
    return _rounded(requests)


def _pod_requests(pod: Pod, *, use_status: bool, non_missing: Mapping[str, Decimal]) -> _Exact:
    requests = _container_requests(pod, use_status=use_status, non_missing=non_missing)
    if _has_pod_level_requests(pod) and pod.spec.resources is not None:
        spec = _exact(pod.spec.resources.requests)
        effective = spec
        if use_status and pod.status.resources is not None:
            effective = _effective(
                pod, spec, pod.status.resources.requests, pod.status.allocated_resources
            )
        for name in spec:
            if _is_pod_level_resource(name):
                requests[name] = effective.get(name, Decimal(0))
    _add(requests, _exact(pod.spec.overhead))
    return requests


def _container_requests(
    pod: Pod, *, use_status: bool, non_missing: Mapping[str, Decimal]
) -> _Exact:
    statuses = {}
    if use_status:
        statuses = {s.name: s for s in pod.status.container_statuses}
        statuses.update((s.name, s) for s in pod.status.init_container_statuses)

    def requests_of(container: Container, resizable: bool) -> _Exact:  # noqa: FBT001 - a callback
        spec = _exact(container.resources.requests)
        status = statuses.get(container.name) if resizable else None
        if status is not None and status.resources is not None:
            spec = _effective(pod, spec, status.resources.requests, status.allocated_resources)
        return {**non_missing, **spec}

    return _over_containers(pod.spec, requests_of)


def _over_containers(spec: PodSpec, amounts: Callable[[Container, bool], _Exact]) -> _Exact:
    """Return the larger of: all long-running containers together, any step of initialisation.

    `amounts` returns the amounts of a container; its second argument says if it is long-running.
    """
    total: _Exact = {}
    for container in spec.containers:
        _add(total, amounts(container, True))  # noqa: FBT003 - a callback
    sidecars: _Exact = {}
    initialisation: _Exact = {}
    for container in spec.init_containers:
        is_sidecar = container.restart_policy == "Always"
        step = amounts(container, is_sidecar)
        if is_sidecar:
            _add(total, step)
            _add(sidecars, step)
            step = sidecars
        else:
            _add(step, sidecars)
        _raise_to(initialisation, step)
    _raise_to(total, initialisation)
    return total


def _effective(
    pod: Pod, spec: _Exact, actuated: ResourceList, allocated: ResourceList | None
) -> _Exact:
    """Compute the most that an in-place resize holds: desired, actuated and allocated."""
    result = {} if _is_resize_infeasible(pod) else dict(spec)
    _raise_to(result, _exact(actuated))
    _raise_to(result, _exact(allocated or {}))
    return result


def _is_resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _is_pod_level_resource(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)


def _has_pod_level_requests(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(map(_is_pod_level_resource, resources.requests))


def _exact(resources: ResourceList) -> _Exact:
    return {name: parse(text) for name, text in resources.items()}


def _add(total: _Exact, other: Mapping[str, Decimal]) -> None:
    for name, amount in other.items():
        total[name] = total.get(name, Decimal(0)) + amount


def _raise_to(total: _Exact, other: Mapping[str, Decimal]) -> None:
    for name, amount in other.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def _rounded(exact: Mapping[str, Decimal]) -> dict[str, int]:
    return {
        name: ceil(amount * MILLI) if name == CPU else ceil(amount)
        for name, amount in exact.items()
        if name in (CPU, MEMORY, EPHEMERAL_STORAGE, PODS) or is_scalar_resource(name)
    }


def scalar_names(requests: Iterable[str]) -> tuple[str, ...]:
    """The scalar resources among the names, in a stable order."""
    return tuple(sorted(name for name in requests if is_scalar_resource(name)))
