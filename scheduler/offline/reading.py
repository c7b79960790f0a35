"""Kubernetes objects from files: YAML or JSON, single, List, or many documents.

Objects are completed as an API server would have completed them, as far as scheduling reads them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
import yaml

from scheduler.api.nodes import InvalidNodeError, checked_node
from scheduler.api.objects import Namespace, Node, Pod, is_terminal
from scheduler.api.pods import InvalidPodError, PodInfo, pod_info
from scheduler.api.storage import InvalidStorageError
from scheduler.errors import SchedulerError
from scheduler.framework.events import ObjectKind
from scheduler.informers.kinds import FOR_PLUGINS
from scheduler.offline import complaints
from scheduler.offline.defaults import completed_pod, in_namespace, without_nulls

_WATCHED: Final[Mapping[str, ObjectKind]] = {kind.kind: kind for kind in FOR_PLUGINS}
_CLUSTER_WIDE: Final = frozenset(
    {"PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment"}
)
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
        written_nodes: nodes by name as they were written.
        written_pods: pods by UID as they were written.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.pods: list[PodInfo] = []
        self.namespaces: list[Namespace] = []
        self.watched: list[tuple[ObjectKind, Any]] = []
        self.written_nodes: dict[str, Mapping[str, Any]] = {}
        self.written_pods: dict[str, Mapping[str, Any]] = {}


class _UnknownWordError(Exception):
    """A field holds a word that means nothing there."""


_Object = TypeVar("_Object", Pod, Node)


def _with_known_words(checked: _Object) -> _Object:
    problem = complaints.of_words(checked)
    if problem is not None:
        raise _UnknownWordError(problem)
    return checked


class _Collector:
    """Decodes objects one by one."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._pods: dict[tuple[str, str], PodInfo] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._watched: dict[tuple[str, str, str], Any] = {}
        self._written_nodes: dict[str, Mapping[str, Any]] = {}
        self._written_pods: dict[str, Mapping[str, Any]] = {}
        self._takers: dict[str, Callable[[dict[str, Any]], None]] = {
            "Node": self._take_node,
            "Pod": self._take_pod,
            "Namespace": self._take_namespace,
        }

    def take(self, raw: Mapping[str, Any], place: str) -> None:
        """Add one object; kinds that scheduling does not read are left out.

        Raises:
            InputError: the object cannot be read.
        """
        kind = raw.get("kind")
        if not isinstance(kind, str):
            raise InputError(f"{place}: kind: expected the kind of a Kubernetes object")
        if kind not in self._takers and kind not in _WATCHED:
            return
        if raw.get("apiVersion", _api_version(kind)) != _api_version(kind):
            # Somebody else's Service.
            return
        raw = without_nulls(raw)
        metadata = raw.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
        place = f"{place}: {kind} {name}".rstrip()
        if not name:
            raise InputError(f"{place}: metadata.name: required")
        try:
            if kind in _WATCHED:
                self._take_watched(kind, raw if kind in _CLUSTER_WIDE else in_namespace(raw))
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
        """The objects in the order in which an API server lists them."""
        objects = ClusterObjects()
        objects.nodes = [node for _, node in sorted(self._nodes.items())]
        objects.pods = [pod for _, pod in sorted(self._pods.items())]
        objects.namespaces = [namespace for _, namespace in sorted(self._namespaces.items())]
        objects.watched = [
            (_WATCHED[kind], found)
            for (kind, *_), found in sorted(self._watched.items(), key=lambda item: item[0])
        ]
        objects.written_nodes = self._written_nodes
        objects.written_pods = self._written_pods
        return objects

    def _take_node(self, raw: dict[str, Any]) -> None:
        node = _with_known_words(checked_node(msgspec.convert(raw, Node)))
        self._nodes[node.metadata.name] = node
        self._written_nodes[node.metadata.name] = raw

    def _take_pod(self, raw: dict[str, Any]) -> None:
        completed = completed_pod(raw)
        pod = _with_known_words(msgspec.convert(completed, Pod))
        self._written_pods[pod.metadata.uid] = completed
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


def objects_from_documents(documents: Iterable[tuple[str, Any]]) -> ClusterObjects:
    """The objects in parsed documents, each with the place it comes from.

    Raises:
        InputError: a document cannot be read.
    """
    collector = _Collector()
    for place, document in documents:
        for item_place, raw in _items(document, place):
            collector.take(raw, item_place)
    return collector.result()


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


def _api_version(kind: str) -> str:
    return _WATCHED[kind].api_version if kind in _WATCHED else _CORE


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return "a list"
    return f"{value!r}"
