"""Rules for the other kinds, and the table of all. A kind not in it is stored as it comes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from apistub.rules import pods
from apistub.rules.checks import is_key, is_value, quantity_faults
from apistub.rules.contract import Rules
from apistub.rules.pods import default_pod_spec, pod_spec_faults
from apistub.storage.kinds import Kind, Object
from apistub.storage.selectors import selects
from apistub.storage.status import Fault

SYSTEM_PRIORITIES: Final = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
_HIGHEST_USER_PRIORITY: Final = 1_000_000_000
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _filled(**defaults: Any) -> Callable[[Object], None]:
    """Fills in these fields where they are absent."""
    return lambda content: _fill(content, defaults)


def _fill(content: Object, defaults: Object) -> None:
    for name, value in defaults.items():
        if isinstance(value, dict):
            _fill(content.setdefault(name, {}), value)
        else:
            content.setdefault(name, value)


def _default_node(node: Object) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _validate_node(node: Object) -> Iterator[Fault]:
    for index, taint in enumerate(node["spec"].get("taints") or ()):
        where = f"spec.taints[{index}]"
        if not is_key(taint.get("key", "")) or not is_value(taint.get("value", "")):
            yield Fault(where, f"{taint} has no proper key and value")
        if taint.get("effect") not in _EFFECTS:
            yield Fault(f"{where}.effect", f"expected one of {', '.join(_EFFECTS)}")
    for part in ("capacity", "allocatable"):
        yield from quantity_faults(f"status.{part}", node["status"].get(part) or {})


def _default_namespace(namespace: Object) -> None:
    namespace.setdefault("spec", {"finalizers": ["kubernetes"]})
    namespace.setdefault("status", {}).setdefault("phase", "Active")
    meta = namespace["metadata"]
    meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta.get("name", "")


def _validate_priority_class(priority_class: Object) -> Iterator[Fault]:
    name, value = priority_class["metadata"].get("name", ""), priority_class["value"]
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            yield Fault("metadata.name", "system- is for the system's own classes")
    elif value > _HIGHEST_USER_PRIORITY:
        yield Fault("value", f"at most {_HIGHEST_USER_PRIORITY}")


def _validate_priority_class_update(new: Object, old: Object) -> Iterator[Fault]:
    for field in ("value", "preemptionPolicy"):
        if new[field] != old[field]:
            yield Fault(field, "cannot be changed")


def _default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")


def _default_workload(workload: Object) -> None:
    spec = workload.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _validate_workload(workload: Object) -> Iterator[Fault]:
    spec = workload["spec"]
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if not selects(spec.get("selector"), labels):
        yield Fault("spec.selector", "does not select the labels of the template")
    yield from pod_spec_faults(spec["template"]["spec"], "spec.template.spec")


def _validate_workload_update(new: Object, old: Object) -> Iterator[Fault]:
    if new["spec"].get("selector") != old["spec"].get("selector"):
        yield Fault("spec.selector", "cannot be changed")


_WORKLOAD: Final = Rules(
    default=_default_workload,
    validate=_validate_workload,
    validate_update=_validate_workload_update,
)
_RULES: Final[Mapping[str, Rules]] = {
    "pods": pods.RULES,
    "nodes": Rules(default=_default_node, validate=_validate_node),
    "namespaces": Rules(default=_default_namespace),
    "services": Rules(default=_default_service),
    "persistentvolumeclaims": Rules(
        default=_filled(spec={"volumeMode": "Filesystem"}, status={"phase": "Pending"})
    ),
    "persistentvolumes": Rules(
        default=_filled(spec={"volumeMode": "Filesystem"}, status={"phase": "Available"})
    ),
    "deployments.apps": _WORKLOAD,
    "replicasets.apps": _WORKLOAD,
    "statefulsets.apps": _WORKLOAD,
    "replicationcontrollers": Rules(default=_default_workload),
    "poddisruptionbudgets.policy": Rules(default=_filled(status={"disruptionsAllowed": 0})),
    "priorityclasses.scheduling.k8s.io": Rules(
        default=_filled(value=0, preemptionPolicy="PreemptLowerPriority"),
        validate=_validate_priority_class,
        validate_update=_validate_priority_class_update,
    ),
    "storageclasses.storage.k8s.io": Rules(
        default=_filled(reclaimPolicy="Delete", volumeBindingMode="Immediate")
    ),
}
_NO_RULES: Final = Rules()


def rules_of(kind: Kind) -> Rules:
    """What happens to a kind's objects on the way into the store."""
    return _RULES.get(kind.key, _NO_RULES)


def warnings_about(kind: Kind, content: Object) -> tuple[str, ...]:
    """What a client should know that a real cluster would do and this one does not."""
    if kind.unattended:
        return (f"no controller looks after {kind.resource} here: they are only stored",)
    taints = (content.get("spec") or {}).get("taints") or ()
    if any(taint.get("effect") == "NoExecute" for taint in taints):
        return ("NoExecute ends no pod here: it only keeps new ones away",)
    return ()
