"""The table of kinds that the scheduler watches. A new kind is one line here."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

from scheduler.api.disruption_budgets import DisruptionBudget, disruption_budget
from scheduler.api.nodes import InvalidNodeError, checked_node
from scheduler.api.objects import (
    Namespace,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from scheduler.api.pods import InvalidPodError, PodInfo, pod_info
from scheduler.framework.events import ObjectKind

T = TypeVar("T")

_META: Final[Callable[[Any], ObjectMeta]] = attrgetter("metadata")

_MALFORMED: Final = (msgspec.ValidationError, InvalidPodError, InvalidNodeError)
"""What is raised for bytes that are JSON, but no object of their kind."""


class MalformedObjectError(ValueError):
    """An object of the API server that cannot be read; the message names field and cause."""


class Kind(Generic[T]):
    """A kind of object: where it is served and how its bytes become what the engine uses.

    Attributes:
        name: the plural, for logs and metrics.
        path: where all objects of the kind are listed.
        field_selector: what the server shall leave out, quoted for a URL; empty for nothing.
        page_size: objects per page of a list; fewer where objects are large.
        meta_of: the metadata of a built object.
        decode_event: reads a line of a watch in one go.
    """

    def __init__(
        self,
        name: str,
        path: str,
        wire: type[Any],
        build: Callable[[Any], T] | None = None,
        *,
        meta_of: Callable[[T], ObjectMeta] = _META,
        field_selector: str = "",
        page_size: int = 500,
    ) -> None:
        self.name = name
        self.path = path
        self.field_selector = field_selector
        self.page_size = page_size
        self.meta_of = meta_of
        self._build = build
        self._decoder = msgspec.json.Decoder(wire)
        event: Any = msgspec.defstruct("Event", [("type", str), ("object", wire)], gc=False)
        self._event_decoder = msgspec.json.Decoder(event)

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        """An object from its bytes.

        Raises:
            MalformedObjectError: a field is missing, of the wrong type, or cannot be read.
        """
        try:
            return self._built(self._decoder.decode(raw))
        except _MALFORMED as problem:
            raise MalformedObjectError(str(problem)) from problem

    def decode_event(self, line: bytes) -> tuple[str, T]:
        """A watch event from its line: its type and its object, decoded in one pass.

        Raises:
            MalformedObjectError: the object cannot be read; also for bookmarks and errors, whose
                objects are not of the kind.
            msgspec.DecodeError: the line is not JSON.
        """
        try:
            event = self._event_decoder.decode(line)
            return event.type, self._built(event.object)
        except _MALFORMED as problem:
            raise MalformedObjectError(str(problem)) from problem

    def _built(self, decoded: Any) -> T:
        if self._build is None:
            return decoded  # type: ignore[no-any-return] # the wire type is the built type
        return self._build(decoded)


PODS: Final = Kind[PodInfo](
    "pods",
    "/api/v1/pods",
    Pod,
    pod_info,
    meta_of=attrgetter("pod.metadata"),
    field_selector="status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
)
NODES: Final = Kind[Node]("nodes", "/api/v1/nodes", Node, checked_node, page_size=200)
NAMESPACES: Final = Kind[Namespace]("namespaces", "/api/v1/namespaces", Namespace)
SERVICES: Final = Kind[Service]("services", "/api/v1/services", Service)
REPLICATION_CONTROLLERS: Final = Kind[ReplicationController](
    "replicationcontrollers", "/api/v1/replicationcontrollers", ReplicationController
)
REPLICA_SETS: Final = Kind[ReplicaSet]("replicasets", "/apis/apps/v1/replicasets", ReplicaSet)
STATEFUL_SETS: Final = Kind[StatefulSet]("statefulsets", "/apis/apps/v1/statefulsets", StatefulSet)
POD_DISRUPTION_BUDGETS: Final = Kind[DisruptionBudget](
    "poddisruptionbudgets",
    "/apis/policy/v1/poddisruptionbudgets",
    PodDisruptionBudget,
    disruption_budget,
)

KINDS: Final[tuple[Kind[Any], ...]] = (
    PODS,
    NODES,
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    POD_DISRUPTION_BUDGETS,
)

_FOR_PLUGINS: Final[Mapping[ObjectKind, Kind[Any]]] = {
    ObjectKind("Service"): SERVICES,
    ObjectKind("ReplicationController"): REPLICATION_CONTROLLERS,
    ObjectKind("ReplicaSet", "apps/v1"): REPLICA_SETS,
    ObjectKind("StatefulSet", "apps/v1"): STATEFUL_SETS,
    ObjectKind("PodDisruptionBudget", "policy/v1"): POD_DISRUPTION_BUDGETS,
}


def watched_kind(declared: ObjectKind) -> Kind[Any]:
    """Where a kind is served that a plugin declares; objects of unknown kinds are dictionaries.

    Raises:
        ValueError: the kind is unknown, and its plural is not given.
    """
    known = _FOR_PLUGINS.get(declared)
    if known is not None:
        return known
    if not declared.plural:
        raise ValueError(f"{declared.kind} ({declared.api_version}): the plural must be declared")
    root = "apis" if "/" in declared.api_version else "api"
    return Kind[dict[str, Any]](
        declared.plural,
        f"/{root}/{declared.api_version}/{declared.plural}",
        dict[str, Any],
        meta_of=lambda found: msgspec.convert(found.get("metadata"), ObjectMeta),
    )
