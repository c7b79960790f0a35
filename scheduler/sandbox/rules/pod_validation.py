"""The faults of a pod: containers, resources, ports, volumes.

What only concerns where it may run is in `placement_validation`.
Source: pkg/apis/core/validation (ValidatePodCreate, ValidatePodSpec, validateContainers).
"""

from collections.abc import Iterator
from typing import Final

from scheduler.sandbox.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
)
from scheduler.sandbox.names import is_dns_label, is_port_name, is_port_number, is_qualified_name
from scheduler.sandbox.quantities import quantity_value
from scheduler.sandbox.rules.checks import labels, named, one_of, quantity_not_negative, subdomain
from scheduler.sandbox.rules.placement_validation import (
    affinity_faults,
    gate_faults,
    spread_faults,
    toleration_faults,
)
from scheduler.sandbox.schema.codec import Object

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PREEMPTION_POLICIES: Final = ("Never", "PreemptLowerPriority")
_CONTAINER_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE_PAGES: Final = "hugepages-"
_NATIVE_DOMAIN: Final = "kubernetes.io/"


def validate_pod(pod: Object) -> Iterator[FieldError]:
    """The faults of a pod."""
    yield from validate_pod_spec(pod["spec"], "spec")
    if pod["spec"].get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if pod["spec"].get("nodeName") and pod["spec"].get("schedulingGates"):
        yield forbidden(
            "spec.nodeName", "cannot be set until all schedulingGates have been cleared"
        )


def validate_pod_spec(spec: Object, field: str) -> Iterator[FieldError]:
    """The faults of a pod's specification, in a pod or in a template."""
    yield from _volume_faults(spec, f"{field}.volumes")
    yield from _containers_faults(spec, field)
    yield from one_of(f"{field}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    yield from one_of(f"{field}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    yield from labels(f"{field}.nodeSelector", spec.get("nodeSelector"))
    yield from affinity_faults(spec.get("affinity"), f"{field}.affinity")
    yield from gate_faults(spec.get("schedulingGates"), f"{field}.schedulingGates")
    yield from spread_faults(
        spec.get("topologySpreadConstraints"), f"{field}.topologySpreadConstraints"
    )
    yield from toleration_faults(spec.get("tolerations"), f"{field}.tolerations")
    for name in ("nodeName", "serviceAccountName", "priorityClassName", "runtimeClassName"):
        yield from subdomain(f"{field}.{name}", spec.get(name))
    yield from one_of(
        f"{field}.preemptionPolicy", spec.get("preemptionPolicy"), _PREEMPTION_POLICIES
    )
    for name, value in (spec.get("overhead") or {}).items():
        yield from quantity_not_negative(f"{field}.overhead[{name}]", value)
    if spec.get("resources"):
        yield from resource_faults(spec["resources"], f"{field}.resources")


def _volume_faults(spec: Object, field: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name = volume.get("name", "")
        if not name:
            yield required(f"{field}[{index}].name")
        else:
            yield from named(f"{field}[{index}].name", name, is_dns_label)
            if name in seen:
                yield duplicate(f"{field}[{index}].name", name)
        seen.add(name)
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            yield required(f"{field}[{index}].persistentVolumeClaim.claimName")
        if len(volume) > len(("name", "source")):
            yield forbidden(f"{field}[{index}]", "may not specify more than 1 volume type")


def _containers_faults(spec: Object, field: str) -> Iterator[FieldError]:
    volumes = {volume.get("name", "") for volume in spec.get("volumes") or ()}
    containers = spec.get("containers") or []
    if not containers:
        yield required(f"{field}.containers")
    names: set[str] = set()
    for list_name in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(list_name) or ()):
            where = f"{field}.{list_name}[{index}]"
            yield from _container_faults(container, where, volumes)
            name = container.get("name", "")
            if name in names:
                yield duplicate(f"{where}.name", name)
            names.add(name)
    yield from _host_port_conflicts(containers, f"{field}.containers")


def _container_faults(container: Object, field: str, volumes: set[str]) -> Iterator[FieldError]:
    name = container.get("name", "")
    if name:
        yield from named(f"{field}.name", name, is_dns_label)
    else:
        yield required(f"{field}.name")
    if not container.get("image"):
        yield required(f"{field}.image")
    yield from _port_faults(container.get("ports") or [], f"{field}.ports")
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name", "") not in volumes:
            yield not_found(f"{field}.volumeMounts[{index}].name", mount.get("name", ""))
        if not mount.get("mountPath"):
            yield required(f"{field}.volumeMounts[{index}].mountPath")
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield required(f"{field}.env[{index}].name")
    yield from one_of(f"{field}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    if container.get("resources"):
        yield from resource_faults(container["resources"], f"{field}.resources")


def _port_faults(ports: list[Object], field: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{field}[{index}]"
        name = port.get("name")
        if name:
            yield from named(f"{where}.name", name, is_port_name)
            if name in names:
                yield duplicate(f"{where}.name", name)
            names.add(name)
        number = port.get("containerPort", 0)
        if not number:
            yield required(f"{where}.containerPort")
        for number_field in ("containerPort", "hostPort"):
            number = port.get(number_field)
            for complaint in is_port_number(number) if number else ():
                yield invalid(f"{where}.{number_field}", number, complaint)
        yield from one_of(f"{where}.protocol", port.get("protocol"), _PROTOCOLS)


def _host_port_conflicts(containers: list[Object], field: str) -> Iterator[FieldError]:
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                text = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if text in taken:
                    yield duplicate(f"{field}[{index}].ports[{position}].hostPort", text)
                taken.add(text)


def resource_faults(resources: Object, field: str) -> Iterator[FieldError]:
    """The faults of requests and limits."""
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for part, quantities in (("limits", limits), ("requests", requests)):
        for name, value in quantities.items():
            yield from _resource_name_faults(name, f"{field}.{part}[{name}]")
            yield from quantity_not_negative(f"{field}.{part}[{name}]", value)
            if is_extended(name) and quantity_value(value) % 1:
                yield invalid(f"{field}.{part}[{name}]", value, "must be an integer")
    for name, value in requests.items():
        yield from _request_against_limit(name, value, limits.get(name), field)


def _resource_name_faults(name: str, field: str) -> Iterator[FieldError]:
    yield from named(field, name, is_qualified_name)
    if "/" not in name and name not in _CONTAINER_RESOURCES and not name.startswith(_HUGE_PAGES):
        yield invalid(field, name, "must be a standard resource type or fully qualified")
        yield invalid(field, name, "must be a standard resource for containers")


def is_extended(name: str) -> bool:
    """Whether a resource is one of the cluster's own, counted in whole units."""
    return "/" in name and _NATIVE_DOMAIN not in name and not name.startswith("requests.")


def _request_against_limit(
    name: str, request: str, limit: str | None, field: str
) -> Iterator[FieldError]:
    may_overcommit = not is_extended(name) and not name.startswith(_HUGE_PAGES)
    if limit is None:
        if not may_overcommit:
            yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")
        return
    asked, allowed = quantity_value(request), quantity_value(limit)
    if asked != allowed and not may_overcommit:
        yield invalid(f"{field}.requests", request, f"must be equal to {name} limit of {limit}")
    elif asked > allowed:
        yield invalid(
            f"{field}.requests", request, f"must be less than or equal to {name} limit of {limit}"
        )
