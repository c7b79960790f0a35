"""Kubernetes objects from files: YAML or JSON, single, List, or many documents.

Objects are completed as an API server would have completed them, as far as scheduling reads them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import yaml

from scheduler.api.nodes import InvalidNodeError, checked_node
from scheduler.api.objects import (
    Namespace,
    Node,
    Pod,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    is_terminal,
)
from scheduler.api.pods import InvalidPodError, PodInfo, pod_info
from scheduler.errors import SchedulerError

WORKLOAD_KINDS: Final[Mapping[str, Any]] = {
    "Service": Service,
    "ReplicationController": ReplicationController,
    "ReplicaSet": ReplicaSet,
    "StatefulSet": StatefulSet,
}


class InputError(SchedulerError):
    """A file, document or field that cannot be read; the message names all three."""


class ClusterObjects:
    """What the input describes, by kind, sorted by namespace and name.

    Attributes:
        nodes: all nodes.
        pods: pods that have not ended.
        namespaces: namespaces.
        workloads: kind and object of what groups pods.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.pods: list[PodInfo] = []
        self.namespaces: list[Namespace] = []
        self.workloads: list[tuple[str, Any]] = []
        self._takers: dict[str, Callable[[Any], None]] = {
            "Node": self._take_node,
            "Pod": self._take_pod,
            "Namespace": lambda raw: self.namespaces.append(msgspec.convert(raw, Namespace)),
        }

    def take(self, raw: Mapping[str, Any], place: str) -> None:
        """Add one object; kinds that scheduling does not read are left out.

        Raises:
            InputError: the object cannot be read.
        """
        kind = raw.get("kind")
        if not isinstance(kind, str):
            raise InputError(f"{place}: expected a Kubernetes object with a kind")
        metadata = raw.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
        try:
            if kind in WORKLOAD_KINDS:
                workload = msgspec.convert(_without_nulls(raw), WORKLOAD_KINDS[kind])
                self.workloads.append((kind, workload))
            elif kind in self._takers:
                self._takers[kind](_without_nulls(raw))
        except msgspec.ValidationError as problem:
            raise InputError(f"{place}: {kind} {name}: {_readable(problem)}") from problem
        except (InvalidPodError, InvalidNodeError) as problem:
            raise InputError(f"{place}: {kind} {name}: {problem}") from problem

    def sort(self) -> None:
        """Bring the objects into the order in which an API server lists them."""
        self.nodes.sort(key=lambda node: node.metadata.name)
        self.pods.sort(key=lambda pod: (pod.namespace, pod.name))

    def _take_node(self, raw: dict[str, Any]) -> None:
        self.nodes.append(checked_node(msgspec.convert(raw, Node)))

    def _take_pod(self, raw: dict[str, Any]) -> None:
        pod = msgspec.convert(_completed(raw), Pod)
        if not is_terminal(pod):
            self.pods.append(pod_info(pod))


def objects_from_documents(documents: Iterable[tuple[str, Any]]) -> ClusterObjects:
    """The objects in parsed documents, each with the place it comes from.

    Raises:
        InputError: a document cannot be read.
    """
    objects = ClusterObjects()
    for place, document in documents:
        for item_place, raw in _items(document, place):
            objects.take(raw, item_place)
    objects.sort()
    return objects


def documents_from_text(text: str, source: str) -> Iterator[tuple[str, Any]]:
    """The documents of a YAML or JSON text, each with its place.

    Raises:
        InputError: the text is neither.
    """
    try:
        # JSON is the much faster case, and the usual one for whole clusters.
        yield source, msgspec.json.decode(text)
    except msgspec.DecodeError:
        yield from _yaml_documents(text, source)


def _yaml_documents(text: str, source: str) -> Iterator[tuple[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for number, document in enumerate(yaml.load_all(text, loader), 1):
            if document is not None:
                yield f"{source}: document {number}", document
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise InputError(f"{place}: not valid YAML: {problem.problem}") from problem
    except yaml.YAMLError as problem:
        raise InputError(f"{source}: not valid YAML: {problem}") from problem


def _items(document: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(document, Mapping):
        raise InputError(f"{place}: expected a Kubernetes object, got {_kind_of(document)}")
    items = document.get("items")
    if not str(document.get("kind", "")).endswith("List") or items is None:
        yield place, document
        return
    if not isinstance(items, list):
        raise InputError(f"{place}: items: expected a list, got {_kind_of(items)}")
    item_kind = str(document["kind"]).removesuffix("List")
    for index, item in enumerate(items):
        at = f"{place}: items[{index}]"
        if not isinstance(item, Mapping):
            raise InputError(f"{at}: expected a Kubernetes object, got {_kind_of(item)}")
        # The items of a PodList carry no kind of their own.
        yield at, item if "kind" in item or not item_kind else {**item, "kind": item_kind}


def _kind_of(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return "a list"
    return f"{value!r}"


def _readable(problem: msgspec.ValidationError) -> str:
    text, _, path = str(problem).partition(" - at `$")
    return f"{path.rstrip('`').lstrip('.')}: {text}" if path else text


def _without_nulls(value: Any) -> Any:
    """A field that is null is a field that is not there."""
    if isinstance(value, Mapping):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value


def _completed(raw: dict[str, Any]) -> dict[str, Any]:
    """The pod with the defaults of the API server that decide about scheduling.

    Source: pkg/apis/core/v1/defaults.go (SetDefaults_Pod) v1.36.
    """
    metadata = dict(raw.get("metadata", {}))
    metadata.setdefault("namespace", "default")
    metadata.setdefault("uid", f"{metadata['namespace']}/{metadata.get('name', '')}")
    spec = raw.get("spec")
    if not isinstance(spec, dict):
        return {**raw, "metadata": metadata}
    spec = dict(spec)
    for field in ("containers", "initContainers"):
        containers = spec.get(field)
        if isinstance(containers, list):
            spec[field] = [_completed_container(c, spec) for c in containers]
    return {**raw, "metadata": metadata, "spec": spec}


def _completed_container(container: Any, spec: Mapping[str, Any]) -> Any:
    if not isinstance(container, dict):
        return container
    completed = dict(container)
    resources = container.get("resources")
    if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
        requests = {**resources["limits"], **(resources.get("requests") or {})}
        completed["resources"] = {**resources, "requests": requests}
    ports = container.get("ports")
    if spec.get("hostNetwork") and isinstance(ports, list):
        completed["ports"] = [
            {"hostPort": port.get("containerPort", 0), **port} if isinstance(port, dict) else port
            for port in ports
        ]
    return completed
