"""Decodes the kinds of objects that scheduling reads, in files and in answers of an API server."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from scheduler.api.device_amounts import InvalidDeviceError, checked_template
from scheduler.api.devices import ResourceClaimTemplate
from scheduler.api.nodes import InvalidNodeError, checked_node
from scheduler.api.nulls import without_nulls
from scheduler.api.objects import Namespace, Node, ObjectMeta, Pod, is_terminal
from scheduler.api.pod_groups import InvalidPodGroupError, PodGroup
from scheduler.api.pods import InvalidPodError, PodInfo, pod_info
from scheduler.api.storage import InvalidStorageError
from scheduler.daemon.informers.kinds import (
    FOR_PLUGINS,
    POD_GROUPS,
    TAINT_RULES,
    Kind,
    watched_kind,
)
from scheduler.kernel.ends import RunDurations
from scheduler.kernel.ends.times import seconds_of
from scheduler.kernel.framework.events import POD_GROUP_KIND, ObjectKind
from scheduler.tools.offline import input_errors
from scheduler.tools.offline.admission import KINDS, Admission, is_complete
from scheduler.tools.offline.defaults import completed_pod
from scheduler.tools.offline.documents import InputError
from scheduler.tools.offline.resource_claims import completed_claim
from scheduler.tools.offline.workloads import WORKLOAD_APIS

_GROUPS: Final[Mapping[str, Kind[PodGroup]]] = {
    kind.declared.api_version: kind for kind in POD_GROUPS.places
}
"""The kinds of pod groups by API version; all become one kind."""
_WATCHED: Final[Mapping[str, ObjectKind]] = {
    kind.kind: kind for kind in (*FOR_PLUGINS, TAINT_RULES.declared, POD_GROUP_KIND)
}
_INVALID: Final = (
    InvalidPodError,
    InvalidNodeError,
    InvalidStorageError,
    InvalidPodGroupError,
)
CLAIM: Final = "ResourceClaim"
TEMPLATE: Final = "ResourceClaimTemplate"
_RESOURCE: Final = "resource.k8s.io/v1"
_CORE: Final = "v1"

Written: TypeAlias = bytes | Mapping[str, Any]
"""An object with all fields, as bytes or as plain values."""


class ClusterObjects:
    """The objects of the input; of several with the same name, the last one counts.

    Attributes:
        nodes: all nodes, by name.
        pods: non-terminal pods, by namespace and name.
        namespaces: all namespaces.
        watched: kind and object of the other objects, which plugins watch.
        workloads: kind, namespace and name of the workloads that were read as their pods.
        written_nodes: nodes with all fields, by name.
        written_pods: pods with all fields, by UID.
        warnings: likely mistakes in objects, which are read or left out.
        left_out: the warnings about objects that are left out.
        durations: run times of terminal pods.
        time: the time of day of this state, in seconds since 1970; None for now.
        admission: the defaults for submitted pods and claims.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.pods: list[PodInfo] = []
        self.namespaces: list[Namespace] = []
        self.watched: list[tuple[ObjectKind, Any]] = []
        self.workloads: set[tuple[str, str, str]] = set()
        self.written_nodes: dict[str, Written] = {}
        self.written_pods: dict[str, Written] = {}
        self.warnings: list[str] = []
        self.left_out: list[str] = []
        self.durations = RunDurations()
        self.time: float | None = None
        self.admission = Admission()


class _Named(msgspec.Struct):
    """An object of a kind that only a plugin knows."""

    metadata: ObjectMeta = ObjectMeta()


class _FieldError(Exception):
    """A required field is empty, or a field has a value that is not allowed."""


_Object = TypeVar("_Object", Pod, Node)


def _with_known_words(checked: _Object) -> _Object:
    problem = input_errors.of_words(checked)
    if problem is not None:
        raise _FieldError(problem)
    return checked


class ObjectDecoder:
    """Decodes objects one by one; of several with the same name, the last one counts.

    Methods raise `InputError` with the given place for an object that cannot be read.

    Args:
        admission: collects defaults from objects; None if they come from an API server.

    Attributes:
        templates: the templates of resource claims, by namespace and name.
        nodes: the nodes by name.
    """

    def __init__(self, admission: Admission | None) -> None:
        self._admission = admission
        self._objects = ClusterObjects()
        self._pods: dict[tuple[str, str], PodInfo] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._watched: dict[tuple[str, str, str], Any] = {}
        self._of_plugins: dict[tuple[ObjectKind, str, str], Any] = {}
        self.nodes: dict[str, Node] = {}
        self.templates: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._takers: dict[str, Callable[[dict[str, Any]], None]] = {
            "Node": self._take_node,
            "Pod": self._take_pod,
            "Namespace": self._take_namespace,
            TEMPLATE: self._take_template,
        }

    def reads(self, kind: str) -> bool:
        """Return whether scheduling reads the kind."""
        return kind in self._takers or kind in _WATCHED or kind in KINDS

    def take(self, raw: Mapping[str, Any], kind: str, place: str) -> None:
        """Add an object of a kind that scheduling reads."""
        with _told_at(place, raw):
            if self._admission is not None and kind in KINDS:
                self._admission.take(kind, raw)
            if kind in _WATCHED:
                self._take_watched(kind, raw)
            elif kind in self._takers:
                self._takers[kind](dict(raw))

    def take_of_plugins(self, declared: ObjectKind, raw: Mapping[str, Any], place: str) -> None:
        """Add an object of a kind that only a plugin knows."""
        place = f"{place}: {declared.kind}"
        with _told_at(place, raw):
            meta = msgspec.convert(raw, _Named).metadata
        if not meta.name:
            raise InputError(f"{place}: metadata.name: required")
        found = watched_kind(declared).convert(raw)
        self._of_plugins[declared, meta.namespace, meta.name] = found

    def result(self) -> ClusterObjects:
        """Return the objects in the order in which an API server lists them."""
        objects = self._objects
        objects.nodes = [node for _, node in sorted(self.nodes.items())]
        objects.pods = [pod for _, pod in sorted(self._pods.items())]
        objects.namespaces = [namespace for _, namespace in sorted(self._namespaces.items())]
        objects.watched = [
            (_WATCHED[kind], found)
            for (kind, *_), found in sorted(self._watched.items(), key=lambda item: item[0])
        ]
        objects.watched += ((declared, found) for (declared, *_), found in self._of_plugins.items())
        return objects

    def _take_node(self, raw: dict[str, Any]) -> None:
        node = _with_known_words(checked_node(msgspec.convert(raw, Node)))
        self.nodes[node.metadata.name] = node
        self._objects.written_nodes[node.metadata.name] = raw

    def _take_pod(self, raw: dict[str, Any]) -> None:
        completed = completed_pod(raw)
        pod = _with_known_words(msgspec.convert(completed, Pod))
        if self._admission is not None and not is_complete(raw):
            problem = input_errors.of_required(pod)
            if problem is not None:
                raise _FieldError(problem)
        self._objects.written_pods[pod.metadata.uid] = completed
        key = (pod.metadata.namespace, pod.metadata.name)
        if is_terminal(pod):
            self._pods.pop(key, None)
            end = _end_of_run(completed)
            if end is not None:
                self._objects.durations.note_end(pod_info(pod), end)
        else:
            self._pods[key] = pod_info(pod)

    def _take_namespace(self, raw: dict[str, Any]) -> None:
        namespace = msgspec.convert(raw, Namespace)
        self._namespaces[namespace.metadata.name] = namespace

    def _take_template(self, raw: dict[str, Any]) -> None:
        metadata, as_json = raw["metadata"], msgspec.json.encode(without_nulls(raw))
        checked_template(msgspec.json.decode(as_json, type=ResourceClaimTemplate))
        self.templates[metadata["namespace"], metadata["name"]] = raw

    def _take_watched(self, kind: str, raw: Mapping[str, Any]) -> None:
        if kind == CLAIM:
            raw = completed_claim(raw)
        declared = _WATCHED[kind]
        if declared == POD_GROUP_KIND:
            found = _GROUPS[raw.get("apiVersion", declared.api_version)].convert(raw)
        else:
            found = watched_kind(declared).convert(raw)
        self._watched[kind, found.metadata.namespace, found.metadata.name] = found


@contextmanager
def _told_at(place: str, raw: Mapping[str, Any]) -> Iterator[None]:
    """Turn the errors of decoding into an `InputError` that begins with the place."""
    try:
        yield
    except msgspec.ValidationError as problem:
        raise InputError(f"{place}: {input_errors.of_type(problem, raw)}") from problem
    except (_FieldError, InvalidDeviceError) as problem:
        raise InputError(f"{place}: {problem}") from problem
    except _INVALID as problem:
        cause = problem.__cause__
        told = cause if isinstance(cause, ValueError) else problem
        raise InputError(f"{place}: {input_errors.of_value(told, raw)}") from problem


def _end_of_run(pod: Mapping[str, Any]) -> float | None:
    """Return the time at which a pod's last container ended, in seconds since 1970, if known."""
    try:
        states = [each["state"]["terminated"] for each in pod["status"]["containerStatuses"]]
        ends = [seconds_of(state["finishedAt"]) for state in states]
    except (KeyError, TypeError):
        return None
    return max((end for end in ends if end is not None), default=None)


def wrong_version(kind: str, version: str) -> str | None:
    """Describe a wrong apiVersion of an object; None if it is right."""
    expected = api_version(kind)
    if version == expected or (kind == POD_GROUP_KIND.kind and version in _GROUPS):
        return None
    return f"{kind}: apiVersion: expected {expected}, got {version}: left out"


def api_version(kind: str) -> str:
    """Return the apiVersion of a kind; v1 for unknown kinds."""
    if kind == TEMPLATE:
        return _RESOURCE
    if kind in KINDS:
        return KINDS[kind].api_version
    return _WATCHED[kind].api_version if kind in _WATCHED else WORKLOAD_APIS.get(kind, _CORE)
