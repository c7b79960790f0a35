"""Kubernetes objects from files: YAML or JSON, single, List, or many documents.

Objects are completed as an API server would have completed them, as far as scheduling reads them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
import yaml

from scheduler.api.nodes import InvalidNodeError, checked_node
from scheduler.api.objects import Namespace, Node, Pod, PodSpec, is_terminal
from scheduler.api.pods import InvalidPodError, PodInfo, pod_info
from scheduler.api.storage import InvalidStorageError
from scheduler.api.taints import Tolerations
from scheduler.errors import SchedulerError
from scheduler.framework.events import ObjectKind
from scheduler.informers.kinds import FOR_PLUGINS
from scheduler.offline import complaints
from scheduler.offline.defaults import completed_pod, in_namespace, without_nulls
from scheduler.offline.strictness import unknown_fields, unknown_kind
from scheduler.offline.workloads import WorkloadError, daemon_template, is_workload, pods_of
from scheduler.plugins.node_predicates import has_untolerated_taint, required_node_affinity_of

_WATCHED: Final[Mapping[str, ObjectKind]] = {kind.kind: kind for kind in FOR_PLUGINS}
CLUSTER_WIDE: Final = frozenset(
    {
        "Node",
        "Namespace",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "VolumeAttachment",
    }
)
"""Kinds without namespaces."""
_NAMED: Final = 3
_CORE: Final = "v1"


class InputError(SchedulerError):
    """A file, document or field that cannot be read; the message names all three."""


class ClusterObjects:
    """What the input describes. An object that is given twice counts as it is given last.

    Attributes:
        nodes: all nodes, by name.
        pods: pods that have not ended, by namespace and name.
        namespaces: namespaces.
        watched: kind and object of what plugins watch.
        warnings: what looks like a slip: it is read all the same, or left out.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.pods: list[PodInfo] = []
        self.namespaces: list[Namespace] = []
        self.watched: list[tuple[ObjectKind, Any]] = []
        self.warnings: list[str] = []


class _UnknownWordError(Exception):
    """A field holds a word that means nothing there."""


_Object = TypeVar("_Object", Pod, Node)


def _with_known_words(checked: _Object) -> _Object:
    problem = complaints.of_words(checked)
    if problem is not None:
        raise _UnknownWordError(problem)
    return checked


class _Collector:
    """Decodes objects one by one.

    Args:
        makes_pods: whether hand-written workloads are taken as the pods that they would make.
    """

    def __init__(self, *, makes_pods: bool) -> None:
        self._makes_pods = makes_pods
        self._workloads: list[tuple[Mapping[str, Any], str]] = []
        self._places: dict[tuple[str, str, str], str] = {}
        self._warnings: dict[str, None] = {}
        self._nodes: dict[str, Node] = {}
        self._pods: dict[tuple[str, str], PodInfo] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._watched: dict[tuple[str, str, str], Any] = {}
        self._takers: dict[str, Callable[[dict[str, Any]], None]] = {
            "Node": self._take_node,
            "Pod": self._take_pod,
            "Namespace": self._take_namespace,
        }

    def take(self, raw: Mapping[str, Any], place: str) -> None:
        """Add one object; kinds that scheduling does not read are left out, unknown ones told.

        Raises:
            InputError: the object cannot be read.
        """
        kind = raw.get("kind")
        if not isinstance(kind, str):
            raise InputError(f"{place}: kind: expected the kind of a Kubernetes object")
        makes_pods = self._makes_pods and is_workload(raw)
        is_read = kind in self._takers or kind in _WATCHED
        version = raw.get("apiVersion", _api_version(kind))
        if not (is_read or makes_pods):
            problem = unknown_kind(kind, is_core=_is_core(str(version)))
            if problem is not None:
                self._warn(place, problem)
            return
        if is_read and version != _api_version(kind):
            # Somebody else's Service.
            return
        raw = without_nulls(raw)
        metadata = raw.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
        at = f"{place}: {kind} {name}".rstrip()
        if not name:
            raise InputError(f"{at}: metadata.name: required")
        for problem in unknown_fields(raw, kind):
            self._warn(at, problem)
        self._note_place(raw, kind, place)
        if makes_pods:
            self._workloads.append((in_namespace(raw), at))
        if is_read:
            self._take(raw, kind, at)

    def _take(self, raw: Mapping[str, Any], kind: str, place: str) -> None:
        try:
            if kind in _WATCHED:
                self._take_watched(kind, raw if kind in CLUSTER_WIDE else in_namespace(raw))
            else:
                self._takers[kind](dict(raw))
        except msgspec.ValidationError as problem:
            raise InputError(f"{place}: {complaints.of_type(problem, raw)}") from problem
        except _UnknownWordError as problem:
            raise InputError(f"{place}: {problem}") from problem
        except (InvalidPodError, InvalidNodeError, InvalidStorageError) as problem:
            cause = problem.__cause__
            told = cause if isinstance(cause, ValueError) else problem
            raise InputError(f"{place}: {complaints.of_value(told, raw)}") from problem

    def result(self) -> ClusterObjects:
        """The objects in the order in which an API server lists them.

        Raises:
            InputError: no pods can be made of a workload.
        """
        for raw, place in self._workloads:
            self._make_pods(raw, place)
        objects = ClusterObjects()
        objects.warnings = list(self._warnings)
        objects.nodes = [node for _, node in sorted(self._nodes.items())]
        objects.pods = [pod for _, pod in sorted(self._pods.items())]
        objects.namespaces = [namespace for _, namespace in sorted(self._namespaces.items())]
        objects.watched = [
            (_WATCHED[kind], found)
            for (kind, *_), found in sorted(self._watched.items(), key=lambda item: item[0])
        ]
        return objects

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
            nodes = self._nodes_for(raw) if raw["kind"] == "DaemonSet" else ()
            for made in pods_of(raw, nodes):
                metadata = made["metadata"]
                key = (made["kind"], metadata.get("namespace", ""), metadata["name"])
                if key not in self._places:
                    self._take(without_nulls(made), made["kind"], f"{place}: its {made['kind']}")
        except WorkloadError as problem:
            raise InputError(f"{place}: {problem}") from problem
        except msgspec.ValidationError as problem:
            told = complaints.of_type(problem, raw)
            raise InputError(f"{place}: spec.template.spec: {told}") from problem

    def _nodes_for(self, raw: Mapping[str, Any]) -> list[Node]:
        """The nodes on which a DaemonSet has a pod."""
        spec = msgspec.convert(daemon_template(raw)["spec"], PodSpec)
        affinity = required_node_affinity_of(spec)
        tolerations = Tolerations(spec.tolerations)
        return [
            node
            for _, node in sorted(self._nodes.items())
            if affinity.matches_node(node)
            and not has_untolerated_taint(node.spec.taints, tolerations)
        ]

    def _take_node(self, raw: dict[str, Any]) -> None:
        node = _with_known_words(checked_node(msgspec.convert(raw, Node)))
        self._nodes[node.metadata.name] = node

    def _take_pod(self, raw: dict[str, Any]) -> None:
        pod = _with_known_words(msgspec.convert(completed_pod(raw), Pod))
        key = (pod.metadata.namespace, pod.metadata.name)
        if is_terminal(pod):
            self._pods.pop(key, None)
        else:
            self._pods[key] = pod_info(pod)

    def _take_namespace(self, raw: dict[str, Any]) -> None:
        namespace = msgspec.convert(raw, Namespace)
        self._namespaces[namespace.metadata.name] = namespace

    def _take_watched(self, kind: str, raw: Mapping[str, Any]) -> None:
        found = FOR_PLUGINS[_WATCHED[kind]].convert(raw)
        self._watched[kind, found.metadata.namespace, found.metadata.name] = found


def objects_from_documents(
    documents: Iterable[tuple[str, Any]], *, makes_pods: bool = False, is_whole: bool = True
) -> ClusterObjects:
    """The objects in parsed documents, each with the place it comes from.

    Args:
        documents: the documents.
        makes_pods: whether hand-written workloads are taken as the pods that they would make.
        is_whole: whether it is to be a whole cluster, so that a lack of nodes is worth a word.

    Raises:
        InputError: a document cannot be read.
    """
    collector = _Collector(makes_pods=makes_pods)
    for place, document in documents:
        for item_place, raw in _items(document, place):
            collector.take(raw, item_place)
    objects = collector.result()
    if is_whole:
        objects.warnings += _about_nodes(objects)
    return objects


def _about_nodes(objects: ClusterObjects) -> Iterator[str]:
    """Says when there are no nodes, or not those that pods are on."""
    nodes = {node.metadata.name for node in objects.nodes}
    if not nodes:
        yield "there are no nodes: no pod can have one"
        return
    missing: dict[str, list[str]] = {}
    for pod in objects.pods:
        if pod.node_name and pod.node_name not in nodes:
            missing.setdefault(pod.node_name, []).append(pod.key)
    for name, pods in sorted(missing.items()):
        more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
        on_it = f"{', '.join(sorted(pods)[:_NAMED])}{more}"
        yield f"there is no node {name}, on which there are pods: {on_it}"


def documents_from_text(text: str, source: str) -> Iterator[tuple[str, Any]]:
    """The documents of a YAML or JSON text, each with its place.

    Raises:
        InputError: the text is neither, or there is nothing in it.
    """
    try:
        # JSON is the much faster case, and the usual one for whole clusters.
        yield source, msgspec.json.decode(text)
    except msgspec.DecodeError:
        yield from _yaml_documents(text, source)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as Kubernetes does: a time is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _yaml_documents(text: str, source: str) -> Iterator[tuple[str, Any]]:
    is_empty = True
    try:
        for number, document in enumerate(yaml.load_all(text, _Loader), 1):
            if document is not None:
                is_empty = False
                yield f"{source}: document {number}", document
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise InputError(f"{place}: not valid YAML: {problem.problem}") from problem
    except yaml.YAMLError as problem:
        raise InputError(f"{source}: not valid YAML: {problem}") from problem
    if is_empty:
        raise InputError(f"{source}: empty; expected Kubernetes objects in YAML or JSON")


def _items(document: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(document, Mapping):
        raise InputError(f"{place}: expected a Kubernetes object, got {_shown(document)}")
    items = document.get("items")
    if not str(document.get("kind", "")).endswith("List") or items is None:
        yield place, document
        return
    if not isinstance(items, list):
        raise InputError(f"{place}: items: expected a list, got {_shown(items)}")
    item_kind = str(document["kind"]).removesuffix("List")
    for index, item in enumerate(items):
        at = f"{place}: items[{index}]"
        if not isinstance(item, Mapping):
            raise InputError(f"{at}: expected a Kubernetes object, got {_shown(item)}")
        # The items of a PodList carry no kind of their own.
        yield at, item if "kind" in item or not item_kind else {**item, "kind": item_kind}


def _is_core(api_version: str) -> bool:
    """Whether an API is one of Kubernetes' own, as far as its name tells."""
    group = api_version.rpartition("/")[0]
    return "." not in group or group.endswith(".k8s.io")


def _api_version(kind: str) -> str:
    return _WATCHED[kind].api_version if kind in _WATCHED else _CORE


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return "a list"
    return f"{value!r}"
