"""Rules for pods: what is filled in, what the server decides, what may change.

Source: pkg/apis/core/v1/defaults.go, pkg/registry/core/pod/strategy.go, pkg/apis/core/validation
(ValidatePodUpdate), the admission plugins Priority, DefaultTolerationSeconds and PodTopologyLabels.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

from apistub.rules.checks import is_name, quantity_faults
from apistub.rules.contract import Rules
from apistub.storage.kinds import NODES, PODS, PRIORITY_CLASSES, Object
from apistub.storage.status import Fault, forbidden
from apistub.storage.store import Store
from scheduler.api.quantity import parse

_CONTAINER_LISTS: Final = ("containers", "initContainers")
_SPEC_DEFAULTS: Final[Mapping[str, object]] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_EVICTION_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICTION_SECONDS: Final = 300
_COMPUTE: Final = ("cpu", "memory")
_MUTABLE: Final = frozenset({"tolerations", "schedulingGates", "activeDeadlineSeconds"})
_MUTABLE_WHILE_GATED: Final = frozenset({"nodeSelector", "affinity"})


def containers_of(spec: Object) -> Iterator[tuple[str, Object]]:
    """The containers of a pod and the paths to them."""
    for name in _CONTAINER_LISTS:
        for index, container in enumerate(spec.get(name) or ()):
            yield f"{name}[{index}]", container


def default_pod_spec(spec: Object) -> None:
    """Fills in what a pod and a pod template get alike."""
    for name, value in _SPEC_DEFAULTS.items():
        spec.setdefault(name, value)
    for _, container in containers_of(spec):
        container.setdefault("resources", {})
        for port in container.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if spec.get("hostNetwork"):
                port.setdefault("hostPort", port.get("containerPort", 0))
    for volume in spec.get("volumes") or ():
        if len(volume) == 1:
            volume["emptyDir"] = {}


def _default_pod(pod: Object) -> None:
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    for holder in (spec.get("resources") or {}, *(c["resources"] for _, c in containers_of(spec))):
        if "limits" in holder:
            holder["requests"] = {**holder["limits"], **holder.get("requests", {})}


def _admit_pod(pod: Object, store: Store) -> None:
    _admit_priority(pod, store)
    _admit_tolerations(pod["spec"])
    if node_name := pod["spec"].get("nodeName"):
        labels = topology_labels(store.find(NODES, node_name))
        pod["metadata"].setdefault("labels", {}).update(labels)
    pod["status"] = {"phase": "Pending", "qosClass": _qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": pod["metadata"]["creationTimestamp"],
            }
        ]


def topology_labels(node: Object | None) -> dict[str, str]:
    """The zone and region a pod inherits from its node."""
    labels = (node or {}).get("metadata", {}).get("labels") or {}
    return {label: labels[label] for label in _TOPOLOGY_LABELS if label in labels}


def _admit_priority(pod: Object, store: Store) -> None:
    spec, name = pod["spec"], pod["metadata"].get("name", "")
    class_name = spec.get("priorityClassName")
    if class_name:
        found = store.find(PRIORITY_CLASSES, class_name)
        if found is None:
            raise forbidden(PODS, name, f"there is no PriorityClass {class_name}")
    else:
        classes = (entry.content() for entry in store.collection(PRIORITY_CLASSES).entries())
        defaults = (one for one in classes if one.get("globalDefault"))
        found = min(defaults, key=lambda one: int(one.get("value", 0)), default={})
    if found:
        spec["priorityClassName"] = found["metadata"]["name"]
    policy = found.get("preemptionPolicy", "PreemptLowerPriority")
    for field, value in (("priority", found.get("value", 0)), ("preemptionPolicy", policy)):
        if spec.setdefault(field, value) != value:
            why = f"{field} {spec[field]} contradicts its PriorityClass, which gives {value}"
            raise forbidden(PODS, name, why)


def _admit_tolerations(spec: Object) -> None:
    given = spec.get("tolerations") or []
    missing = [
        taint
        for taint in _EVICTION_TAINTS
        if not any(
            one.get("key", "") in {taint, ""} and one.get("effect", "") in {"NoExecute", ""}
            for one in given
        )
    ]
    common = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTION_SECONDS}
    spec["tolerations"] = [*given, *({"key": taint, **common} for taint in missing)]


def _qos_class(spec: Object) -> str:
    """BestEffort, Burstable or Guaranteed.

    Source: pkg/apis/core/v1/helper/qos (ComputePodQOS).
    """
    resources = [container["resources"] for _, container in containers_of(spec)]
    holders = [spec["resources"]] if spec.get("resources") else resources
    requests = [_compute(holder.get("requests") or {}) for holder in holders]
    limits = [_compute(holder.get("limits") or {}) for holder in holders]
    if not any(requests) and not any(limits):
        return "BestEffort"
    is_limited = all(len(limit) == len(_COMPUTE) for limit in limits)
    return "Guaranteed" if is_limited and requests == limits else "Burstable"


def _compute(quantities: Object) -> dict[str, Decimal]:
    values = {name: parse(quantities[name]) for name in _COMPUTE if name in quantities}
    return {name: value for name, value in values.items() if value > 0}


def _prepare_pod_update(new: Object, old: Object) -> None:
    _admit_tolerations(new["spec"])
    for field in ("priority", "preemptionPolicy"):
        if field in old["spec"]:
            new["spec"].setdefault(field, old["spec"][field])


def pod_spec_faults(spec: Object, where: str) -> Iterator[Fault]:
    """The faults of a specification: no containers, nameless ones, quantities that are none."""
    if not spec.get("containers"):
        yield Fault(f"{where}.containers", "at least one is needed")
    for path, container in containers_of(spec):
        if not is_name(container.get("name", "")):
            yield Fault(f"{where}.{path}.name", f"{container.get('name', '')!r} is not a name")
        if not container.get("image"):
            yield Fault(f"{where}.{path}.image", "is needed")
        for part in ("requests", "limits"):
            quantities = (container.get("resources") or {}).get(part) or {}
            yield from quantity_faults(f"{where}.{path}.resources.{part}", quantities)
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield Fault(f"{where}.nodeName", "a pod with a scheduling gate has none")


def _validate_pod(pod: Object) -> Iterator[Fault]:
    return pod_spec_faults(pod["spec"], "spec")


def _validate_pod_update(new: Object, old: Object) -> Iterator[Fault]:
    fresh, before = new["spec"], old["spec"]
    known = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    for gate in fresh.get("schedulingGates") or ():
        if gate.get("name") not in known:
            yield Fault("spec.schedulingGates", f"{gate.get('name')!r} cannot be added")
    tolerations = [_without_seconds(one) for one in fresh.get("tolerations") or ()]
    for toleration in before.get("tolerations") or ():
        if _without_seconds(toleration) not in tolerations:
            yield Fault("spec.tolerations", f"{toleration} cannot be taken away")
    mutable = _MUTABLE | _MUTABLE_WHILE_GATED if known else _MUTABLE
    for name in sorted({*fresh, *before} - mutable):
        if _without_images(fresh.get(name)) != _without_images(before.get(name)):
            yield Fault(f"spec.{name}", "cannot be changed")


def _without_seconds(toleration: Object) -> Object:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _without_images(value: object) -> object:
    if not isinstance(value, list):
        return value
    return [{**item, "image": ""} if isinstance(item, dict) else item for item in value]


RULES: Final = Rules(
    default=_default_pod,
    admit=_admit_pod,
    prepare_update=_prepare_pod_update,
    validate=_validate_pod,
    validate_update=_validate_pod_update,
)
