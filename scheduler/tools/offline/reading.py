"""Reads Kubernetes objects from files: YAML or JSON, single, List, or many documents.

Objects are completed as by an API server, as far as scheduling reads them: with defaults always,
and with the additions of admission and controllers for submitted objects.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from scheduler.api.nodes import InvalidNodeError, checked_node
from scheduler.api.nulls import without_nulls
from scheduler.api.objects import Namespace, Node, ObjectMeta, Pod, is_terminal
from scheduler.api.pod_groups import InvalidPodGroupError, PodGroup
from scheduler.api.pods import InvalidPodError, PodInfo, pod_info
from scheduler.api.resource_slices import InvalidDeviceError
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
from scheduler.tools.offline.defaults import completed, completed_pod, in_namespace
from scheduler.tools.offline.documents import InputError, documents_from_text, items_of
from scheduler.tools.offline.resource_claims import claims_of_templates, completed_claim
from scheduler.tools.offline.strictness import (
    is_core,
    missing_nodes,
    unknown_fields,
    unknown_kind,
)
from scheduler.tools.offline.volume_claims import claims_of_ephemeral_volumes
from scheduler.tools.offline.workloads import (
    WORKLOAD_APIS,
    WorkloadError,
    is_workload,
    pods_of,
)

__all__ = [
    "ClusterObjects",
    "InputError",
    "documents_from_text",
    "objects_beside",
    "objects_from_documents",
]

_GROUPS: Final[Mapping[str, Kind[PodGroup]]] = {
    kind.declared.api_version: kind for kind in POD_GROUPS.places
}
"""The kinds of pod groups by API version; all become one kind."""
_WATCHED: Final[Mapping[str, ObjectKind]] = {
    kind.kind: kind for kind in (*FOR_PLUGINS, TAINT_RULES.declared, POD_GROUP_KIND)
}
CLUSTER_WIDE: Final = frozenset(
    {
        "Node",
        "Namespace",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "VolumeAttachment",
        "PriorityClass",
        "RuntimeClass",
        "DeviceClass",
        "DeviceTaintRule",
        "ResourceSlice",
    }
)
"""Kinds without namespaces."""
_VOLUME_CLAIM: Final = "PersistentVolumeClaim"
_ADMITTED: Final = frozenset({"Pod", _VOLUME_CLAIM})
"""Kinds that admission completes by other objects, so that they are read last."""
_CORE: Final = "v1"
_INVALID: Final = (
    InvalidPodError,
    InvalidNodeError,
    InvalidStorageError,
    InvalidDeviceError,
    InvalidPodGroupError,
)
_CLAIM: Final = "ResourceClaim"
_TEMPLATE: Final = "ResourceClaimTemplate"
_RESOURCE: Final = "resource.k8s.io/v1"

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


class _Collector:
    """Decodes objects one by one.

    Args:
        admission: completes submitted objects, and collects further defaults; None if objects
            come from an API server. With it workloads are read as the pods that they would create.
        known: existing nodes, besides those that are read.
        pods: existing pods, besides those that are read.
        watched: the kinds that plugins watch; those that only plugins know stay plain values.
    """

    def __init__(
        self,
        admission: Admission | None,
        known: Iterable[Node],
        pods: Iterable[PodInfo],
        watched: Iterable[ObjectKind],
    ) -> None:
        self._admission = admission
        self._of_plugins = {(kind.kind, kind.api_version): kind for kind in watched if kind.plural}
        self._read_for_plugins: dict[tuple[ObjectKind, str, str], Any] = {}
        self._uids = {pod.uid: pod.key for pod in pods}
        self._known_nodes = {node.metadata.name: node for node in known}
        self._admitted: list[tuple[Mapping[str, Any], str, str]] = []
        self._workloads: list[tuple[Mapping[str, Any], str]] = []
        self._places: dict[tuple[str, str, str], str] = {}
        self._warnings: dict[str, None] = {}
        self._left_out: dict[str, str] = {}
        self._nodes: dict[str, Node] = {}
        self._pods: dict[tuple[str, str], PodInfo] = {}
        self._durations = RunDurations()
        self._namespaces: dict[str, Namespace] = {}
        self._watched: dict[tuple[str, str, str], Any] = {}
        self._written_nodes: dict[str, Written] = {}
        self._written_pods: dict[str, Written] = {}
        self._takers: dict[str, Callable[[dict[str, Any]], None]] = {
            "Node": self._take_node,
            "Pod": self._take_pod,
            "Namespace": self._take_namespace,
            _TEMPLATE: self._take_template,
        }
        self._templates: dict[tuple[str, str], Mapping[str, Any]] = {}

    def take(self, raw: Mapping[str, Any], place: str) -> None:
        """Add one object; kinds that scheduling does not read are left out, unknown ones reported.

        Raises:
            InputError: the object cannot be read.
        """
        kind = raw.get("kind")
        if not isinstance(kind, str):
            raise InputError(f"{place}: kind: expected the kind of a Kubernetes object")
        version = str(raw.get("apiVersion", _api_version(kind)))
        of_plugins = self._of_plugins.get((kind, version))
        is_read = self._is_read(kind, version)
        has_pods = self._admission is not None and is_workload(raw)
        if is_read or has_pods:
            problem = _wrong_version(kind, version)
        else:
            problem = unknown_kind(kind, is_core=is_core(version))
        if of_plugins is not None:
            self._take_of_plugins(of_plugins, raw, place)
        elif problem is not None:
            self._leave_out(place, problem)
        if problem is None and (is_read or has_pods):
            raw = without_nulls(raw)
            at = self._named(raw, kind, place)
            if has_pods:
                self._workloads.append((in_namespace(raw), at))
            if is_read:
                self._take(raw, kind, at)

    def _is_read(self, kind: str, version: str) -> bool:
        """Return whether scheduling reads the kind; other API groups have a PodGroup too."""
        if kind == POD_GROUP_KIND.kind and not is_core(version):
            return False
        return kind in self._takers or kind in _WATCHED or kind in KINDS

    def _named(self, raw: Mapping[str, Any], kind: str, place: str) -> str:
        """Return the place and the name of an object; warn of unknown fields."""
        metadata = raw.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
        at = f"{place}: {kind} {name}".rstrip()
        if not name:
            raise InputError(f"{at}: metadata.name: required")
        for problem in unknown_fields(raw, kind):
            self._warn(at, problem)
        self._note_place(raw, kind, place)
        return at

    def _take(self, raw: Mapping[str, Any], kind: str, place: str) -> None:
        if kind not in CLUSTER_WIDE:
            raw = in_namespace(raw)
        raw = completed(raw, kind)
        if kind in _ADMITTED:
            self._admitted.append((raw, kind, place))
        else:
            self._decode(raw, kind, place)

    def _admit(self, raw: Mapping[str, Any], kind: str, place: str) -> None:
        """Add a pod or a claim, completed by admission with the other objects."""
        if kind == "Pod":
            raw = self._without_uid_of_others(raw, place)
        if self._admission is not None and not is_complete(raw):
            named = {**raw, "kind": kind}
            raw = self._admission.completed(named, lambda problem: self._warn(place, problem))
            if kind == "Pod":
                self._admit_claims_of(raw, place)
        if kind == "Pod" and self._templates:
            raw, made = claims_of_templates(completed_pod(raw), self._templates)
            for claim in made:
                self._decode(claim, _CLAIM, place)
        self._decode(raw, kind, place)

    def _without_uid_of_others(self, pod: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        """Return the pod without its UID if another pod has it: the pod is a renamed copy then."""
        metadata = pod["metadata"]
        uid, key = str(metadata.get("uid") or ""), f"{metadata['namespace']}/{metadata['name']}"
        other = self._uids.setdefault(uid, key) if uid else key
        if other == key:
            return pod
        self._warn(place, f"metadata.uid: is that of {other} as well; it counts for {other} only")
        left = {name: value for name, value in metadata.items() if name != "uid"}
        return {**pod, "metadata": left}

    def _admit_claims_of(self, pod: Mapping[str, Any], place: str) -> None:
        """Add the claims of a pod's ephemeral volumes that do not exist yet."""
        for claim in claims_of_ephemeral_volumes(completed_pod(pod)):
            key = (_VOLUME_CLAIM, claim["metadata"]["namespace"], claim["metadata"]["name"])
            if key not in self._places:
                self._admit(claim, _VOLUME_CLAIM, place)

    def _decode(self, raw: Mapping[str, Any], kind: str, place: str) -> None:
        try:
            if self._admission is not None and kind in KINDS:
                self._admission.take(kind, raw)
            if kind in _WATCHED:
                self._take_watched(kind, raw)
            elif kind in self._takers:
                self._takers[kind](dict(raw))
        except msgspec.ValidationError as problem:
            raise InputError(f"{place}: {input_errors.of_type(problem, raw)}") from problem
        except _FieldError as problem:
            raise InputError(f"{place}: {problem}") from problem
        except _INVALID as problem:
            cause = problem.__cause__
            told = cause if isinstance(cause, ValueError) else problem
            raise InputError(f"{place}: {input_errors.of_value(told, raw)}") from problem

    def result(self) -> ClusterObjects:
        """Return the objects in the order in which an API server lists them.

        Raises:
            InputError: the pods of a workload cannot be built.
        """
        for raw, place in self._workloads:
            self._make_pods(raw, place)
        for admitted in self._admitted:
            self._admit(*admitted)
        objects = ClusterObjects()
        objects.nodes = [node for _, node in sorted(self._nodes.items())]
        objects.pods = [pod for _, pod in sorted(self._pods.items())]
        objects.namespaces = [namespace for _, namespace in sorted(self._namespaces.items())]
        objects.watched = [
            (_WATCHED[kind], found)
            for (kind, *_), found in sorted(self._watched.items(), key=lambda item: item[0])
        ]
        objects.watched += (
            (declared, found) for (declared, *_), found in self._read_for_plugins.items()
        )
        objects.workloads = {
            (raw["kind"], str(raw["metadata"]["namespace"]), str(raw["metadata"]["name"]))
            for raw, _ in self._workloads
        }
        objects.written_nodes = self._written_nodes
        objects.written_pods = self._written_pods
        objects.durations = self._durations
        objects.warnings = list(self._warnings)
        objects.left_out = [f"{place}: {problem}" for problem, place in self._left_out.items()]
        objects.admission = self._admission or objects.admission
        return objects

    def _leave_out(self, place: str, problem: str) -> None:
        """Warn of the first of many objects that are not read for the same reason."""
        if problem not in self._left_out:
            self._left_out[problem] = place
            self._warn(place, problem)

    def _warn(self, place: str, problem: str) -> None:
        self._warnings[f"{place}: {problem}"] = None

    def _note_place(self, raw: Mapping[str, Any], kind: str, place: str) -> None:
        metadata = (raw if kind in CLUSTER_WIDE else in_namespace(raw))["metadata"]
        namespace = "" if kind in CLUSTER_WIDE else str(metadata["namespace"])
        key = (kind, namespace, str(metadata["name"]))
        before = self._places.get(key)
        if before is not None:
            called = f"{kind} {namespace}/{key[2]}" if namespace else f"{kind} {key[2]}"
            self._warn(place, f"{called}: is in {before} as well; what comes last counts")
        self._places[key] = place

    def _make_pods(self, raw: Mapping[str, Any], place: str) -> None:
        """Take the objects that a workload's controller would make; claims only where none is."""
        try:
            nodes = {**self._known_nodes, **self._nodes}
            for made in pods_of(raw, [node for _, node in sorted(nodes.items())]):
                metadata = made["metadata"]
                key = (made["kind"], metadata.get("namespace", ""), metadata["name"])
                if key not in self._places:
                    self._take(without_nulls(made), made["kind"], f"{place}: its {made['kind']}")
        except WorkloadError as problem:
            raise InputError(f"{place}: {problem}") from problem
        except msgspec.ValidationError as problem:
            told = input_errors.of_type(problem, raw)
            raise InputError(f"{place}: spec.template.spec: {told}") from problem

    def _take_node(self, raw: dict[str, Any]) -> None:
        node = _with_known_words(checked_node(msgspec.convert(raw, Node)))
        self._nodes[node.metadata.name] = node
        self._written_nodes[node.metadata.name] = raw

    def _take_pod(self, raw: dict[str, Any]) -> None:
        completed = completed_pod(raw)
        pod = _with_known_words(msgspec.convert(completed, Pod))
        if self._admission is not None and not is_complete(raw):
            problem = input_errors.of_required(pod)
            if problem is not None:
                raise _FieldError(problem)
        self._written_pods[pod.metadata.uid] = completed
        key = (pod.metadata.namespace, pod.metadata.name)
        if is_terminal(pod):
            self._pods.pop(key, None)
            end = _end_of_run(completed)
            if end is not None:
                self._durations.note_end(pod_info(pod), end)
        else:
            self._pods[key] = pod_info(pod)

    def _take_namespace(self, raw: dict[str, Any]) -> None:
        namespace = msgspec.convert(raw, Namespace)
        self._namespaces[namespace.metadata.name] = namespace

    def _take_template(self, raw: dict[str, Any]) -> None:
        metadata = raw["metadata"]
        self._templates[metadata["namespace"], metadata["name"]] = raw

    def _take_of_plugins(self, declared: ObjectKind, raw: Mapping[str, Any], place: str) -> None:
        place = f"{place}: {declared.kind}"
        try:
            meta = msgspec.convert(raw, _Named).metadata
        except msgspec.ValidationError as problem:
            raise InputError(f"{place}: {input_errors.of_type(problem, raw)}") from problem
        if not meta.name:
            raise InputError(f"{place}: metadata.name: required")
        found = watched_kind(declared).convert(raw)
        self._read_for_plugins[declared, meta.namespace, meta.name] = found

    def _take_watched(self, kind: str, raw: Mapping[str, Any]) -> None:
        if kind == _CLAIM:
            raw = completed_claim(raw)
        declared = _WATCHED[kind]
        if declared == POD_GROUP_KIND:
            found = _GROUPS[raw.get("apiVersion", declared.api_version)].convert(raw)
        else:
            found = watched_kind(declared).convert(raw)
        self._watched[kind, found.metadata.namespace, found.metadata.name] = found


def objects_from_documents(
    documents: Iterable[tuple[str, Any]],
    *,
    admission: Admission | None = None,
    nodes: Iterable[Node] = (),
    pods: Iterable[PodInfo] = (),
    watched: Iterable[ObjectKind] = (),
    is_whole: bool = True,
) -> ClusterObjects:
    """The objects in parsed documents, each with the place it comes from.

    Args:
        documents: place and content of each.
        admission: given where people have submitted the objects: they are completed by it, and
            workloads are taken as the pods that they would make. None where the objects are as an
            API server holds them.
        nodes: that there are beside the documents; DaemonSets have pods on them.
        pods: that there are beside the documents.
        watched: the kinds that plugins watch, see `Profiles.watched`.
        is_whole: whether it is to be a whole cluster, so that a lack of nodes is worth a word.

    Raises:
        InputError: a document cannot be read.
    """
    collector = _Collector(None if admission is None else admission.copy(), nodes, pods, watched)
    for place, document in documents:
        for item_place, raw in items_of(document, place):
            collector.take(raw, item_place)
    objects = collector.result()
    if is_whole:
        objects.warnings += missing_nodes(objects.nodes, objects.pods)
    return objects


def objects_beside(
    cluster: ClusterObjects,
    documents: Iterable[tuple[str, Any]],
    admission: Admission,
    watched: Iterable[ObjectKind],
) -> ClusterObjects:
    """Return the submitted objects in documents; DaemonSets have pods on the cluster's nodes.

    Raises:
        InputError: a document cannot be read.
    """
    return objects_from_documents(
        documents,
        admission=admission,
        nodes=cluster.nodes,
        pods=cluster.pods,
        watched=watched,
        is_whole=False,
    )


def _end_of_run(pod: Mapping[str, Any]) -> float | None:
    """Return the time at which a pod's last container ended, in seconds since 1970, if known."""
    try:
        states = [each["state"]["terminated"] for each in pod["status"]["containerStatuses"]]
        ends = [seconds_of(state["finishedAt"]) for state in states]
    except (KeyError, TypeError):
        return None
    return max((end for end in ends if end is not None), default=None)


def _wrong_version(kind: str, version: str) -> str | None:
    """Describe a wrong apiVersion of an object; None if it is right."""
    expected = _api_version(kind)
    if version == expected or (kind == POD_GROUP_KIND.kind and version in _GROUPS):
        return None
    return f"{kind}: apiVersion: expected {expected}, got {version}: left out"


def _api_version(kind: str) -> str:
    if kind == _TEMPLATE:
        return _RESOURCE
    if kind in KINDS:
        return KINDS[kind].api_version
    return _WATCHED[kind].api_version if kind in _WATCHED else WORKLOAD_APIS.get(kind, _CORE)
