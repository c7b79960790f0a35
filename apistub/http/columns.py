"""The columns of each kind's table, and how an object fills them.

Source: pkg/printers/internalversion/printers.go, k8s.io/apimachinery pkg/util/duration.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from apistub.storage.kinds import Object

Cell = Callable[[Object, datetime], object]
NONE: Final = "<none>"
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_STEPS: Final = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
)
"""Below how many seconds, in which unit, and in which finer one beside it."""
_ROLE: Final = "node-role.kubernetes.io/"


class Column(NamedTuple):
    """One column."""

    name: str
    cell: Cell
    wide: bool = False
    """Whether it is shown with `-o wide` only."""


def _get(content: Any, path: str, default: Any = "") -> Any:
    for name in path.split("."):
        content = content.get(name) if isinstance(content, dict) else None
    return default if content is None else content


def _at(path: str, default: Any = "") -> Cell:
    return lambda content, _now: _get(content, path, default)


def age(timestamp: str | None, now: datetime) -> str:
    """How long ago something was, given as the API writes times."""
    if not timestamp:
        return "<unknown>"
    seconds = max(int((now - datetime.fromisoformat(timestamp)).total_seconds()), 0)
    for limit, unit, letter, fine_unit, fine_letter in _STEPS:
        if seconds < limit:
            whole, rest = divmod(seconds, unit)
            fine = rest // fine_unit if fine_unit else 0
            return f"{whole}{letter}{fine}{fine_letter}" if fine else f"{whole}{letter}"
    return f"{seconds // _DAY}d"


def _age(content: Object, now: datetime) -> str:
    return age(_get(content, "metadata.creationTimestamp"), now)


def _conditions(content: Object) -> dict[str, Object]:
    return {found["type"]: found for found in _get(content, "status.conditions", [])}


# --- pods -----------------------------------------------------------------------------------------


def _pod_ready(pod: Object, _now: datetime) -> str:
    ready = sum(1 for status in _statuses(pod) if status.get("ready"))
    return f"{ready}/{len(_get(pod, 'spec.containers', []))}"


def _pod_status(pod: Object, _now: datetime) -> str:
    """The one word for how the pod is doing."""
    phase = _get(pod, "status.phase")
    if "deletionTimestamp" in pod["metadata"] and phase not in {"Succeeded", "Failed"}:
        return "Terminating"
    if _conditions(pod).get("PodScheduled", {}).get("reason") == "SchedulingGated":
        return "SchedulingGated"
    reason: str = next(_container_reasons(pod), "") or _get(pod, "status.reason") or phase
    return reason


def _container_reasons(pod: Object) -> Iterator[str]:
    for status in _statuses(pod):
        for state in ("waiting", "terminated"):
            if reason := _get(status, f"state.{state}.reason"):
                yield reason


def _statuses(pod: Object) -> list[Object]:
    statuses: list[Object] = _get(pod, "status.containerStatuses", [])
    return statuses


def _restarts(pod: Object, _now: datetime) -> int:
    return sum(status.get("restartCount", 0) for status in _statuses(pod))


# --- nodes and events -----------------------------------------------------------------------------


def _node_status(node: Object, _now: datetime) -> str:
    ready = _conditions(node).get("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if _get(node, "spec.unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Object, _now: datetime) -> str:
    labels = _get(node, "metadata.labels", {})
    roles = sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE))
    return ",".join(roles) or NONE


def _address(node: Object, _now: datetime) -> str:
    addresses = _get(node, "status.addresses", [])
    return next((one["address"] for one in addresses if one["type"] == "InternalIP"), NONE)


def _last_seen(event: Object, now: datetime) -> str:
    first = event.get("firstTimestamp") or event.get("eventTime")
    return age(_get(event, "series.lastObservedTime") or event.get("lastTimestamp") or first, now)


def _event_object(event: Object, _now: datetime) -> str:
    return f"{_get(event, 'involvedObject.kind').lower()}/{_get(event, 'involvedObject.name')}"


def _event_source(event: Object, _now: datetime) -> object:
    return _get(event, "source.component") or event.get("reportingComponent", "")


def _event_count(event: Object, _now: datetime) -> object:
    return _get(event, "series.count") or event.get("count") or 1


# --- the others -----------------------------------------------------------------------------------


def _service_ports(service: Object, _now: datetime) -> str:
    ports = _get(service, "spec.ports", [])
    return ",".join(f"{port.get('port')}/{port.get('protocol')}" for port in ports) or NONE


def _ready_of_wanted(content: Object, _now: datetime) -> str:
    return f"{_get(content, 'status.readyReplicas', 0)}/{_get(content, 'spec.replicas', 0)}"


NAME: Final = Column("Name", _at("metadata.name"))
AGE: Final = Column("Age", _age)
_REPLICAS: Final = (
    NAME,
    Column("Desired", _at("spec.replicas", 0)),
    Column("Current", _at("status.replicas", 0)),
    Column("Ready", _at("status.readyReplicas", 0)),
    AGE,
)

COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "pods": (
        NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _restarts),
        AGE,
        Column("IP", _at("status.podIP", NONE), wide=True),
        Column("Node", _at("spec.nodeName", NONE), wide=True),
        Column("Nominated Node", _at("status.nominatedNodeName", NONE), wide=True),
    ),
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _at("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _address, wide=True),
        Column("OS-Image", _at("status.nodeInfo.osImage", "<unknown>"), wide=True),
    ),
    "events": (
        Column("Last Seen", _last_seen),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _event_object),
        Column("Source", _event_source, wide=True),
        Column("Message", _at("message")),
        Column("Count", _event_count, wide=True),
        Column("Name", _at("metadata.name"), wide=True),
    ),
    "namespaces": (NAME, Column("Status", _at("status.phase")), AGE),
    "leases.coordination.k8s.io": (NAME, Column("Holder", _at("spec.holderIdentity")), AGE),
    "services": (
        NAME,
        Column("Type", _at("spec.type")),
        Column("Cluster-IP", _at("spec.clusterIP", NONE)),
        Column("Port(s)", _service_ports),
        AGE,
    ),
    "replicasets.apps": _REPLICAS,
    "replicationcontrollers": _REPLICAS,
    "statefulsets.apps": (NAME, Column("Ready", _ready_of_wanted), AGE),
    "deployments.apps": (
        NAME,
        Column("Ready", _ready_of_wanted),
        Column("Up-to-date", _at("status.updatedReplicas", 0)),
        Column("Available", _at("status.availableReplicas", 0)),
        AGE,
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", _at("spec.minAvailable", "N/A")),
        Column("Max Unavailable", _at("spec.maxUnavailable", "N/A")),
        Column("Allowed Disruptions", _at("status.disruptionsAllowed", 0)),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        Column("Value", _at("value", 0)),
        Column("Global-Default", lambda found, _now: str(_get(found, "globalDefault", "false"))),
        AGE,
    ),
    "persistentvolumeclaims": (
        NAME,
        Column("Status", _at("status.phase")),
        Column("Volume", _at("spec.volumeName")),
        Column("StorageClass", _at("spec.storageClassName")),
        AGE,
    ),
    "persistentvolumes": (
        NAME,
        Column("Capacity", _at("spec.capacity.storage")),
        Column("Status", _at("status.phase")),
        Column("Claim", _at("spec.claimRef.name")),
        Column("StorageClass", _at("spec.storageClassName")),
        AGE,
    ),
}

DEFAULT_COLUMNS: Final = (NAME, AGE)
"""For kinds that are not listed."""
