"""What the server itself decides about a new pod.

Source: pkg/registry/core/pod/strategy.go (PrepareForCreate, PrepareForUpdate) and the admission
plugins Priority, DefaultTolerationSeconds and PodTopologyLabels.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from scheduler.sandbox.kinds import NODES, PODS, PRIORITY_CLASSES
from scheduler.sandbox.quantities import quantity_value
from scheduler.sandbox.rules.contract import Cluster
from scheduler.sandbox.rules.pod_defaults import containers_of
from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.status import forbidden

TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_EVICTION_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICTION_SECONDS: Final = 300
_COMPUTE: Final = ("cpu", "memory")


def admit_pod(pod: Object, cluster: Cluster) -> None:
    """Gives the pod its priority, its tolerations of a failing node, and its node's topology.

    Raises:
        StatusError: 403, the priority class is unknown or contradicts the pod.
    """
    _admit_priority(pod, cluster)
    _admit_tolerations(pod["spec"])
    node_name = pod["spec"].get("nodeName")
    if node_name:
        pod["metadata"].setdefault("labels", {}).update(topology_labels(cluster, node_name))


def topology_labels(cluster: Cluster, node_name: str) -> dict[str, str]:
    """The zone and region a pod inherits from its node."""
    node = cluster.find(NODES.key, "", node_name)
    labels = (node or {}).get("metadata", {}).get("labels") or {}
    return {label: labels[label] for label in TOPOLOGY_LABELS if label in labels}


def _admit_priority(pod: Object, cluster: Cluster) -> None:
    spec, name = pod["spec"], pod["metadata"].get("name", "")
    class_name = spec.get("priorityClassName", "")
    found = (
        cluster.find(PRIORITY_CLASSES.key, "", class_name)
        if class_name
        else _global_default(cluster)
    )
    if class_name and found is None:
        raise forbidden(
            PODS.resource, "", name, f"no PriorityClass with name {class_name} was found"
        )
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    priority = found.get("value", 0) if found else 0
    policy = found.get("preemptionPolicy") if found else None
    policy = policy or "PreemptLowerPriority"
    _settle(pod, "priority", "integer value of priority", priority)
    _settle(pod, "preemptionPolicy", "string value of PreemptionPolicy", policy)


def _settle(pod: Object, field: str, called: str, computed: int | str) -> None:
    given = pod["spec"].get(field)
    if given is not None and given != computed:
        raise forbidden(
            PODS.resource,
            "",
            pod["metadata"].get("name", ""),
            f"the {called} ({given}) must not be provided in pod spec; priority admission "
            f"controller computed {computed} from the given PriorityClass name",
        )
    pod["spec"][field] = computed


def _global_default(cluster: Cluster) -> Object | None:
    defaults = [
        priority_class
        for priority_class in cluster.all_of(PRIORITY_CLASSES.key)
        if priority_class.get("globalDefault")
    ]
    return min(defaults, key=lambda found: found.get("value", 0), default=None)


def _admit_tolerations(spec: Object) -> None:
    tolerations = spec.get("tolerations") or []
    for taint in _EVICTION_TAINTS:
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            tolerations = [
                *tolerations,
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _EVICTION_SECONDS,
                },
            ]
    spec["tolerations"] = tolerations


def _tolerates(toleration: Object, taint: str) -> bool:
    return toleration.get("key", "") in {taint, ""} and toleration.get("effect", "") in {
        "NoExecute",
        "",
    }


def prepare_pod(pod: Object) -> None:
    """Starts the status of a new pod and merges its matchLabelKeys into its selectors."""
    status: Object = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": pod["metadata"]["creationTimestamp"],
            }
        ]
    pod["status"] = status
    pod_labels = pod["metadata"].get("labels") or {}
    for constraint in pod["spec"].get("topologySpreadConstraints") or ():
        _merge_label_keys(constraint, "matchLabelKeys", "In", pod_labels)
    for term in _affinity_terms(pod["spec"].get("affinity") or {}):
        _merge_label_keys(term, "matchLabelKeys", "In", pod_labels)
        _merge_label_keys(term, "mismatchLabelKeys", "NotIn", pod_labels)


def _affinity_terms(affinity: Object) -> Iterator[Object]:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def _merge_label_keys(term: Object, field: str, operator: str, labels: dict[str, str]) -> None:
    keys = [key for key in term.get(field) or () if key in labels]
    selector = term.get("labelSelector")
    if selector is None or not keys:
        return
    selector["matchExpressions"] = [
        *selector.get("matchExpressions", ()),
        *({"key": key, "operator": operator, "values": [labels[key]]} for key in keys),
    ]


def prepare_pod_update(new: Object, old: Object) -> None:
    """Keeps what the author of an update cannot know."""
    _admit_tolerations(new["spec"])
    for field in ("priority", "preemptionPolicy"):
        if field in old["spec"]:
            new["spec"].setdefault(field, old["spec"][field])
    if "qosClass" in old.get("status", {}):
        new.setdefault("status", {}).setdefault("qosClass", old["status"]["qosClass"])


def qos_class(spec: Object) -> str:
    """BestEffort, Burstable or Guaranteed.

    Source: pkg/apis/core/v1/helper/qos (ComputePodQOS).
    """
    pod_level = spec.get("resources")
    holders = [pod_level] if pod_level else [c.get("resources", {}) for c in containers_of(spec)]
    requests, _ = _compute_sums(holders, "requests")
    limits, each_has_limits = _compute_sums(holders, "limits")
    if not requests and not limits:
        return "BestEffort"
    if each_has_limits and requests == limits:
        return "Guaranteed"
    return "Burstable"


def _compute_sums(holders: list[Object], field: str) -> tuple[dict[str, Decimal], bool]:
    sums: dict[str, Decimal] = {}
    complete = True
    for holder in holders:
        given = holder.get(field) or {}
        values = {name: quantity_value(given[name]) for name in _COMPUTE if name in given}
        above_zero = {name: value for name, value in values.items() if value > 0}
        complete = complete and len(above_zero) == len(_COMPUTE)
        for name, value in above_zero.items():
            sums[name] = sums.get(name, Decimal(0)) + value
    return sums, complete
