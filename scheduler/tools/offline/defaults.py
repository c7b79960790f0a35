"""Adds an API server's defaults, as far as scheduling reads them, to hand-written objects.

Source: kubernetes pkg/apis/core/v1/defaults.go (SetDefaults_Pod, SetDefaults_ResourceList,
SetDefaults_NodeStatus, SetDefaults_Namespace, SetDefaults_ReplicationController),
pkg/apis/storage/v1/defaults.go (SetDefaults_StorageClass), pkg/registry/core/pod/strategy.go
(PrepareForCreate) v1.36.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec

from scheduler.api.objects import PodSpec
from scheduler.api.quantity import MILLI, QuantityError, ceil, parse
from scheduler.api.resources import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    exact_container_limits,
    exact_container_requests,
)

_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_AMOUNTS: Final = ("requests", "limits")

Raw = Mapping[str, Any]


def in_namespace(raw: Raw) -> dict[str, Any]:
    """Return a namespaced object with the default namespace if it names none."""
    metadata = raw.get("metadata", {})
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return dict(raw)
    return {**raw, "metadata": {**metadata, "namespace": "default"}}


def completed(raw: Raw, kind: str) -> Raw:
    """Return an object of a kind other than Pod with its defaults."""
    complete = _BY_KIND.get(kind)
    return raw if complete is None else complete(raw)


def completed_pod(raw: Raw) -> dict[str, Any]:
    """Return a pod with defaults: namespace, UID, requests from limits, host ports, label keys."""
    pod = in_namespace(raw)
    metadata, spec = pod.get("metadata"), pod.get("spec")
    if isinstance(metadata, dict) and not metadata.get("uid"):
        uid = f"{metadata['namespace']}/{metadata.get('name', '')}"
        pod["metadata"] = {**metadata, "uid": uid}
        if isinstance(spec, dict) and isinstance(spec.get("affinity"), dict):
            spec = {**spec, "affinity": _with_label_keys(spec["affinity"], metadata)}
    if isinstance(spec, dict):
        pod["spec"] = completed_spec(spec)
    status = pod.get("status")
    if isinstance(status, dict) and ("resources" in status or "containerStatuses" in status):
        pod["status"] = _rounded_status(status)
    return pod


# --- pods -----------------------------------------------------------------------------------------


def completed_spec(spec: Raw) -> dict[str, Any]:
    """Return the specification of a pod with defaults; a complete one is not changed."""
    # An empty scheduler name counts as none.
    done = {name: value for name, value in spec.items() if (name, value) != ("schedulerName", "")}
    for field in ("containers", "initContainers"):
        containers = spec.get(field)
        if isinstance(containers, list):
            done[field] = [_completed_container(c, spec) for c in containers]
    if isinstance(spec.get("overhead"), dict):
        done["overhead"] = _rounded(spec["overhead"])
    if isinstance(spec.get("resources"), dict):
        done["resources"] = _of_pod_level(done)
    return done


def _completed_container(container: Any, spec: Raw) -> Any:
    if not isinstance(container, dict):
        return container
    done = dict(container)
    resources = container.get("resources")
    if isinstance(resources, dict):
        resources = done["resources"] = _rounded_requirements(resources)
        written = resources.get("requests")
        if isinstance(resources.get("limits"), dict) and isinstance(written, dict | None):
            requests = {**resources["limits"], **(written or {})}
            done["resources"] = {**resources, "requests": requests}
    ports = container.get("ports")
    if spec.get("hostNetwork") and isinstance(ports, list):
        done["ports"] = [_on_host(port) if isinstance(port, dict) else port for port in ports]
    return done


def _on_host(port: dict[str, Any]) -> dict[str, Any]:
    return {**port, "hostPort": port.get("hostPort") or port.get("containerPort", 0)}


def _of_pod_level(spec: dict[str, Any]) -> dict[str, Any]:
    """The pod-level resources, completed by the limits and requests of the containers."""
    resources = _rounded_requirements(spec["resources"])
    requests, limits = (dict(resources.get(field) or {}) for field in _AMOUNTS)
    if not (requests or limits):
        return resources
    try:
        decoded = msgspec.convert(spec, PodSpec)
        _add_huge_pages(limits, requests, exact_container_limits(decoded))
        if limits:
            _add_requests(requests, limits, exact_container_requests(decoded))
    except (msgspec.ValidationError, QuantityError):
        return resources  # what cannot be read is reported where the pod is read
    given = {"requests": requests, "limits": limits}
    return {**resources, **{field: amounts for field, amounts in given.items() if amounts}}


def _add_huge_pages(
    limits: dict[str, Any], requests: Raw, of_containers: Mapping[str, Decimal]
) -> None:
    for name, amount in of_containers.items():
        if name.startswith(HUGEPAGES_PREFIX) and name not in requests:
            limits.setdefault(name, _text(amount))


def _add_requests(
    requests: dict[str, Any], limits: Raw, of_containers: Mapping[str, Decimal]
) -> None:
    for name in (CPU, MEMORY):
        if name in of_containers:
            requests.setdefault(name, _text(of_containers[name]))
    for name, limit in limits.items():
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX):
            requests.setdefault(name, limit)


def _rounded_status(status: dict[str, Any]) -> dict[str, Any]:
    done = dict(status)
    for field in ("containerStatuses", "initContainerStatuses"):
        if isinstance(status.get(field), list):
            done[field] = [_rounded_report(each) for each in status[field]]
    return {**done, **_rounded_report(done)}


def _rounded_report(report: Any) -> Any:
    if not isinstance(report, dict):
        return report
    done = dict(report)
    if isinstance(report.get("resources"), dict):
        done["resources"] = _rounded_requirements(report["resources"])
    if isinstance(report.get("allocatedResources"), dict):
        done["allocatedResources"] = _rounded(report["allocatedResources"])
    return done


def _rounded_requirements(resources: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _rounded(value) if name in _AMOUNTS and isinstance(value, dict) else value
        for name, value in resources.items()
    }


# --- label keys -----------------------------------------------------------------------------------


def _with_label_keys(affinity: dict[str, Any], metadata: Raw) -> dict[str, Any]:
    """Return the affinity whose terms select the pod's labels of their label keys as well.

    The API server merges them when the pod is created; the scheduler reads selectors only.
    """
    labels = metadata.get("labels")
    if not isinstance(labels, dict):
        return affinity
    return {
        kind: {name: _with_keys_in(terms, labels) for name, terms in rules.items()}
        if kind in ("podAffinity", "podAntiAffinity") and isinstance(rules, dict)
        else rules
        for kind, rules in affinity.items()
    }


def _with_keys_in(found: Any, labels: Raw) -> Any:
    """Merge the label keys of a term, a weighted term, or a list of them."""
    if isinstance(found, list):
        return [_with_keys_in(each, labels) for each in found]
    if not isinstance(found, dict):
        return found
    if isinstance(found.get("podAffinityTerm"), dict):
        return {**found, "podAffinityTerm": _with_keys_in(found["podAffinityTerm"], labels)}
    selector = found.get("labelSelector")
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in _list(found.get(field))
        if isinstance(key, str) and key in labels
    ]
    written = selector.get("matchExpressions") or [] if isinstance(selector, dict) else None
    if not added or not isinstance(selector, dict) or not isinstance(written, list):
        return found
    expressions = [*written, *added]
    return {**found, "labelSelector": {**selector, "matchExpressions": expressions}}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# --- quantities -----------------------------------------------------------------------------------


def _rounded(amounts: dict[str, Any]) -> dict[str, Any]:
    """Round amounts up to thousandths."""
    return {name: _in_thousandths(amount) for name, amount in amounts.items()}


def _in_thousandths(amount: Any) -> Any:
    return _rounded_text(amount) if isinstance(amount, str | int | float) else amount


@lru_cache(maxsize=4096, typed=True)
def _rounded_text(amount: str | float) -> str | float:
    try:
        exact = parse(amount) * MILLI
    except QuantityError:
        return amount  # reported where the object is read
    return amount if exact == exact.to_integral_value() else f"{ceil(exact)}m"


def _text(amount: Decimal) -> str:
    return f"{ceil(amount * MILLI)}m"


# --- other kinds ----------------------------------------------------------------------------------


def _completed_node(raw: Raw) -> Raw:
    """The node, with its capacity as allocatable if it has none; an empty one is not stored."""
    status = raw.get("status")
    if not isinstance(status, dict):
        return raw
    done = {
        name: _rounded(value)
        if name in ("capacity", "allocatable") and isinstance(value, dict)
        else value
        for name, value in status.items()
    }
    if not done.get("allocatable") and isinstance(done.get("capacity"), dict):
        done["allocatable"] = done["capacity"]
    return {**raw, "status": done}


def _completed_namespace(raw: Raw) -> Raw:
    """The namespace, with its name as a label."""
    metadata = raw["metadata"]
    labels = metadata.get("labels") or {}
    if not isinstance(labels, dict):
        return raw
    return {**raw, "metadata": {**metadata, "labels": {**labels, _NAME_LABEL: metadata["name"]}}}


def _completed_class(raw: Raw) -> Raw:
    """The storage class; it binds at once unless it says otherwise."""
    return raw if raw.get("volumeBindingMode") else {**raw, "volumeBindingMode": "Immediate"}


def _completed_controller(raw: Raw) -> Raw:
    """The replication controller, which selects the labels of its template by default."""
    try:
        labels = raw["spec"]["template"]["metadata"]["labels"]
    except (KeyError, TypeError):
        return raw
    return (
        raw if raw["spec"].get("selector") else {**raw, "spec": {**raw["spec"], "selector": labels}}
    )


_BY_KIND: Final[Mapping[str, Callable[[Raw], Raw]]] = {
    "Node": _completed_node,
    "Namespace": _completed_namespace,
    "StorageClass": _completed_class,
    "ReplicationController": _completed_controller,
}
