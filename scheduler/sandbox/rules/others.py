"""Rules for the smaller kinds.

Source: the defaults.go and validation.go of each API group.
"""

from collections.abc import Callable, Iterator
from typing import Final

from scheduler.sandbox.field_errors import FieldError, forbidden, invalid, required
from scheduler.sandbox.names import is_port_number
from scheduler.sandbox.rules.checks import (
    int_or_percent,
    label_selector,
    not_negative,
    one_of,
    unchanged,
)
from scheduler.sandbox.rules.contract import Rules
from scheduler.sandbox.rules.pod_defaults import default_pod_spec
from scheduler.sandbox.rules.pod_validation import validate_pod_spec
from scheduler.sandbox.schema.codec import Object

SYSTEM_PRIORITIES: Final = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
_HIGHEST_USER_PRIORITY: Final = 1_000_000_000
_PREEMPTION_POLICIES: Final = ("Never", "PreemptLowerPriority")
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_RECLAIM_POLICIES: Final = ("Delete", "Retain")


def _default_namespace(namespace: Object) -> None:
    namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    namespace.setdefault("status", {}).setdefault("phase", "Active")
    name = namespace["metadata"].get("name")
    if name:
        labels = namespace["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = name


def _default_priority_class(priority_class: Object) -> None:
    priority_class.setdefault("value", 0)
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _validate_priority_class(priority_class: Object) -> Iterator[FieldError]:
    name, value = priority_class["metadata"].get("name", ""), priority_class["value"]
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            yield forbidden(
                "metadata.name",
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class",
            )
    elif value > _HIGHEST_USER_PRIORITY:
        yield forbidden(
            "value",
            f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}",
        )
    policy = priority_class.get("preemptionPolicy")
    yield from one_of("preemptionPolicy", policy, _PREEMPTION_POLICIES)


def _validate_priority_class_update(new: Object, old: Object) -> Iterator[FieldError]:
    if new["value"] != old["value"]:
        yield forbidden("value", "may not be changed in an update.")
    field = "preemptionPolicy"
    yield from unchanged(field, new.get(field), old.get(field))


def _validate_lease(lease: Object) -> Iterator[FieldError]:
    spec = lease.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from not_negative("spec.leaseTransitions", spec.get("leaseTransitions"))


def _prepare_pdb(budget: Object) -> None:
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    budget["status"] = dict.fromkeys(counts, 0)


def _validate_pdb(budget: Object) -> Iterator[FieldError]:
    spec = budget.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        yield from int_or_percent(f"spec.{field}", spec.get(field))
    yield from label_selector("spec.selector", spec.get("selector"))


def _default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port", 0))


def _validate_service(service: Object) -> Iterator[FieldError]:
    spec = service["spec"]
    if not spec.get("ports") and spec["type"] != "ExternalName" and not _is_headless(spec):
        yield required("spec.ports")
    for index, port in enumerate(spec.get("ports", ())):
        for complaint in is_port_number(port.get("port", 0)):
            yield invalid(f"spec.ports[{index}].port", port.get("port", 0), complaint)
        if len(spec["ports"]) > 1 and not port.get("name"):
            yield required(f"spec.ports[{index}].name")


def _is_headless(spec: Object) -> bool:
    return bool(spec.get("clusterIP") == "None")


def _default_claim(claim: Object) -> None:
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    claim.setdefault("status", {}).setdefault("phase", "Pending")


def _validate_claim(claim: Object) -> Iterator[FieldError]:
    spec = claim["spec"]
    yield from _access_modes(spec)
    if not (spec.get("resources") or {}).get("requests", {}).get("storage"):
        yield required("spec.resources[storage]")
    yield from label_selector("spec.selector", spec.get("selector"))


def _access_modes(spec: Object) -> Iterator[FieldError]:
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required")
    for mode in spec.get("accessModes") or ():
        yield from one_of("spec.accessModes", mode, _ACCESS_MODES)


def _default_volume(volume: Object) -> None:
    spec = volume.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    volume.setdefault("status", {}).setdefault("phase", "Pending")


def _validate_volume(volume: Object) -> Iterator[FieldError]:
    spec = volume["spec"]
    yield from _access_modes(spec)
    if not spec.get("capacity"):
        yield required("spec.capacity")


def _default_storage_class(storage_class: Object) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def _validate_storage_class(storage_class: Object) -> Iterator[FieldError]:
    if not storage_class.get("provisioner"):
        yield required("provisioner")
    mode = storage_class.get("volumeBindingMode")
    yield from one_of("volumeBindingMode", mode, _BINDING_MODES)
    yield from one_of("reclaimPolicy", storage_class.get("reclaimPolicy"), _RECLAIM_POLICIES)


def _default_csi_driver(driver: Object) -> None:
    spec = driver.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def _workload_defaults(*, with_replicas: bool) -> Callable[[Object], None]:
    def default(workload: Object) -> None:
        spec = workload.setdefault("spec", {})
        if with_replicas:
            spec.setdefault("replicas", 1)
        template = spec.get("template")
        if template is not None:
            default_pod_spec(template.setdefault("spec", {}))

    return default


def _default_deployment(deployment: Object) -> None:
    _workload_defaults(with_replicas=True)(deployment)
    spec = deployment["spec"]
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _validate_workload(workload: Object) -> Iterator[FieldError]:
    spec = workload["spec"]
    selector, template = spec.get("selector"), spec.get("template")
    yield from not_negative("spec.replicas", spec.get("replicas"))
    if not selector:
        yield required("spec.selector")
    yield from label_selector("spec.selector", selector)
    labels = ((template or {}).get("metadata") or {}).get("labels")
    wanted = (selector or {}).get("matchLabels") or {}
    if not selector or any((labels or {}).get(key) != value for key, value in wanted.items()):
        yield invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
    yield from validate_pod_spec((template or {}).get("spec") or {}, "spec.template.spec")


def _validate_workload_update(new: Object, old: Object) -> Iterator[FieldError]:
    yield from unchanged("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))


def _default_job(job: Object) -> None:
    spec = job.setdefault("spec", {})
    spec.setdefault("parallelism", 1)
    spec.setdefault("completions", 1)
    default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


NAMESPACE_RULES = Rules(default=_default_namespace)
PRIORITY_CLASS_RULES = Rules(
    default=_default_priority_class,
    validate=_validate_priority_class,
    validate_update=_validate_priority_class_update,
)
LEASE_RULES = Rules(validate=_validate_lease)
PDB_RULES = Rules(prepare_create=_prepare_pdb, validate=_validate_pdb)
SERVICE_RULES = Rules(default=_default_service, validate=_validate_service)
CLAIM_RULES = Rules(default=_default_claim, validate=_validate_claim)
VOLUME_RULES = Rules(default=_default_volume, validate=_validate_volume)
STORAGE_CLASS_RULES = Rules(default=_default_storage_class, validate=_validate_storage_class)
CSI_DRIVER_RULES = Rules(default=_default_csi_driver)
REPLICATION_CONTROLLER_RULES = Rules(default=_workload_defaults(with_replicas=True))
DEPLOYMENT_RULES = Rules(
    default=_default_deployment,
    validate=_validate_workload,
    validate_update=_validate_workload_update,
)
REPLICATED_RULES = Rules(
    default=_workload_defaults(with_replicas=True),
    validate=_validate_workload,
    validate_update=_validate_workload_update,
)
DAEMON_SET_RULES = Rules(
    default=_workload_defaults(with_replicas=False),
    validate=_validate_workload,
    validate_update=_validate_workload_update,
)
JOB_RULES = Rules(default=_default_job)
