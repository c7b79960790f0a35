"""The columns of each kind's table, and how an object fills them.

Source: pkg/printers/internalversion/printers.go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.tables.durations import age, human_duration
from scheduler.sandbox.tables.pod_cells import pod_ready, pod_restarts, pod_status

Cell = Callable[[Object, datetime], Any]
NONE: Final = "<none>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    cell: Cell
    type: str = "string"
    wide: bool = False
    """Whether it is shown with `-o wide` only."""


def _path(*names: str, default: Any = "") -> Cell:
    def cell(content: Object, _now: datetime) -> Any:
        return _get(content, *names, default=default)

    return cell


def _get(content: Any, *names: str, default: Any = "") -> Any:
    for name in names:
        content = content.get(name) if isinstance(content, dict) else None
    return default if content is None else content


def _age(content: Object, now: datetime) -> str:
    return age(_get(content, "metadata", "creationTimestamp"), now)


def _containers(content: Object, field: str) -> str:
    containers = _get(content, "spec", "template", "spec", "containers", default=[])
    return ",".join(container.get(field, "") for container in containers)


def _selector(content: Object, _now: datetime) -> str:
    selector = _get(content, "spec", "selector", default={})
    labels = selector.get("matchLabels", {}) if "matchLabels" in selector else selector
    pairs = [f"{key}={value}" for key, value in labels.items() if isinstance(value, str)]
    return ",".join(pairs) or NONE


def _access_modes(*names: str) -> Cell:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }

    def cell(content: Object, _now: datetime) -> str:
        return ",".join(short.get(mode, mode) for mode in _get(content, *names, default=[]))

    return cell


def _node_status(node: Object, _now: datetime) -> str:
    ready = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in _get(node, "status", "conditions", default=[])
        if condition.get("type") == "Ready"
    ]
    disabled = ["SchedulingDisabled"] if _get(node, "spec", "unschedulable") else []
    return ",".join((ready or ["Unknown"]) + disabled)


def _node_roles(node: Object, _now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = _get(node, "metadata", "labels", default={})
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    return ",".join(roles) or NONE


def _address(kind: str) -> Cell:
    def cell(node: Object, _now: datetime) -> str:
        addresses = _get(node, "status", "addresses", default=[])
        found = (entry["address"] for entry in addresses if entry.get("type") == kind)
        return next(found, NONE)

    return cell


def _last_seen(event: Object, now: datetime) -> str:
    series = _get(event, "series", "lastObservedTime") or event.get("lastTimestamp")
    return age(series, now) if series else _first_seen(event, now)


def _first_seen(event: Object, now: datetime) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime"), now)


def _event_object(event: Object, _now: datetime) -> str:
    about = event.get("involvedObject", {})
    return "/".join(part for part in (about.get("kind", "").lower(), about.get("name")) if part)


def _event_source(event: Object, _now: datetime) -> str:
    component = _get(event, "source", "component") or event.get("reportingComponent", "")
    host = _get(event, "source", "host") or event.get("reportingInstance", "")
    return ", ".join(part for part in (component, host) if part)


def _event_count(event: Object, _now: datetime) -> int:
    count: int = _get(event, "series", "count") or event.get("count") or 1
    return count


def _service_ports(service: Object, _now: datetime) -> str:
    ports = _get(service, "spec", "ports", default=[])
    return ",".join(f"{port.get('port')}/{port.get('protocol')}" for port in ports) or NONE


def _job_status(job: Object, _now: datetime) -> str:
    true = {
        condition["type"]
        for condition in _get(job, "status", "conditions", default=[])
        if condition.get("status") == "True"
    }
    return next((name for name in ("Complete", "Failed", "Suspended") if name in true), "Running")


def _job_duration(job: Object, now: datetime) -> str:
    start = _get(job, "status", "startTime")
    if not start:
        return ""
    end = _get(job, "status", "completionTime")
    until = datetime.fromisoformat(end) if end else now
    began = datetime.fromisoformat(start)
    return human_duration(int((until - began).total_seconds()))


def _ready_of_wanted(content: Object, _now: datetime) -> str:
    ready = _get(content, "status", "readyReplicas", default=0)
    return f"{ready}/{_get(content, 'spec', 'replicas', default=0)}"


def _claim_of(volume: Object, _now: datetime) -> str:
    claim = _get(volume, "spec", "claimRef", default={})
    return "/".join(part for part in (claim.get("namespace"), claim.get("name")) if part)


def _gates_passed(pod: Object, _now: datetime) -> str:
    gates = _get(pod, "spec", "readinessGates", default=[])
    true = {
        condition.get("type")
        for condition in _get(pod, "status", "conditions", default=[])
        if condition.get("status") == "True"
    }
    passed = sum(1 for gate in gates if gate.get("conditionType") in true)
    return f"{passed}/{len(gates)}" if gates else NONE


NAME: Final = Column("Name", _path("metadata", "name"))
AGE: Final = Column("Age", _age)
_WORKLOAD_WIDE: Final = (
    Column("Containers", lambda content, _now: _containers(content, "name"), wide=True),
    Column("Images", lambda content, _now: _containers(content, "image"), wide=True),
    Column("Selector", _selector, wide=True),
)
_REPLICAS: Final = (
    NAME,
    Column("Desired", _path("spec", "replicas", default=0), "integer"),
    Column("Current", _path("status", "replicas", default=0), "integer"),
    Column("Ready", _path("status", "readyReplicas", default=0), "integer"),
    AGE,
    *_WORKLOAD_WIDE,
)
_EVENT: Final = (
    Column("Last Seen", _last_seen),
    Column("Type", _path("type")),
    Column("Reason", _path("reason")),
    Column("Object", _event_object),
    Column("Subobject", _path("involvedObject", "fieldPath"), wide=True),
    Column("Source", _event_source, wide=True),
    Column("Message", lambda event, _now: event.get("message", "").strip()),
    Column("First Seen", _first_seen, wide=True),
    Column("Count", _event_count, wide=True),
    Column("Name", _path("metadata", "name"), wide=True),
)

COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "pods": (
        NAME,
        Column("Ready", lambda pod, _now: pod_ready(pod)),
        Column("Status", lambda pod, _now: pod_status(pod)),
        Column("Restarts", lambda pod, _now: str(pod_restarts(pod))),
        AGE,
        Column("IP", _path("status", "podIP", default=NONE), wide=True),
        Column("Node", _path("spec", "nodeName", default=NONE), wide=True),
        Column("Nominated Node", _path("status", "nominatedNodeName", default=NONE), wide=True),
        Column("Readiness Gates", _gates_passed, wide=True),
    ),
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _path("status", "nodeInfo", "kubeletVersion")),
        Column("Internal-IP", _address("InternalIP"), wide=True),
        Column("External-IP", _address("ExternalIP"), wide=True),
        Column("OS-Image", _path("status", "nodeInfo", "osImage", default="<unknown>"), wide=True),
        Column(
            "Kernel-Version",
            _path("status", "nodeInfo", "kernelVersion", default="<unknown>"),
            wide=True,
        ),
        Column(
            "Container-Runtime",
            _path("status", "nodeInfo", "containerRuntimeVersion", default="<unknown>"),
            wide=True,
        ),
    ),
    "events": _EVENT,
    "namespaces": (NAME, Column("Status", _path("status", "phase")), AGE),
    "leases.coordination.k8s.io": (
        NAME,
        Column("Holder", _path("spec", "holderIdentity")),
        AGE,
    ),
    "services": (
        NAME,
        Column("Type", _path("spec", "type")),
        Column("Cluster-IP", _path("spec", "clusterIP", default=NONE)),
        Column("External-IP", lambda _content, _now: NONE),
        Column("Port(s)", _service_ports),
        AGE,
        Column("Selector", _selector, wide=True),
    ),
    "replicationcontrollers": _REPLICAS,
    "replicasets.apps": _REPLICAS,
    "deployments.apps": (
        NAME,
        Column("Ready", _ready_of_wanted),
        Column("Up-to-date", _path("status", "updatedReplicas", default=0), "integer"),
        Column("Available", _path("status", "availableReplicas", default=0), "integer"),
        AGE,
        *_WORKLOAD_WIDE,
    ),
    "statefulsets.apps": (NAME, Column("Ready", _ready_of_wanted), AGE, *_WORKLOAD_WIDE[:2]),
    "daemonsets.apps": (
        NAME,
        Column("Desired", _path("status", "desiredNumberScheduled", default=0), "integer"),
        Column("Current", _path("status", "currentNumberScheduled", default=0), "integer"),
        Column("Ready", _path("status", "numberReady", default=0), "integer"),
        Column("Up-to-date", _path("status", "updatedNumberScheduled", default=0), "integer"),
        Column("Available", _path("status", "numberAvailable", default=0), "integer"),
        AGE,
        *_WORKLOAD_WIDE,
    ),
    "jobs.batch": (
        NAME,
        Column("Status", _job_status),
        Column(
            "Completions",
            lambda job, _now: (
                f"{_get(job, 'status', 'succeeded', default=0)}/{_get(job, 'spec', 'completions')}"
            ),
        ),
        Column("Duration", _job_duration),
        AGE,
        *_WORKLOAD_WIDE,
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", _path("spec", "minAvailable", default="N/A")),
        Column("Max Unavailable", _path("spec", "maxUnavailable", default="N/A")),
        Column("Allowed Disruptions", _path("status", "disruptionsAllowed", default=0), "integer"),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        Column("Value", _path("value", default=0), "integer"),
        Column("Global-Default", _path("globalDefault", default=False), "boolean"),
        AGE,
        Column("PreemptionPolicy", _path("preemptionPolicy")),
    ),
    "persistentvolumeclaims": (
        NAME,
        Column("Status", _path("status", "phase")),
        Column("Volume", _path("spec", "volumeName")),
        Column("Capacity", _path("status", "capacity", "storage")),
        Column("Access Modes", _access_modes("status", "accessModes")),
        Column("StorageClass", _path("spec", "storageClassName")),
        AGE,
        Column("VolumeMode", _path("spec", "volumeMode", default="<unset>"), wide=True),
    ),
    "persistentvolumes": (
        NAME,
        Column("Capacity", _path("spec", "capacity", "storage")),
        Column("Access Modes", _access_modes("spec", "accessModes")),
        Column("Reclaim Policy", _path("spec", "persistentVolumeReclaimPolicy")),
        Column("Status", _path("status", "phase")),
        Column("Claim", _claim_of),
        Column("StorageClass", _path("spec", "storageClassName")),
        AGE,
    ),
    "storageclasses.storage.k8s.io": (
        NAME,
        Column("Provisioner", _path("provisioner")),
        Column("ReclaimPolicy", _path("reclaimPolicy")),
        Column("VolumeBindingMode", _path("volumeBindingMode")),
        Column("AllowVolumeExpansion", _path("allowVolumeExpansion", default=False)),
        AGE,
    ),
    "configmaps": (
        NAME,
        Column("Data", lambda content, _now: str(len(content.get("data", {})))),
        AGE,
    ),
    "secrets": (
        NAME,
        Column("Type", _path("type")),
        Column("Data", lambda content, _now: str(len(content.get("data", {})))),
        AGE,
    ),
}

DEFAULT_COLUMNS: Final = (NAME, AGE)
"""For kinds that are not listed."""
